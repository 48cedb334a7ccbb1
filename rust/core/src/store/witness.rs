//! Whether a record that was found by its place in the log is the message that the queues have there.
//!
//! A get holds a record against the unit that led to it. What is found by its place, by a key or by a walk
//! over the log has no unit that led to it; its own says whether topic, queue and offset are as they were.

use hashbrown::HashMap;

use super::Store;
use crate::commit_log::topic_queue::{QueueKey, QueueRef};
use crate::error::Result;
use crate::format::cq_unit::CqUnit;
use crate::format::message::Record;
use crate::format::sys_flag;
use crate::num;
use crate::recovery::elsewhere::any_leads_elsewhere;

/// Units of a queue that are read at a time.
const UNITS_AT_ONCE: usize = 64;
/// So many records of a queue without units are of a topic that is gone, and none of them changed.
const MANY_OF_A_QUEUE: u32 = 16;
/// Queues whose units are kept at a time.
const MAX_QUEUES: usize = 4096;

/// Units of one queue, as they were read last.
#[derive(Debug, Default)]
struct Units {
    first: u64,
    units: Vec<CqUnit>,
}

/// Asks the queues about many records.
#[derive(Debug, Default)]
pub(crate) struct Witness {
    units: HashMap<QueueKey, Units>,
    /// Queues whose records are in no queue's units, and how many were looked for: those of topics that are
    /// gone can be many.
    gone: HashMap<QueueKey, u32>,
}

impl Store {
    /// Whether the queues say that a record is another message's: they do not have its unit where it says,
    /// and have one that leads to it from elsewhere. A record that no unit leads to stays: its topic may be
    /// gone.
    ///
    /// # Errors
    /// Where the queues can't be read.
    pub(crate) fn is_misplaced(&self, record: &Record<'_>, offset: u64) -> Result<bool> {
        if let Some(known) = self.is_known_misplaced(record, offset) {
            return Ok(known);
        }
        let queue = self.queues.get_decoded(QueueRef { topic: record.topic, queue_id: record.queue_id });
        let index = num::from_java_long(record.queue_offset);
        if let (Some(queue), Some(index)) = (queue, index)
            && is_unit_of(queue.unit(index)?, record, offset)
        {
            return Ok(false);
        }
        any_leads_elsewhere(&self.log, &self.queues, record)
    }

    /// What can be said without asking the queues.
    fn is_known_misplaced(&self, record: &Record<'_>, offset: u64) -> Option<bool> {
        if offset >= self.own_from {
            // This process made the record and its unit.
            return Some(false);
        }
        if self.dispatcher.is_stranger(offset) {
            return Some(true);
        }
        let is_asked =
            !self.config.compat && !self.is_part && sys_flag::enters_consume_queue(record.sys_flag);
        (!is_asked).then_some(false)
    }
}

fn is_unit_of(unit: Option<CqUnit>, record: &Record<'_>, offset: u64) -> bool {
    unit.and_then(|unit| unit.place()) == Some((offset, record.total_size))
}

impl Witness {
    /// As [`Store::is_misplaced`].
    ///
    /// # Errors
    /// As there.
    pub(crate) fn is_misplaced(&mut self, store: &Store, record: &Record<'_>, offset: u64) -> Result<bool> {
        if let Some(known) = store.is_known_misplaced(record, offset) {
            return Ok(known);
        }
        let queue = QueueRef { topic: record.topic, queue_id: record.queue_id };
        if let Some(index) = num::from_java_long(record.queue_offset)
            && is_unit_of(self.unit(store, queue, index)?, record, offset)
        {
            return Ok(false);
        }
        if self.gone.get(&queue).is_some_and(|&count| count >= MANY_OF_A_QUEUE) {
            return Ok(false);
        }
        let is_misplaced = any_leads_elsewhere(&store.log, &store.queues, record)?;
        if !is_misplaced {
            *self.gone.entry(queue.into()).or_default() += 1;
        }
        Ok(is_misplaced)
    }

    fn unit(&mut self, store: &Store, queue: QueueRef<'_>, index: u64) -> Result<Option<CqUnit>> {
        let in_cache = |units: &Units| units.units.get(num::index(index.checked_sub(units.first)?)).copied();
        if let Some(unit) = self.units.get(&queue).and_then(in_cache) {
            return Ok(Some(unit));
        }
        let Some(files) = store.queues.get_decoded(queue) else { return Ok(None) };
        let units = files.units(index, UNITS_AT_ONCE)?;
        let unit = units.first().copied();
        if self.units.len() >= MAX_QUEUES {
            self.units.clear();
        }
        self.units.insert(queue.into(), Units { first: index, units });
        Ok(unit)
    }
}
