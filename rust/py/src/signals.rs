//! Signals while the engine waits or works: Python learns of them only when it is asked, and runs their handlers then.
//!
//! A handler may use the store that the thread is in the middle of, and would wait for ever for a lock that the engine has
//! taken there. So none is run inside the engine, but where it works on what nobody else has.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mqstore_core::error::Error;
use mqstore_core::interrupt;
use mqstore_core::sync::Mutex;
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyTuple;

use crate::attach::try_attached;
use crate::errors::{IntoPyResult, detached};

/// How often Python is asked.
const STEP: Duration = Duration::from_millis(50);

static CTRL_C: PyOnceLock<CtrlC> = PyOnceLock::new();

/// What tells whether Ctrl-C raises `KeyboardInterrupt`, as it does by Python's own handler.
struct CtrlC {
    getsignal: Py<PyAny>,
    sigint: Py<PyTuple>,
    pythons_own: Py<PyAny>,
}

/// Finds what is asked for later in the engine's middle, where no code of Python's may run: handlers would run with it.
pub fn prepare(py: Python<'_>) -> PyResult<()> {
    CTRL_C.get_or_try_init(py, || {
        let signal = py.import("_signal")?;
        PyResult::Ok(CtrlC {
            getsignal: signal.getattr("getsignal")?.unbind(),
            sigint: PyTuple::new(py, [signal.getattr("SIGINT")?])?.unbind(),
            pythons_own: signal.getattr("default_int_handler")?.unbind(),
        })
    })?;
    Ok(())
}

impl CtrlC {
    /// Whether it was pressed, and nobody was told yet; it stays so.
    fn is_pressed(&self, py: Python<'_>) -> bool {
        // Another handler may raise nothing, and what is under way would be lost by it.
        let handler = self.getsignal.bind(py).call1(self.sigint.bind(py));
        handler.is_ok_and(|handler| handler.is(&self.pythons_own)) && is_sigint_pending()
    }
}

/// Whether SIGINT has come, and its handler was not run yet; it stays so.
#[allow(unsafe_code)] // pyo3 wraps neither
fn is_sigint_pending() -> bool {
    // SAFETY: the caller is attached to the interpreter. It takes the mark of SIGINT away, in the main thread alone.
    let is_pending = unsafe { pyo3::ffi::PyOS_InterruptOccurred() } != 0;
    if is_pending {
        // SAFETY: as before; it puts the mark back.
        unsafe { pyo3::ffi::PyErr_SetInterrupt() };
    }
    is_pending
}

/// As if Ctrl-C were pressed: the main thread runs the handler as soon as it is in Python.
#[allow(unsafe_code)] // pyo3 does not wrap it
pub fn press_ctrl_c(_py: Python<'_>) {
    // SAFETY: it may be called at any time.
    unsafe { pyo3::ffi::PyErr_SetInterrupt() };
}

/// Waits without the GIL, a step at a time, until there is an outcome. Handlers run between two steps.
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

/// Runs engine code without the GIL; what goes through much of the store is broken off by Ctrl-C. Python runs other handlers
/// once the call has ended.
pub fn interruptible<T: Send>(py: Python<'_>, run: impl FnOnce() -> Result<T, Error> + Send) -> PyResult<T> {
    let is_broken_off = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&is_broken_off);
    let is_asked = move || {
        let is_pressed = is_ctrl_c_pressed();
        asked.fetch_or(is_pressed, Ordering::Relaxed);
        is_pressed
    };
    let outcome = py.detach(|| broken_off_where(is_asked, run));
    if is_broken_off.load(Ordering::Relaxed) {
        // Here Python runs its handler, which raises; one that was set a moment ago may not.
        py.check_signals()?;
        return Err(PyKeyboardInterrupt::new_err(()));
    }
    outcome.into_py(py)
}

/// As [`interruptible`], on what nobody else has, as a store that is just being opened: any handler is run soon, and what it
/// raises breaks it off.
pub fn interruptible_alone<T: Send>(
    py: Python<'_>,
    run: impl FnOnce() -> Result<T, Error> + Send,
) -> PyResult<T> {
    let raised = Arc::new(Mutex::new(None));
    let asked = Arc::clone(&raised);
    let is_raised = move || {
        let error = Python::attach(|py| py.check_signals().err());
        let is_raised = error.is_some();
        *asked.lock() = error;
        is_raised
    };
    let outcome = py.detach(|| broken_off_where(is_raised, run));
    match raised.lock().take() {
        Some(error) => Err(error),
        None => outcome.into_py(py),
    }
}

/// Runs engine code for who cannot be given an exception of Python's: what Ctrl-C breaks off, it raises once Python's own
/// code goes on.
pub fn broken_off<T>(run: impl FnOnce() -> T) -> T {
    broken_off_where(is_ctrl_c_pressed, run)
}

fn is_ctrl_c_pressed() -> bool {
    try_attached(|py| CTRL_C.get(py).is_some_and(|ctrl_c| ctrl_c.is_pressed(py))).unwrap_or(false)
}

/// Runs engine code, and asks every step whether it is to be broken off.
fn broken_off_where<T>(mut is_asked: impl FnMut() -> bool + 'static, run: impl FnOnce() -> T) -> T {
    let mut next = Instant::now() + STEP;
    let is_due = move || {
        if Instant::now() < next {
            return false;
        }
        next = Instant::now() + STEP;
        is_asked()
    };
    interrupt::until(is_due, run)
}
