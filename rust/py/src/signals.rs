//! Ctrl-C while the engine waits or works: Python learns of it only when it is asked.

use std::sync::Arc;
use std::time::{Duration, Instant};

use mqstore_core::error::Error;
use mqstore_core::interrupt;
use parking_lot::Mutex;
use pyo3::prelude::*;

use crate::errors::{IntoPyResult, detached};

/// How often Python is asked.
const STEP: Duration = Duration::from_millis(50);

/// Waits without the GIL, a step at a time, until there is an outcome.
pub fn in_steps<T: Send>(
    py: Python<'_>,
    wait: impl Fn(Duration) -> Result<Option<T>, Error> + Sync,
) -> PyResult<T> {
    loop {
        if let Some(outcome) = detached(py, || wait(STEP))? {
            return Ok(outcome);
        }
        py.check_signals()?;
    }
}

/// Runs engine code without the GIL; what goes through much of the store is broken off by Ctrl-C.
pub fn interruptible<T: Send>(py: Python<'_>, run: impl FnOnce() -> Result<T, Error> + Send) -> PyResult<T> {
    let raised = Arc::new(Mutex::new(None));
    let outcome = py.detach(|| {
        let (raised, mut next) = (Arc::clone(&raised), Instant::now() + STEP);
        let is_asked = move || {
            if Instant::now() < next {
                return false;
            }
            next = Instant::now() + STEP;
            let error = Python::attach(|py| py.check_signals().err());
            let is_raised = error.is_some();
            *raised.lock() = error;
            is_raised
        };
        interrupt::until(is_asked, run)
    });
    match raised.lock().take() {
        Some(error) => Err(error),
        None => outcome.into_py(py),
    }
}
