//! Queues of a closed store that end before their last message.
//!
//! Nothing in a queue's files says how many units they hold: zeros end it, and what is no unit. But in a store that was
//! closed every record has its unit. So the walk for the log's end notes where the last record of each queue stands:
//! one behind its queue's last unit tells that the queue lost its end. 4.9.3 goes by the queue that reaches furthest, and
//! gives the others' next offsets to other messages.

use std::ops::ControlFlow;
use std::sync::Arc;

use hashbrown::HashMap;

use super::Recovered;
use crate::commit_log::scan;
use crate::commit_log::topic_queue::QueueKey;
use crate::consume_queue::ConsumeQueue;
use crate::error::Result;
use crate::format::message::{Check, Record};
use crate::num;
use crate::removed_queues::RemovedQueues;

/// Where the last record of each queue stands that a walk has come by.
#[derive(Debug, Default)]
pub struct LastRecords(HashMap<QueueKey, u64>);

impl LastRecords {
    /// Adds the next record.
    pub(super) fn record(&mut self, removed: &RemovedQueues, offset: u64, record: &Record<'_>) {
        let Some(queue) = removed.queue_of(offset, record) else { return };
        match self.0.get_mut(&queue) {
            Some(last) => *last = offset,
            None => _ = self.0.insert(queue.into(), offset),
        }
    }

    /// Adds those of the next part of the log.
    pub(super) fn part(&mut self, part: Self) {
        self.0.extend(part.0);
    }
}

/// The first record whose queue lost its unit. The queues' ends are set.
///
/// A record counts where it has just the place behind its queue's end: one that is in no queue because it says a place that
/// it does not have says hardly ever this one. A queue without a folder was removed.
///
/// # Errors
/// Where the log can't be read.
pub(super) fn first_lost(of: Recovered<'_>, lasts: &LastRecords, log_end: u64) -> Result<Option<u64>> {
    let found = |(key, &last): (&QueueKey, &u64)| {
        let queue = of.queues.get_decoded(key.as_ref()).filter(|queue| last >= queue.reached())?;
        Some((key.clone(), queue))
    };
    let mut short: HashMap<QueueKey, Arc<ConsumeQueue>> = lasts.0.iter().filter_map(found).collect();
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
