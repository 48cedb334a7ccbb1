//! The statuses as the members of `mqstore.status`'s enumerations.

use mqstore_core::status::{GetMessageStatus, PutMessageStatus};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

static PUT: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
static GET: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

const PUT_CLASS: &str = "PutMessageStatus";
const GET_CLASS: &str = "GetMessageStatus";

fn members<'py>(
    py: Python<'py>,
    cell: &'static PyOnceLock<Py<PyAny>>,
    class: &str,
) -> PyResult<&'py Bound<'py, PyAny>> {
    let found =
        cell.get_or_try_init(py, || py.import("mqstore.status")?.getattr(class).map(Bound::unbind))?;
    Ok(found.bind(py))
}

/// See `once.rs`.
pub fn prepare(py: Python<'_>) -> PyResult<()> {
    members(py, &PUT, PUT_CLASS)?;
    members(py, &GET, GET_CLASS).map(drop)
}

pub fn put(py: Python<'_>, status: PutMessageStatus) -> PyResult<Bound<'_, PyAny>> {
    members(py, &PUT, PUT_CLASS)?.getattr(status.name())
}

pub fn get(py: Python<'_>, status: GetMessageStatus) -> PyResult<Bound<'_, PyAny>> {
    members(py, &GET, GET_CLASS)?.getattr(status.name())
}
