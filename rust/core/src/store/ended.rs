//! The ends of a store that are no close: a part of it died, or the process is another one's fork.

use std::sync::OnceLock;

use super::Store;
use crate::error::{Error, Result};
use crate::sync::{AtomicBool, Ordering};

/// Whether a store has ended.
#[derive(Debug)]
pub(super) struct Ended {
    halted: OnceLock<String>,
    /// Why dispatch was given up.
    queues_failed: OnceLock<String>,
    is_abandoned: AtomicBool,
    opened_by: u32,
}

impl Default for Ended {
    fn default() -> Self {
        Self {
            halted: OnceLock::new(),
            queues_failed: OnceLock::new(),
            is_abandoned: AtomicBool::new(false),
            opened_by: std::process::id(),
        }
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

    /// Which part of the store has died; `None` while none has.
    #[must_use]
    pub fn halted(&self) -> Option<&str> {
        self.ended.halted.get().map(String::as_str)
    }

    /// Lets the store take no messages any more, as 4.9.3's does: its queues could not be written, after all retries.
    pub fn make_logics_queue_error(&self, reason: String) {
        let _first_wins = self.ended.queues_failed.set(reason);
        self.flags.make_logics_queue_error();
    }

    pub(super) fn queues_failed(&self) -> Option<String> {
        self.ended.queues_failed.get().map(|reason| format!("its queues could not be written: {reason}"))
    }

    /// Why the store takes no messages until it is reopened; `None` while it does.
    #[must_use]
    pub fn takes_no_messages(&self) -> Option<String> {
        let halted = self.halted().map(str::to_owned);
        halted.or_else(|| self.queues_failed()).or_else(|| self.log.failure())
    }

    /// Why queues and index count as they were on the disk before, until the store is reopened: a flush of theirs failed.
    #[must_use]
    pub fn derived_failure(&self) -> Option<String> {
        self.derived_poison.failure()
    }

    /// Lets go of a store in a process that was forked while it was open. Nothing of it works any more
    /// there; nothing is flushed, removed or unlocked, and no lock is waited for: the thread that has it
    /// may be one of the other process alone. The store's lock was let go before (`lock_files.rs`).
    pub fn abandon(&self) {
        self.ended.is_abandoned.store(true, Ordering::Release);
        self.closed.store(true, Ordering::Release);
    }
}
