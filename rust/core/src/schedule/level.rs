//! One pass over one level. Source: `DeliverDelayedMessageTimerTask.executeOnTimeup`.

use super::delivery::{Due, MAX_BATCH_SIZE};
use super::{LevelPass, due_time};
use crate::commit_log::topic_queue::QueueRef;
use crate::consume_queue::ConsumeQueue;
use crate::dispatch::SCHEDULE_TOPIC;
use crate::error::Result;
use crate::format::cq_unit::CqUnit;
use crate::format::message::decode_record;
use crate::format::properties;
use crate::store::Store;

/// Units that are read at a time.
const UNITS_AT_ONCE: usize = 1024;

/// What reading a level's queue found.
struct Found {
    due: Vec<Due>,
    /// Behind the last unit that was looked at and is done with once `due` is put.
    next_offset: u64,
    next_due_ms: Option<i64>,
}

impl Store {
    /// Delivers messages of a delay level that are due, at most about so many, from an offset in its
    /// queue on. An offset outside the queue is moved into it. A level that there is no more is the last one.
    ///
    /// # Errors
    /// Where queue or log can't be read; nothing was delivered then.
    pub fn deliver_level(&self, delay_level: i32, from: u64, max_count: usize) -> Result<LevelPass> {
        self.check_writable()?;
        let queue = QueueRef { topic: SCHEDULE_TOPIC, queue_id: delay_level - 1 };
        let Some(queue) = self.queues().get(queue) else {
            return Ok(LevelPass { next_offset: from, ..LevelPass::default() });
        };
        let (min, max) = (queue.min_offset_in_queue(), queue.max_offset_in_queue());
        let from = from.min(max).max(min);
        let found = self.while_open(|| self.find_due(&queue, delay_level, from, max_count))?;
        let delivery = self.deliver(&found.due, &[properties::DELIVER_AT]);
        let stopped_at = found.due.get(delivery.done_count).map(|due| due.queue_offset);
        Ok(LevelPass {
            next_offset: stopped_at.unwrap_or(found.next_offset),
            next_due_ms: stopped_at.map_or(found.next_due_ms, |_| Some(self.now_ms())),
            delivered_count: delivery.delivered_count,
            undeliverable: delivery.undeliverable,
            refusal: delivery.refusal,
        })
    }

    /// The queue offset of the first message of a delay level that is not due yet, or the queue's end.
    ///
    /// # Errors
    /// Where queue or log can't be read; where the store is closed.
    pub fn first_not_due(&self, delay_level: i32) -> Result<u64> {
        self.while_open(|| self.find_first_not_due(delay_level))
    }

    fn find_first_not_due(&self, delay_level: i32) -> Result<u64> {
        self.catch_up_for_room()?;
        let queue = QueueRef { topic: SCHEDULE_TOPIC, queue_id: delay_level - 1 };
        let Some(queue) = self.queues().get(queue) else { return Ok(0) };
        let (mut index, end) = (queue.min_offset_in_queue(), queue.max_offset_in_queue());
        while index < end {
            let units = queue.units(index, UNITS_AT_ONCE)?;
            if units.is_empty() {
                index = queue.next_behind_missing(index);
            }
            for unit in &units {
                if self.due_ms(&queue, delay_level, unit)? > self.now_ms() {
                    return Ok(index);
                }
                index += 1;
            }
        }
        Ok(index.min(end))
    }

    fn find_due(&self, queue: &ConsumeQueue, delay_level: i32, from: u64, max_count: usize) -> Result<Found> {
        let mut found = Found { due: Vec::new(), next_offset: from, next_due_ms: None };
        let mut size = 0;
        let mut records = self.log().records();
        while found.due.len() < max_count && size < MAX_BATCH_SIZE {
            let units = queue.units(found.next_offset, UNITS_AT_ONCE)?;
            if units.is_empty() {
                let end = queue.max_offset_in_queue();
                if found.next_offset >= end {
                    break;
                }
                // Its file went with an expired log file meanwhile, or is missing.
                found.next_offset = queue.next_behind_missing(found.next_offset).min(end);
            }
            for unit in &units {
                if found.due.len() >= max_count || size >= MAX_BATCH_SIZE {
                    break;
                }
                let due_ms = self.due_ms(queue, delay_level, unit)?;
                if due_ms > self.now_ms() {
                    found.next_due_ms = Some(due_ms);
                    return Ok(found);
                }
                if let Some(due) = self.due_of(&mut records, queue, unit, found.next_offset)? {
                    size += due.record.len();
                    found.due.push(due);
                }
                found.next_offset += 1;
            }
        }
        Ok(found)
    }

    /// When a unit's message is due. Where that is farther away than its level allows the levels were others, or the store's
    /// time is ahead of the clock: it counts from when the message was born. One that was born in what is the future
    /// by now, and with `compat` any such, is due now. A unit that has no time, because 4.9.3 put it
    /// there when it recovered, or because its extension is lost, gets it from its record.
    /// Source: `correctDeliverTimestamp`.
    fn due_ms(&self, queue: &ConsumeQueue, delay_level: i32, unit: &CqUnit) -> Result<i64> {
        let Some((offset, size)) = unit.place() else { return Ok(i64::MIN) };
        let delay_level = delay_level.min(self.config().max_delay_level());
        let due_ms = match queue.tags_code(unit)?.and_then(due_time) {
            Some(due_ms) => due_ms,
            None => {
                let store_timestamp = self.log().pickup_store_timestamp(offset, size)?;
                self.config().deliver_timestamp(delay_level, store_timestamp)
            }
        };
        let (config, now) = (self.config(), self.now_ms());
        if due_ms <= config.deliver_timestamp(delay_level, now) {
            return Ok(due_ms);
        }
        let bytes = if config.compat { None } else { self.log().get_message(offset, size)? };
        let record = bytes.as_deref().and_then(decode_record);
        let born_ms = record.map(|record| record.born_timestamp).filter(|&born| born <= now);
        Ok(born_ms.map_or(now, |born| config.deliver_timestamp(delay_level, born)))
    }
}
