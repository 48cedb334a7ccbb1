//! One pass over one level. Source: `DeliverDelayedMessageTimerTask.executeOnTimeup`.

use super::timeup::message_timeup;
use super::{LevelPass, Undeliverable};
use crate::commit_log::Wait;
use crate::commit_log::topic_queue::QueueRef;
use crate::consume_queue::ConsumeQueue;
use crate::dispatch::SCHEDULE_TOPIC;
use crate::error::Result;
use crate::format::cq_unit::CqUnit;
use crate::mmap::slice::Slice;
use crate::num;
use crate::status::PutMessageStatus;
use crate::store::query::decode_record;
use crate::store::{PutStep, Store};

/// Bytes of records that are put under one lock: more would keep other puts waiting.
const MAX_BATCH_SIZE: usize = 1 << 20;
/// Units that are read at a time.
const UNITS_AT_ONCE: usize = 1024;

/// A message that is due.
struct Due {
    queue_offset: u64,
    physical_offset: u64,
    record: Slice,
}

/// What reading a level's queue found.
struct Found {
    due: Vec<Due>,
    /// Behind the last unit that was looked at and is done with once `due` is put.
    next_offset: u64,
    next_due_ms: Option<i64>,
}

impl Store {
    /// Delivers messages of a delay level that are due, at most about so many, from an offset in its
    /// queue on. An offset outside the queue is moved into it.
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
        let found = self.find_due(&queue, delay_level, from.min(max).max(min), max_count)?;
        Ok(self.deliver(&found))
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
                found.next_offset = queue.roll_next_file(found.next_offset).min(end);
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
                let record = self.record_of(&mut records, queue, unit, found.next_offset)?;
                if let (Some(record), Some((physical_offset, _))) =
                    (record.and_then(|record| record.slice()), unit.place())
                {
                    size += record.len();
                    found.due.push(Due { queue_offset: found.next_offset, physical_offset, record });
                }
                found.next_offset += 1;
            }
        }
        Ok(found)
    }

    /// When a unit's message is due. One that is farther away than its level allows is due now: the
    /// clock was set back, or the levels were others. A unit that has no time, because 4.9.3 put it
    /// there when it recovered, or because its extension is lost, gets it from its record.
    /// Source: `correctDeliverTimestamp`.
    fn due_ms(&self, queue: &ConsumeQueue, delay_level: i32, unit: &CqUnit) -> Result<i64> {
        let Some((offset, size)) = unit.place() else { return Ok(i64::MIN) };
        let is_hash = |code: i64| i32::try_from(code).is_ok();
        let due_ms = match queue.tags_code(unit)? {
            Some(code) if !is_hash(code) => code,
            _ => {
                let store_timestamp = self.log().pickup_store_timestamp(offset, size)?;
                self.config().deliver_timestamp(delay_level, store_timestamp)
            }
        };
        let now = self.now_ms();
        Ok(if due_ms > self.config().deliver_timestamp(delay_level, now) { now } else { due_ms })
    }

    fn deliver(&self, found: &Found) -> LevelPass {
        let mut pass = LevelPass {
            next_offset: found.next_offset,
            next_due_ms: found.next_due_ms,
            ..LevelPass::default()
        };
        let mut messages = Vec::with_capacity(found.due.len());
        let mut places = Vec::with_capacity(found.due.len());
        for due in &found.due {
            let message = decode_record(&due.record).ok_or_else(|| "its record is damaged".to_owned());
            match message.and_then(|record| message_timeup(&record)) {
                Ok(message) => {
                    messages.push(message);
                    places.push(due);
                }
                Err(reason) => pass.undeliverable.push(due.undeliverable(reason)),
            }
        }
        let (mut messages, mut places) = (messages.as_slice(), places.as_slice());
        while !messages.is_empty() {
            let mut done = Vec::with_capacity(messages.len());
            let step = self.put_due(messages, &mut done, Wait::Block);
            pass.delivered_count += num::offset(done.len());
            let PutStep::Refused(refusal) = step else { break };
            let Some((stopped_at, rest)) = places.get(done.len()..).and_then(<[&Due]>::split_first) else {
                break;
            };
            if refusal.status != PutMessageStatus::MessageIllegal {
                pass.next_offset = stopped_at.queue_offset;
                pass.next_due_ms = Some(self.now_ms());
                pass.undeliverable.retain(|passed| passed.queue_offset < stopped_at.queue_offset);
                pass.refusal = Some(refusal);
                break;
            }
            pass.undeliverable.push(stopped_at.undeliverable(refusal.reason.to_string()));
            messages = messages.get(done.len() + 1..).unwrap_or_default();
            places = rest;
        }
        pass
    }
}

impl Due {
    fn undeliverable(&self, reason: String) -> Undeliverable {
        Undeliverable { queue_offset: self.queue_offset, physical_offset: self.physical_offset, reason }
    }
}
