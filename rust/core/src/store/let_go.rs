//! What a store that was closed no longer holds.
//!
//! Who closes a store may keep the object for as long as the process lives: its files are closed and unmapped then all
//! the same, and the disk gets the room of removed ones back. Slices that were given out keep their mappings.
//!
//! A read that found the store open a moment before may still be under way. It opens again what it needs, and at its
//! end asks once more whether the store is open: what it has not found may only be gone with the close.

use super::{Mode, Store};
use crate::error::{Error, Result};

impl Store {
    /// Lets go of all files at the end of a close.
    ///
    /// # Errors
    /// Where the one that followers see positions in stays mapped.
    pub(super) fn let_go(&self) -> Result<()> {
        self.dispatcher.end();
        if self.mode == Mode::Read {
            self.close_read_files();
            return Ok(());
        }
        // What is being flushed or dispatched would open files again, or make an index file behind the lock that is gone.
        self.while_at_rest(|| {
            self.log.let_go();
            self.queues.close_files();
            if let Some(index) = &self.index {
                index.let_go();
            }
        });
        self.published.as_ref().map_or(Ok(()), |published| published.let_go())
    }

    /// Calls a function while nothing is flushed or dispatched.
    pub(super) fn while_at_rest<T>(&self, then: impl FnOnce() -> T) -> T {
        let _not_while_flushing = self.flushing();
        self.dispatcher.between_passes(then)
    }

    /// Closes what reads open. A writer's close that is under way opens its files again, but not an index, which it still
    /// has to flush: it lets go of that itself.
    fn close_read_files(&self) {
        self.log.close_files();
        self.queues.close_files();
        if let Some(index) = self.index.as_ref().filter(|_| self.mode == Mode::Read) {
            index.let_go();
        }
    }

    /// What a read gives, which is the error of a closed store where that was closed meanwhile.
    ///
    /// # Errors
    /// Those of the read; where the store is closed.
    pub(crate) fn while_open<T>(&self, read: impl FnOnce() -> Result<T>) -> Result<T> {
        self.check_open()?;
        let outcome = read();
        self.check_still_open()?;
        outcome
    }

    /// What changes files, which a close that comes meanwhile waits for: behind it they are another process's.
    ///
    /// # Errors
    /// Those of the change; where the store is closed, or only read.
    pub(crate) fn while_writable<T>(&self, change: impl FnOnce() -> Result<T>) -> Result<T> {
        self.check_writable()?;
        let _not_beside_a_close = self.flushing();
        self.check_writable()?;
        change()
    }

    /// As [`Store::check_open`], at the end of a read: what that has opened behind a close is closed again.
    ///
    /// # Errors
    /// Where the store was closed meanwhile.
    pub(crate) fn check_still_open(&self) -> Result<()> {
        self.check_open().inspect_err(|error| {
            // In a forked process no lock is waited for.
            if matches!(error, Error::Closed) {
                self.close_read_files();
            }
        })
    }
}
