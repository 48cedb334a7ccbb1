//! `mqstore._native.Store`: the engine's store. `mqstore.MessageStore` is made from it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use hashbrown::HashMap;
use mqstore_core::clock::{Clock, SystemClock};
use mqstore_core::dispatch::Arrival as CoreArrival;
use mqstore_core::format::host::Host;
use mqstore_core::fs::OsFileSystem;
use mqstore_core::lock;
use mqstore_core::store::{Mode, Part, Store as CoreStore};
use mqstore_core::unique_key::UniqueKeys;
use parking_lot::RwLock;
use pyo3::prelude::*;

use crate::arguments;
use crate::clock::PyClock;
use crate::errors::{IntoPyResult, detached, refusal_to_py};
use crate::options::EngineOptions;

/// A part of a store: the log's end where it is known, topics or all.
type PartRow = (Option<u64>, Option<Vec<String>>);

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

/// Bytes that this process has read from stores' files; what is mapped is not counted.
#[pyfunction]
pub fn read_bytes() -> u64 {
    mqstore_core::fs::read_bytes()
}

/// Whether a folder lies on a disk that other machines can write to.
#[pyfunction]
pub fn on_network_disk(path: std::path::PathBuf) -> bool {
    mqstore_core::fs::is_network(&path)
}

#[pymethods]
impl Store {
    #[new]
    #[pyo3(signature = (options, *, writable, clock, born_host, store_host, sync_flush_timeout_ms, part=None))]
    #[allow(clippy::too_many_arguments)] // all of what a store is opened with
    fn new(
        py: Python<'_>,
        options: EngineOptions,
        writable: bool,
        clock: Option<Py<PyAny>>,
        born_host: &str,
        store_host: &str,
        sync_flush_timeout_ms: u64,
        part: Option<PartRow>,
    ) -> PyResult<Self> {
        let mode = if writable { Mode::ReadWrite } else { Mode::Read };
        let clock: Arc<dyn Clock> = match clock {
            Some(now_ms) => Arc::new(PyClock::new(now_ms)),
            None => Arc::new(SystemClock),
        };
        let (born_host, store_host) = (arguments::host(born_host)?, arguments::host(store_host)?);
        let core = detached(py, || match part {
            Some((log_end, topics)) => {
                CoreStore::open_part(options.into(), Arc::new(OsFileSystem), clock, &Part { log_end, topics })
            }
            None => CoreStore::open(options.into(), Arc::new(OsFileSystem), clock, mode),
        })?;
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
        if let Some(master) = self.core.ha_master() {
            master.wake();
        }
        if let Some(client) = self.core.ha_client() {
            client.wake();
        }
    }

    /// The queue that a put to a topic goes to.
    fn _queue_for(slf: &Bound<'_, Self>, topic: &str, queue_id: Option<i32>) -> PyResult<i32> {
        let checked = slf.get().core.check_topic(topic.as_bytes());
        checked.map_err(|refusal| refusal_to_py(slf.py(), &refusal))?;
        Self::round_of(slf, topic)?.queue(queue_id)
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
}
