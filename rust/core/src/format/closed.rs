//! `mqstore/closed`: what a store had when its writer closed it.
//!
//! | bytes | field |
//! |-------|-------|
//! | 8     | `mqstclo1` |
//! | 4     | CRC-32 of all that follows |
//! | 4     | number of queues |
//! | 8     | how often an mqstore writer had opened the store |
//! | 8     | where the log began |
//! | 8     | where the log ended |
//! |       | queues |
//!
//! A queue:
//!
//! | bytes | field |
//! |-------|-------|
//! | 8     | the queue offset that its next message gets |
//! | 8     | behind the record of its last unit in the log |
//! | 4     | queue id |
//! | 4     | n: bytes of the topic |
//! | n     | topic |

use super::be::FieldReader;
use super::sealed;
use crate::num;

const MAGIC: [u8; 8] = *b"mqstclo1";
/// Bytes in front of the queues.
const HEADER_SIZE: usize = 8 + 4 + 4 + 8 + 8 + 8;

/// What is said of the store as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClosedHeader {
    /// How often an mqstore writer had opened the store.
    pub opening_count: u64,
    /// Where the log began.
    pub log_begin: u64,
    /// Where the log ended.
    pub log_end: u64,
}

/// What is said of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClosedQueue<'a> {
    /// Its topic, as text.
    pub topic: &'a [u8],
    /// The queue.
    pub queue_id: i32,
    /// The queue offset that its next message gets.
    pub next_offset: u64,
    /// Behind the record of its last unit in the log.
    pub reached: u64,
}

/// A file that is whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClosedFile {
    header: ClosedHeader,
    bytes: Vec<u8>,
}

impl ClosedFile {
    /// Takes the bytes of a file; `None` where they are not those of a whole one.
    #[must_use]
    pub fn read(bytes: Vec<u8>) -> Option<Self> {
        let mut reader = FieldReader::new(sealed::open(&bytes, &MAGIC)?);
        let count = num::from_java_int(reader.i32()?)?;
        let mut next = || num::from_java_long(reader.i64()?);
        let header = ClosedHeader { opening_count: next()?, log_begin: next()?, log_end: next()? };
        for _ in 0..count {
            read_queue(&mut reader)?;
        }
        if reader.bytes(1).is_some() {
            return None;
        }
        Some(Self { header, bytes })
    }

    /// What it says of the store as a whole.
    #[must_use]
    pub const fn header(&self) -> ClosedHeader {
        self.header
    }

    /// The queues, in no order.
    pub fn queues(&self) -> impl Iterator<Item = ClosedQueue<'_>> {
        let mut reader = FieldReader::new(self.bytes.get(HEADER_SIZE..).unwrap_or_default());
        std::iter::from_fn(move || read_queue(&mut reader))
    }
}

fn read_queue<'a>(reader: &mut FieldReader<'a>) -> Option<ClosedQueue<'a>> {
    let next_offset = num::from_java_long(reader.i64()?)?;
    let reached = num::from_java_long(reader.i64()?)?;
    let queue_id = reader.i32()?;
    let topic_size = num::from_java_int(reader.i32()?)?;
    let topic = reader.bytes(usize::try_from(topic_size).ok()?)?;
    Some(ClosedQueue { topic, queue_id, next_offset, reached })
}

/// The bytes of a file.
#[must_use]
pub fn to_bytes<'a>(header: ClosedHeader, queues: impl IntoIterator<Item = ClosedQueue<'a>>) -> Vec<u8> {
    let (mut count, mut rows) = (0, Vec::new());
    for ClosedQueue { topic, queue_id, next_offset, reached } in queues {
        for field in [next_offset, reached] {
            rows.extend_from_slice(&num::java_long(field).to_be_bytes());
        }
        rows.extend_from_slice(&queue_id.to_be_bytes());
        rows.extend_from_slice(&num::java_int(topic.len()).to_be_bytes());
        rows.extend_from_slice(topic);
        count += 1;
    }
    let mut content = num::java_int(count).to_be_bytes().to_vec();
    for field in [header.opening_count, header.log_begin, header.log_end] {
        content.extend_from_slice(&num::java_long(field).to_be_bytes());
    }
    content.extend_from_slice(&rows);
    sealed::seal(&MAGIC, &content)
}
