//! The checkpoint: up to when the log, the queues and the index are on disk.
//!
//! | bytes | field |
//! |-------|-------|
//! | 8     | physic message timestamp: of the log |
//! | 8     | logics message timestamp: of the queues |
//! | 8     | index message timestamp: of the last full index file |
//! | 4072  | zeros |
//!
//! All are store times in milliseconds. Source: `StoreCheckpoint`.

use super::be::{FieldReader, FieldWriter};

/// Bytes of the file.
pub const CHECKPOINT_FILE_SIZE: usize = 4096;
/// Bytes of it that are used.
pub const CHECKPOINT_FIELDS_SIZE: usize = 24;
const _: () = assert!(8 + 8 + 8 == CHECKPOINT_FIELDS_SIZE);

/// What 4.9.3 takes off the smaller of log and queue time, for what was under way.
const UNDER_WAY_MS: i64 = 3_000;

/// The three times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CheckpointTimes {
    /// Of the log.
    pub physic_msg_timestamp: i64,
    /// Of the queues.
    pub logics_msg_timestamp: i64,
    /// Of the last full index file.
    pub index_msg_timestamp: i64,
}

impl CheckpointTimes {
    /// Reads them, or `None` where fewer than twenty-four bytes are left.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let mut reader = FieldReader::new(bytes);
        Some(Self {
            physic_msg_timestamp: reader.i64()?,
            logics_msg_timestamp: reader.i64()?,
            index_msg_timestamp: reader.i64()?,
        })
    }

    /// Their bytes.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; CHECKPOINT_FIELDS_SIZE] {
        let mut out = FieldWriter::<CHECKPOINT_FIELDS_SIZE>::default();
        out.i64(self.physic_msg_timestamp);
        out.i64(self.logics_msg_timestamp);
        out.i64(self.index_msg_timestamp);
        out.written().try_into().unwrap_or([0; CHECKPOINT_FIELDS_SIZE])
    }

    /// From when on recovery has to look. Source: `getMinTimestamp`.
    #[must_use]
    pub fn min_timestamp(&self) -> i64 {
        self.physic_msg_timestamp.min(self.logics_msg_timestamp).saturating_sub(UNDER_WAY_MS).max(0)
    }

    /// The same where the index counts too (`messageIndexSafe`). Source: `getMinTimestampIndex`.
    #[must_use]
    pub fn min_timestamp_index(&self) -> i64 {
        self.min_timestamp().min(self.index_msg_timestamp)
    }
}
