//! Files that Python reads by byte ranges: `mqstore.store.byte_ranges` says how.

use std::fmt;
use std::io::{Error, ErrorKind, Result};
use std::path::Path;
use std::sync::{Arc, LazyLock};

use mqstore_core::fs::{FileSystem, OsFileSystem};
use mqstore_core::ranges::{BlockCache, Listed, RangeFileSystem, Source, SourceFile};
use pyo3::exceptions::{PyBaseException, PyException, PyFileNotFoundError, PyPermissionError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::attach::{Kept, try_attached};

/// Bytes that this process keeps of files that are read by ranges, of all stores together.
const CACHE_SIZE: usize = 128 << 20;

static CACHE: LazyLock<Arc<BlockCache>> = LazyLock::new(|| Arc::new(BlockCache::new(CACHE_SIZE)));

/// The file system of a store: the operating system's, or what Python reads by ranges.
pub fn file_system(ranges: Option<Py<PyAny>>, root: &Path) -> Arc<dyn FileSystem> {
    match ranges {
        None => Arc::new(OsFileSystem),
        Some(object) => {
            let source: Arc<dyn Source> = Arc::new(PySource(Kept::new(object)));
            Arc::new(RangeFileSystem::new(source, root.into(), Arc::clone(&CACHE)))
        }
    }
}

/// A `mqstore.store.byte_ranges.ByteRanges`.
struct PySource(Kept<PyAny>);

/// A `mqstore.store.byte_ranges.RangeReader`.
struct PySourceFile(Kept<PyAny>);

/// Path, whether it is a folder, bytes, when it changed last in milliseconds.
type Row = (String, bool, Option<u64>, i64);

impl Source for PySource {
    fn list(&self, folder: &str, recursive: bool) -> Result<Option<Vec<Listed>>> {
        call(|py| {
            let rows: Option<Vec<Row>> =
                self.0.call_method1(py, "list_below", (folder, recursive))?.extract(py)?;
            let listed = |(path, is_dir, len, modified_ms)| Listed { path, is_dir, len, modified_ms };
            Ok(rows.map(|rows| rows.into_iter().map(listed).collect()))
        })
    }

    fn open(&self, path: &str) -> Result<Arc<dyn SourceFile>> {
        call(|py| {
            let file = self.0.call_method1(py, "open", (path,))?;
            Ok(Arc::new(PySourceFile(Kept::new(file))) as Arc<dyn SourceFile>)
        })
    }
}

impl SourceFile for PySourceFile {
    fn size(&self) -> Result<u64> {
        call(|py| self.0.call_method0(py, "size")?.extract(py))
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        call(|py| {
            let read = self.0.call_method1(py, "read_at", (buffer.len(), offset))?;
            let found = read.cast_bound::<PyBytes>(py)?.as_bytes();
            if let Some(part) = buffer.get_mut(..found.len()) {
                part.copy_from_slice(found);
            }
            // More than was asked for is not cut: it says that something is wrong.
            Ok(found.len())
        })
    }
}

/// Calls Python with the GIL, which is free otherwise while a store is read.
fn call<T>(run: impl FnOnce(Python<'_>) -> PyResult<T>) -> Result<T> {
    let called = try_attached(|py| {
        run(py).map_err(|error| {
            let kind = if error.is_instance_of::<PyFileNotFoundError>(py) {
                ErrorKind::NotFound
            } else if error.is_instance_of::<PyPermissionError>(py) {
                ErrorKind::PermissionDenied
            } else {
                ErrorKind::Other
            };
            let is_exit = !error.is_instance_of::<PyException>(py);
            let text = error.value(py).to_string();
            Error::new(kind, Raised { text, exit: is_exit.then(|| Kept::new(error.into_value(py))) })
        })
    });
    called.unwrap_or_else(|| Err(Error::other("the interpreter has ended")))
}

/// What a call raised.
struct Raised {
    text: String,
    /// An interrupt or another end of the program, which is no failure of the call.
    exit: Option<Kept<PyBaseException>>,
}

impl fmt::Display for Raised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Raised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Raised {}

/// The interrupt that ended a read, where it was one.
pub fn exit_of(py: Python<'_>, error: &Error) -> Option<PyErr> {
    let mut inner = error.get_ref()? as &(dyn std::error::Error + 'static);
    loop {
        if let Some(raised) = inner.downcast_ref::<Raised>() {
            return raised.exit.as_ref().map(|exit| PyErr::from_value(exit.bind(py).clone().into_any()));
        }
        inner = match inner.downcast_ref::<Error>().and_then(Error::get_ref) {
            Some(wrapped) => wrapped,
            None => inner.source()?,
        };
    }
}

impl fmt::Debug for PySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PySource")
    }
}

impl fmt::Debug for PySourceFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PySourceFile")
    }
}
