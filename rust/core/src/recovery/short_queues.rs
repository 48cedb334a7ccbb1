//! Queues that end before their last message.
//!
//! Nothing in a queue's files says how many units they hold: zeros end it, and what is no unit. But in a store that was
//! closed every record has its unit. So the walk for the log's end notes where the last record of each queue stands:
//! one behind its queue's last unit tells that the queue lost its end. 4.9.3 goes by the queue that reaches furthest, and
//! gives the others' next offsets to other messages.
//!
//! In one that was not closed the queues are dispatched again from where they were known to be whole. Files that are older
//! than what is known, as in a copy that was made of a live store file by file, lack units from before that: there the first
//! record that is dispatched again of a queue tells, if it is not the next one of that queue.

use std::ops::ControlFlow;
use std::sync::Arc;

use hashbrown::HashMap;

use super::Recovered;
use crate::commit_log::scan;
use crate::commit_log::topic_queue::QueueKey;
use crate::consume_queue::ConsumeQueue;
use crate::dispatch::keeps_its_queues;
use crate::error::Result;
use crate::format::message::{Check, Record};
use crate::num;
use crate::removed_queues::RemovedQueues;

/// Which records of each queue a walk has come by.
#[derive(Debug, Default)]
pub struct WalkedQueues(HashMap<QueueKey, Walked>);

/// Those of one queue.
#[derive(Debug, Clone, Copy)]
struct Walked {
    /// The first one's offset in the queue.
    first: i64,
    /// Where the last one stands.
    last: u64,
}

impl WalkedQueues {
    /// Adds the next record.
    pub(super) fn record(&mut self, removed: &RemovedQueues, offset: u64, record: &Record<'_>) {
        let Some(queue) = removed.queue_of(offset, record) else { return };
        match self.0.get_mut(&queue) {
            Some(walked) => walked.last = offset,
            None => _ = self.0.insert(queue.into(), Walked { first: record.queue_offset, last: offset }),
        }
    }

    /// Adds those of the next part of the log.
    pub(super) fn part(&mut self, part: Self) {
        for (queue, walked) in part.0 {
            self.0.entry(queue).and_modify(|known| known.last = walked.last).or_insert(walked);
        }
    }
}

/// The first record whose queue lost its unit. The queues' ends are set.
///
/// A record counts where it has just the place behind its queue's end: one that is in no queue because it says a place that
/// it does not have says hardly ever this one. A queue without a folder was removed, but for those that nobody removes: of such
/// a one everything is dispatched again.
///
/// # Errors
/// Where the log can't be read.
pub(super) fn first_lost(of: Recovered<'_>, walked: &WalkedQueues, log_end: u64) -> Result<Option<u64>> {
    let is_gone =
        |key: &QueueKey| keeps_its_queues(&key.topic) && of.queues.get_decoded(key.as_ref()).is_none();
    if !of.queues.is_part() && walked.0.keys().any(is_gone) {
        return Ok(Some(of.log.min_offset().unwrap_or(0)));
    }
    let found = |(key, walked): (&QueueKey, &Walked)| {
        let queue = of.queues.get_decoded(key.as_ref()).filter(|queue| walked.last >= queue.reached())?;
        Some((key.clone(), queue))
    };
    let mut short: HashMap<QueueKey, Arc<ConsumeQueue>> = walked.0.iter().filter_map(found).collect();
    let Some(from) = short.values().map(|queue| queue.reached()).min() else { return Ok(None) };
    let mut first = None;
    let mut position = from.max(of.log.min_offset().unwrap_or(0));
    while position < log_end && first.is_none() && !short.is_empty() {
        let end = scan::scan(of.log.files(), position, log_end, Check::Structure, |offset, record, _| {
            if let Some(queue) = of.config.removed_queues.queue_of(offset, record)
                && short.get(&queue).is_some_and(|found| offset >= found.reached())
                && let Some(found) = short.remove(&queue)
                && num::from_java_long(record.queue_offset) == Some(found.max_offset_in_queue())
            {
                first = Some(offset);
            }
            let is_done = first.is_some() || short.is_empty();
            Ok(if is_done { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        let Err((bad, fault)) = end.reached() else { break };
        position = scan::next_valid(of.log.files(), bad, fault, log_end)?.unwrap_or(log_end);
    }
    Ok(first)
}

/// From where on queues lack units of records before those that are dispatched again, after an unclean stop. The queues' ends are
/// set. `known` is from where on they are dispatched again, at most where the walk began.
///
/// An offset that jumps for another reason costs no more than a dispatch of what queues have already. 4.9.3's queues close
/// gaps, so that their ends tell nothing.
///
/// # Errors
/// Where the log can't be read.
pub(super) fn first_before_walk(
    of: Recovered<'_>,
    walked: &WalkedQueues,
    known: u64,
    walked_from: u64,
) -> Result<Option<u64>> {
    if of.config.compat {
        return Ok(None);
    }
    let is_short = |(key, walked): (&QueueKey, &Walked)| {
        let (end, reached) = match of.queues.get_decoded(key.as_ref()) {
            Some(queue) => (queue.max_offset_in_queue(), queue.reached()),
            None if of.queues.is_part() => return None,
            None => (0, 0),
        };
        (walked.first > num::java_long(end)).then(|| (key.clone(), (end, reached)))
    };
    let mut short: HashMap<QueueKey, (u64, u64)> = walked.0.iter().filter_map(is_short).collect();
    if !short.is_empty() && known < walked_from {
        scan::scan(of.log.files(), known, walked_from, Check::Structure, |offset, record, _| {
            if let Some(queue) = of.config.removed_queues.queue_of(offset, record)
                && short.get(&queue).is_some_and(|&(end, _)| record.queue_offset == num::java_long(end))
            {
                short.remove(&queue);
            }
            let is_done = short.is_empty();
            Ok(if is_done { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
    }
    Ok(short.into_values().map(|(_, reached)| reached).min())
}
