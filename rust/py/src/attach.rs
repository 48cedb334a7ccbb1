//! Calling Python where others may have let go of the GIL.
//!
//! pyo3 takes a thread that it has attached for one that has the GIL until it is done. What runs in between, a getter's
//! collection of garbage, a callback or a generator, can be Python code that calls pyarrow, which lets go of the GIL by its own
//! means and calls what this module gave it: a stream's next batch, or its release.

use std::mem::ManuallyDrop;
use std::ops::Deref;

use pyo3::ffi;
use pyo3::prelude::*;

/// The GIL of this thread, whoever let go of it.
struct Held(ffi::PyGILState_STATE);

impl Held {
    #[allow(unsafe_code)] // pyo3 goes by its own count
    fn take() -> Option<Self> {
        // SAFETY: it may be called at any time.
        if unsafe { ffi::Py_IsInitialized() } == 0 {
            return None;
        }
        // SAFETY: the interpreter is there. A thread that has the GIL already may take it again.
        Some(Self(unsafe { ffi::PyGILState_Ensure() }))
    }
}

impl Drop for Held {
    #[allow(unsafe_code)] // as above
    fn drop(&mut self) {
        // SAFETY: it is what this thread took, and each is given back once, the last one first.
        unsafe { ffi::PyGILState_Release(self.0) };
    }
}

/// Runs something with the GIL; `None` where the interpreter has ended.
pub fn try_attached<T>(run: impl FnOnce(Python<'_>) -> T) -> Option<T> {
    let _held = Held::take()?;
    Python::try_attach(run)
}

/// An object of Python's that is let go of with the GIL, whoever drops it; at the interpreter's end it goes with that.
pub struct Kept<T>(ManuallyDrop<Py<T>>);

impl<T> Kept<T> {
    pub const fn new(object: Py<T>) -> Self {
        Self(ManuallyDrop::new(object))
    }
}

impl<T> Deref for Kept<T> {
    type Target = Py<T>;

    fn deref(&self) -> &Py<T> {
        &self.0
    }
}

impl<T> Drop for Kept<T> {
    #[allow(unsafe_code)] // when it is dropped is the point
    fn drop(&mut self) {
        // SAFETY: nobody has it any more, and it is dropped this once.
        try_attached(|_| unsafe { ManuallyDrop::drop(&mut self.0) });
    }
}
