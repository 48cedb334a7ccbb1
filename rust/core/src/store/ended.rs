//! The ends of a store that are no close: a part of it died, or the process is another one's fork.

use std::sync::OnceLock;

use super::Store;
use crate::error::{Error, Result};
use crate::sync::{AtomicBool, Ordering};

/// Whether a store has ended.
#[derive(Debug)]
pub(super) struct Ended {
    halted: OnceLock<String>,
    is_abandoned: AtomicBool,
    opened_by: u32,
}

impl Default for Ended {
    fn default() -> Self {
        Self { halted: OnceLock::new(), is_abandoned: AtomicBool::new(false), opened_by: std::process::id() }
    }
}

impl Ended {
    /// The error for a store that is closed.
    pub(super) fn closed(&self) -> Error {
        if self.is_abandoned.load(Ordering::Acquire) {
            Error::Forked { pid: self.opened_by }
        } else {
            Error::Closed
        }
    }

    /// # Errors
    /// [`Error::Halted`] where a part of the store has died.
    pub(super) fn check_runs(&self) -> Result<()> {
        match self.halted.get() {
            None => Ok(()),
            Some(reason) => Err(Error::Halted { reason: reason.clone() }),
        }
    }
}

impl Store {
    /// Lets the store take no messages any more; the first reason counts. It is read and closed as ever.
    pub fn halt(&self, reason: String) {
        let _first_wins = self.ended.halted.set(reason);
    }

    /// Why the store takes no messages any more; `None` while it does.
    #[must_use]
    pub fn halted(&self) -> Option<&str> {
        self.ended.halted.get().map(String::as_str)
    }

    /// Lets go of a store in a process that was forked while it was open. Nothing of it works any more
    /// there; nothing is flushed, removed or unlocked, and no lock is waited for: the thread that has it
    /// may be one of the other process alone. The store's lock was let go before (`lock_files.rs`).
    pub fn abandon(&self) {
        self.ended.is_abandoned.store(true, Ordering::Release);
        self.closed.store(true, Ordering::Release);
    }
}
