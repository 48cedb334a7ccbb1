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

/// The bad ranges that a cursor came by and nobody took yet.
#[derive(Debug, Clone, Default)]
pub struct BadRanges(Arc<Mutex<Vec<BadRange>>>);

impl BadRanges {
    /// What has come since the last call.
    #[must_use]
    pub fn take(&self) -> Vec<BadRange> {
        std::mem::take(&mut *self.0.lock())
    }

    pub(super) fn push(&self, bad: BadRange) {
        self.0.lock().push(bad);
    }

    pub(super) fn gone(&self, from: u64, to: u64, reason: &str) {
        self.push(BadRange { from, to, is_gone: true, reason: reason.into() });
    }

    pub(super) fn damaged(&self, from: u64, to: u64, reason: &impl ToString) {
        self.push(BadRange { from, to, is_gone: false, reason: reason.to_string() });
    }
}
