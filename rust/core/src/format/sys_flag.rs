//! The bits of a record's `sysFlag`. Source: `MessageSysFlag`.

/// The body is compressed.
pub const COMPRESSED: i32 = 0x1;
/// The tags are several.
pub const MULTI_TAGS: i32 = 0x1 << 1;
/// Not a transaction message.
pub const TRANSACTION_NOT_TYPE: i32 = 0;
/// A prepared transaction message.
pub const TRANSACTION_PREPARED_TYPE: i32 = 0x1 << 2;
/// A committed transaction message.
pub const TRANSACTION_COMMIT_TYPE: i32 = 0x2 << 2;
/// A rolled back transaction message.
pub const TRANSACTION_ROLLBACK_TYPE: i32 = 0x3 << 2;
/// The born host is an IPv6 address.
pub const BORNHOST_V6: i32 = 0x1 << 4;
/// The store host is an IPv6 address.
pub const STOREHOST_V6: i32 = 0x1 << 5;
/// Which compression, where [`COMPRESSED`] is set: 0 is zlib as in 4.9.3; RocketMQ 5 has more.
pub const COMPRESSION_TYPE: i32 = 0x7 << 8;
/// RocketMQ 5: LZ4.
pub const COMPRESSION_LZ4: i32 = 0x1 << 8;
/// RocketMQ 5: Zstandard.
pub const COMPRESSION_ZSTD: i32 = 0x2 << 8;
/// RocketMQ 5: zlib, said explicitly.
pub const COMPRESSION_ZLIB: i32 = 0x3 << 8;

/// RocketMQ 5: the body is a batch of messages, inside a record or until it is put.
pub const BATCH: i32 = 0x3 << 6;
/// All bits that mean something.
pub const KNOWN: i32 = COMPRESSED
    | MULTI_TAGS
    | TRANSACTION_ROLLBACK_TYPE
    | BORNHOST_V6
    | STOREHOST_V6
    | BATCH
    | COMPRESSION_TYPE;

/// The transaction type in a flag.
#[must_use]
pub const fn transaction_value(flag: i32) -> i32 {
    flag & TRANSACTION_ROLLBACK_TYPE
}

/// Whether a message of this flag gets a unit in its queue: prepared and rolled back ones do not.
#[must_use]
pub const fn enters_consume_queue(flag: i32) -> bool {
    matches!(transaction_value(flag), TRANSACTION_NOT_TYPE | TRANSACTION_COMMIT_TYPE)
}

/// Whether a message of this flag is indexed by its keys: rolled back ones are not.
#[must_use]
pub const fn enters_index(flag: i32) -> bool {
    transaction_value(flag) != TRANSACTION_ROLLBACK_TYPE
}
