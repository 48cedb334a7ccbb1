//! What dispatch makes of one record: the rules, wherever the outcome goes. Source:
//! `CommitLogDispatcherBuildConsumeQueue`, `CommitLogDispatcherBuildIndex` and `multiDispatchLmqQueue`.

use super::{SCHEDULE_TOPIC, TIMED_TOPIC};
use crate::commit_log::scan::check_topic;
use crate::commit_log::topic_queue::QueueRef;
use crate::config::StoreConfig;
use crate::consume_queue::NewUnit;
use crate::consume_queue::table::LMQ_PREFIX;
use crate::error::Result;
use crate::format::cq_unit::CqUnit;
use crate::format::index::TopicHash;
use crate::format::java_string::hash_code;
use crate::format::message::Record;
use crate::format::properties::DispatchProperties;
use crate::format::sys_flag;
use crate::num;

/// Takes what dispatch makes of records: a store's queues and index, or what a rebuild stages.
pub(crate) trait Derived {
    /// A unit of the record's own queue.
    fn put_unit(&mut self, queue: QueueRef<'_>, new: NewUnit) -> Result<()>;
    /// A unit of a further queue that the record names, which has no part in the extension.
    fn put_light_unit(&mut self, queue: QueueRef<'_>, new: NewUnit) -> Result<()>;
    /// The hashes of the record's keys, none for a record that is not indexed: every record is told,
    /// since a full index file is followed by a new one at the next record, whatever its keys.
    fn put_keys(
        &mut self,
        hashes: impl Iterator<Item = u32>,
        offset: u64,
        store_timestamp: i64,
    ) -> Result<()>;
}

/// What dispatch makes of one record: the rules, wherever the outcome goes.
pub(crate) fn derive(
    config: &StoreConfig,
    offset: u64,
    record: &Record<'_>,
    to: &mut impl Derived,
) -> Result<()> {
    let properties = DispatchProperties::of(record.properties);
    if sys_flag::enters_consume_queue(record.sys_flag) {
        let unit = CqUnit {
            physical_offset: num::java_long(offset),
            size: num::java_int(record.total_size as usize),
            tags_code: tags_code(config, record, &properties),
        };
        let has_filters = config.enable_calc_filter_bit_map && config.enable_consume_queue_ext;
        let new = NewUnit {
            unit,
            cq_offset: record.queue_offset,
            store_timestamp: record.store_timestamp,
            filter_bit_map: has_filters.then(|| config.filters.bit_map_of(record)).flatten(),
        };
        let queue = QueueRef { topic: record.topic, queue_id: record.queue_id };
        if !config.removed_queues.covers(queue, offset) {
            to.put_unit(queue, new)?;
        }
        if config.enable_multi_dispatch {
            for (topic, queue_id, cq_offset) in multi_queues(config, record.queue_id, &properties) {
                let queue = QueueRef { topic, queue_id };
                if check_topic(topic).is_ok() && !config.removed_queues.covers(queue, offset) {
                    to.put_light_unit(queue, NewUnit { cq_offset, ..new })?;
                }
            }
        }
    }
    let is_indexed = sys_flag::enters_index(record.sys_flag);
    let none = DispatchProperties::default();
    let indexed = if is_indexed { &properties } else { &none };
    let topic = TopicHash::of(record.topic);
    to.put_keys(indexed.index_keys().map(|key| topic.key(key)), offset, record.store_timestamp)
}

/// What a unit holds beside place and size: the tag's hash, or in the topics of messages that wait
/// the time of delivery. Source: `CommitLog.checkMessageAndReturnSize`.
#[must_use]
pub fn tags_code(config: &StoreConfig, record: &Record<'_>, properties: &DispatchProperties<'_>) -> i64 {
    let due_ms = match record.topic {
        SCHEDULE_TOPIC => {
            // Only a message that was put while the log's time was ahead of the clock says it.
            let by_clock = properties.deliver_at.filter(|_| !config.compat).and_then(parse);
            let by_store_time = due_by_store_time(config, record, properties);
            by_store_time.map(|due_ms| by_clock.map_or(due_ms, |by_clock| due_ms.min(by_clock)))
        }
        // 4.9.3 knows nothing of this topic.
        TIMED_TOPIC if !config.compat => properties.deliver_at.and_then(parse),
        _ => None,
    };
    due_ms.unwrap_or_else(|| tags_hash(properties))
}

/// When a delayed message is due by its store time. Source: `computeDeliverTimestamp`.
fn due_by_store_time(
    config: &StoreConfig,
    record: &Record<'_>,
    properties: &DispatchProperties<'_>,
) -> Option<i64> {
    let level = properties.delay.and_then(parse::<i32>)?.min(config.max_delay_level());
    (level > 0).then(|| config.deliver_timestamp(level, record.store_timestamp))
}

/// Whether a unit can have a tags code: of what 4.9.3 dispatched timed messages have their tag's hash, and delayed ones
/// what their store time says.
#[must_use]
pub fn tags_code_fits(
    config: &StoreConfig,
    record: &Record<'_>,
    properties: &DispatchProperties<'_>,
    found: i64,
) -> bool {
    found == tags_code(config, record, properties)
        || (record.topic == TIMED_TOPIC && found == tags_hash(properties))
        || (record.topic == SCHEDULE_TOPIC && Some(found) == due_by_store_time(config, record, properties))
}

fn tags_hash(properties: &DispatchProperties<'_>) -> i64 {
    properties.tags.map_or(0, |tags| i64::from(hash_code(tags)))
}

/// A property that is a number.
pub(crate) fn parse<T: std::str::FromStr>(value: &[u8]) -> Option<T> {
    std::str::from_utf8(value).ok()?.parse().ok()
}

/// The further queues of a message: topic, queue, offset. Empty where the two properties do not
/// agree. Source: `multiDispatchLmqQueue`.
#[must_use]
pub fn multi_queues<'a>(
    config: &StoreConfig,
    queue_id: i32,
    properties: &DispatchProperties<'a>,
) -> Vec<(&'a [u8], i32, i64)> {
    let queue_id_of = |name: &[u8]| if is_light(config, name) { 0 } else { queue_id };
    let named = further_places(properties);
    named.into_iter().map(|(name, offset)| (name, queue_id_of(name), offset)).collect()
}

/// The topics of a message's further queues, and its offsets there. Which number a queue has is for the store's
/// options to say.
#[must_use]
pub fn further_places<'a>(properties: &DispatchProperties<'a>) -> Vec<(&'a [u8], i64)> {
    let (Some(names), Some(offsets)) = (properties.multi_dispatch, properties.multi_queue_offset) else {
        return Vec::new();
    };
    let names = split_java(names);
    let offsets: Vec<i64> = split_java(offsets).into_iter().filter_map(parse).collect();
    if names.len() != offsets.len() {
        return Vec::new();
    }
    names.into_iter().zip(offsets).collect()
}

/// Whether a queue named in a message is a light queue, which has the number 0 alone.
#[must_use]
pub fn is_light(config: &StoreConfig, name: &[u8]) -> bool {
    config.enable_lmq && name.starts_with(LMQ_PREFIX.as_bytes())
}

/// Java's `split(",")`: empty parts at the end do not count.
#[must_use]
pub fn split_java(text: &[u8]) -> Vec<&[u8]> {
    let mut parts: Vec<&[u8]> = text.split(|&byte| byte == b',').collect();
    while parts.last().is_some_and(|last| last.is_empty()) {
        parts.pop();
    }
    parts
}
