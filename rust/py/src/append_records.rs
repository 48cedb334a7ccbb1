//! `append_records` of `mqstore._native.Store`: finished records, put as they are.

use mqstore_core::status::PutMessageStatus;
use mqstore_core::store::Finishing;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;

use crate::arguments::{self, Body};
use crate::errors;
use crate::message::Message;
use crate::results::PutMessageResult;
use crate::store::Store;

#[pymethods]
impl Store {
    /// Appends finished records, for replay and import: only their offsets are given anew.
    ///
    /// Args:
    ///     records: Messages of a store, or the bytes of their records. The bytes of a blank, which ends
    ///         a file, let the next record begin one: so the records of a log give that log again.
    ///     keep_times: Whether they keep their store times.
    ///     store_host: Where they are stored; they keep their own by default.
    ///
    /// Raises:
    ///     MessageIllegalError: one is no record, or fits no file. Those before it may be stored.
    #[pyo3(signature = (records, *, keep_times=false, store_host=None))]
    fn append_records(
        &self,
        py: Python<'_>,
        records: Vec<RecordBytes>,
        keep_times: bool,
        store_host: Option<&str>,
    ) -> PyResult<PutMessageResult> {
        let host = store_host.map(arguments::host).transpose()?;
        let bytes: Vec<&[u8]> = records.iter().map(RecordBytes::as_slice).collect();
        let mut done = Vec::new();
        let how = Finishing { store_host: host, keep_times, ..Finishing::default() };
        let outcome = py.detach(|| self.core.append_records(&bytes, &how, &mut done));
        let wait_for = outcome.map_err(|refusal| errors::refusal_to_py(py, &refusal))?;
        let host = host.unwrap_or(self.store_host);
        self.confirmed(py, PutMessageResult::stored(PutMessageStatus::PutOk, done, host), wait_for)
    }
}

/// A finished record.
pub enum RecordBytes {
    Message(Py<Message>),
    Bytes(PyBackedBytes),
    Copied(Vec<u8>),
}

impl RecordBytes {
    fn as_slice(&self) -> &[u8] {
        match self {
            Self::Message(message) => message.get().record_slice(),
            Self::Bytes(bytes) => bytes,
            Self::Copied(bytes) => bytes,
        }
    }
}

impl<'a, 'py> FromPyObject<'a, 'py> for RecordBytes {
    type Error = PyErr;

    fn extract(given: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(message) = given.cast::<Message>() {
            return Ok(Self::Message(message.to_owned().unbind()));
        }
        Ok(match Body::extract(given)? {
            Body::Bytes(bytes) => Self::Bytes(bytes),
            Body::Copied(bytes) => Self::Copied(bytes),
        })
    }
}
