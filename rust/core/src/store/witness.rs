//! Whether a record that was found by its place in the log is the message that the queues have there.
//!
//! A get holds a record against the unit that led to it. What is found by its place, by a key or by a walk
//! over the log has no unit that led to it; its own says whether topic, queue and offset are as they were.

use hashbrown::HashMap;

use super::Store;
use crate::commit_log::topic_queue::{QueueKey, QueueRef};
use crate::error::Result;
use crate::format::cq_unit::CqUnit;
use crate::format::java_string::decode;
use crate::format::message::Record;
use crate::format::sys_flag;
use crate::num;
use crate::recovery::strangers::leads_elsewhere;

/// Units of a queue that are read at a time.
const UNITS_AT_ONCE: usize = 64;
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
pub(crate) struct Witness(HashMap<QueueKey, Units>);

impl Store {
    /// Whether the queues say that a record is another message's: they do not have its unit where it says,
    /// and have one that leads to it from elsewhere. A record that no unit leads to stays: its topic may be
    /// gone.
    ///
    /// # Errors
    /// Where the queues can't be read.
    pub(crate) fn is_misplaced(&self, record: &Record<'_>, offset: u64) -> Result<bool> {
        self.is_against(record, offset, |queue, index| {
            let topic = decode(queue.topic);
            let queue = QueueRef { topic: topic.as_bytes(), queue_id: queue.queue_id };
            self.queues.get(queue).map_or(Ok(None), |queue| queue.unit(index))
        })
    }

    fn is_against(
        &self,
        record: &Record<'_>,
        offset: u64,
        unit_at: impl FnOnce(QueueRef<'_>, u64) -> Result<Option<CqUnit>>,
    ) -> Result<bool> {
        if self.dispatcher.is_stranger(offset) {
            return Ok(true);
        }
        if self.config.compat || self.is_part || !sys_flag::enters_consume_queue(record.sys_flag) {
            return Ok(false);
        }
        if let Some(index) = num::from_java_long(record.queue_offset) {
            let queue = QueueRef { topic: record.topic, queue_id: record.queue_id };
            let unit = unit_at(queue, index)?;
            if unit.and_then(|unit| unit.place()) == Some((offset, record.total_size)) {
                return Ok(false);
            }
        }
        for queue in self.queues.all() {
            if leads_elsewhere(&self.config, &self.log, &queue, record)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl Witness {
    /// As [`Store::is_misplaced`].
    ///
    /// # Errors
    /// As there.
    pub(crate) fn is_misplaced(&mut self, store: &Store, record: &Record<'_>, offset: u64) -> Result<bool> {
        store.is_against(record, offset, |queue, index| self.unit(store, queue, index))
    }

    fn unit(&mut self, store: &Store, queue: QueueRef<'_>, index: u64) -> Result<Option<CqUnit>> {
        let in_cache = |units: &Units| units.units.get(num::index(index.checked_sub(units.first)?)).copied();
        if let Some(unit) = self.0.get(&queue).and_then(in_cache) {
            return Ok(Some(unit));
        }
        let topic = decode(queue.topic);
        let of_text = QueueRef { topic: topic.as_bytes(), queue_id: queue.queue_id };
        let Some(files) = store.queues.get(of_text) else { return Ok(None) };
        let units = files.units(index, UNITS_AT_ONCE)?;
        let unit = units.first().copied();
        if self.0.len() >= MAX_QUEUES {
            self.0.clear();
        }
        self.0.insert(queue.into(), Units { first: index, units });
        Ok(unit)
    }
}
