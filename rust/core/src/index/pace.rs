//! Whether look-ups by key wait for the disk.
//!
//! A look-up touches a page each for slot, entry and record, all of them far from those of the next one. A mapping's page
//! that is not in memory comes with those around it, as many as the system reads ahead: megabytes, of which nothing
//! else is looked at. So where look-ups are slow the pages that they touch are asked for alone, before they are touched.
//! That costs a call of the system each, which a look-up that finds all in memory does without.

use std::time::{Duration, Instant};

use crate::sync::{AtomicU32, Ordering};

/// So many look-ups after a slow one count as slow, and the first ones.
const LOOK_UPS: u32 = 64;
/// A look-up that takes longer for each file that it looks into has waited for the disk, or for its turn.
const SLOW: Duration = Duration::from_micros(50);
/// While they are quick, one call in so many is timed: a clock costs as much as a part of the look-up.
const TIMED_ONE_IN: u32 = 8;

/// How fast the last look-ups were.
#[derive(Debug)]
pub struct Pace {
    slow_left: AtomicU32,
    call_count: AtomicU32,
}

impl Default for Pace {
    fn default() -> Self {
        Self { slow_left: AtomicU32::new(LOOK_UPS), call_count: AtomicU32::new(0) }
    }
}

impl Pace {
    /// Whether pages are to be asked for before they are touched.
    pub(super) fn is_slow(&self) -> bool {
        self.slow_left.load(Ordering::Relaxed) > 0
    }

    /// When a call begins, where it is timed.
    pub(super) fn begin(&self) -> Option<Instant> {
        let call = self.call_count.fetch_add(1, Ordering::Relaxed);
        (self.is_slow() || call.is_multiple_of(TIMED_ONE_IN)).then(Instant::now)
    }

    /// So many look-ups in so many files have been done since a time.
    pub(super) fn took(&self, since: Instant, count: usize, file_count: usize) {
        let bounded = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let count = bounded(count);
        let is_slow = since.elapsed() > SLOW.saturating_mul(count).saturating_mul(bounded(file_count));
        // Where two threads are here at once the count of one is lost, which is a hint less or more.
        let left = self.slow_left.load(Ordering::Relaxed);
        let next = if is_slow { LOOK_UPS } else { left.saturating_sub(count) };
        if next != left {
            self.slow_left.store(next, Ordering::Relaxed);
        }
    }
}
