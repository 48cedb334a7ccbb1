//! `mqstore._native.Bell`: tells an event loop, without the GIL, that something has happened.

use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;

use mqstore_core::bell::Bell as CoreBell;
use pyo3::prelude::*;

/// A file descriptor that can be read while the bell rings.
#[pyclass(frozen, module = "mqstore._native")]
pub struct Bell(pub(crate) Arc<CoreBell>);

#[pymethods]
impl Bell {
    #[new]
    fn new() -> PyResult<Self> {
        Ok(Self(Arc::new(CoreBell::new()?)))
    }

    fn fileno(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    fn silence(&self) -> PyResult<()> {
        Ok(self.0.silence()?)
    }
}
