//! Those of the timed messages that wait which are due first: as many as there is room for, so that
//! any number of messages far ahead takes no memory.

use std::collections::BTreeSet;

use super::progress::TimedKey;

/// The messages that are due first.
#[derive(Debug)]
pub(super) struct Window {
    keys: BTreeSet<TimedKey>,
    max_count: usize,
    /// Everything before it that waits is in the window; what waits from here on is not.
    end: Option<TimedKey>,
}

impl Window {
    /// An empty one, with room for so many.
    pub(super) const fn new(max_count: usize) -> Self {
        Self { keys: BTreeSet::new(), max_count, end: None }
    }

    /// Adds a message; where there is no room, what is due last goes.
    pub(super) fn insert(&mut self, key: TimedKey) {
        if self.end.is_some_and(|end| key >= end) {
            return;
        }
        self.keys.insert(key);
        if self.keys.len() > self.max_count {
            self.end = self.keys.pop_last();
        }
    }

    /// Whether others wait than those that are in it, and it has none: it has to be filled anew.
    pub(super) fn is_used_up(&self) -> bool {
        self.keys.is_empty() && self.end.is_some()
    }

    /// The message that is due first.
    pub(super) fn first(&self) -> Option<TimedKey> {
        self.keys.first().copied()
    }

    /// In the order in which they are due.
    pub(super) fn iter(&self) -> impl Iterator<Item = TimedKey> {
        self.keys.iter().copied()
    }

    /// Takes a message out.
    pub(super) fn remove(&mut self, key: TimedKey) {
        self.keys.remove(&key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(due_ms: i64, queue_offset: u64) -> TimedKey {
        TimedKey { due_ms, queue_offset }
    }

    #[test]
    fn what_is_due_last_finds_no_room() {
        let mut window = Window::new(2);
        for (due_ms, queue_offset) in [(50, 0), (10, 1), (10, 2), (40, 3)] {
            window.insert(key(due_ms, queue_offset));
        }
        assert_eq!(window.iter().collect::<Vec<_>>(), [key(10, 1), key(10, 2)]);
        window.remove(key(10, 1));
        // What was left out is due before it.
        window.insert(key(41, 4));
        window.insert(key(5, 5));
        assert_eq!(window.iter().collect::<Vec<_>>(), [key(5, 5), key(10, 2)]);
        window.remove(key(5, 5));
        assert!(!window.is_used_up());
        window.remove(key(10, 2));
        assert!(window.is_used_up() && window.first().is_none());
        assert!(!Window::new(2).is_used_up());
    }
}
