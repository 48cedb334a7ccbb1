//! The bits of a flag.

use mqstore_core::format::sys_flag::{
    BATCH, BORNHOST_V6, COMPRESSED, COMPRESSION_LZ4, COMPRESSION_TYPE, COMPRESSION_ZLIB, COMPRESSION_ZSTD,
    KNOWN, MULTI_TAGS, STOREHOST_V6, TRANSACTION_COMMIT_TYPE, TRANSACTION_NOT_TYPE,
    TRANSACTION_PREPARED_TYPE, TRANSACTION_ROLLBACK_TYPE, enters_consume_queue, enters_index,
    transaction_value,
};

#[test]
fn what_a_transactions_parts_enter() {
    let rules = [
        (TRANSACTION_NOT_TYPE, true, true),
        (TRANSACTION_PREPARED_TYPE, false, true),
        (TRANSACTION_COMMIT_TYPE, true, true),
        (TRANSACTION_ROLLBACK_TYPE, false, false),
    ];
    for (kind, queue, index) in rules {
        for others in [0, COMPRESSED, !TRANSACTION_ROLLBACK_TYPE] {
            let flag = kind | others;
            assert_eq!((enters_consume_queue(flag), enters_index(flag)), (queue, index), "{flag:#x}");
            assert_eq!(transaction_value(flag), kind);
        }
    }
}

#[test]
fn the_types_are_the_two_bits_of_java() {
    let types =
        [TRANSACTION_NOT_TYPE, TRANSACTION_PREPARED_TYPE, TRANSACTION_COMMIT_TYPE, TRANSACTION_ROLLBACK_TYPE];
    assert_eq!(types, [0, 4, 8, 12]);
}

#[test]
fn every_bit_is_where_java_has_it() {
    assert_eq!([COMPRESSED, MULTI_TAGS, BORNHOST_V6, STOREHOST_V6, BATCH], [1, 2, 16, 32, 192]);
    assert_eq!(
        [COMPRESSION_LZ4, COMPRESSION_ZSTD, COMPRESSION_ZLIB, COMPRESSION_TYPE],
        [0x100, 0x200, 0x300, 0x700]
    );
    assert_eq!(KNOWN, 0x7ff);
}
