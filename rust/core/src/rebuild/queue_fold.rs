//! Where a queue's units go, range by range in the log's order, as dispatch puts them one after the other.

use super::segment::{Place, Run};
use crate::consume_queue::{PlaceRule, UnitPlace};
use crate::num;

/// Consecutive units of one queue, of a staged range.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part {
    /// Where the range begins.
    pub(super) from: u64,
    /// The queue, by its place in the range's summary.
    pub(super) queue: u32,
    /// The first unit, by its place among the queue's of the range.
    pub(super) first: u64,
    /// The units.
    pub(super) run: Run,
}

/// What becomes of parts: places, each with its range's begin, and those among them that are taken back, or whose records say
/// another offset than they have.
#[derive(Debug, Default)]
pub(super) struct Changes {
    pub(super) placed: Vec<(u64, Place)>,
    pub(super) taken_back: Vec<(u64, Place)>,
    pub(super) displaced: Vec<(u64, Place)>,
}

/// A queue, as far as it is folded.
#[derive(Debug, Default)]
pub(super) struct QueueFold {
    /// Behind the last unit; `None` while there is none.
    end: Option<u64>,
    /// Units in the extension.
    ext_count: u64,
    /// Whether the last record that came to this queue has a unit in it.
    holds_last_record: bool,
    lone: Option<Lone>,
}

/// The queue's last unit, where nothing but blank ones stands before it that it brought: the next units tell whether it is
/// another place's, as in `consume_queue/refuted.rs`.
#[derive(Debug)]
struct Lone {
    from: u64,
    place: Place,
    /// The queue's end before it.
    end_before: Option<u64>,
    /// Parts that were left out since, because their offsets are before it.
    left_out: Vec<Part>,
    /// The offset of the last unit that was left out.
    doubting: Option<u64>,
}

impl QueueFold {
    /// Places units of consecutive offsets, of which the first ones may be there already.
    pub(super) fn put(&mut self, rule: PlaceRule, has_ext: bool, part: Part, changes: &mut Changes) {
        let run = part.run;
        if run.repeats && self.holds_last_record {
            return;
        }
        while !rule.compat && self.lone.as_ref().is_some_and(|lone| lone.is_refuted_by(run)) {
            self.take_back(rule, has_ext, changes);
        }
        let skipped = match self.end {
            Some(end) if run.cq_offset != 0 => end.saturating_sub(run.cq_offset).min(run.count),
            _ => 0,
        };
        let count = run.count - skipped;
        self.holds_last_record = count > 0;
        if count == 0 {
            self.leave_out(part);
            return;
        }
        let current = self.end;
        let offset = run.cq_offset + skipped;
        let Some(UnitPlace { blanks_from, index }) = rule.place(num::java_long(offset), current) else {
            return;
        };
        self.end = Some(index + count);
        let ext_index = (has_ext && run.with_ext).then_some(self.ext_count);
        if ext_index.is_some() {
            self.ext_count += count;
        }
        let place =
            Place { queue: part.queue, first: part.first + skipped, count, blanks_from, index, ext_index };
        changes.placed.push((part.from, place));
        if !rule.compat && run.cq_offset != 0 && index != offset {
            changes.displaced.push((part.from, place));
        }
        let is_lone = count == 1 && (current.is_none() || blanks_from < index);
        self.lone = is_lone.then(|| Lone {
            from: part.from,
            place,
            end_before: current,
            left_out: Vec::new(),
            doubting: None,
        });
    }

    fn leave_out(&mut self, part: Part) {
        if let Some(lone) = &mut self.lone {
            lone.left_out.push(part);
            lone.doubting = Some(part.run.cq_offset + part.run.count - 1);
        }
    }

    /// Takes the last unit back, and places what was left out because of it.
    fn take_back(&mut self, rule: PlaceRule, has_ext: bool, changes: &mut Changes) {
        let Some(Lone { from, place, end_before, left_out, .. }) = self.lone.take() else { return };
        changes.taken_back.push((from, place));
        self.end = end_before;
        if place.ext_index.is_some() {
            self.ext_count -= place.count;
        }
        for part in left_out {
            self.put(rule, has_ext, part, changes);
        }
    }
}

impl Lone {
    /// Whether units go on where the queue ended before it, or would if its message stood in between, or follow each other
    /// before it or up to its own place.
    fn is_refuted_by(&self, run: Run) -> bool {
        let (begin, last) = (self.place.blanks_from, self.place.index);
        let is_first = self.end_before.is_none();
        // For one that passed over nothing no other speaks.
        let end = if begin < last { last + 1 } else { last };
        let is_before = |offset: u64| offset < end && (is_first || offset >= begin);
        let follows = |offset: u64| offset == begin || offset == begin + 1;
        let offsets = run.cq_offset..run.cq_offset.saturating_add(run.count.min(end));
        let mut doubting = self.doubting;
        run.cq_offset != 0
            && offsets.take_while(|&offset| offset < end).any(|offset| {
                let before = doubting.replace(offset);
                is_before(offset) && (follows(offset) || before.is_some_and(|before| before + 1 == offset))
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: PlaceRule = PlaceRule { units_in_file: 4, compat: false };

    fn placed(changes: &Changes) -> Vec<(u64, u64)> {
        let stays = |each: &&(u64, Place)| !changes.taken_back.contains(each);
        let units = |(_, place): &(u64, Place)| {
            (0..place.count).map(|n| (place.first + n, place.index + n)).collect::<Vec<_>>()
        };
        let mut all: Vec<_> = changes.placed.iter().filter(stays).flat_map(units).collect();
        all.sort_unstable();
        all
    }

    fn part(first: u64, run: Run) -> Part {
        Part { from: 0, queue: 0, first, run }
    }

    /// Placing runs is the same as placing their units one after another.
    #[test]
    fn a_run_is_placed_as_its_units_are() {
        let mut seed = 1_u64;
        let mut random = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % below
        };
        let mut taken_back_count = 0;
        for round in 0..4000 {
            let rule = PlaceRule { compat: round % 2 == 1, ..RULE };
            let (mut by_run, mut by_unit) = (QueueFold::default(), QueueFold::default());
            let (mut of_runs, mut of_units) = (Changes::default(), Changes::default());
            let mut first = 0;
            for _ in 0..random(6) {
                let count = 1 + random(5);
                let run = Run { cq_offset: random(30), count, with_ext: random(2) == 0, repeats: false };
                let alone = if run.cq_offset == 0 { 1 } else { run.count };
                let rest = Run { cq_offset: run.cq_offset + alone, count: run.count - alone, ..run };
                for (at, each) in [(first, Run { count: alone, ..run }), (first + alone, rest)] {
                    if each.count > 0 {
                        by_run.put(rule, true, part(at, each), &mut of_runs);
                    }
                }
                for number in 0..run.count {
                    let unit = Run { cq_offset: run.cq_offset + number, count: 1, ..run };
                    by_unit.put(rule, true, part(first + number, unit), &mut of_units);
                }
                first += run.count;
                assert_eq!(placed(&of_runs), placed(&of_units), "round {round}: {run:?}");
                assert_eq!((by_run.end, by_run.ext_count), (by_unit.end, by_unit.ext_count));
            }
            taken_back_count += of_runs.taken_back.len();
        }
        assert!(taken_back_count > 100, "{taken_back_count}");
    }

    /// One unit after another, each with a part in the extension, by the offsets that their records say.
    fn folded(rule: PlaceRule, offsets: &[u64]) -> (QueueFold, Changes) {
        let (mut queue, mut changes) = (QueueFold::default(), Changes::default());
        for (first, &cq_offset) in (0..).zip(offsets) {
            let run = Run { cq_offset, count: 1, with_ext: true, repeats: false };
            queue.put(rule, true, part(first, run), &mut changes);
        }
        (queue, changes)
    }

    /// Which of them go where.
    #[test]
    fn a_unit_that_passed_over_others_goes_where_those_come() {
        type Case = (&'static [u64], &'static [(u64, u64)]);
        let cases: [Case; 10] = [
            // The queue goes on where it ended, or right behind that, or two follow each other further on.
            (&[0, 1, 9, 2], &[(0, 0), (1, 1), (3, 2)]),
            (&[0, 1, 9, 3], &[(0, 0), (1, 1), (3, 3)]),
            (&[0, 1, 9, 5, 6], &[(0, 0), (1, 1), (3, 5), (4, 6)]),
            (&[0, 1, 9, 8, 9, 10], &[(0, 0), (1, 1), (3, 8), (4, 9), (5, 10)]),
            // A single one in between says nothing, nor does what follows it, or what was there before.
            (&[0, 1, 9, 5, 10], &[(0, 0), (1, 1), (2, 9), (4, 10)]),
            (&[0, 1, 9, 10, 2, 3], &[(0, 0), (1, 1), (2, 9), (3, 10)]),
            (&[0, 1, 2, 9, 1, 2], &[(0, 0), (1, 1), (2, 2), (3, 9)]),
            (&[0, 1, 9, 0], &[(0, 0), (1, 1), (2, 9), (3, 10)]),
            // Of a queue's first one those before it tell, too.
            (&[9, 2, 3], &[(1, 2), (2, 3)]),
            (&[9, 2, 4], &[(0, 9)]),
        ];
        for (offsets, expected) in cases {
            let (queue, changes) = folded(RULE, offsets);
            assert_eq!(placed(&changes), expected, "{offsets:?}");
            assert_eq!(queue.ext_count, num::offset(expected.len()), "{offsets:?}");
            let (_, as_4_9_3) = folded(PlaceRule { compat: true, ..RULE }, offsets);
            assert!(as_4_9_3.taken_back.is_empty(), "{offsets:?}");
        }
    }

    #[test]
    fn a_unit_elsewhere_than_its_record_says_is_told() {
        let (_, changes) = folded(RULE, &[0, 1, 5000, 3, 0]);
        assert_eq!(placed(&changes), [(0, 0), (1, 1), (2, 2), (3, 3), (4, 4)]);
        assert_eq!(changes.displaced.iter().map(|(_, place)| place.index).collect::<Vec<_>>(), [2]);
        let (_, as_4_9_3) = folded(PlaceRule { compat: true, ..RULE }, &[0, 1, 5000, 9]);
        assert!(as_4_9_3.displaced.is_empty());
    }

    #[test]
    fn a_record_that_names_a_queue_twice_has_one_unit_in_it() {
        let (mut queue, mut changes) = (QueueFold::default(), Changes::default());
        let run = Run { cq_offset: 0, count: 1, with_ext: false, repeats: false };
        queue.put(RULE, false, part(0, run), &mut changes);
        queue.put(RULE, false, part(1, Run { cq_offset: 1, repeats: true, ..run }), &mut changes);
        assert_eq!((placed(&changes), queue.end), (vec![(0, 0)], Some(1)));
    }
}
