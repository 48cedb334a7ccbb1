//! `mqstore/removed_queues`: queues that were removed while the log still has their messages, in the order of
//! their last ones; a queue can be there several times.
//!
//! | bytes | field |
//! |-------|-------|
//! | 8     | `mqstrmq1` |
//! | 4     | CRC-32 of all that follows |
//! | 4     | number of queues |
//! |       | queues |
//!
//! A queue, with the last message that it had:
//!
//! | bytes | field |
//! |-------|-------|
//! | 8     | where its record stands in the log |
//! | 4     | size of the record |
//! | 8     | its store time |
//! | 4     | queue id |
//! | 4     | n: bytes of the topic |
//! | n     | topic |

use super::be::FieldReader;
use super::sealed;
use crate::num;

const MAGIC: [u8; 8] = *b"mqstrmq1";

/// A removed queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemovedQueue {
    /// The topic, as text.
    pub topic: Vec<u8>,
    /// The queue.
    pub queue_id: i32,
    /// The last message that it had.
    pub last: LastMessage,
}

/// A message by its record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LastMessage {
    /// Where the record stands in the log.
    pub physical_offset: u64,
    /// Bytes of it.
    pub size: u32,
    /// Its store time.
    pub store_timestamp: i64,
}

/// Reads all of them; `None` where the bytes are not those of a whole file.
#[must_use]
pub fn read(bytes: &[u8]) -> Option<Vec<RemovedQueue>> {
    let mut reader = FieldReader::new(sealed::open(bytes, &MAGIC)?);
    let count = num::from_java_int(reader.i32()?)?;
    let mut queues = Vec::new();
    for _ in 0..count {
        queues.push(queue(&mut reader)?);
    }
    reader.bytes(1).is_none().then_some(queues)
}

fn queue(reader: &mut FieldReader<'_>) -> Option<RemovedQueue> {
    let physical_offset = num::from_java_long(reader.i64()?)?;
    let size = num::from_java_int(reader.i32()?)?;
    let store_timestamp = reader.i64()?;
    let queue_id = reader.i32()?;
    let topic_size = num::from_java_int(reader.i32()?)?;
    let topic = reader.bytes(usize::try_from(topic_size).ok()?)?.to_vec();
    Some(RemovedQueue { topic, queue_id, last: LastMessage { physical_offset, size, store_timestamp } })
}

/// The bytes of a file.
#[must_use]
pub fn to_bytes(queues: &[RemovedQueue]) -> Vec<u8> {
    let mut rest = num::java_int(queues.len()).to_be_bytes().to_vec();
    for RemovedQueue { topic, queue_id, last } in queues {
        rest.extend_from_slice(&num::java_long(last.physical_offset).to_be_bytes());
        rest.extend_from_slice(&last.size.to_be_bytes());
        rest.extend_from_slice(&last.store_timestamp.to_be_bytes());
        rest.extend_from_slice(&queue_id.to_be_bytes());
        rest.extend_from_slice(&num::java_int(topic.len()).to_be_bytes());
        rest.extend_from_slice(topic);
    }
    sealed::seal(&MAGIC, &rest)
}
