//! The interpreter that the engine belongs to.
//!
//! What the engine raises, and asks for Ctrl-C, are objects of the interpreter that it was loaded in: in another one of the
//! same process nobody could catch its errors, and objects of one must not get into another.

#![allow(unsafe_code)] // pyo3 wraps neither

use std::sync::OnceLock;

use pyo3::exceptions::PyImportError;
use pyo3::prelude::*;

static FIRST: OnceLock<i64> = OnceLock::new();

/// # Errors
/// Where another interpreter has imported the engine before.
pub fn check_first(_py: Python<'_>) -> PyResult<()> {
    // SAFETY: the caller is attached to an interpreter.
    let interpreter = unsafe { pyo3::ffi::PyInterpreterState_Get() };
    // SAFETY: it is the one that the caller is attached to, which lives meanwhile.
    let this = unsafe { pyo3::ffi::PyInterpreterState_GetID(interpreter) };
    if *FIRST.get_or_init(|| this) == this {
        return Ok(());
    }
    Err(PyImportError::new_err(
        "mqstore belongs to the first interpreter of a process that imports it, and cannot be used in another one",
    ))
}
