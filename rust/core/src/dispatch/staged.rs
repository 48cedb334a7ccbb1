//! What dispatch makes of a part of the log, kept until the parts before it are dispatched.

use std::sync::Arc;

use hashbrown::HashMap;

use super::{Derived, Dispatcher, ToStore};
use crate::commit_log::topic_queue::{QueueKey, QueueRef};
use crate::consume_queue::{ConsumeQueue, NewUnit};
use crate::error::Result;
use crate::format::message::Record;

/// Entries of the index whose slots the processor is told to fetch ahead.
const PREFETCHED: usize = 16;

/// Units and keys of the records of a part, in the log's order.
#[derive(Debug, Default)]
pub(super) struct Staged {
    queues: Vec<QueueKey>,
    known: HashMap<QueueKey, usize>,
    records: Vec<StagedRecord>,
    units: Vec<StagedUnit>,
    hashes: Vec<u32>,
}

#[derive(Debug)]
struct StagedRecord {
    offset: u64,
    next_offset: u64,
    store_timestamp: i64,
    unit_count: usize,
    hash_count: usize,
    /// Whether the index is told of it.
    is_indexed: bool,
}

#[derive(Debug)]
struct StagedUnit {
    /// Its place in the part's queues.
    queue: usize,
    new: NewUnit,
    is_light: bool,
}

impl Staged {
    /// Begins with a record, of which what is put from now on comes.
    pub(super) fn begin(&mut self, offset: u64, record: &Record<'_>) {
        self.records.push(StagedRecord {
            offset,
            next_offset: record.next_offset(offset),
            store_timestamp: record.store_timestamp,
            unit_count: 0,
            hash_count: 0,
            is_indexed: false,
        });
    }

    fn queue(&mut self, queue: QueueRef<'_>) -> usize {
        if let Some(&known) = self.known.get(&queue) {
            return known;
        }
        self.known.insert(queue.into(), self.queues.len());
        self.queues.push(queue.into());
        self.queues.len() - 1
    }

    fn put(&mut self, queue: QueueRef<'_>, new: NewUnit, is_light: bool) {
        let queue = self.queue(queue);
        self.units.push(StagedUnit { queue, new, is_light });
        if let Some(record) = self.records.last_mut() {
            record.unit_count += 1;
        }
    }

    /// Puts all of it into a store.
    ///
    /// # Errors
    /// As for [`Dispatcher::pass`]; the dispatcher stands before the record at which it stopped.
    pub(super) fn put_into(self, dispatcher: &Dispatcher, store: &ToStore<'_>) -> Result<()> {
        let mut queues: Vec<Option<Arc<ConsumeQueue>>> = vec![None; self.queues.len()];
        let mut units = self.units.into_iter();
        let mut hashes = self.hashes.as_slice();
        for record in self.records {
            for StagedUnit { queue, new, is_light } in units.by_ref().take(record.unit_count) {
                let Some((key, found)) = self.queues.get(queue).zip(queues.get_mut(queue)) else { continue };
                let at = QueueRef { topic: &key.topic, queue_id: key.queue_id };
                let found = match found {
                    Some(found) => found,
                    None => found.insert(store.targets.queues.get_or_make(at)?),
                };
                if is_light { store.put_light(at, found, new)? } else { store.put(at, found, new)? }
            }
            let (own, rest) = hashes.split_at_checked(record.hash_count).unwrap_or_default();
            if let (Some(index), true) = (store.targets.index, record.is_indexed) {
                if let Some(&ahead) = rest.get(PREFETCHED) {
                    index.prefetch_slot(ahead);
                }
                index.build_index(own.iter().copied(), record.offset, record.store_timestamp)?;
            }
            hashes = rest;
            dispatcher.reached(record.next_offset, record.store_timestamp);
        }
        Ok(())
    }
}

impl Derived for Staged {
    fn put_unit(&mut self, queue: QueueRef<'_>, new: NewUnit) -> Result<()> {
        self.put(queue, new, false);
        Ok(())
    }

    fn put_light_unit(&mut self, queue: QueueRef<'_>, new: NewUnit) -> Result<()> {
        self.put(queue, new, true);
        Ok(())
    }

    fn put_keys(
        &mut self,
        hashes: impl Iterator<Item = u32>,
        _offset: u64,
        _store_timestamp: i64,
    ) -> Result<()> {
        let before = self.hashes.len();
        self.hashes.extend(hashes);
        if let Some(record) = self.records.last_mut() {
            record.hash_count = self.hashes.len() - before;
            record.is_indexed = true;
        }
        Ok(())
    }
}
