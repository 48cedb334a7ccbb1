//! Which timed messages are delivered, told in a few numbers however many there are.
//!
//! Messages are delivered in the order of their due times, so one mark says it of all that were
//! looked at: those before it are delivered. A message that comes in with a due time before the mark,
//! because it was short or the clock was set back, begins a new mark with smaller times for what is
//! looked at from then on; the old one goes once the new one has caught up with it.

use crate::format::timed_progress::TimedProgress;

/// A message's place in the order of delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TimedKey {
    /// When it is due, in milliseconds.
    pub(super) due_ms: i64,
    /// Its offset in the queue.
    pub(super) queue_offset: u64,
}

impl TimedKey {
    /// Before every message.
    const FIRST: Self = Self { due_ms: i64::MIN, queue_offset: 0 };

    /// The first place behind it.
    fn next(self) -> Self {
        Self { queue_offset: self.queue_offset.saturating_add(1), ..self }
    }
}

/// Of messages at offsets below `to`, those before `up_to` are delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Mark {
    to: u64,
    up_to: TimedKey,
}

/// What is delivered. A message is spoken of by the first mark that it is below; marks have growing
/// offsets and falling times.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Progress {
    first: u64,
    last_physical_offset: u64,
    marks: Vec<Mark>,
}

impl Progress {
    /// Every message at a smaller offset of the queue is delivered.
    pub(super) const fn first(&self) -> u64 {
        self.first
    }

    /// Up to where the queue was looked at.
    pub(super) fn scanned_to(&self) -> u64 {
        self.marks.last().map_or(0, |last| last.to)
    }

    /// Where the record of the last message that was looked at stands in the log.
    pub(super) const fn last_physical_offset(&self) -> u64 {
        self.last_physical_offset
    }

    /// Whether a message that was looked at is delivered; one that was not is not.
    pub(super) fn is_delivered(&self, key: TimedKey) -> bool {
        let mark = self.marks.iter().find(|mark| key.queue_offset < mark.to);
        mark.is_some_and(|mark| key < mark.up_to)
    }

    /// The queue was looked at up to an offset; `earliest` is the first key of what is new, and the
    /// last one's record stands at `last_physical_offset` in the log.
    pub(super) fn scanned(&mut self, to: u64, earliest: Option<TimedKey>, last_physical_offset: u64) {
        if to <= self.scanned_to() {
            return;
        }
        self.last_physical_offset = last_physical_offset;
        let up_to = self.marks.last().map_or(TimedKey::FIRST, |last| last.up_to);
        match (self.marks.last_mut(), earliest) {
            (Some(_), Some(earliest)) if earliest < up_to => self.marks.push(Mark { to, up_to: earliest }),
            (Some(last), _) => last.to = to,
            (None, _) => self.marks.push(Mark { to, up_to }),
        }
    }

    /// Everything that was looked at is delivered up to and with a message.
    pub(super) fn delivered(&mut self, key: TimedKey) {
        let Some(mut last) = self.marks.pop() else { return };
        last.up_to = last.up_to.max(key.next());
        while self.marks.last().is_some_and(|before| before.up_to <= last.up_to) {
            self.marks.pop();
        }
        self.marks.push(last);
    }

    /// The queue has lost its last messages: it ends at an offset, where what comes next was not looked at.
    pub(super) fn cut(&mut self, to: u64, last_physical_offset: u64) {
        self.first = self.first.min(to);
        self.last_physical_offset = last_physical_offset;
        let kept = self.marks.iter().position(|mark| mark.to >= to);
        self.marks.truncate(kept.map_or(self.marks.len(), |kept| kept + 1));
        if let Some(last) = self.marks.last_mut() {
            last.to = last.to.min(to);
        }
    }

    /// Every message at a smaller offset is delivered, as was found out.
    pub(super) fn set_first(&mut self, first: u64) {
        self.first = self.first.max(first);
    }

    /// As it is stored.
    pub(super) fn stored(&self) -> TimedProgress {
        let row = |mark: &Mark| (mark.to, mark.up_to.due_ms, mark.up_to.queue_offset);
        TimedProgress {
            first: self.first,
            last_physical_offset: self.last_physical_offset,
            marks: self.marks.iter().map(row).collect(),
        }
    }

    /// From what was stored.
    pub(super) fn of(stored: &TimedProgress) -> Self {
        let mark = |&(to, due_ms, queue_offset): &_| Mark { to, up_to: TimedKey { due_ms, queue_offset } };
        Self {
            first: stored.first,
            last_physical_offset: stored.last_physical_offset,
            marks: stored.marks.iter().map(mark).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key(due_ms: i64, queue_offset: u64) -> TimedKey {
        TimedKey { due_ms, queue_offset }
    }

    #[test]
    fn a_late_message_begins_a_mark_that_goes_when_it_has_caught_up() {
        let mut progress = Progress::default();
        progress.scanned(2, Some(key(10, 0)), 7);
        progress.delivered(key(20, 1));
        progress.scanned(4, Some(key(15, 2)), 8);
        assert_eq!(progress.marks.len(), 2);
        assert!(progress.is_delivered(key(20, 1)) && !progress.is_delivered(key(15, 2)));
        progress.delivered(key(15, 2));
        assert!(!progress.is_delivered(key(20, 3)) && progress.is_delivered(key(15, 2)));
        progress.delivered(key(20, 3));
        assert_eq!(progress.marks, [Mark { to: 4, up_to: key(20, 4) }]);
    }

    #[test]
    fn what_comes_in_place_of_lost_messages_is_not_delivered() {
        let mut progress = Progress::default();
        progress.scanned(10, Some(key(10, 0)), 7);
        progress.delivered(key(30, 9));
        progress.scanned(12, Some(key(15, 10)), 8);
        progress.set_first(10);
        progress.cut(6, 5);
        assert_eq!((progress.first(), progress.scanned_to(), progress.last_physical_offset()), (6, 6, 5));
        assert!(progress.is_delivered(key(30, 5)) && !progress.is_delivered(key(1, 6)));
        progress.scanned(8, Some(key(30, 6)), 9);
        assert!(progress.is_delivered(key(30, 5)) && !progress.is_delivered(key(30, 6)));
        progress.cut(20, 9);
        assert_eq!(progress.scanned_to(), 8);
        progress.cut(0, 0);
        assert_eq!(progress.scanned_to(), 0);
    }

    #[derive(Debug, Clone)]
    enum Step {
        Look(Vec<i64>),
        Deliver(usize),
        Store,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            prop::collection::vec(-3i64..10, 1..4).prop_map(Step::Look),
            (0usize..5).prop_map(Step::Deliver),
            Just(Step::Store),
        ]
    }

    proptest! {
        /// Against a list that says of each message whether it is delivered.
        #[test]
        fn it_knows_of_each_message(steps in prop::collection::vec(step(), 0..60)) {
            let (mut progress, mut all) = (Progress::default(), Vec::<(TimedKey, bool)>::new());
            for step in steps {
                match step {
                    Step::Look(due) => {
                        let from = all.len();
                        for due_ms in due {
                            all.push((key(due_ms, all.len() as u64), false));
                        }
                        let earliest = all.iter().skip(from).map(|(key, _)| *key).min();
                        progress.scanned(all.len() as u64, earliest, 7);
                    }
                    Step::Deliver(count) => {
                        let mut wait: Vec<_> = all.iter_mut().filter(|(_, done)| !done).collect();
                        wait.sort();
                        for (key, done) in wait.into_iter().take(count) {
                            *done = true;
                            progress.delivered(*key);
                        }
                        let first = all.iter().position(|(_, done)| !done).unwrap_or(all.len());
                        progress.set_first(first as u64);
                    }
                    Step::Store => {
                        let stored = progress.stored().to_bytes();
                        if let Some(read) = TimedProgress::read(&stored) {
                            prop_assert_eq!(&Progress::of(&read), &progress);
                        } else {
                            prop_assert!(all.is_empty());
                        }
                    }
                }
                for (key, done) in &all {
                    prop_assert_eq!(progress.is_delivered(*key), *done);
                }
                prop_assert!(!progress.is_delivered(key(i64::MIN, all.len() as u64)));
            }
        }
    }
}
