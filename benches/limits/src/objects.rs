//! The least that a message is as an object of Python: one that knows where its record is, and a memoryview of its body
//! that is asked of it.

use std::ffi::c_int;
use std::ops::Range;
use std::sync::Arc;

use memmap2::MmapRaw;
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyMemoryView;

/// A message of a batch.
#[pyclass(frozen)]
pub struct Object {
    map: Arc<MmapRaw>,
    body: Range<usize>,
}

impl Object {
    /// One whose body stands there.
    ///
    /// # Errors
    /// Where the map ends before it.
    pub fn of(map: &Arc<MmapRaw>, body: Range<usize>) -> PyResult<Self> {
        if body.start > body.end || body.end > map.len() {
            return Err(PyBufferError::new_err("the body ends behind the memory"));
        }
        Ok(Self { map: Arc::clone(map), body })
    }
}

#[pymethods]
impl Object {
    /// The body, as it stands in memory.
    #[getter]
    fn body<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyMemoryView>> {
        PyMemoryView::from(slf.as_any())
    }

    /// Fills in a read-only buffer over the body.
    ///
    /// # Safety
    /// `buffer` is Python's own and valid, as the protocol says.
    #[allow(clippy::needless_pass_by_value)] // as the protocol has it
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, buffer: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        let this = slf.get();
        let len = ffi::Py_ssize_t::try_from(this.body.len())?;
        // SAFETY: `of` has seen that the body lies in the map, which lives as long as this object.
        let start = unsafe { this.map.as_mut_ptr().add(this.body.start) };
        // SAFETY: `buffer` is valid by the protocol, and takes a reference to the object.
        let filled = unsafe { ffi::PyBuffer_FillInfo(buffer, slf.as_ptr(), start.cast(), len, 1, flags) };
        if filled == 0 { Ok(()) } else { Err(PyErr::fetch(slf.py())) }
    }
}
