//! Queues that were removed: what of their messages the queues may still have.

use std::collections::BTreeMap;

use mqstore_core::commit_log::topic_queue::QueueRef;
use mqstore_core::store::Store;

use crate::check::Found;

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
    /// The last one that has.
    done: Option<Last>,
}

impl Removals {
    /// A removal begins, of a queue with this last message.
    pub(crate) fn begin(&mut self, topic: &str, queue_id: i32, last: Option<Last>) {
        self.0.entry((topic.into(), queue_id)).or_default().tried.extend(last);
    }

    /// The last one that began is done.
    pub(crate) fn end(&mut self, topic: &str, queue_id: i32) {
        let removed = self.0.entry((topic.into(), queue_id)).or_default();
        removed.done = removed.tried.last().cloned();
    }

    /// The store that recovered a log has these, and each of the queues went by one of the removals or by none.
    /// The log's messages without those that were removed.
    pub(crate) fn left(&self, store: &Store, found: &[Found]) -> Vec<Found> {
        let mut left = found.to_vec();
        for ((topic, queue_id), removed) in &self.0 {
            let queue = QueueRef { topic: topic.as_bytes(), queue_id: *queue_id };
            let is_there =
                |(at, name): &Last| found.iter().any(|found| found.offset == *at && found.name == *name);
            let tried: Vec<_> =
                removed.tried.iter().filter(|last| is_there(last)).map(|last| last.0).collect();
            let last = store.config().removed_queues.last_of(queue);
            assert!(
                last.is_none_or(|last| tried.contains(&last)),
                "{topic} {queue_id}: {last:?}, {removed:?}"
            );
            if let Some(done) = removed.done.as_ref().filter(|done| is_there(done)) {
                assert!(last >= Some(done.0), "{topic} {queue_id} is back: {last:?}, {removed:?}");
            }
            left.retain(|found| {
                (&found.topic, found.queue_id) != (topic, *queue_id) || Some(found.offset) > last
            });
        }
        left
    }
}
