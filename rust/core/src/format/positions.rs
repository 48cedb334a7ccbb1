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
//! Behind them, only where a slave's log has lost its end and not got it again from its master:
//!
//! | bytes | field |
//! |-------|-------|
//! | 8     | owed: up to here the log was on the disk once |
//! | 4     | CRC-32 of owed |
//! | 4     | zeros |

use super::be::{FieldReader, FieldWriter};
use crate::num;

/// Bytes of the file.
pub const POSITIONS_FILE_SIZE: usize = 40;
const MAGIC: [u8; 8] = *b"mqstpos1";
const _: () = assert!(8 + 4 + 4 + 8 + 8 + 8 == POSITIONS_FILE_SIZE);
/// Bytes of what a log owes.
pub const OWED_SIZE: usize = 16;
const _: () = assert!(8 + 4 + 4 == OWED_SIZE);

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

/// What a log owes, by the bytes behind the positions; 0 where they say nothing.
#[must_use]
pub fn read_owed(bytes: &[u8]) -> u64 {
    let mut reader = FieldReader::new(bytes);
    let mut next = || {
        let owed: [u8; 8] = reader.array()?;
        let crc = reader.i32()?;
        let is_whole = reader.i32()? == 0 && num::int_as_bits(crc) == crc32fast::hash(&owed);
        if is_whole { num::from_java_long(i64::from_be_bytes(owed)) } else { None }
    };
    next().unwrap_or(0)
}

/// The bytes that say what a log owes.
#[must_use]
pub fn owed_to_bytes(owed: u64) -> [u8; OWED_SIZE] {
    let field = num::java_long(owed).to_be_bytes();
    let mut out = FieldWriter::<OWED_SIZE>::default();
    out.bytes(&field);
    out.i32(num::bits_as_int(crc32fast::hash(&field)));
    out.i32(0);
    out.written().try_into().unwrap_or([0; OWED_SIZE])
}
