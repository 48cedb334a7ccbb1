//! Rows of a record batch as messages to put.
//!
//! | column | type | |
//! |--------|------|-|
//! | `body` | binary or string | |
//! | `topic` | string | null, or no column: the topic of all rows |
//! | `queue_id` | integer | null, or no column: as the caller says |
//! | `keys` | string or list of string | |
//! | `tags` | string | |
//! | `properties` | map of string to string | |
//! | `flag` | integer | null, or no column: the flag of all rows |
//! | `born_timestamp` | timestamp, or milliseconds | null, or no column: the time of all rows |

use std::borrow::Cow;
use std::ops::Range;

use arrow_array::{Int64Array, RecordBatch};

use super::values::{BatchFault, Given, Maps, Texts, Values, number};
use crate::commit_log::scan::check_topic;
use crate::commit_log::{Appended, Wait};
use crate::error::Error;
use crate::format::host::Host;
use crate::format::java_hash_map::JavaHashMap;
use crate::format::message::MAX_TOPIC_LENGTH;
use crate::format::properties::ClientProperties;
use crate::interrupt;
use crate::num;
use crate::store::{Admission, NewMessage, Properties, PutRefusal, PutStep, Store};
use crate::unique_key::{UniqueKey, UniqueKeys};

const COLUMNS: [&str; 8] =
    ["body", "topic", "queue_id", "keys", "tags", "properties", "flag", "born_timestamp"];
/// Most messages that are put under one lock, and about the bytes of their bodies: what is made of them
/// before they are put stays small.
const ROWS_AT_ONCE: usize = 4096;
const BYTES_AT_ONCE: usize = 16 << 20;

/// What the messages of all rows share.
#[derive(Debug)]
pub struct Shared<'a> {
    /// The topic of rows that have none.
    pub topic: Option<&'a [u8]>,
    /// The queue of rows that have none; `None` where the topic's queues are asked.
    pub queue_id: Option<i32>,
    /// Properties that go before a row's own.
    pub properties: &'a JavaHashMap<'a>,
    /// The flag of rows that have none.
    pub flag: i32,
    /// The time of rows that have none, in milliseconds.
    pub born_timestamp: i64,
    /// Where they were made.
    pub born_host: Host,
    /// Where they are stored.
    pub store_host: Host,
    /// Whether the put waits for the disk and for a slave.
    pub wait_store_msg_ok: bool,
    /// What makes unique keys; `None` for none.
    pub unique_keys: Option<&'a UniqueKeys>,
    /// When they are put, in milliseconds: a part of their unique keys.
    pub now_ms: i64,
}

/// Why a row is not put.
#[derive(Debug, thiserror::Error)]
pub enum RowFault {
    /// What it holds.
    #[error(transparent)]
    Batch(#[from] BatchFault),
    /// The store does not take it.
    #[error("row {row}: {reason}", reason = refusal.reason)]
    Refused {
        /// The row, from 0.
        row: u64,
        /// Why.
        refusal: PutRefusal,
    },
    /// The call is broken off.
    #[error(transparent)]
    Interrupted(Error),
}

/// What a batch's rows gave.
#[derive(Debug, Default)]
pub struct PutRows {
    /// How many are in the log: the first ones.
    pub count: u64,
    /// Where the first of them stands in the log.
    pub from: Option<u64>,
    /// The last of them.
    pub last: Option<Appended>,
    /// The put has to wait until the log is on the disk, or at a slave, up to here.
    pub wait_for: Option<u64>,
}

/// A batch's rows as messages to put.
#[derive(Debug)]
pub struct MessageRows {
    first_row: u64,
    count: usize,
    body: Values,
    topic: Option<Values>,
    queue_id: Option<Int64Array>,
    keys: Option<Texts>,
    tags: Option<Values>,
    properties: Option<Maps>,
    flag: Option<Int64Array>,
    born_timestamp: Option<Int64Array>,
}

/// A row, its properties aside.
struct Row<'a> {
    topic: &'a [u8],
    queue_id: Option<i32>,
    keys: Cow<'a, [u8]>,
    tags: Option<&'a [u8]>,
    flag: i32,
    born_timestamp: i64,
    body: &'a [u8],
    unique_key: Option<UniqueKey>,
}

impl MessageRows {
    /// The rows of a batch, the first of which has a number among others.
    ///
    /// # Errors
    /// A column that nothing is made of, one of another type, or no `body`.
    pub fn of(batch: &RecordBatch, first_row: u64) -> Result<Self, BatchFault> {
        let given = Given::of(batch, first_row, &COLUMNS)?;
        Ok(Self {
            first_row,
            count: batch.num_rows(),
            body: given.bytes("body")?.ok_or(BatchFault::Missing("body"))?,
            topic: given.strings("topic")?,
            queue_id: given.integers("queue_id")?,
            keys: given.texts("keys")?,
            tags: given.strings("tags")?,
            properties: given.maps("properties")?,
            flag: given.integers("flag")?,
            born_timestamp: given.times("born_timestamp")?,
        })
    }

    /// How many there are.
    #[must_use]
    pub const fn count(&self) -> usize {
        self.count
    }

    /// Whether a store takes each row, as far as the row alone tells.
    ///
    /// # Errors
    /// The first row that a put of them refuses.
    pub fn check(&self, admission: Admission<'_>, shared: &Shared<'_>) -> Result<(), RowFault> {
        let mut encoded = Vec::new();
        for at in 0..self.count {
            let row = self.row(at, shared)?;
            // Which queue its topic's turn comes to is not known here, and matters as little.
            let message = row.message(row.queue_id.unwrap_or(0), self.properties(at, &row, shared)?, shared);
            admission
                .check(&message, &mut encoded)
                .map_err(|refusal| RowFault::Refused { row: self.number(at), refusal })?;
        }
        Ok(())
    }

    /// The topics of the rows, each once.
    ///
    /// # Errors
    /// A row whose topic is none.
    pub fn topics<'a>(&'a self, shared: &Shared<'a>) -> Result<Vec<&'a [u8]>, BatchFault> {
        let mut topics: Vec<&[u8]> = Vec::new();
        for row in 0..self.count {
            let topic = self.topic(row, shared)?;
            if topics.last() != Some(&topic) {
                topics.push(topic);
            }
        }
        topics.sort_unstable();
        topics.dedup();
        Ok(topics)
    }

    /// Whether one of the rows has a property.
    #[must_use]
    pub fn have_property(&self, shared: &Shared<'_>, name: &[u8]) -> bool {
        let names =
            |row| self.properties.iter().flat_map(move |maps| maps.get(row)).filter_map(|(name, _)| name);
        shared.properties.get(name).is_some() || (0..self.count).flat_map(names).any(|found| found == name)
    }

    /// Puts the rows in their order, many under one lock; `queue_of` gives the queue of a topic for keys.
    /// Rows that are put together are checked before the first of them is put.
    ///
    /// # Errors
    /// The first row that is not put; those before it that are counted are in the log.
    pub fn put(
        &self,
        store: &Store,
        shared: &Shared<'_>,
        queue_of: impl Fn(&[u8], &[u8]) -> i32,
        put: &mut PutRows,
    ) -> Result<(), RowFault> {
        let mut begin = 0;
        while begin < self.count {
            interrupt::check().map_err(RowFault::Interrupted)?;
            let rows = self.together(begin);
            begin = rows.end;
            self.put_together(store, shared, &queue_of, rows, put)?;
        }
        Ok(())
    }

    /// Rows from one on that are put under one lock.
    fn together(&self, begin: usize) -> Range<usize> {
        let most = self.count.min(begin + ROWS_AT_ONCE);
        let mut size = 0;
        let mut end = begin;
        while end < most && size < BYTES_AT_ONCE {
            size += self.body.get(end).unwrap_or_default().len();
            end += 1;
        }
        begin..end
    }

    fn put_together(
        &self,
        store: &Store,
        shared: &Shared<'_>,
        queue_of: &impl Fn(&[u8], &[u8]) -> i32,
        range: Range<usize>,
        put: &mut PutRows,
    ) -> Result<(), RowFault> {
        let first = range.start;
        let rows = range.clone().map(|row| self.row(row, shared)).collect::<Result<Vec<_>, _>>()?;
        let messages = range
            .zip(&rows)
            .map(|(at, row)| {
                let queue_id = row.queue_id.unwrap_or_else(|| queue_of(row.topic, &row.keys));
                Ok(row.message(queue_id, self.properties(at, row, shared)?, shared))
            })
            .collect::<Result<Vec<_>, BatchFault>>()?;
        let mut done = Vec::with_capacity(messages.len());
        let outcome = loop {
            match store.put_many(messages.as_slice(), &mut done, Wait::Block) {
                PutStep::WouldBlock => {}
                PutStep::Done(appended) => break Ok(appended),
                PutStep::Refused(refusal) => break Err(refusal),
            }
        };
        put.count += num::offset(done.len());
        put.from = put.from.or(done.first().map(|first| first.wrote_offset));
        put.last = done.last().cloned().or(put.last.take());
        match outcome {
            Ok(appended) => {
                put.wait_for = appended.wait_for.or(put.wait_for);
                Ok(())
            }
            Err(refusal) => {
                let end = done.last().map(Appended::end_offset);
                let wait_for = end.and_then(|end| store.ask_for_flush(end, shared.wait_store_msg_ok));
                put.wait_for = wait_for.or(put.wait_for);
                let row = self.number(first + refusal.at.unwrap_or(done.len()));
                Err(RowFault::Refused { row, refusal })
            }
        }
    }

    fn row<'a>(&'a self, row: usize, shared: &Shared<'a>) -> Result<Row<'a>, BatchFault> {
        Ok(Row {
            topic: self.topic(row, shared)?,
            queue_id: self.int(row, "queue_id", self.queue_id.as_ref(), 0)?.or(shared.queue_id),
            keys: self.keys(row)?,
            tags: self.tags.as_ref().and_then(|tags| tags.get(row)),
            flag: self.int(row, "flag", self.flag.as_ref(), i32::MIN)?.unwrap_or(shared.flag),
            born_timestamp: number(self.born_timestamp.as_ref(), row).unwrap_or(shared.born_timestamp),
            body: self.body.get(row).ok_or_else(|| self.bad(row, "body", "it is null"))?,
            unique_key: shared.unique_keys.map(|keys| keys.next(shared.now_ms)),
        })
    }

    fn topic<'a>(&'a self, row: usize, shared: &Shared<'a>) -> Result<&'a [u8], BatchFault> {
        let own = self.topic.as_ref().and_then(|topic| topic.get(row));
        let Some(topic) = own.or(shared.topic) else {
            return Err(self.bad(row, "topic", "it is null, and no topic is given for all rows"));
        };
        if topic.len() > MAX_TOPIC_LENGTH || check_topic(topic).is_err() {
            let text = String::from_utf8_lossy(topic);
            let reason = format!(
                "{text:?} is no topic: it has 1 to {MAX_TOPIC_LENGTH} bytes and can be the name of a folder"
            );
            return Err(self.bad(row, "topic", reason));
        }
        Ok(topic)
    }

    fn keys(&self, row: usize) -> Result<Cow<'_, [u8]>, BatchFault> {
        let keys = match &self.keys {
            None => return Ok(Cow::Borrowed(&[])),
            Some(Texts::One(keys)) => return Ok(Cow::Borrowed(keys.get(row).unwrap_or_default())),
            Some(Texts::Several(keys)) => keys.get(row),
        };
        let mut joined = Vec::new();
        for key in keys {
            let key = key.ok_or_else(|| self.bad(row, "keys", "a key is null"))?;
            if key.is_empty() || key.contains(&b' ') {
                let text = String::from_utf8_lossy(key);
                let reason = format!("a key has no space and is not empty, found {text:?}");
                return Err(self.bad(row, "keys", reason));
            }
            if !joined.is_empty() {
                joined.push(b' ');
            }
            joined.extend_from_slice(key);
        }
        Ok(Cow::Owned(joined))
    }

    /// The properties of a row's column.
    fn own_properties(&self, row: usize) -> Result<JavaHashMap<'_>, BatchFault> {
        let mut map = JavaHashMap::default();
        for (name, value) in self.properties.iter().flat_map(|maps| maps.get(row)) {
            let (Some(name), Some(value)) = (name, value) else {
                let name = String::from_utf8_lossy(name.unwrap_or_default());
                return Err(self.bad(row, "properties", format!("the value of {name:?} is null")));
            };
            map.put(name, value);
        }
        Ok(map)
    }

    fn properties<'a>(
        &'a self,
        at: usize,
        row: &'a Row<'a>,
        shared: &Shared<'a>,
    ) -> Result<Properties<'a>, BatchFault> {
        let mut own = self.own_properties(at)?;
        own.put_all(shared.properties);
        let unique_key = row.unique_key.as_ref().map(UniqueKey::as_bytes);
        let client = ClientProperties::of(Some(&row.keys), unique_key, row.tags, shared.wait_store_msg_ok);
        Ok(Properties::of_client(own, client))
    }

    /// A number of Java's `int`, from a least one on.
    fn int(
        &self,
        row: usize,
        column: &'static str,
        values: Option<&Int64Array>,
        least: i32,
    ) -> Result<Option<i32>, BatchFault> {
        let Some(value) = number(values, row) else { return Ok(None) };
        match i32::try_from(value) {
            Ok(value) if value >= least => Ok(Some(value)),
            _ => Err(self.bad(row, column, format!("expected {least} to {}, found {value}", i32::MAX))),
        }
    }

    fn bad(&self, row: usize, column: &'static str, reason: impl Into<String>) -> BatchFault {
        BatchFault::Value { row: self.number(row), column, reason: reason.into() }
    }

    fn number(&self, row: usize) -> u64 {
        self.first_row + num::offset(row)
    }
}

impl<'a> Row<'a> {
    fn message(&self, queue_id: i32, properties: Properties<'a>, shared: &Shared<'_>) -> NewMessage<'a> {
        NewMessage {
            topic: self.topic,
            queue_id,
            flag: self.flag,
            sys_flag: 0,
            born_timestamp: self.born_timestamp,
            born_host: shared.born_host,
            store_host: shared.store_host,
            reconsume_times: 0,
            prepared_transaction_offset: 0,
            body: self.body,
            properties,
        }
    }
}

/// The queue that messages of the same keys share.
#[must_use]
pub fn queue_by_keys(keys: &[u8], write_queue_nums: i32) -> i32 {
    let count = num::int_as_bits(write_queue_nums.max(1));
    num::bits_as_int(crc32fast::hash(keys) % count)
}
