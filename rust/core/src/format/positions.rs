//! `mqstore/positions`: up to where log, queues and index are on the disk, as offsets.
//!
//! The checkpoint says the same in store times, which stand still or run backwards when the clock
//! does. A store that RocketMQ has opened since keeps an old file of this kind: recovery begins at
//! the earlier of what this file and the checkpoint say.
//!
//! | bytes | field |
//! |-------|-------|
//! | 8     | `mqstpos1` |
//! | 4     | CRC-32 of the next 24 bytes |
//! | 4     | zeros |
//! | 8     | log: everything below is on the disk |
//! | 8     | queues: units of every record below are on the disk |
//! | 8     | index: files that hold entries of records below and no others are on the disk |
//!
//! Behind them, what else is known of the log:
//!
//! | bytes | field |
//! |-------|-------|
//! | 8     | owed: from here on a slave's log has lost what was on the disk; 0 where it has lost nothing |
//! | 8     | up to here it was on the disk; 0 where it has lost nothing |
//! | 8     | where the last record below `queues` stands; -1 where none is known |
//! | 8     | its store time |
//! | 4     | its body's CRC, as it says |
//! | 4     | CRC-32 of these 36 bytes |

use super::be::{FieldReader, FieldWriter};
use crate::num;

/// Bytes of the file.
pub const POSITIONS_FILE_SIZE: usize = 40;
const MAGIC: [u8; 8] = *b"mqstpos1";
const _: () = assert!(8 + 4 + 4 + 8 + 8 + 8 == POSITIONS_FILE_SIZE);
/// Bytes of what else is known of the log.
pub const LOG_MARKS_SIZE: usize = 40;
const MARKS_FIELDS_SIZE: usize = 8 + 8 + 8 + 8 + 4;
const _: () = assert!(MARKS_FIELDS_SIZE + 4 == LOG_MARKS_SIZE);

/// The positions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DurablePositions {
    /// Of the log.
    pub log: u64,
    /// Of the queues.
    pub queues: u64,
    /// Of the index.
    pub index: u64,
}

impl DurablePositions {
    /// Reads them; `None` where the file is not whole.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let mut reader = FieldReader::new(bytes);
        let magic: [u8; 8] = reader.array()?;
        let crc = reader.i32()?;
        let zeros = reader.i32()?;
        let fields = reader.bytes(24)?;
        if magic != MAGIC || zeros != 0 || num::int_as_bits(crc) != crc32fast::hash(fields) {
            return None;
        }
        let mut reader = FieldReader::new(fields);
        let mut next = || num::from_java_long(reader.i64()?);
        Some(Self { log: next()?, queues: next()?, index: next()? })
    }

    /// Their bytes.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; POSITIONS_FILE_SIZE] {
        let mut fields = FieldWriter::<24>::default();
        for position in [self.log, self.queues, self.index] {
            fields.i64(num::java_long(position));
        }
        let mut out = FieldWriter::<POSITIONS_FILE_SIZE>::default();
        out.bytes(&MAGIC);
        out.i32(num::bits_as_int(crc32fast::hash(fields.written())));
        out.i32(0);
        out.bytes(fields.written());
        out.written().try_into().unwrap_or([0; POSITIONS_FILE_SIZE])
    }
}

/// What else is known of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LogMarks {
    /// What a slave's log has lost and not got again from its master.
    pub owed: Option<Owed>,
    /// The last record of which queues and index have all. The log that has another one there is another log.
    pub last: Option<LastRecord>,
}

/// A part of a slave's log that was on the disk once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owed {
    /// Where it begins.
    pub from: u64,
    /// Where it ends.
    pub to: u64,
}

impl Owed {
    /// What is missing of it in a log from one offset to another: one that begins further on lacks it for good.
    #[must_use]
    pub fn missing_in(self, log_begin: u64, log_end: u64) -> Option<Self> {
        let from = if log_begin > self.from { self.from } else { self.from.max(log_end) };
        let to = if log_end >= self.to { self.to.min(log_begin) } else { self.to };
        (from < to).then_some(Self { from, to })
    }

    /// All of this and of what was lost before.
    #[must_use]
    pub fn with(self, before: Option<Self>) -> Self {
        before.map_or(self, |before| Self { from: self.from.min(before.from), to: self.to.max(before.to) })
    }
}

/// A record, and what tells it from another one at its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LastRecord {
    /// Where it stands.
    pub offset: u64,
    /// When it was stored.
    pub store_timestamp: i64,
    /// Its body's CRC, as it says.
    pub body_crc: i32,
}

impl LogMarks {
    /// Reads them from what stands behind the positions; nothing is known where they are not whole.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Self {
        let fields = |fields: &[u8]| {
            let mut reader = FieldReader::new(fields);
            let (from, to) = (num::from_java_long(reader.i64()?)?, num::from_java_long(reader.i64()?)?);
            let owed = (from < to).then_some(Owed { from, to });
            let (offset, store_timestamp, body_crc) = (reader.i64()?, reader.i64()?, reader.i32()?);
            let last =
                num::from_java_long(offset).map(|offset| LastRecord { offset, store_timestamp, body_crc });
            Some(Self { owed, last })
        };
        let mut reader = FieldReader::new(bytes);
        let whole = reader
            .bytes(MARKS_FIELDS_SIZE)
            .zip(reader.i32())
            .filter(|(fields, crc)| num::int_as_bits(*crc) == crc32fast::hash(fields));
        whole.and_then(|(found, _)| fields(found)).unwrap_or_default()
    }

    /// Their bytes.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; LOG_MARKS_SIZE] {
        let (offset, store_timestamp, body_crc) = match self.last {
            Some(last) => (num::java_long(last.offset), last.store_timestamp, last.body_crc),
            None => (-1, 0, 0),
        };
        let mut out = FieldWriter::<LOG_MARKS_SIZE>::default();
        let (from, to) = self.owed.map_or((0, 0), |owed| (owed.from, owed.to));
        out.i64(num::java_long(from));
        out.i64(num::java_long(to));
        out.i64(offset);
        out.i64(store_timestamp);
        out.i32(body_crc);
        out.i32(num::bits_as_int(crc32fast::hash(out.written())));
        out.written().try_into().unwrap_or([0; LOG_MARKS_SIZE])
    }
}
