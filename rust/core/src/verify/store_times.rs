//! The order of store times: a clock that was set back, or one record whose time is another than it was.

use super::FindingKind;

/// A record's place in the log and its store time.
pub(super) type At = (u64, i64);

/// What is wrong with an order, and at which record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Disorder {
    pub(super) kind: FindingKind,
    pub(super) offset: u64,
    pub(super) detail: String,
}

/// The store times of records one after another. What a step back is shows at the records around it.
#[derive(Debug, Default)]
pub(super) struct StoreTimes {
    /// Whether the first of them is the log's; else who takes those before it decides about a step behind it.
    is_log_begin: bool,
    before: Option<i64>,
    last: Option<At>,
    step: Option<Step>,
}

#[derive(Debug)]
struct Step {
    /// The time of the record before those two.
    before: Option<i64>,
    from: At,
    to: At,
}

impl StoreTimes {
    pub(super) fn new(is_log_begin: bool) -> Self {
        Self { is_log_begin, ..Self::default() }
    }

    /// Whether a step back waits for the record behind it.
    pub(super) const fn is_undecided(&self) -> bool {
        self.step.is_some()
    }

    /// Takes a record's time; gives what that says of the two before it.
    pub(super) fn next(&mut self, offset: u64, time: i64) -> Option<Disorder> {
        let found = self.decide(Some(time));
        let is_decided_here = self.is_log_begin || self.before.is_some();
        if let Some(from) = self.last.filter(|(_, last)| is_decided_here && time < *last) {
            self.step = Some(Step { before: self.before, from, to: (offset, time) });
        }
        self.before = self.last.map(|(_, last)| last);
        self.last = Some((offset, time));
        found
    }

    /// What a step back is, by the time behind it; `None` for no more record.
    pub(super) fn decide(&mut self, behind: Option<i64>) -> Option<Disorder> {
        let Step { before, from: (from_at, from), to: (to_at, to) } = self.step.take()?;
        // Two records on either side show that each goes on by itself. Of fewer the one that is there may be the odd one.
        let is_sustained = before.is_some_and(|before| to < before && before <= from)
            && behind.is_some_and(|behind| to <= behind && behind < from);
        if is_sustained {
            let detail =
                format!("the store time before it is {from}, its own {to}, and times go on from there");
            return Some(Disorder { kind: FindingKind::ClockSetBack, offset: to_at, detail });
        }
        let kind = FindingKind::TimeBackwards;
        let fits_without_from = before.is_some_and(|before| before <= to);
        let fits_without_to = behind.is_some_and(|behind| behind >= from);
        Some(if fits_without_from && !fits_without_to {
            let detail = format!("expected a store time of at most {to}, found {from}");
            Disorder { kind, offset: from_at, detail }
        } else {
            let detail = format!("expected a store time of at least {from}, found {to}");
            Disorder { kind, offset: to_at, detail }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(times: &[i64]) -> Vec<(FindingKind, u64)> {
        let mut order = StoreTimes::new(true);
        let mut found = Vec::new();
        for (offset, &time) in (0..).zip(times) {
            found.extend(order.next(offset, time));
        }
        found.extend(order.decide(None));
        found.into_iter().map(|found| (found.kind, found.offset)).collect()
    }

    #[test]
    fn a_clock_that_was_set_back_is_told_from_one_odd_time() {
        let (odd, set_back) = (FindingKind::TimeBackwards, FindingKind::ClockSetBack);
        assert_eq!(told(&[1, 2, 2, 3]), []);
        assert_eq!(told(&[10, 11, 12, 5, 6, 11, 13]), [(set_back, 3)]);
        assert_eq!(told(&[10, 10, 5, 5, 10]), [(set_back, 2)]);
        assert_eq!(told(&[10, 11, 6, 7, 2, 3]), [(set_back, 2), (set_back, 4)]);
        assert_eq!(told(&[10, 11, 99, 12, 13]), [(odd, 2)], "too late");
        assert_eq!(told(&[10, 11, 2, 12, 13]), [(odd, 2)], "too early");
        assert_eq!(told(&[10, 10, 14, 10, 10]), [(odd, 2)]);
        assert_eq!(told(&[10, 10, 7, 10, 10]), [(odd, 2)]);
        assert_eq!(told(&[10, 20, 15, 30]), [(odd, 2)], "either");
        assert_eq!(told(&[10, 11, 12, 5]), [(odd, 3)], "the last one says nothing of what comes");
        assert_eq!(told(&[99, 5, 6, 7]), [(odd, 1)], "nor the first of what was before");
        assert_eq!(told(&[10, 9, 8, 7]), [(odd, 1), (odd, 2), (odd, 3)]);
    }
}
