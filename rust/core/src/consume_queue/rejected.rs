//! Units and messages that do not agree: how many there were, and the first ones.

use std::fmt;

use super::{ConsumeQueue, NewUnit};
use crate::format::message::RecordFault;
use crate::num;
use crate::sync::{AtomicU64, Mutex, Ordering};

/// How many are remembered.
const MAX_REMEMBERED: usize = 64;

/// A unit whose record did not agree with it, or was none; or a message that is not where it says in its queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejected {
    /// The queue's topic.
    pub topic: String,
    /// The queue.
    pub queue_id: i32,
    /// The unit's index, or the message's own offset.
    pub queue_offset: i64,
    /// What the unit points at, or where the message stands in the log.
    pub physical_offset: i64,
    /// What is wrong.
    pub reason: RejectReason,
}

/// Why a unit, or a message, is not served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RejectReason {
    /// The record there is none.
    Fault(RecordFault),
    /// The record there is another message's.
    AnotherMessage,
    /// The queue had another message at this offset, or does not come to it, when dispatch came to the message.
    OffsetTaken,
}

impl fmt::Display for RejectReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fault(fault) => fault.fmt(f),
            Self::AnotherMessage => f.write_str("the record there is another message's"),
            Self::OffsetTaken => f.write_str(
                "the message is not served: its queue had another one at this offset already, or does not come to it",
            ),
        }
    }
}

/// All of a store since it was opened.
#[derive(Debug, Default)]
pub struct RejectedUnits {
    count: AtomicU64,
    first: Mutex<Vec<Rejected>>,
}

impl RejectedUnits {
    /// Counts one, and remembers the first ones.
    pub(crate) fn add(
        &self,
        queue: &ConsumeQueue,
        queue_offset: i64,
        physical_offset: i64,
        reason: RejectReason,
    ) {
        self.count.fetch_add(1, Ordering::Relaxed);
        let (topic, queue_id) = (queue.topic().to_owned(), queue.queue_id());
        let rejected = Rejected { topic, queue_id, queue_offset, physical_offset, reason };
        let mut first = self.first.lock();
        if first.len() < MAX_REMEMBERED && !first.contains(&rejected) {
            first.push(rejected);
        }
    }

    pub(super) fn add_out_of_place(&self, queue: &ConsumeQueue, new: &NewUnit) {
        self.add(queue, new.cq_offset, new.unit.physical_offset, RejectReason::OffsetTaken);
    }

    /// Forgets messages of some queues from an offset of the log on, as far as they are remembered: those queues end before it,
    /// and what comes for them is dispatched anew.
    pub(crate) fn forget_from(&self, physical_offset: u64, ends_there: impl Fn(&Rejected) -> bool) {
        let mut first = self.first.lock();
        let before = first.len();
        first.retain(|rejected| {
            rejected.reason != RejectReason::OffsetTaken
                || !ends_there(rejected)
                || num::from_java_long(rejected.physical_offset)
                    .is_some_and(|offset| offset < physical_offset)
        });
        self.count.fetch_sub(num::offset(before - first.len()), Ordering::Relaxed);
    }

    /// How many there were.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// The first of them.
    #[must_use]
    pub fn first(&self) -> Vec<Rejected> {
        self.first.lock().clone()
    }
}
