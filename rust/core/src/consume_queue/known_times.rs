//! The store times of a queue's messages, as far as they were read, in little more than two bytes a message.
//!
//! A group's first time is kept whole, side by side with those of the other groups, so that halving touches few of the
//! cache's lines. Those behind it are kept as what they are later: a line of the cache holds all of a group. A time before its
//! group's first one, or a minute behind it, is not kept; it is read each time, as it is of a queue to which little is put.

use crate::num;
use crate::sync::{AtomicI64, AtomicU16, Ordering, RwLock, RwLockReadGuard};

/// How many units a group has. Its first one's index is a multiple of this.
pub(super) const GROUP_SIZE: u64 = 32;
const UNKNOWN_START: i64 = -1;
/// Of a time behind a group's first one. The others are one more than what they are later, in milliseconds.
const UNKNOWN: u16 = 0;

/// The known times of a queue. Empty until a time is looked up.
#[derive(Debug, Default)]
pub(super) struct KnownTimes(RwLock<Times>);

/// The times of the groups from one on.
#[derive(Debug, Default)]
pub(super) struct Times {
    first_group: u64,
    starts: Vec<AtomicI64>,
    /// Of each unit of these groups; a group's first one has none.
    behind: Vec<AtomicU16>,
}

impl KnownTimes {
    /// The times, with room for those of the units from `min` up to `max`. None where not all of these have a file
    /// (`are_there`): a file's name can say that there are more than any memory holds. Nor where another thread has forgotten
    /// them since, or has made room for others: a time without room is read.
    pub(super) fn covering(
        &self,
        min: u64,
        max: u64,
        are_there: impl FnOnce() -> bool,
    ) -> RwLockReadGuard<'_, Times> {
        let (first, end) = (min / GROUP_SIZE, max.div_ceil(GROUP_SIZE));
        let times = self.0.read();
        // Those of removed units are kept until they are as many as the others.
        let is_bloated = first.saturating_sub(times.first_group) * 2 > times.group_count();
        if times.first_group <= first && end <= times.end_group() && !is_bloated {
            return times;
        }
        drop(times);
        let mut times = self.0.write();
        if are_there() {
            times.cover(first, end);
        } else {
            *times = Times::default();
        }
        drop(times);
        self.0.read()
    }

    pub(super) fn read(&self) -> RwLockReadGuard<'_, Times> {
        self.0.read()
    }

    pub(super) fn forget(&self) {
        *self.0.write() = Times::default();
    }
}

impl Times {
    fn group_count(&self) -> u64 {
        num::offset(self.starts.len())
    }

    fn end_group(&self) -> u64 {
        self.first_group + self.group_count()
    }

    fn cover(&mut self, first: u64, end: u64) {
        if first < self.first_group || first > self.end_group() {
            *self = Self { first_group: first, ..Self::default() };
        }
        let gone = num::index(first - self.first_group);
        self.starts.drain(..gone);
        self.behind.drain(..gone * num::index(GROUP_SIZE));
        self.first_group = first;
        let count = num::index(end - first).max(self.starts.len());
        self.starts.resize_with(count, || AtomicI64::new(UNKNOWN_START));
        self.behind.resize_with(count * num::index(GROUP_SIZE), || AtomicU16::new(UNKNOWN));
    }

    /// Whether there is room for a unit's time.
    pub(super) fn has_room(&self, index: u64) -> bool {
        (self.first_group..self.end_group()).contains(&(index / GROUP_SIZE))
    }

    /// The time of a unit's message.
    pub(super) fn get(&self, index: u64) -> Option<i64> {
        let start = self.start_of(index)?.load(Ordering::Relaxed);
        if start == UNKNOWN_START || index.is_multiple_of(GROUP_SIZE) {
            return (start != UNKNOWN_START).then_some(start);
        }
        let behind = self.behind(index)?.load(Ordering::Relaxed);
        (behind != UNKNOWN).then(|| start.saturating_add(i64::from(behind) - 1))
    }

    /// Keeps the time of a unit's message, where it can be kept.
    pub(super) fn keep(&self, index: u64, time: i64) {
        let Some(start) = self.start_of(index) else { return };
        if index.is_multiple_of(GROUP_SIZE) {
            // Those behind it were kept by the time that it had when they were.
            let _ = start.compare_exchange(UNKNOWN_START, time, Ordering::Relaxed, Ordering::Relaxed);
            return;
        }
        let start = start.load(Ordering::Relaxed);
        if start == UNKNOWN_START {
            return;
        }
        let behind = time.checked_sub(start).and_then(|later| u16::try_from(later).ok()?.checked_add(1));
        if let (Some(behind), Some(place)) = (behind, self.behind(index)) {
            place.store(behind, Ordering::Relaxed);
        }
    }

    fn start_of(&self, index: u64) -> Option<&AtomicI64> {
        self.starts.get(num::index((index / GROUP_SIZE).checked_sub(self.first_group)?))
    }

    fn behind(&self, index: u64) -> Option<&AtomicU16> {
        self.behind.get(num::index(index.checked_sub(self.first_group * GROUP_SIZE)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(min: u64, max: u64) -> KnownTimes {
        let times = KnownTimes::default();
        drop(times.covering(min, max, || true));
        times
    }

    fn get(times: &KnownTimes, index: u64) -> Option<i64> {
        times.read().get(index)
    }

    fn keep(times: &KnownTimes, index: u64, time: i64) {
        times.read().keep(index, time);
    }

    #[test]
    fn a_time_is_kept_behind_its_groups_first() {
        let times = times(0, 100);
        keep(&times, 33, 1005);
        assert_eq!(get(&times, 33), None);
        keep(&times, 32, 1000);
        keep(&times, 33, 1000);
        keep(&times, 34, 1005);
        keep(&times, 35, 1000 + 65534);
        assert_eq!(
            [32, 33, 34, 35, 36, 64].map(|index| get(&times, index)),
            [Some(1000), Some(1000), Some(1005), Some(66534), None, None]
        );
    }

    #[test]
    fn what_is_before_the_first_or_far_behind_is_not_kept() {
        let times = times(0, 100);
        keep(&times, 0, 1000);
        keep(&times, 1, 999);
        keep(&times, 2, 1000 + 65535);
        keep(&times, 3, i64::MAX);
        assert_eq!([1, 2, 3].map(|index| get(&times, index)), [None; 3]);
    }

    #[test]
    fn a_groups_first_time_stays_what_the_others_count_from() {
        let times = times(0, 100);
        keep(&times, 0, 1000);
        keep(&times, 1, 1007);
        keep(&times, 0, 2000);
        assert_eq!([0, 1].map(|index| get(&times, index)), [Some(1000), Some(1007)]);
    }

    #[test]
    fn times_stay_where_the_queue_grows_and_loses_its_first() {
        let times = times(10, 200);
        keep(&times, 160, 1000);
        keep(&times, 161, 1001);
        drop(times.covering(10, 1000, || true));
        assert_eq!([160, 161, 999].map(|index| get(&times, index)), [Some(1000), Some(1001), None]);
        drop(times.covering(150, 160, || true));
        assert!(times.read().has_room(31), "few of many are gone");
        drop(times.covering(96, 1000, || true));
        drop(times.covering(600, 1000, || true));
        assert!(!times.read().has_room(599 - 600 % 32));
        drop(times.covering(160, 1000, || true));
        assert_eq!(get(&times, 160), None);
    }

    #[test]
    fn nothing_is_kept_of_units_without_files() {
        let times = KnownTimes::default();
        drop(times.covering(0, u64::MAX / 20, || false));
        keep(&times, 0, 1);
        assert_eq!(get(&times, 0), None);
        keep(&times, u64::MAX, 1);
        assert_eq!(get(&times, u64::MAX), None);
    }
}
