//! The engine's errors as Python's: one class each, defined in `mqstore.errors`.

use std::time::Duration;

use arrow_schema::ArrowError;
use mqstore_core::arrow::BatchFault;
use mqstore_core::error::Error;
use mqstore_core::status::PutMessageStatus;
use mqstore_core::store::PutRefusal;
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyModule;

use crate::ranges::exit_of;
use crate::status;

static ERRORS: PyOnceLock<Py<PyModule>> = PyOnceLock::new();

fn module(py: Python<'_>) -> PyResult<&Bound<'_, PyModule>> {
    ERRORS
        .get_or_try_init(py, || py.import("mqstore.errors").map(Bound::unbind))
        .map(|module| module.bind(py))
}

/// See `once.rs`.
pub fn prepare(py: Python<'_>) -> PyResult<()> {
    module(py).map(drop)
}

/// An exception of `mqstore.errors` with attributes; whatever goes wrong with that is the error then.
fn build(py: Python<'_>, class: &str, message: &str, attributes: &[(&str, Bound<'_, PyAny>)]) -> PyErr {
    let made = module(py)
        .and_then(|module| module.getattr(class))
        .and_then(|class| class.call1((message,)))
        .and_then(|exception| {
            for (name, value) in attributes {
                exception.setattr(*name, value)?;
            }
            Ok(exception)
        });
    match made {
        Ok(exception) => PyErr::from_value(exception),
        Err(error) => error,
    }
}

fn value<'py, T: IntoPyObject<'py>>(py: Python<'py>, value: T) -> Bound<'py, PyAny> {
    value.into_bound_py_any(py).unwrap_or_else(|_| py.None().into_bound(py))
}

/// The exception for an engine's error.
pub fn to_py(py: Python<'_>, error: &Error) -> PyErr {
    let message = error.to_string();
    let path = |path: &std::path::Path| value(py, path.as_os_str());
    match error {
        Error::Io { path: file, source, .. } => {
            if let Some(exit) = exit_of(py, source) {
                return exit;
            }
            let class = if error.is_disk_full() { "DiskFullError" } else { "StoreIOError" };
            let attributes = [("filename", path(file)), ("errno", value(py, source.raw_os_error()))];
            build(py, class, &message, &attributes)
        }
        Error::Socket { address, source, .. } => {
            let attributes = [("filename", value(py, address)), ("errno", value(py, source.raw_os_error()))];
            build(py, "StoreIOError", &message, &attributes)
        }
        Error::NotAtEnd { offset, end } => {
            let attributes =
                [("offset", value(py, *offset)), ("min", value(py, *end)), ("max", value(py, *end))];
            build(py, "OffsetOutOfRangeError", &message, &attributes)
        }
        Error::CrossesFile { file_end, .. } => {
            let attributes = [
                ("option", value(py, "mappedFileSizeCommitLog")),
                ("value", value(py, file_end.to_string())),
                ("reason", value(py, &message)),
            ];
            build(py, "OptionError", &message, &attributes)
        }
        Error::NotFound { path: file, .. } => {
            build(py, "StoreNotFoundError", &message, &[("path", path(file))])
        }
        Error::Layout { path: file, expected, found } => {
            let attributes =
                [("path", path(file)), ("expected", value(py, expected)), ("found", value(py, found))];
            build(py, "StoreLayoutError", &message, &attributes)
        }
        Error::Unsupported { path: file, found, .. } => build(
            py,
            "UnsupportedStoreError",
            &message,
            &[("path", path(file)), ("found", value(py, *found))],
        ),
        Error::Record { path: file, offset, .. } => {
            build(py, "RecordError", &message, &[("path", path(file)), ("offset", value(py, *offset))])
        }
        Error::Damaged { path: file, offset, next_valid, .. } => {
            let attributes = [
                ("path", path(file)),
                ("offset", value(py, *offset)),
                ("next_valid", value(py, *next_valid)),
            ];
            build(py, "DamagedStoreError", &message, &attributes)
        }
        Error::EndLost { path: file, offset, .. } => {
            let attributes = [
                ("path", path(file)),
                ("offset", value(py, *offset)),
                ("next_valid", value(py, None::<u64>)),
            ];
            build(py, "DamagedStoreError", &message, &attributes)
        }
        Error::Locked { path: file, holder } => {
            build(py, "StoreLockedError", &message, &[("path", path(file)), ("holder", value(py, holder))])
        }
        Error::Option { option, value: given, reason } => {
            let attributes =
                [("option", value(py, *option)), ("value", value(py, given)), ("reason", value(py, reason))];
            build(py, "OptionError", &message, &attributes)
        }
        Error::MadeAnew { path: file, from } => {
            build(py, "StoreChangedError", &message, &[("path", path(file)), ("offset", value(py, *from))])
        }
        Error::ReadOnly { path: file } => build(py, "ReadOnlyError", &message, &[("path", path(file))]),
        Error::Forked { .. } => build(py, "StoreForkedError", &message, &[]),
        Error::Halted { .. } => build(py, "ServiceNotAvailableError", &message, &[]),
        // Only what is run by `interruptible` is broken off, and has its own exception for that.
        Error::Interrupted => build(py, "MQStoreError", &message, &[]),
        Error::UnitRefuted { unit, .. } => {
            build(py, "MQStoreError", &message, &[("offset", value(py, unit.physical_offset))])
        }
        Error::Closed => build(py, "StoreClosedError", &message, &[]),
        Error::Poisoned { .. } => build(py, "FlushFailedError", &message, &[]),
        Error::OutOfRange { offset, min, max } => {
            let attributes =
                [("offset", value(py, *offset)), ("min", value(py, *min)), ("max", value(py, *max))];
            build(py, "OffsetOutOfRangeError", &message, &attributes)
        }
    }
}

/// The exception for a put that was refused.
pub fn refusal_to_py(py: Python<'_>, refusal: &PutRefusal) -> PyErr {
    refused(py, refusal, &refusal.reason.to_string(), &[])
}

/// The exception for a message that is none, before a store is asked.
pub fn illegal(py: Python<'_>, option: &'static str, value: String, reason: &str) -> PyErr {
    let reason = Box::new(Error::Option { option, value, reason: reason.into() });
    let status = PutMessageStatus::MessageIllegal;
    refusal_to_py(py, &PutRefusal { status, append: None, reason, at: None })
}

/// The exception for messages of one call of which one was refused, or the call as a whole.
pub fn refused_of_many(py: Python<'_>, at: Option<usize>, refusal: &PutRefusal) -> PyErr {
    match at {
        Some(at) => refused(py, refusal, &format!("bodies[{at}]: {}", refusal.reason), &[]),
        None => refusal_to_py(py, refusal),
    }
}

/// The exception for a row whose put was refused.
pub fn refused_row(py: Python<'_>, row: u64, refusal: &PutRefusal) -> PyErr {
    refused(py, refusal, &format!("row {row}: {}", refusal.reason), &[("row", value(py, row))])
}

fn refused(
    py: Python<'_>,
    refusal: &PutRefusal,
    message: &str,
    attributes: &[(&str, Bound<'_, PyAny>)],
) -> PyErr {
    use PutMessageStatus as Status;
    if let Error::Io { .. }
    | Error::Closed
    | Error::Forked { .. }
    | Error::ReadOnly { .. }
    | Error::Poisoned { .. } = *refusal.reason
    {
        return to_py(py, &refusal.reason);
    }
    let class = match refusal.status {
        Status::MessageIllegal | Status::PropertiesSizeExceeded => "MessageIllegalError",
        Status::ServiceNotAvailable => "ServiceNotAvailableError",
        _ => "PutError",
    };
    let status = [("status", status_of(py, refusal.status))];
    build(py, class, message, &[&status, attributes].concat())
}

fn status_of(py: Python<'_>, status: PutMessageStatus) -> Bound<'_, PyAny> {
    status::put(py, status).unwrap_or_else(|_| value(py, status.name()))
}

/// The exception for a put whose message is stored, but not confirmed where it has to be.
pub fn unconfirmed(
    py: Python<'_>,
    status: PutMessageStatus,
    sync_flush_timeout: Duration,
    slave_timeout: Duration,
    result: Bound<'_, PyAny>,
) -> PyErr {
    let late = |who, timeout: Duration| {
        format!("the message is stored; {who} did not confirm it within {} ms", timeout.as_millis())
    };
    let (class, message) = match status {
        PutMessageStatus::FlushDiskTimeout => ("FlushDiskTimeoutError", late("the disk", sync_flush_timeout)),
        PutMessageStatus::FlushSlaveTimeout => ("FlushSlaveTimeoutError", late("a slave", slave_timeout)),
        _ => {
            ("SlaveNotAvailableError", "the message is stored; no slave is near enough to confirm it".into())
        }
    };
    build(py, class, &message, &[("result", result)])
}

/// Turns an engine's result into Python's.
pub trait IntoPyResult<T> {
    /// The value, or the exception for the error.
    fn into_py(self, py: Python<'_>) -> PyResult<T>;
}

impl<T> IntoPyResult<T> for Result<T, Error> {
    fn into_py(self, py: Python<'_>) -> PyResult<T> {
        self.map_err(|error| to_py(py, &error))
    }
}

/// Runs engine code without the GIL and maps its error.
pub fn detached<T: Send>(py: Python<'_>, run: impl FnOnce() -> Result<T, Error> + Send) -> PyResult<T> {
    py.detach(run).into_py(py)
}

/// The exception for bytes that are no record.
pub fn record_error(py: Python<'_>, message: &str) -> PyErr {
    build(py, "RecordError", message, &[])
}

/// The exception for the number of a queue that none can have.
pub fn negative_queue_id(queue_id: i32) -> PyErr {
    PyValueError::new_err(format!("queue_id={queue_id}: expected an integer from 0 to {}", i32::MAX))
}

/// The exception for a stream of Arrow that broke off.
pub fn arrow_error(error: &ArrowError) -> PyErr {
    PyValueError::new_err(format!("the stream of Arrow gave an error: {error}"))
}

/// The exception for a batch that can't be written: of a row what `MessageIllegalError` says, of the
/// batch as a whole a `ValueError`.
pub fn batch_error(py: Python<'_>, fault: &BatchFault) -> PyErr {
    match fault {
        BatchFault::Value { row, column, .. } => {
            let status = status_of(py, PutMessageStatus::MessageIllegal);
            let attributes = [("status", status), ("row", value(py, *row)), ("column", value(py, *column))];
            build(py, "MessageIllegalError", &fault.to_string(), &attributes)
        }
        _ => PyValueError::new_err(fault.to_string()),
    }
}
