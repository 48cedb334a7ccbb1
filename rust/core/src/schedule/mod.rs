//! Delivering delayed messages: a pass takes what is due from a level's queue of the schedule topic
//! and puts it to its real topic and queue.
//!
//! A unit of that queue has the time of delivery where others have the tag's hash. Within a level
//! messages come due in the order in which they were put, so that a pass ends at the first that is
//! not due. Source: `ScheduleMessageService`.
//!
//! Messages that are delivered at any time, which 4.9.3 does not have, are called timed here: [`timed`].

mod delivery;
mod level;
pub mod mended;
mod progress;
pub mod timed;
mod timeup;
mod window;

use crate::format::cq_ext_unit::is_ext_addr;
use crate::store::PutRefusal;

/// How far a pass over a level came.
#[derive(Debug, Default)]
pub struct LevelPass {
    /// Where the next pass goes on.
    pub next_offset: u64,
    /// Messages that were put to their topics.
    pub delivered_count: u64,
    /// When the first message that waits is due, in milliseconds; `None` where none waits.
    pub next_due_ms: Option<i64>,
    /// Messages that can't be delivered at all, and were passed over. They stay where they are.
    pub undeliverable: Vec<Undeliverable>,
    /// Why the store took no more; the next pass tries again.
    pub refusal: Option<PutRefusal>,
}

/// A delayed message that can't be delivered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Undeliverable {
    /// Its offset in the level's queue.
    pub queue_offset: u64,
    /// Where its record stands in the log.
    pub physical_offset: u64,
    /// Why.
    pub reason: String,
}

/// The time of delivery that a unit has; `None` where it has a tag's hash, since 4.9.3 made it, or
/// points into an extension that is not there.
fn due_time(code: i64) -> Option<i64> {
    (i32::try_from(code).is_err() && !is_ext_addr(code)).then_some(code)
}
