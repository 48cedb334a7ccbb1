//! Queues that were removed: what of their messages the queues may still have.

use std::cell::Cell;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use mqstore_core::commit_log::topic_queue::QueueRef;
use mqstore_core::consume_queue::ConsumeQueue;
use mqstore_core::error::Result;
use mqstore_core::format::message::decode_record;
use mqstore_core::store::Store;

use crate::check::Found;
use crate::workload::{Outcome, Put, TOPICS, name_of, put};

/// Queues of a topic that go, and what is put meanwhile.
#[derive(Debug)]
pub(crate) struct Removal {
    pub(crate) topic: &'static str,
    pub(crate) queue_ids: Vec<i32>,
    /// Once all was dispatched, and before the queues go: one that gets a message stays.
    pub(crate) before: Vec<Put>,
    /// While their files go.
    pub(crate) beside: Vec<Put>,
}

impl Removal {
    /// Removes the queues by one of the ways that there are.
    pub(crate) fn make(&self, store: &Store) -> Result<Outcome> {
        let queues: Vec<_> = self
            .queue_ids
            .iter()
            .filter_map(|id| self.dispatched(store, *id).transpose())
            .collect::<Result<_>>()?;
        let mut outcome = Outcome::default();
        match queues.as_slice() {
            [] => {}
            [queue] if self.before.is_empty() => store.destroy_queue(queue)?,
            _ if self.before.is_empty() => {
                let used = TOPICS.into_iter().filter(|topic| *topic != self.topic);
                store.clean_unused_topic(&used.map(str::to_owned).collect::<HashSet<_>>())?;
            }
            queues => {
                let is_first = Cell::new(true);
                let meanwhile = Cell::new(Outcome::default());
                store.destroy_queues(queues, |_| {
                    if is_first.take() {
                        meanwhile.set(put(store, &self.before)?);
                    }
                    Ok(true)
                })?;
                outcome = meanwhile.take();
            }
        }
        let stays = |queue: &Arc<ConsumeQueue>| {
            let now = store.find_consume_queue(self.topic, queue.queue_id());
            now.is_some_and(|now| Arc::ptr_eq(&now, queue))
        };
        let removed = queues.iter().filter(|queue| !stays(queue));
        outcome.removed = removed.map(|queue| queue.queue_id()).collect();
        Ok(outcome)
    }

    /// All messages that it puts.
    pub(crate) fn puts(&self) -> impl Iterator<Item = &Put> {
        self.before.iter().chain(&self.beside)
    }

    /// The last message of each queue.
    pub(crate) fn last(&self, store: &Store) -> Vec<Option<Last>> {
        // What can't be read is not removed; but some calls fail once for each file, and what was read in vain a
        // few times is mapped.
        let last_of = |id: &i32| (0..32).find_map(|_| self.last_of(store, *id));
        self.queue_ids.iter().map(last_of).collect()
    }

    fn last_of(&self, store: &Store, queue_id: i32) -> Option<Last> {
        let queue = self.dispatched(store, queue_id).ok()??;
        let unit = queue.unit(queue.max_offset_in_queue().checked_sub(1)?).ok()??;
        let (offset, size) = unit.place()?;
        let record = store.log().get_message(offset, size).ok()??;
        Some((offset, name_of(decode_record(&record)?.body)))
    }

    fn dispatched(&self, store: &Store, queue_id: i32) -> Result<Option<Arc<ConsumeQueue>>> {
        store.log().commit(0)?;
        store.reput()?;
        Ok(store.find_consume_queue(self.topic, queue_id))
    }
}

/// Removals by topic and queue.
#[derive(Debug, Clone, Default)]
pub(crate) struct Removals(BTreeMap<(String, i32), Removed>);

/// A queue's last message when it was removed: where it stood in the log, and its name. After a crash another
/// one can stand there.
pub(crate) type Last = (u64, String);

/// The removals of a queue.
#[derive(Debug, Clone, Default)]
struct Removed {
    /// Those that may have come to pass.
    tried: Vec<Last>,
    /// The one of them that has just begun.
    begun: Option<Last>,
    /// The last one that has.
    done: Option<Last>,
}

impl Removals {
    /// A removal begins, of queues with these last messages.
    pub(crate) fn begin(&mut self, removal: &Removal, last: Vec<Option<Last>>) {
        for (queue_id, last) in removal.queue_ids.iter().zip(last) {
            let removed = self.0.entry((removal.topic.into(), *queue_id)).or_default();
            removed.begun.clone_from(&last);
            removed.tried.extend(last);
        }
    }

    /// It is done, of these of the queues: the others are as they were.
    pub(crate) fn end(&mut self, removal: &Removal, done: &[i32]) {
        for queue_id in &removal.queue_ids {
            let removed = self.0.entry((removal.topic.into(), *queue_id)).or_default();
            let Some(last) = removed.begun.take() else { continue };
            if done.contains(queue_id) {
                removed.done = Some(last);
            } else {
                assert_eq!(removed.tried.pop(), Some(last));
            }
        }
    }

    /// Removals of which the log that was recovered has lost the last message are over: another copy of it can come
    /// to stand there.
    pub(crate) fn recovered(&mut self, found: &[Found]) {
        for removed in self.0.values_mut() {
            removed.tried.retain(|last| is_there(found, last));
            removed.done.take_if(|last| !is_there(found, last));
        }
    }

    /// The store that recovered a log has these, and each of the queues went by one of the removals or by none.
    /// The log's messages without those that were removed.
    pub(crate) fn left(&self, store: &Store, found: &[Found]) -> Vec<Found> {
        let mut left = found.to_vec();
        for ((topic, queue_id), removed) in &self.0 {
            let queue = QueueRef { topic: topic.as_bytes(), queue_id: *queue_id };
            let is_there = |last: &&Last| is_there(found, last);
            let tried: Vec<_> = removed.tried.iter().filter(is_there).map(|last| last.0).collect();
            let last = store.config().removed_queues.last_of(queue);
            assert!(
                last.is_none_or(|last| tried.contains(&last)),
                "{topic} {queue_id}: {last:?}, {removed:?}"
            );
            if let Some(done) = removed.done.as_ref().filter(is_there) {
                assert!(last >= Some(done.0), "{topic} {queue_id} is back: {last:?}, {removed:?}");
            }
            left.retain(|found| {
                (&found.topic, found.queue_id) != (topic, *queue_id) || Some(found.offset) > last
            });
        }
        left
    }
}

fn is_there(found: &[Found], (at, name): &Last) -> bool {
    found.iter().any(|found| found.offset == *at && found.name == *name)
}
