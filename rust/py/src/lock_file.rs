//! `mqstore._native.LockFile`: a file for a lock that a forked process has no part in.

use std::os::fd::RawFd;
use std::path::PathBuf;

use mqstore_core::error::Error;
use mqstore_core::fs::OsFileSystem;
use mqstore_core::lock_files::LockFile as CoreLockFile;
use mqstore_core::sync::Mutex;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::errors::detached;

/// An open file.
#[pyclass(frozen, module = "mqstore._native")]
pub struct LockFile(Mutex<Option<CoreLockFile>>);

impl LockFile {
    fn descriptor(&self) -> Option<RawFd> {
        self.0.lock().as_ref().and_then(CoreLockFile::descriptor)
    }
}

#[pymethods]
impl LockFile {
    #[new]
    fn new(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let open = || {
            let opened = CoreLockFile::open(&OsFileSystem, &path);
            opened.map_err(|source| Error::Io { operation: "lock", path: path.clone(), source })
        };
        Ok(Self(Mutex::new(Some(detached(py, open)?))))
    }

    fn fileno(&self) -> PyResult<RawFd> {
        self.descriptor().ok_or_else(|| PyValueError::new_err("the file is closed"))
    }

    #[getter]
    fn closed(&self) -> bool {
        self.descriptor().is_none()
    }

    fn close(&self) {
        self.0.lock().take();
    }
}
