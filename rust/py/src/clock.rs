//! A clock that Python gives.

use std::fmt;
use std::sync::atomic::{AtomicI64, Ordering};

use mqstore_core::clock::Clock;
use pyo3::prelude::*;

use crate::attach::{Kept, try_attached};

/// Calls a Python function for the time. Where it fails the last time it gave stands, and the
/// failure is reported as Python reports what cannot be raised.
pub struct PyClock {
    now_ms: Kept<PyAny>,
    last: AtomicI64,
}

impl PyClock {
    pub const fn new(now_ms: Py<PyAny>) -> Self {
        Self { now_ms: Kept::new(now_ms), last: AtomicI64::new(0) }
    }
}

impl fmt::Debug for PyClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PyClock")
    }
}

impl Clock for PyClock {
    fn now_ms(&self) -> i64 {
        let told = try_attached(|py| match self.now_ms.call0(py).and_then(|now| now.extract::<i64>(py)) {
            Ok(now) => {
                self.last.store(now, Ordering::Relaxed);
                Some(now)
            }
            Err(error) => {
                error.write_unraisable(py, Some(self.now_ms.bind(py)));
                None
            }
        });
        told.flatten().unwrap_or_else(|| self.last.load(Ordering::Relaxed))
    }
}
