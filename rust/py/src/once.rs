//! What is made once in a process, at its first use: all of it is used while the package is imported.
//!
//! A process that is forked while one of its threads makes such a thing could never have it: whoever makes it lets go of the
//! GIL, and in the child, which has no such thread, everybody would wait for it for ever.

use pyo3::prelude::*;
use pyo3::types::PySequence;

use crate::options::EngineOptions;
use crate::selection::SelectionSpec;
use crate::{arguments, errors, message, results, status};

/// Makes all of it. The arguments are any that are whole: the names of their fields are such things.
#[pyfunction]
pub fn make_once(py: Python<'_>, _options: EngineOptions, _selection: SelectionSpec) -> PyResult<()> {
    errors::prepare(py)?;
    status::prepare(py)?;
    arguments::prepare(py);
    message::prepare(py);
    results::prepare(py);
    let _is_none = py.None().bind(py).cast::<PySequence>().is_ok();
    Ok(())
}
