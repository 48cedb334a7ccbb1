//! A clock that Python gives.

use std::fmt;
use std::sync::atomic::{AtomicI64, Ordering};

use mqstore_core::clock::Clock;
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;

use crate::arguments::checked;
use crate::attach::{Kept, try_attached};
use crate::signals;

/// Calls a Python function for the time. Where it fails the last time it gave stands, and the
/// failure is reported as Python reports what cannot be raised. Ctrl-C is no failure of it.
pub struct PyClock {
    now_ms: Kept<PyAny>,
    last: AtomicI64,
}

impl PyClock {
    /// Asks it once, so that one that never works is told to who gave it, and that there is a last time always.
    pub fn new(py: Python<'_>, now_ms: Py<PyAny>) -> PyResult<Self> {
        let last = AtomicI64::new(asked(py, &now_ms)?);
        Ok(Self { now_ms: Kept::new(now_ms), last })
    }
}

fn asked(py: Python<'_>, now_ms: &Py<PyAny>) -> PyResult<i64> {
    checked("clock()", now_ms.bind(py).call0()?.as_any(), i64::MIN..=i64::MAX)
}

impl fmt::Debug for PyClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PyClock")
    }
}

impl Clock for PyClock {
    fn now_ms(&self) -> i64 {
        let told = try_attached(|py| match asked(py, &self.now_ms) {
            Ok(now) => {
                self.last.store(now, Ordering::Relaxed);
                Some(now)
            }
            Err(error) if error.is_instance_of::<PyKeyboardInterrupt>(py) => {
                // A signal's handler ran in it, which runs again once Python can be told.
                signals::press_ctrl_c(py);
                None
            }
            Err(error) => {
                error.write_unraisable(py, Some(self.now_ms.bind(py)));
                None
            }
        });
        told.flatten().unwrap_or_else(|| self.last.load(Ordering::Relaxed))
    }
}
