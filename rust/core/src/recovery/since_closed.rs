//! What a store's queues have lost since its writer closed it.
//!
//! Nothing in a queue's files says how many units they hold, and a queue without a folder looks as one that never was. What the
//! writer left ([`crate::closed`]) tells both, wherever in the log the queue's records stand. 4.9.3 leaves nothing: it gives the
//! offsets of what was lost to other messages.

use super::Recovered;
use crate::commit_log::topic_queue::QueueRef;

/// Where dispatch has to begin so that the queues get back what they had, or with the log's first record if that is behind it; `None`
/// where they have it. The queues' ends are set.
///
/// A queue whose last record is gone with an expired file gets nothing back. One that was removed by 4.9.3 comes back, if that has
/// put nothing since: rather so than that the next messages get its offsets.
pub(super) fn first_lost(of: Recovered<'_>, log_end: u64) -> Option<u64> {
    let min_offset = of.log.min_offset().unwrap_or(log_end);
    let lost = of.closed?.queues(log_end).filter(|queue| queue.reached > min_offset).filter_map(|queue| {
        let name = QueueRef { topic: queue.topic, queue_id: queue.queue_id };
        let reached = of.queues.get_decoded(name).map_or(0, |found| found.reached());
        (reached < queue.reached).then_some(reached)
    });
    lost.min()
}
