//! Ctrl-C while the engine waits or works: Python learns of it only when it is asked.

use std::sync::Arc;
use std::time::{Duration, Instant};

use mqstore_core::error::Error;
use mqstore_core::interrupt;
use parking_lot::Mutex;
use pyo3::prelude::*;

use crate::attach::try_attached;
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

/// Runs engine code for who cannot be given an exception of Python's: what Ctrl-C breaks off, it raises once Python's own
/// code goes on.
pub fn broken_off<T>(run: impl FnOnce() -> T) -> T {
    let mut next = Instant::now() + STEP;
    let is_asked = move || {
        if Instant::now() < next {
            return false;
        }
        next = Instant::now() + STEP;
        try_attached(|_| is_pressed()).unwrap_or(false)
    };
    interrupt::until(is_asked, run)
}

/// Whether Ctrl-C was pressed and nobody was told yet; it stays so.
#[allow(unsafe_code)] // pyo3 wraps neither
fn is_pressed() -> bool {
    // SAFETY: the caller is attached to the interpreter. It takes the mark of SIGINT away, in the main thread alone.
    let is_pressed = unsafe { pyo3::ffi::PyOS_InterruptOccurred() } != 0;
    if is_pressed {
        // SAFETY: as before; it puts the mark back.
        unsafe { pyo3::ffi::PyErr_SetInterrupt() };
    }
    is_pressed
}
