//! A failed flush or write is final.
//!
//! After one the disk may hold anything between what was asked of it and nothing: the kernel calls the pages
//! that it could not write clean, whether it drops or keeps them. So the store says so on every later put
//! until it is reopened, and what recovery then reads of the log it writes once more before it counts as flushed.

use std::sync::OnceLock;

use crate::error::{Error, Result};

/// Whether a write or a flush has failed.
#[derive(Debug, Default)]
pub struct Poison(OnceLock<(&'static str, String)>);

impl Poison {
    /// Remembers the first failure and gives the outcome on.
    pub fn watch<T>(&self, operation: &'static str, outcome: Result<T>) -> Result<T> {
        if let Err(error) = &outcome {
            let _first_wins = self.0.set((operation, error.to_string()));
        }
        outcome
    }

    /// # Errors
    /// [`Error::Poisoned`] after a failure.
    pub fn check(&self) -> Result<()> {
        match self.0.get() {
            None => Ok(()),
            Some((operation, reason)) => Err(Error::Poisoned { operation, reason: reason.clone() }),
        }
    }

    /// The failure, where there was one.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        self.check().err().map(|error| error.to_string())
    }

    /// Whether there was a failure.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.0.get().is_some()
    }
}
