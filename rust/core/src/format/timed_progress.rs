//! The body of a record that says which timed messages are delivered, in queue 1 of their topic.
//!
//! | bytes  | field |
//! |--------|-------|
//! | 8      | `mqsttim1` |
//! | 8      | first: every message at a smaller offset of the queue is delivered |
//! | 8      | where the record of the last message that was looked at stands in the log |
//! | 4      | number of marks |
//! | 4      | zeros |
//! | 24 × n | marks |
//!
//! A mark, of which the last says how far the queue was looked at:
//!
//! | bytes | field |
//! |-------|-------|
//! | 8     | to: it speaks of messages at smaller offsets of the queue, that no mark before it speaks of |
//! | 8     | due: those that were due before this time are delivered |
//! | 8     | offset: and of those that were due at it, those at smaller offsets |

use super::be::FieldReader;
use crate::num;

const MAGIC: [u8; 8] = *b"mqsttim1";
/// Bytes before the marks.
const HEAD_SIZE: usize = 32;
/// Bytes of a mark.
const MARK_SIZE: usize = 24;
const _: () = assert!(8 + 8 + 8 + 4 + 4 == HEAD_SIZE && 8 + 8 + 8 == MARK_SIZE);

/// What the body says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TimedProgress {
    /// Every message at a smaller offset is delivered.
    pub first: u64,
    /// Where the record of the last message that was looked at stands.
    pub last_physical_offset: u64,
    /// To, due and offset of each mark.
    pub marks: Vec<(u64, i64, u64)>,
}

impl TimedProgress {
    /// Reads it; `None` where the bytes are none: a mark speaks of something, and the ones behind it
    /// of more messages and of earlier times.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let mut reader = FieldReader::new(bytes);
        let magic: [u8; 8] = reader.array()?;
        let first = num::from_java_long(reader.i64()?)?;
        let last_physical_offset = num::from_java_long(reader.i64()?)?;
        let count = num::from_java_int(reader.i32()?)? as usize;
        let zeros = reader.i32()?;
        let size = count.checked_mul(MARK_SIZE)?.checked_add(HEAD_SIZE)?;
        if magic != MAGIC || zeros != 0 || size != bytes.len() || count == 0 {
            return None;
        }
        let mut marks: Vec<(u64, i64, u64)> = Vec::with_capacity(count);
        for _ in 0..count {
            let to = num::from_java_long(reader.i64()?)?;
            let (due_ms, offset) = (reader.i64()?, num::from_java_long(reader.i64()?)?);
            let follows = match marks.last() {
                None => to > 0,
                Some(last) => to > last.0 && (due_ms, offset) < (last.1, last.2),
            };
            if !follows {
                return None;
            }
            marks.push((to, due_ms, offset));
        }
        let scanned_to = marks.last().map_or(0, |last| last.0);
        (first <= scanned_to).then_some(Self { first, last_physical_offset, marks })
    }

    /// Its bytes.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEAD_SIZE + self.marks.len() * MARK_SIZE);
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&num::java_long(self.first).to_be_bytes());
        out.extend_from_slice(&num::java_long(self.last_physical_offset).to_be_bytes());
        out.extend_from_slice(&num::java_int(self.marks.len()).to_be_bytes());
        out.extend_from_slice(&[0; 4]);
        for &(to, due_ms, offset) in &self.marks {
            for field in [num::java_long(to), due_ms, num::java_long(offset)] {
                out.extend_from_slice(&field.to_be_bytes());
            }
        }
        out
    }
}
