//! `mqstore._native.Store`: the engine's store. `mqstore.MessageStore` is made from it.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use mqstore_core::clock::{Clock, SystemClock};
use mqstore_core::consume_queue::Boundary;
use mqstore_core::dispatch::{Arrival as CoreArrival, Gap};
use mqstore_core::error::Error;
use mqstore_core::format::host::Host;
use mqstore_core::fs::OsFileSystem;
use mqstore_core::index::KeyQuery;
use mqstore_core::lock;
use mqstore_core::mmap::file_queue::Stray;
use mqstore_core::num;
use mqstore_core::store::{Mode, Store as CoreStore, Subscription};
use mqstore_core::unique_key::UniqueKeys;
use parking_lot::RwLock;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyMemoryView;

use crate::arguments;
use crate::clock::PyClock;
use crate::errors::{IntoPyResult, detached};
use crate::message::{Message, view};
use crate::options::EngineOptions;
use crate::results::GetMessageResult;

/// How long dispatch sleeps when there is nothing to dispatch: 4.9.3's interval.
const REPUT_INTERVAL: Duration = Duration::from_millis(1);
/// Which client of this process made a key.
static INSTANCES: AtomicU32 = AtomicU32::new(0);

/// The engine's store.
#[pyclass(frozen, subclass, module = "mqstore._native", weakref)]
pub struct Store {
    pub(crate) core: Arc<CoreStore>,
    pub(crate) born_host: Host,
    pub(crate) store_host: Host,
    pub(crate) unique_keys: UniqueKeys,
    /// The queues that a put without a queue goes round, by topic.
    pub(crate) rounds: RwLock<HashMap<String, Arc<Round>>>,
    pub(crate) sync_flush_timeout: Duration,
    stopping: AtomicBool,
}

/// Whose turn it is among a topic's queues.
pub(crate) struct Round {
    pub(crate) write_queue_nums: i32,
    pub(crate) next: AtomicI32,
}

/// A message that has become visible in its queue.
#[pyclass(frozen, module = "mqstore")]
pub struct Arrival(CoreArrival);

#[pymethods]
impl Arrival {
    #[getter]
    fn topic(&self) -> &str {
        &self.0.topic
    }

    #[getter]
    fn queue_id(&self) -> i32 {
        self.0.queue_id
    }

    #[getter]
    fn max_offset(&self) -> i64 {
        self.0.max_offset
    }

    #[getter]
    fn tags_code(&self) -> i64 {
        self.0.tags_code
    }

    #[getter]
    fn store_timestamp(&self) -> i64 {
        self.0.store_timestamp
    }

    fn __repr__(&self) -> String {
        format!(
            "Arrival(topic={:?}, queue_id={}, max_offset={}, store_timestamp={})",
            self.0.topic, self.0.queue_id, self.0.max_offset, self.0.store_timestamp
        )
    }
}

/// Who has a store open for writing: `None` for nobody.
#[pyfunction]
pub fn locked_by(
    py: Python<'_>,
    lock_file: std::path::PathBuf,
    own_dir: std::path::PathBuf,
) -> PyResult<Option<String>> {
    let writer = lock::writer(&OsFileSystem, &lock_file, &own_dir).into_py(py)?;
    Ok(writer.map(|writer| writer.holder))
}

/// Whether a folder lies on a disk that other machines can write to.
#[pyfunction]
pub fn on_network_disk(path: std::path::PathBuf) -> bool {
    mqstore_core::fs::is_network(&path)
}

type StrayRow = (String, String, String);
type GapRow = (u64, u64, Option<String>);

fn stray_row(stray: &Stray) -> StrayRow {
    (stray.path.to_string_lossy().into_owned(), stray.expected.clone(), stray.found.clone())
}

fn gap_row(gap: &Gap) -> GapRow {
    (gap.from, gap.to, gap.fault.map(|fault| fault.to_string()))
}

fn boundary_of(boundary: &str) -> PyResult<Boundary> {
    match boundary {
        "nearest" => Ok(Boundary::Nearest),
        "lower" => Ok(Boundary::Lower),
        "upper" => Ok(Boundary::Upper),
        _ => Err(PyValueError::new_err(format!("boundary is nearest, lower or upper, not {boundary:?}"))),
    }
}

#[pymethods]
impl Store {
    #[new]
    #[pyo3(signature = (options, *, writable, clock, born_host, store_host, sync_flush_timeout_ms))]
    fn new(
        py: Python<'_>,
        options: EngineOptions,
        writable: bool,
        clock: Option<Py<PyAny>>,
        born_host: &str,
        store_host: &str,
        sync_flush_timeout_ms: u64,
    ) -> PyResult<Self> {
        let mode = if writable { Mode::ReadWrite } else { Mode::Read };
        let clock: Arc<dyn Clock> = match clock {
            Some(now_ms) => Arc::new(PyClock::new(now_ms)),
            None => Arc::new(SystemClock),
        };
        let (born_host, store_host) = (arguments::host(born_host)?, arguments::host(store_host)?);
        let core = detached(py, || CoreStore::open(options.into(), Arc::new(OsFileSystem), clock, mode))?;
        Ok(Self {
            core,
            born_host,
            store_host,
            unique_keys: UniqueKeys::new(INSTANCES.fetch_add(1, Ordering::Relaxed)),
            rounds: RwLock::default(),
            sync_flush_timeout: Duration::from_millis(sync_flush_timeout_ms),
            stopping: AtomicBool::new(false),
        })
    }

    /// Flushes and closes the engine.
    fn _close(&self, py: Python<'_>) -> PyResult<()> {
        detached(py, || self.core.close())
    }

    /// Removes log, queues and index.
    fn _destroy(&self, py: Python<'_>) -> PyResult<()> {
        detached(py, || self.core.destroy())
    }

    /// Lets the passes that wait come back soon.
    fn _stop_passes(&self) {
        self.stopping.store(true, Ordering::Release);
        self.core.log().wake_allocator();
        self.core.log().wake_flusher();
    }

    /// The number of queues that a put to a topic goes round.
    fn _set_write_queue_nums(&self, topic: String, write_queue_nums: i32) {
        let round = Round { write_queue_nums: write_queue_nums.max(1), next: AtomicI32::new(0) };
        self.rounds.write().insert(topic, Arc::new(round));
    }

    // ---- passes -----------------------------------------------------------------------------

    /// Dispatches for up to so many milliseconds; comes back early with arrivals to tell of.
    fn _reput_for(&self, py: Python<'_>, max_ms: u64) -> PyResult<Vec<Arrival>> {
        let arrivals = detached(py, || {
            let end = Instant::now() + Duration::from_millis(max_ms);
            loop {
                self.core.reput()?;
                let arrivals = self.core.dispatcher().take_arrivals();
                if !arrivals.is_empty() || self.stopping.load(Ordering::Acquire) || Instant::now() >= end {
                    return Ok(arrivals);
                }
                std::thread::sleep(REPUT_INTERVAL);
            }
        })?;
        Ok(arrivals.into_iter().map(Arrival).collect())
    }

    fn _reput(&self, py: Python<'_>) -> PyResult<u64> {
        detached(py, || self.core.reput())
    }

    fn _set_listening(&self, listening: bool) {
        self.core.dispatcher().set_listening(listening);
    }

    /// Gives the flushed offset and whether anything was flushed.
    fn _flush_commit_log(&self, py: Python<'_>, least_pages: u64) -> PyResult<(u64, bool)> {
        let outcome = detached(py, || self.core.flush_commit_log(least_pages))?;
        Ok((outcome.flushed_offset, outcome.flushed_some))
    }

    /// Waits for a put that asks for a flush.
    fn _wait_flush_requested(&self, py: Python<'_>, max_wait_ms: u64) {
        py.detach(|| self.core.log().wait_flush_requested(Duration::from_millis(max_wait_ms)));
    }

    fn _group_commit(&self, py: Python<'_>, max_wait_ms: u64) -> PyResult<u64> {
        let outcome = detached(py, || self.core.group_commit(Duration::from_millis(max_wait_ms)))?;
        Ok(outcome.flushed_offset)
    }

    fn _commit(&self, py: Python<'_>, least_pages: u64) -> PyResult<bool> {
        detached(py, || self.core.log().commit(least_pages))
    }

    fn _allocate(&self, py: Python<'_>, max_wait_ms: u64) -> PyResult<()> {
        detached(py, || self.core.log().allocate_pass(Duration::from_millis(max_wait_ms)))
    }

    fn _flush_consume_queues(&self, py: Python<'_>, least_pages: u64) -> PyResult<()> {
        detached(py, || self.core.flush_consume_queues(least_pages))
    }

    fn _flush_everything(&self, py: Python<'_>) -> PyResult<()> {
        detached(py, || self.core.flush_everything())
    }

    fn _refresh(&self, py: Python<'_>) -> PyResult<u64> {
        detached(py, || self.core.refresh())
    }

    fn _make_logics_queue_error(&self) {
        self.core.running_flags().make_logics_queue_error();
    }

    /// Waits until the log is on the disk up to an offset; gives whether it is in time.
    fn _wait_flushed(&self, py: Python<'_>, offset: u64, timeout_ms: u64) -> PyResult<bool> {
        detached(py, || {
            self.core.log().request_flush(offset);
            self.core.log().wait_flushed(offset, Duration::from_millis(timeout_ms))
        })
    }

    /// Hands in an offset that has to get to the disk.
    fn _request_flush(&self, offset: u64) {
        self.core.log().request_flush(offset);
    }

    // ---- reading ----------------------------------------------------------------------------

    #[pyo3(signature = (topic, queue_id, offset, max_msg_nums=32, subscription=None))]
    fn get_message(
        &self,
        py: Python<'_>,
        topic: &str,
        queue_id: i32,
        offset: i64,
        max_msg_nums: usize,
        subscription: Option<&str>,
    ) -> PyResult<GetMessageResult> {
        let subscription = subscription.and_then(Subscription::parse);
        let get = || self.core.get_message(topic, queue_id, offset, max_msg_nums, subscription.as_ref());
        Ok(GetMessageResult::new(detached(py, get)?))
    }

    #[pyo3(signature = (topic, key, max_num=32, begin=0, end=i64::MAX))]
    fn query_message(
        &self,
        py: Python<'_>,
        topic: &str,
        key: &str,
        max_num: usize,
        begin: i64,
        end: i64,
    ) -> PyResult<Vec<Message>> {
        let query = KeyQuery { topic: topic.as_bytes(), key: key.as_bytes(), max_num, begin, end };
        let records = detached(py, || self.core.query_message(&query))?;
        Ok(records.into_iter().map(|record| Message::new(record, None)).collect())
    }

    #[pyo3(signature = (topic, queue_id, timestamp, boundary="nearest"))]
    fn get_offset_in_queue_by_time(
        &self,
        py: Python<'_>,
        topic: &str,
        queue_id: i32,
        timestamp: i64,
        boundary: &str,
    ) -> PyResult<u64> {
        let boundary = boundary_of(boundary)?;
        detached(py, || self.core.get_offset_in_queue_by_time(topic, queue_id, timestamp, boundary))
    }

    fn look_message_by_offset(&self, py: Python<'_>, commit_log_offset: i64) -> PyResult<Option<Message>> {
        let Some(offset) = num::from_java_long(commit_log_offset) else { return Ok(None) };
        let record = detached(py, || self.core.record_at(offset))?;
        Ok(record.map(|record| Message::new(record, None)))
    }

    fn get_commit_log_data<'py>(&self, py: Python<'py>, offset: u64) -> PyResult<Bound<'py, PyMemoryView>> {
        let data = detached(py, || self.core.get_commit_log_data(offset))?;
        view(py, data)
    }

    fn get_max_offset_in_queue(&self, topic: &str, queue_id: i32) -> u64 {
        self.core.find_consume_queue(topic, queue_id).map_or(0, |queue| queue.max_offset_in_queue())
    }

    fn get_min_offset_in_queue(&self, topic: &str, queue_id: i32) -> u64 {
        self.core.find_consume_queue(topic, queue_id).map_or(0, |queue| queue.min_offset_in_queue())
    }

    fn get_message_total_in_queue(&self, topic: &str, queue_id: i32) -> u64 {
        self.core.find_consume_queue(topic, queue_id).map_or(0, |queue| queue.message_total_in_queue())
    }

    fn get_commit_log_offset_in_queue(
        &self,
        py: Python<'_>,
        topic: &str,
        queue_id: i32,
        offset: u64,
    ) -> PyResult<i64> {
        detached(py, || self.core.get_commit_log_offset_in_queue(topic, queue_id, offset))
    }

    fn get_message_store_time_stamp(
        &self,
        py: Python<'_>,
        topic: &str,
        queue_id: i32,
        offset: u64,
    ) -> PyResult<i64> {
        detached(py, || self.core.get_message_store_timestamp(topic, queue_id, offset))
    }

    #[pyo3(signature = (topic=None, queue_id=None))]
    fn get_earliest_message_time(
        &self,
        py: Python<'_>,
        topic: Option<&str>,
        queue_id: Option<i32>,
    ) -> PyResult<i64> {
        match (topic, queue_id) {
            (Some(topic), Some(queue_id)) => {
                detached(py, || self.core.get_earliest_message_time_in_queue(topic, queue_id))
            }
            (None, None) => detached(py, || self.core.get_earliest_message_time()),
            _ => Err(PyValueError::new_err("topic and queue_id go together")),
        }
    }

    fn check_in_disk_by_consume_offset(
        &self,
        py: Python<'_>,
        topic: &str,
        queue_id: i32,
        offset: u64,
    ) -> PyResult<bool> {
        detached(py, || self.core.check_in_disk_by_consume_offset(topic, queue_id, offset))
    }

    fn get_min_phy_offset(&self) -> i64 {
        self.core.min_phy_offset()
    }

    fn get_max_phy_offset(&self) -> u64 {
        self.core.max_phy_offset()
    }

    fn get_flushed_where(&self) -> u64 {
        self.core.log().flushed_offset()
    }

    fn get_confirm_offset(&self) -> i64 {
        self.core.log().confirm_offset()
    }

    fn set_confirm_offset(&self, offset: i64) {
        self.core.log().set_confirm_offset(offset);
    }

    fn dispatch_behind_bytes(&self) -> u64 {
        self.core.dispatch_behind_bytes()
    }

    fn dispatch_behind_ms(&self) -> i64 {
        self.core.dispatch_behind_ms()
    }

    fn remain_how_many_data_to_flush(&self) -> u64 {
        self.core.log().remain_how_many_data_to_flush()
    }

    fn remain_how_many_data_to_commit(&self) -> u64 {
        self.core.log().remain_how_many_data_to_commit()
    }

    fn remain_transient_store_buffer_numbs(&self) -> usize {
        self.core.log().remain_transient_store_buffer_count()
    }

    fn lock_time_mills(&self) -> i64 {
        self.core.log().lock_time_ms()
    }

    fn now(&self) -> i64 {
        self.core.now_ms()
    }

    #[getter]
    fn running_flag_bits(&self) -> u32 {
        self.core.running_flags().bits()
    }

    #[getter]
    fn is_closed(&self) -> bool {
        self.core.is_closed()
    }

    #[getter]
    fn rejected_count(&self) -> u64 {
        self.core.rejected_count()
    }

    // ---- what is there ----------------------------------------------------------------------

    /// Topic, queue, first offset, end, bytes of units in memory, of every queue.
    fn _queues(&self) -> Vec<(String, i32, u64, u64, usize)> {
        let row = |queue: &Arc<mqstore_core::consume_queue::ConsumeQueue>| {
            (
                queue.topic().to_owned(),
                queue.queue_id(),
                queue.min_offset_in_queue(),
                queue.max_offset_in_queue(),
                queue.tail_len(),
            )
        };
        self.core.queues().all().iter().map(row).collect()
    }

    /// Units of a queue from an index on: physical offset, size, tags code as stored.
    fn _units(
        &self,
        py: Python<'_>,
        topic: &str,
        queue_id: i32,
        from: u64,
        count: usize,
    ) -> PyResult<Vec<(i64, i32, i64)>> {
        let Some(queue) = self.core.find_consume_queue(topic, queue_id) else { return Ok(Vec::new()) };
        let units = detached(py, || queue.units(from, count))?;
        Ok(units.iter().map(|unit| (unit.physical_offset, unit.size, unit.tags_code)).collect())
    }

    fn _make_queue(&self, py: Python<'_>, topic: &str, queue_id: i32) -> PyResult<()> {
        let queue = mqstore_core::commit_log::topic_queue::QueueRef { topic: topic.as_bytes(), queue_id };
        self.core.queues().get_or_make(queue).into_py(py).map(|_| ())
    }

    fn _destroy_queue(&self, py: Python<'_>, topic: &str, queue_id: i32) -> PyResult<bool> {
        let Some(queue) = self.core.find_consume_queue(topic, queue_id) else { return Ok(false) };
        detached(py, || self.core.destroy_queue(&queue)).map(|()| true)
    }

    fn _warm_up_queue(&self, py: Python<'_>, topic: &str, queue_id: i32) -> PyResult<()> {
        let Some(queue) = self.core.find_consume_queue(topic, queue_id) else { return Ok(()) };
        detached(py, || queue.warm_up())
    }

    /// Files and folders that are not as they should be: path, expected, found.
    fn _strays(&self) -> Vec<StrayRow> {
        self.core.notes().strays.iter().map(stray_row).collect()
    }

    /// Parts of the log without a record: from, to, why.
    fn _gaps(&self) -> Vec<GapRow> {
        self.core.gaps().iter().map(gap_row).collect()
    }

    /// Units that did not agree with the log: topic, queue, index, physical offset, why.
    fn _rejected(&self) -> Vec<(String, i32, u64, i64, Option<String>)> {
        let rejected = self.core.rejected().into_iter();
        rejected
            .map(|row| {
                let fault = row.fault.map(|fault| fault.to_string());
                (row.topic, row.queue_id, row.queue_offset, row.physical_offset, fault)
            })
            .collect()
    }

    #[getter]
    fn _closed_cleanly(&self) -> bool {
        self.core.notes().closed_cleanly
    }

    #[getter]
    fn _writer(&self) -> Option<String> {
        self.core.notes().writer.clone()
    }

    /// The checkpoint's times: log, queues, index.
    fn _checkpoint(&self) -> (i64, i64, i64) {
        let times = self.core.checkpoint().times();
        (times.physic_msg_timestamp, times.logics_msg_timestamp, times.index_msg_timestamp)
    }

    /// Index files: path, begin and end time, begin and end offset, slots in use, entries plus one.
    #[allow(clippy::type_complexity)] // a row for the control plane, which names its columns
    fn _index_files(&self) -> Vec<(String, i64, i64, i64, i64, i32, i32)> {
        let Some(index) = self.core.index() else { return Vec::new() };
        let row = |file: &Arc<mqstore_core::index::file::IndexFile>| {
            let header = file.header();
            (
                file.path().to_string_lossy().into_owned(),
                header.begin_timestamp,
                header.end_timestamp,
                header.begin_phy_offset,
                header.end_phy_offset,
                header.hash_slot_count,
                header.index_count,
            )
        };
        index.files().iter().map(row).collect()
    }

    /// Log files: path, first offset.
    fn _log_files(&self) -> Vec<(String, u64)> {
        let row = |file: &Arc<mqstore_core::mmap::mapped_file::MappedFile>| {
            (file.path().to_string_lossy().into_owned(), file.file_from_offset())
        };
        self.core.log().files().files().iter().map(row).collect()
    }

    #[getter]
    fn _log_file_size(&self) -> u64 {
        self.core.log().files().file_size()
    }

    #[getter]
    fn _queue_file_size(&self) -> u64 {
        self.core.queues().file_size()
    }

    /// Replaces a configuration file as a whole, keeping what was there as `.bak`.
    fn _replace_config(&self, py: Python<'_>, path: std::path::PathBuf, content: &[u8]) -> PyResult<()> {
        detached(py, || mqstore_core::config_file::replace(&OsFileSystem, &path, content))
    }

    fn _check_open(&self, py: Python<'_>) -> PyResult<()> {
        if self.core.is_closed() { Err(crate::errors::to_py(py, &Error::Closed)) } else { Ok(()) }
    }
}
