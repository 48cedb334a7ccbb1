//! What puts and gets give.

use std::sync::atomic::{AtomicUsize, Ordering};

use mqstore_core::commit_log::Appended;
use mqstore_core::format::host::Host;
use mqstore_core::format::message_id::MessageId;
use mqstore_core::status::{AppendMessageStatus, PutMessageStatus};
use mqstore_core::store::query_keys::FoundByKey;
use mqstore_core::store::{GetMessageResult as CoreGetResult, PutRefusal};
use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyList;
use smallvec::SmallVec;

use crate::message::Message;
use crate::status;

/// Status, the append's status, where each message went, the store's host, why it was not stored.
type Parts = (String, Option<String>, Vec<(u64, u32, i64, i64)>, String, Option<String>);

/// How a put ended, and where the message went.
#[pyclass(frozen, module = "mqstore", weakref)]
pub struct PutMessageResult {
    status: PutMessageStatus,
    append: Option<AppendMessageStatus>,
    /// None where nothing was appended; several for a batch.
    appended: SmallVec<[Appended; 1]>,
    store_host: Host,
    reason: Option<String>,
}

impl PutMessageResult {
    pub fn stored(
        status: PutMessageStatus,
        appended: impl Into<SmallVec<[Appended; 1]>>,
        store_host: Host,
    ) -> Self {
        let appended = appended.into();
        Self { status, append: Some(AppendMessageStatus::PutOk), appended, store_host, reason: None }
    }

    pub fn refused(refusal: &PutRefusal, store_host: Host) -> Self {
        Self::refused_behind(refusal, SmallVec::new(), store_host)
    }

    /// Of several, of which the first ones may be stored.
    pub fn refused_behind(
        refusal: &PutRefusal,
        appended: impl Into<SmallVec<[Appended; 1]>>,
        store_host: Host,
    ) -> Self {
        let (appended, reason) = (appended.into(), Some(refusal.reason.to_string()));
        Self { status: refusal.status, append: refusal.append, appended, store_host, reason }
    }

    fn first(&self) -> Option<&Appended> {
        self.appended.first()
    }
}

#[pymethods]
impl PutMessageResult {
    /// How it ended.
    #[getter]
    fn status<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        status::put(py, self.status)
    }

    /// How the append ended, by 4.9.3's name; ``None`` where it did not come to that.
    #[getter]
    fn append_status(&self) -> Option<&'static str> {
        self.append.map(AppendMessageStatus::name)
    }

    /// Whether the message is stored, and flushed and replicated as far as it had to be.
    #[getter]
    fn is_ok(&self) -> bool {
        self.status == PutMessageStatus::PutOk
    }

    /// Why it was not stored.
    #[getter]
    fn reason(&self) -> Option<&str> {
        self.reason.as_deref()
    }

    /// The message's id; those of a batch separated by commas.
    #[getter]
    fn msg_id(&self) -> String {
        let id = |appended: &Appended| {
            MessageId { store_host: self.store_host, physical_offset: appended.wrote_offset }.to_hex()
        };
        self.appended.iter().map(id).collect::<Vec<_>>().join(",")
    }

    /// The offset in the log, of the first message.
    #[getter]
    pub(crate) fn wrote_offset(&self) -> Option<u64> {
        self.first().map(|first| first.wrote_offset)
    }

    /// Bytes of all records.
    #[getter]
    fn wrote_bytes(&self) -> u64 {
        self.appended.iter().map(|appended| u64::from(appended.wrote_bytes)).sum()
    }

    /// When it was stored.
    #[getter]
    fn store_timestamp(&self) -> Option<i64> {
        self.first().map(|first| first.store_timestamp)
    }

    /// The offset in the queue, of the first message.
    #[getter]
    fn logics_offset(&self) -> Option<i64> {
        self.first().map(|first| first.logics_offset)
    }

    /// How many messages were stored.
    #[getter]
    fn msg_num(&self) -> usize {
        self.appended.len()
    }

    /// The offset in the queue of each message.
    #[getter]
    fn logics_offsets(&self) -> Vec<i64> {
        self.appended.iter().map(|appended| appended.logics_offset).collect()
    }

    /// The offset in the log of each message.
    #[getter]
    fn wrote_offsets(&self) -> Vec<u64> {
        self.appended.iter().map(|appended| appended.wrote_offset).collect()
    }

    /// Errors that have one go from process to process, as where a pool's worker raises them.
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, Parts)> {
        let (status, append) = (self.status.name(), self.append_status().map(str::to_owned));
        let place = |appended: &Appended| {
            let Appended { wrote_offset, wrote_bytes, store_timestamp, logics_offset } = *appended;
            (wrote_offset, wrote_bytes, store_timestamp, logics_offset)
        };
        let places = self.appended.iter().map(place).collect();
        let parts = (status.to_owned(), append, places, self.store_host.to_string(), self.reason.clone());
        Ok((py.get_type::<Self>().getattr("_of")?, parts))
    }

    /// One of the parts that `__reduce__` gives.
    #[staticmethod]
    fn _of(
        status: &str,
        append: Option<&str>,
        places: Vec<(u64, u32, i64, i64)>,
        store_host: &str,
        reason: Option<String>,
    ) -> PyResult<Self> {
        let bad = || PyValueError::new_err("expected the parts of a PutMessageResult");
        let appended = |(wrote_offset, wrote_bytes, store_timestamp, logics_offset)| Appended {
            wrote_offset,
            wrote_bytes,
            store_timestamp,
            logics_offset,
        };
        Ok(Self {
            status: PutMessageStatus::of_name(status).ok_or_else(bad)?,
            append: append.map(|name| AppendMessageStatus::of_name(name).ok_or_else(bad)).transpose()?,
            appended: places.into_iter().map(appended).collect(),
            store_host: store_host.parse().map_err(|_| bad())?,
            reason,
        })
    }

    fn __repr__(&self) -> String {
        match (self.first(), &self.reason) {
            (Some(first), _) => format!(
                "PutMessageResult(status={}, wrote_offset={}, logics_offset={}, msg_num={})",
                self.status.name(),
                first.wrote_offset,
                first.logics_offset,
                self.appended.len()
            ),
            (None, reason) => {
                format!(
                    "PutMessageResult(status={}, reason={:?})",
                    self.status.name(),
                    reason.as_deref().unwrap_or("")
                )
            }
        }
    }
}

/// What an index of a Python sequence means, which counts from the end where it is negative.
fn position(at: isize, len: usize) -> Option<usize> {
    if at < 0 { len.checked_sub(at.unsigned_abs()) } else { Some(at.unsigned_abs()) }
}

/// What a get gives: a status, where to go on, and the messages as a sequence.
#[pyclass(frozen, sequence, module = "mqstore", weakref)]
pub struct GetMessageResult {
    result: CoreGetResult,
}

impl GetMessageResult {
    pub const fn new(result: CoreGetResult) -> Self {
        Self { result }
    }

    pub const fn core(&self) -> &CoreGetResult {
        &self.result
    }

    fn message(&self, at: usize) -> Option<Message> {
        let got = self.result.messages.get(at)?;
        Some(Message::new(got.record()?, Some(got.queue_offset())))
    }
}

#[pymethods]
impl GetMessageResult {
    /// How it ended.
    #[getter]
    fn status<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        status::get(py, self.result.status)
    }

    /// Where the next get goes on.
    #[getter]
    fn next_begin_offset(&self) -> i64 {
        self.result.next_begin_offset
    }

    /// The queue's first offset.
    #[getter]
    fn min_offset(&self) -> i64 {
        self.result.min_offset
    }

    /// The queue's end.
    #[getter]
    fn max_offset(&self) -> i64 {
        self.result.max_offset
    }

    /// Bytes of all records.
    #[getter]
    fn buffer_total_size(&self) -> u64 {
        self.result.buffer_total_size
    }

    /// Whether the messages lie so far behind the log's end that they are no longer in memory.
    #[getter]
    fn suggest_pulling_from_slave(&self) -> bool {
        self.result.suggest_pulling_from_slave
    }

    /// The messages.
    #[getter]
    fn messages<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        // Whoever asks for objects looks into them, by when the first parts of the records are there.
        let fetched = |at| self.message(at).inspect(Message::prefetch_head);
        PyList::new(py, (0..self.result.messages.len()).filter_map(fetched))
    }

    fn __len__(&self) -> usize {
        self.result.messages.len()
    }

    fn __getitem__(&self, at: isize) -> PyResult<Message> {
        let len = self.result.messages.len();
        let found = position(at, len).and_then(|at| self.message(at));
        found.ok_or_else(|| PyIndexError::new_err(format!("message {at} of {len}")))
    }

    fn __repr__(&self) -> String {
        format!(
            "GetMessageResult(status={}, messages={}, next_begin_offset={}, min_offset={}, max_offset={})",
            self.result.status.name(),
            self.result.messages.len(),
            self.result.next_begin_offset,
            self.result.min_offset,
            self.result.max_offset
        )
    }
}

/// The messages of each of many keys. They become objects when they are asked for.
#[pyclass(frozen, sequence, module = "mqstore", weakref)]
pub struct QueryMessagesResult {
    found: FoundByKey,
}

impl QueryMessagesResult {
    pub const fn new(found: FoundByKey) -> Self {
        Self { found }
    }

    fn messages(&self, at: usize) -> Option<Vec<Message>> {
        let records = self.found.get(at)?;
        Some(records.into_iter().map(|record| Message::new(record, None)).collect())
    }
}

#[pymethods]
impl QueryMessagesResult {
    const fn __len__(&self) -> usize {
        self.found.len()
    }

    fn __getitem__(&self, at: isize) -> PyResult<Vec<Message>> {
        let len = self.found.len();
        let found = position(at, len).and_then(|at| self.messages(at));
        found.ok_or_else(|| PyIndexError::new_err(format!("key {at} of {len}")))
    }

    fn __repr__(&self) -> String {
        format!("QueryMessagesResult(keys={})", self.found.len())
    }

    fn __iter__(slf: Py<Self>) -> QueryMessagesIterator {
        QueryMessagesIterator { result: slf, next: AtomicUsize::new(0) }
    }
}

/// Goes through the keys.
#[pyclass(frozen, module = "mqstore._native")]
struct QueryMessagesIterator {
    result: Py<QueryMessagesResult>,
    next: AtomicUsize,
}

#[pymethods]
impl QueryMessagesIterator {
    const fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__(&self) -> Option<Vec<Message>> {
        self.result.get().messages(self.next.fetch_add(1, Ordering::Relaxed))
    }
}

/// See `once.rs`.
pub fn prepare(py: Python<'_>) {
    py.get_type::<QueryMessagesIterator>();
}
