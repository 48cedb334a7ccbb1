//! Where a unit goes in its queue. Source: `putMessagePositionInfo` and `fillPreBlank`.

use crate::num;

/// More files of blank units than these, and so many units, fill no gap: nothing covers the offset in
/// a record, and believing any would fill memory and disk with blanks.
const MAX_GAP_FILES: u64 = 16;
const MAX_GAP_UNITS: u64 = 1024;
/// Offsets whose place in the files no `long` can say are none.
const MAX_OFFSET: u64 = 1 << 58;

/// What decides beside the unit's own offset.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PlaceRule {
    /// Units of a queue file.
    pub(crate) units_in_file: u64,
    /// As 4.9.3: a gap in the offsets is closed, so that the unit and all behind it are found under
    /// a wrong offset.
    pub(crate) compat: bool,
}

/// Where a unit goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct UnitPlace {
    /// Blank units fill the queue from here up to the unit.
    pub(crate) blanks_from: u64,
    /// The unit's index.
    pub(crate) index: u64,
}

impl PlaceRule {
    const fn max_gap(self) -> u64 {
        self.units_in_file * MAX_GAP_FILES + MAX_GAP_UNITS
    }

    /// Whether a unit goes where it says, or is there already. One with offset 0 says nothing: a queue that was
    /// removed begins with it again.
    pub(crate) fn is_within_reach(self, cq_offset: i64, current: Option<u64>) -> bool {
        let is_there = |place: UnitPlace| num::java_long(place.index) == cq_offset;
        cq_offset == 0 || self.place(cq_offset, current).is_none_or(is_there)
    }

    /// Whether a queue that goes on at one offset can go on at a later one: a new queue at any that there is.
    pub(crate) const fn can_pass_over(self, next: i64, later: i64) -> bool {
        match (num::from_java_long(next), num::from_java_long(later)) {
            (_, Some(later)) if later >= MAX_OFFSET => false,
            (Some(next), Some(later)) if next > 0 => later.saturating_sub(next) <= self.max_gap(),
            _ => true,
        }
    }

    /// The place of a unit that says it has an offset, in a queue that ends at `current`, or that is
    /// empty. `None` where the queue has the unit already.
    ///
    /// A unit with offset 0, or one that no queue reaches, goes to the queue's end. An empty queue whose first
    /// message is not its number 0 begins with blank units, from its file's start on.
    pub(crate) const fn place(self, cq_offset: i64, current: Option<u64>) -> Option<UnitPlace> {
        let expected = match num::from_java_long(cq_offset) {
            Some(offset) if offset < MAX_OFFSET => offset,
            _ => 0,
        };
        match current {
            None => {
                let blanks_from = expected - expected % self.units_in_file;
                Some(UnitPlace { blanks_from, index: expected })
            }
            Some(end) if expected == 0 || expected.saturating_sub(end) > self.max_gap() => {
                Some(UnitPlace { blanks_from: end, index: end })
            }
            Some(end) if expected < end => None,
            Some(end) => {
                let index = if self.compat { end } else { expected };
                Some(UnitPlace { blanks_from: end, index })
            }
        }
    }
}
