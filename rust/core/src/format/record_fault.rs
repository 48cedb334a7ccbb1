//! What is wrong with bytes that were taken for a record.

use super::message::FIXED_SIZE;

/// Why bytes are no record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RecordFault {
    /// The bytes end before the record does.
    #[error("expected a record of {needed} bytes, found only {found} bytes to the end")]
    TooShort {
        /// Bytes that the record needs.
        needed: u64,
        /// Bytes that are there.
        found: u64,
    },
    /// Neither a message nor a blank starts here.
    #[error("expected magic code 0xdaa320a7, found {found:#010x}")]
    MagicCode {
        /// What stands there.
        found: u32,
    },
    /// The total size can't be a record's.
    #[error("expected a total size of at least {FIXED_SIZE}, found {found}")]
    TotalSize {
        /// What stands there.
        found: i32,
    },
    /// The lengths inside do not add up to the total size.
    #[error("expected total size {total_size} from the lengths inside, found {computed}")]
    Lengths {
        /// The total size field.
        total_size: u32,
        /// What the lengths of body, topic and properties give.
        computed: u64,
    },
    /// A length inside is negative or runs past the record.
    #[error("expected a {field} length that fits the record, found {found}")]
    FieldLength {
        /// Which.
        field: &'static str,
        /// What stands there.
        found: i32,
    },
    /// The record says that it stands elsewhere.
    #[error("expected physical offset {expected}, found {found}")]
    PhysicalOffset {
        /// Where it stands.
        expected: u64,
        /// Where it says it stands.
        found: i64,
    },
    /// The body is not the one that was stored.
    #[error("expected body CRC {expected:#010x}, found {found:#010x}")]
    BodyCrc {
        /// The record's field.
        expected: i32,
        /// Of the body as it is.
        found: i32,
    },
    /// The record is whole and says that it stands elsewhere in the queues than it does.
    #[error(
        "expected the record that the queues have there, found one that says it is offset {queue_offset} of a queue {queue_id}"
    )]
    Misplaced {
        /// The queue that it says.
        queue_id: i32,
        /// The offset that it says.
        queue_offset: i64,
    },
    /// The record is not the one that was stored, by the checksum of all of it.
    #[error("expected record CRC {expected}, found {found}")]
    RecordCrc {
        /// The one that it has; -1 where that cannot be read.
        expected: i32,
        /// Of the record as it is.
        found: i32,
    },
    /// The record is whole, and what a client compressed is no body.
    #[error("expected a body that inflates as system flag {flag:#x} says, found one that does not")]
    Compression {
        /// The system flag.
        flag: i32,
    },
    /// The topic cannot be a topic of a store: empty, or not usable as a folder's name.
    #[error("expected a topic that can name a folder, found {len} bytes that cannot")]
    Topic {
        /// Its length.
        len: u32,
    },
}
