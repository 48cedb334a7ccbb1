//! `append_records` of `mqstore._native.Store`: finished records, put as they are.

use mqstore_core::commit_log::Appended;
use mqstore_core::status::PutMessageStatus;
use mqstore_core::store::Finishing;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;

use crate::arguments::{self, Body};
use crate::errors;
use crate::given;
use crate::message::Message;
use crate::results::PutMessageResult;
use crate::store::Store;

/// Clocks of machines differ by less.
const MOST_AHEAD_MS: i64 = 60_000;

#[pymethods]
impl Store {
    /// Appends finished records, for replay and import: only their offsets are given anew.
    ///
    /// Args:
    ///     records: Messages of a store, or the bytes of their records. The bytes of a blank, which ends
    ///         a file, let the next record begin one: so the records of a log give that log again.
    ///     keep_times: Whether they keep their store times. One that is more than a minute ahead of the clock is told
    ///         as a warning of ``logging``: what is put behind it gets that time too, until the clock has come there.
    ///     store_host: Where they are stored; they keep their own by default.
    ///
    /// Raises:
    ///     MessageIllegalError: one is no record, or fits no file; or it says of messages of another log that they are
    ///         done with, by where they stand there: in ``RMQ_SYS_TRANS_OP_HALF_TOPIC``, and in queue 1 of
    ///         ``MQSTORE_TIMED_TOPIC``, unless it comes to stand where it stood. Those before it may be stored.
    #[pyo3(signature = (records, *, keep_times=false, store_host=None))]
    fn append_records(
        slf: &Bound<'_, Self>,
        #[pyo3(from_py_with = records_of)] records: Vec<RecordBytes>,
        #[pyo3(from_py_with = given::keep_times)] keep_times: bool,
        #[pyo3(from_py_with = given::field::store_host)] store_host: Option<&str>,
    ) -> PyResult<PutMessageResult> {
        let (py, this) = (slf.py(), slf.get());
        let host = store_host.map(|host| arguments::host("store_host", host)).transpose()?;
        let bytes: Vec<&[u8]> = records.iter().map(RecordBytes::as_slice).collect();
        let mut done = Vec::new();
        let how = Finishing { store_host: host, keep_times, ..Finishing::default() };
        let wait_for = Self::append_finished(slf, &bytes, &how, &mut done)?;
        let host = host.unwrap_or(this.store_host);
        this.confirmed(py, PutMessageResult::stored(PutMessageStatus::PutOk, done, host), wait_for)
    }
}

impl Store {
    /// Appends finished records, and has told where one is stored ahead of the clock; gives what the call waits for.
    pub(crate) fn append_finished(
        slf: &Bound<'_, Self>,
        records: &[&[u8]],
        how: &Finishing<'_>,
        done: &mut Vec<Appended>,
    ) -> PyResult<Option<u64>> {
        let (py, this) = (slf.py(), slf.get());
        let outcome = py.detach(|| this.core.append_records(records, how, done));
        if how.keep_times {
            let latest = this.core.now_ms().saturating_add(MOST_AHEAD_MS);
            if let Some(ahead) = done.iter().find(|appended| appended.store_timestamp > latest) {
                slf.call_method1("_on_time_ahead", (ahead.wrote_offset, ahead.store_timestamp))?;
            }
        }
        outcome.map_err(|refusal| errors::refusal_to_py(py, &refusal))
    }
}

fn records_of(given: &Bound<'_, PyAny>) -> PyResult<Vec<RecordBytes>> {
    let one = "a Message, or the bytes of a record";
    given::several("records", "several messages or records", given, |place, record| {
        record.extract().map_err(|error| given::named(place, one, record, error))
    })
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
