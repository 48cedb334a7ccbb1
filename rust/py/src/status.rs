//! The statuses as the members of `mqstore.status`'s enumerations.

use mqstore_core::status::{GetMessageStatus, PutMessageStatus};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

static PUT: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
static GET: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

fn member<'py>(
    py: Python<'py>,
    cell: &PyOnceLock<Py<PyAny>>,
    class: &str,
    name: &str,
) -> PyResult<Bound<'py, PyAny>> {
    cell.get_or_try_init(py, || py.import("mqstore.status")?.getattr(class).map(Bound::unbind))?
        .bind(py)
        .getattr(name)
}

pub fn put(py: Python<'_>, status: PutMessageStatus) -> PyResult<Bound<'_, PyAny>> {
    member(py, &PUT, "PutMessageStatus", status.name())
}

pub fn get(py: Python<'_>, status: GetMessageStatus) -> PyResult<Bound<'_, PyAny>> {
    member(py, &GET, "GetMessageStatus", status.name())
}
