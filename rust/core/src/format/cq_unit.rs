//! A unit of a consume queue: one message of one topic's queue.
//!
//! | bytes | field | |
//! |-------|-------|-|
//! | 8     | physical offset | of the record in the log |
//! | 4     | size | of the record |
//! | 8     | tags code | the tag's hash; the time of delivery in the schedule topic; an address in the consume queue's extension where it is below -2^31 |
//!
//! Unit `n` of a queue stands at byte `20 n` of its files put end to end. A file that begins behind
//! its queue's first message is filled up to it with blank units: offset 0, size `0x7FFFFFFF`.
//! Source: `ConsumeQueue`.

use super::be::{FieldReader, FieldWriter};
use crate::num;

/// Bytes of a unit.
pub const CQ_STORE_UNIT_SIZE: usize = 20;
const _: () = assert!(8 + 4 + 8 == CQ_STORE_UNIT_SIZE);

/// A unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CqUnit {
    /// Of the record in the log.
    pub physical_offset: i64,
    /// Of the record.
    pub size: i32,
    /// See the table.
    pub tags_code: i64,
}

impl CqUnit {
    /// What fills a file up to its queue's first message.
    pub const PRE_BLANK: Self = Self { physical_offset: 0, size: i32::MAX, tags_code: 0 };

    /// Reads one, or `None` where fewer than twenty bytes are left.
    #[inline]
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let mut reader = FieldReader::new(bytes);
        Some(Self { physical_offset: reader.i64()?, size: reader.i32()?, tags_code: reader.i64()? })
    }

    /// Its bytes.
    #[inline]
    #[must_use]
    pub fn to_bytes(&self) -> [u8; CQ_STORE_UNIT_SIZE] {
        let mut out = FieldWriter::<CQ_STORE_UNIT_SIZE>::default();
        out.i64(self.physical_offset);
        out.i32(self.size);
        out.i64(self.tags_code);
        out.written().try_into().unwrap_or([0; CQ_STORE_UNIT_SIZE])
    }

    /// Whether something was written here: 4.9.3's test in recovery and look-ups.
    #[inline]
    #[must_use]
    pub const fn is_written(&self) -> bool {
        self.physical_offset >= 0 && self.size > 0
    }

    /// Whether it only fills a file.
    #[must_use]
    pub fn is_blank(&self) -> bool {
        *self == Self::PRE_BLANK
    }

    /// The record's place, or `None` in a unit that has none.
    #[must_use]
    pub fn place(&self) -> Option<(u64, u32)> {
        if !self.is_written() || self.is_blank() {
            return None;
        }
        Some((num::from_java_long(self.physical_offset)?, num::from_java_int(self.size)?))
    }

    /// Where the record ends in the log. Never overflows, whatever the bytes were.
    #[must_use]
    pub fn end(&self) -> i64 {
        self.physical_offset.saturating_add(i64::from(self.size))
    }
}
