//! Which messages: the one way to say so.
//!
//! A selection names queues with ranges of offsets, times, keys, tags, a filter and a range of the log, or any
//! part of these. How its messages are found follows from what it names: by the index where it has
//! keys, by the queues' units where it has topics, by walking the log otherwise.

mod bad_range;
mod cursor;
mod heads;
mod plan;

use std::sync::Arc;

use crate::commit_log::Bodies;
use crate::commit_log::topic_queue::QueueRef;
use crate::consume_queue::ConsumeQueue;
use crate::consume_queue::table::LMQ_PREFIX;
use crate::dispatch::split_java;
use crate::error::Result;
use crate::filter::SqlFilter;
use crate::format::message::Record;
use crate::format::properties::{self, DispatchProperties};
use crate::format::sys_flag;
use crate::store::{Store, Subscription};

pub use bad_range::{BadRange, BadRanges};
pub(crate) use cursor::Uninflated;
pub use cursor::{Cursor, Part};

/// Offsets of a topic's queues, from the first that is wanted to behind the last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueRange {
    /// The topic.
    pub topic: String,
    /// The queue; `None` for all of the topic's.
    pub queue_id: Option<i32>,
    /// The first offset; `None` for the queue's first.
    pub from: Option<u64>,
    /// Behind the last offset; `None` for the queue's end.
    pub to: Option<u64>,
}

/// Which messages.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    /// Only messages of these queues; `None` for all that the log holds.
    pub queues: Option<Vec<QueueRange>>,
    /// Of the queues' messages only those that were put to them: none that is in them as in further queues.
    pub own_only: bool,
    /// Only messages that have one of these keys, as key or as unique key; `None` for any.
    pub keys: Option<Vec<String>>,
    /// Topics in which keys are looked up besides those that have queues, where no queues are named: what is prepared is
    /// in none, and the index has it.
    pub topics_of_keys: Vec<String>,
    /// Only messages with one of these tags; `None` for any.
    pub tags: Option<Subscription>,
    /// Only messages whose properties pass this filter.
    pub sql: Option<Arc<SqlFilter>>,
    /// Only messages stored at this time or later, in milliseconds.
    pub begin_timestamp: Option<i64>,
    /// Only messages stored at this time or earlier.
    pub end_timestamp: Option<i64>,
    /// Whether store times may have gone back, so that one says nothing of those of other messages: then each says of itself
    /// whether it is meant.
    pub times_in_any_order: bool,
    /// Only messages that stand at this offset of the log or behind it.
    pub from_phy_offset: Option<u64>,
    /// Only messages that stand before this offset of the log.
    pub to_phy_offset: Option<u64>,
    /// Only messages that begin at one of these offsets of the log; `None` for any.
    pub places: Option<Vec<u64>>,
    /// At most so many messages; `None` for all.
    pub limit: Option<u64>,
}

impl Selection {
    /// The selected messages of a store, as they are when the cursor comes to them.
    ///
    /// # Errors
    /// Where index, queues or log can't be read.
    pub fn cursor(&self, store: Arc<Store>) -> Result<Cursor> {
        Cursor::new(store, self.clone(), Bodies::Wanted)
    }

    /// As [`Selection::cursor`], with or without bodies. Without them a message whose body is damaged
    /// is given like any other.
    ///
    /// # Errors
    /// As for [`Selection::cursor`].
    pub fn cursor_with(&self, store: Arc<Store>, bodies: Bodies) -> Result<Cursor> {
        Cursor::new(store, self.clone(), bodies)
    }

    /// The part of the log that a walk for its messages goes over: from a record's begin, to behind.
    ///
    /// # Errors
    /// Where the log can't be read.
    pub fn log_range(&self, store: &Store) -> Result<(u64, u64)> {
        store.while_open(|| plan::log_range(self, store))
    }

    /// Where the log stands behind the first so many selected messages of its range; the range's end
    /// where there are no more.
    ///
    /// # Errors
    /// Where the log can't be read.
    pub fn position_behind(&self, store: &Store, max_count: u64) -> Result<u64> {
        cursor::position_behind(self, store, max_count)
    }

    /// Where the index says that messages with its keys stand, unread: the selection itself, with these places, says
    /// which of them are meant and which are damaged.
    ///
    /// # Errors
    /// Where the index can't be read.
    pub fn places_of_keys(&self, store: &Store) -> Result<Vec<u64>> {
        store.while_open(|| plan::places_of_keys(self, store))
    }

    /// How many messages are selected. Where units alone decide, they are counted without reading
    /// the log.
    ///
    /// # Errors
    /// As for [`Selection::cursor`].
    pub fn count(&self, store: Arc<Store>) -> Result<u64> {
        store.catch_up()?;
        if let Some(count) = store.while_open(|| plan::count_units(self, &store))? {
            return Ok(self.limit.map_or(count, |limit| count.min(limit)));
        }
        let mut cursor = self.cursor(store)?;
        let mut count = 0;
        loop {
            let messages = cursor.next_messages(usize::MAX, cursor::CHUNK_SIZE)?;
            if messages.is_empty() {
                return Ok(count);
            }
            count += crate::num::offset(messages.len());
        }
    }

    /// Whether only its queues and times say which messages.
    fn is_by_units(&self) -> bool {
        self.queues.is_some()
            && !self.own_only
            && !self.is_by_each_time()
            && self.keys.is_none()
            && self.tags.is_none()
            && self.sql.is_none()
            && self.places.is_none()
            && self.from_phy_offset.is_none()
            && self.to_phy_offset.is_none()
    }

    /// Whether a store's record is selected, wherever it was found.
    fn takes(&self, store: &Store, record: &Record<'_>, offset: u64, found_by: FoundBy<'_>) -> bool {
        self.takes_time_of(record)
            && self.from_phy_offset.is_none_or(|from| offset >= from)
            && self.to_phy_offset.is_none_or(|to| offset < to)
            && match found_by {
                FoundBy::Unit { queue, index } => self.takes_in(record, queue, index),
                FoundBy::Offset => self.takes_queue(store, record, offset),
            }
            && self.tags.as_ref().is_none_or(|tags| tags.matches_properties(record.properties))
            && self.keys.as_ref().is_none_or(|keys| has_key(record.properties, keys))
            && self.sql.as_ref().is_none_or(|sql| sql.matches(record.properties))
    }

    fn takes_time_of(&self, record: &Record<'_>) -> bool {
        self.begin_timestamp.is_none_or(|begin| record.store_timestamp >= begin)
            && self.end_timestamp.is_none_or(|end| record.store_timestamp <= end)
    }

    /// The times that its messages are between, where those of some say where others are.
    fn sorted_times(&self) -> (Option<i64>, Option<i64>) {
        if self.times_in_any_order { (None, None) } else { (self.begin_timestamp, self.end_timestamp) }
    }

    /// Whether each message that is looked at may be out of its time.
    const fn is_by_each_time(&self) -> bool {
        self.times_in_any_order && (self.begin_timestamp.is_some() || self.end_timestamp.is_some())
    }

    /// Whether of the units that are looked at most are selected, and none for being among the first.
    const fn takes_most_units(&self) -> bool {
        // Ranges of times and places are those of the units that are looked at, or nearly.
        let Self { queues, keys, tags, sql, places, limit, .. } = self;
        queues.is_some()
            && keys.is_none()
            && tags.is_none()
            && sql.is_none()
            && places.is_none()
            && limit.is_none()
            && !self.is_by_each_time()
    }

    /// Whether a unit is all that has to be known of a record.
    const fn takes_every_unit(&self) -> bool {
        // Spelled out, so that what is added to a selection has to be thought of here.
        let Self {
            queues: _,
            own_only,
            keys,
            topics_of_keys: _,
            tags,
            sql,
            begin_timestamp,
            end_timestamp,
            times_in_any_order: _,
            from_phy_offset,
            to_phy_offset,
            places: _,
            limit: _,
        } = self;
        !*own_only
            && keys.is_none()
            && tags.is_none()
            && sql.is_none()
            && begin_timestamp.is_none()
            && end_timestamp.is_none()
            && from_phy_offset.is_none()
            && to_phy_offset.is_none()
    }

    /// Whether a record is in one of the queues. The index has more: what is prepared, and what a queue had that was
    /// removed.
    fn takes_queue(&self, store: &Store, record: &Record<'_>, phy_offset: u64) -> bool {
        let Some(queues) = &self.queues else { return true };
        if !sys_flag::enters_consume_queue(record.sys_flag) {
            return false;
        }
        let removed = &store.config().removed_queues;
        let takes = |topic: &[u8], queue_id: i32, offset: Option<u64>| {
            let Some(offset) = offset else { return false };
            queues.iter().any(|range| range.takes(topic, queue_id, offset))
                && !removed.covers(QueueRef { topic, queue_id }, phy_offset)
        };
        takes(record.topic, record.queue_id, crate::num::from_java_long(record.queue_offset))
            || (!self.own_only
                && further_queues(record).any(|(topic, queue_id, offset)| takes(topic, queue_id, offset)))
    }

    /// Whether a record that a queue's unit leads to may be given for that queue.
    fn takes_in(&self, record: &Record<'_>, queue: &ConsumeQueue, index: u64) -> bool {
        if !self.own_only {
            return true;
        }
        let place = |topic: &[u8], queue_id: i32, offset: Option<u64>| {
            topic == queue.topic().as_bytes() && queue_id == queue.queue_id() && offset == Some(index)
        };
        place(record.topic, record.queue_id, crate::num::from_java_long(record.queue_offset))
            || !further_queues(record).any(|(topic, queue_id, offset)| place(topic, queue_id, offset))
    }
}

impl QueueRange {
    fn takes(&self, topic: &[u8], queue_id: i32, offset: u64) -> bool {
        self.topic.as_bytes() == topic
            && self.queue_id.is_none_or(|wanted| wanted == queue_id)
            && self.from.is_none_or(|from| offset >= from)
            && self.to.is_none_or(|to| offset < to)
    }
}

/// The further queues that a record names: topic, queue, offset. Whether the store has them is for its options to
/// say, which who selects may not know.
fn further_queues<'a>(record: &Record<'a>) -> impl Iterator<Item = (&'a [u8], i32, Option<u64>)> + use<'a> {
    let properties = memchr::memmem::find(record.properties, properties::INNER_MULTI_DISPATCH)
        .map(|_| DispatchProperties::of(record.properties));
    let split = |named: Option<&'a [u8]>| named.map(split_java).unwrap_or_default();
    let names = split(properties.as_ref().and_then(|found| found.multi_dispatch));
    let offsets = split(properties.as_ref().and_then(|found| found.multi_queue_offset));
    let queue_id = record.queue_id;
    names.into_iter().zip(offsets).map(move |(name, offset)| {
        let is_light = name.starts_with(LMQ_PREFIX.as_bytes());
        let offset = std::str::from_utf8(offset).ok().and_then(|offset| offset.parse().ok());
        (name, if is_light { 0 } else { queue_id }, offset)
    })
}

/// What led to a record: a queue's unit vouches for its queue and offset already.
#[derive(Debug, Clone, Copy)]
enum FoundBy<'a> {
    Unit { queue: &'a ConsumeQueue, index: u64 },
    Offset,
}

fn has_key(stored: &[u8], keys: &[String]) -> bool {
    // Most messages without the property can be told apart without looking at every pair.
    if memchr::memmem::find(stored, properties::KEYS).is_none()
        && memchr::memmem::find(stored, properties::UNIQ_KEY).is_none()
    {
        return false;
    }
    DispatchProperties::of(stored).index_keys().any(|found| keys.iter().any(|key| key.as_bytes() == found))
}
