//! What a store can do now. Source: `RunningFlags`.

use crate::sync::{AtomicU32, Ordering};

const NOT_READABLE: u32 = 1;
const NOT_WRITEABLE: u32 = 1 << 1;
const WRITE_LOGICS_QUEUE_ERROR: u32 = 1 << 2;
const WRITE_INDEX_FILE_ERROR: u32 = 1 << 3;
const DISK_FULL: u32 = 1 << 4;

/// The flags, as 4.9.3's bits.
#[derive(Debug, Default)]
pub struct RunningFlags(AtomicU32);

impl RunningFlags {
    /// The bits.
    #[must_use]
    pub fn bits(&self) -> u32 {
        self.0.load(Ordering::Acquire)
    }

    fn set(&self, bit: u32, on: bool) -> bool {
        let before = if on {
            self.0.fetch_or(bit, Ordering::AcqRel)
        } else {
            self.0.fetch_and(!bit, Ordering::AcqRel)
        };
        before & bit != 0
    }

    /// Whether messages are given out.
    #[must_use]
    pub fn is_readable(&self) -> bool {
        self.bits() & NOT_READABLE == 0
    }

    /// Gives messages out, or no longer.
    pub fn set_readable(&self, readable: bool) {
        self.set(NOT_READABLE, !readable);
    }

    /// Whether messages are taken.
    #[must_use]
    pub fn is_writeable(&self) -> bool {
        self.bits() & (NOT_WRITEABLE | WRITE_LOGICS_QUEUE_ERROR | DISK_FULL | WRITE_INDEX_FILE_ERROR) == 0
    }

    /// Whether queues are written: a full disk does not keep from finishing them.
    #[must_use]
    pub fn is_cq_writeable(&self) -> bool {
        self.bits() & (NOT_WRITEABLE | WRITE_LOGICS_QUEUE_ERROR | WRITE_INDEX_FILE_ERROR) == 0
    }

    /// Takes messages, or no longer.
    pub fn set_writeable(&self, writeable: bool) {
        self.set(NOT_WRITEABLE, !writeable);
    }

    /// Queues could not be written, after all retries.
    pub fn make_logics_queue_error(&self) {
        self.set(WRITE_LOGICS_QUEUE_ERROR, true);
    }

    /// The index could not be written, after all retries.
    pub fn make_index_file_error(&self) {
        self.set(WRITE_INDEX_FILE_ERROR, true);
    }

    /// Marks the disk full or not. Gives whether it was marked full before.
    pub fn set_disk_full(&self, full: bool) -> bool {
        self.set(DISK_FULL, full)
    }
}
