//! Parts of the log that a selection names and that gave no message.

use std::sync::Arc;

use crate::sync::Mutex;

/// A part of the log that should have given a message and did not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadRange {
    /// Where it begins.
    pub from: u64,
    /// Where it ends.
    pub to: u64,
    /// Whether it is no longer there, or a file that holds it is missing; otherwise it is damaged.
    pub is_gone: bool,
    /// What is wrong with it.
    pub reason: String,
}

/// So many are kept before anybody has asked for them: a log file that is missing can have millions of messages, and
/// mostly nobody does.
const MOST_UNASKED: usize = 1024;

/// The bad ranges that a cursor came by and nobody took yet.
#[derive(Debug, Clone, Default)]
pub struct BadRanges(Arc<Mutex<Kept>>);

#[derive(Debug, Default)]
struct Kept {
    ranges: Vec<BadRange>,
    is_asked_for: bool,
}

impl BadRanges {
    /// What has come since the last call.
    #[must_use]
    pub fn take(&self) -> Vec<BadRange> {
        std::mem::take(&mut self.0.lock().ranges)
    }

    /// They are asked for: all that come from now on are kept.
    pub(super) fn asked_for(&self) -> Self {
        self.0.lock().is_asked_for = true;
        self.clone()
    }

    pub(super) fn push(&self, bad: BadRange) {
        let kept = &mut *self.0.lock();
        if kept.is_asked_for || kept.ranges.len() < MOST_UNASKED {
            kept.ranges.push(bad);
        }
    }

    pub(super) fn gone(&self, from: u64, to: u64, reason: &str) {
        self.push(BadRange { from, to, is_gone: true, reason: reason.into() });
    }

    pub(super) fn damaged(&self, from: u64, to: u64, reason: &impl ToString) {
        self.push(BadRange { from, to, is_gone: false, reason: reason.to_string() });
    }
}
