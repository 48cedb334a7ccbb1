//! `mqstore._native.Store`: the engine's store. `mqstore.MessageStore` is made from it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};
use std::time::Duration;

use hashbrown::HashMap;
use mqstore_core::clock::{Clock, SystemClock};
use mqstore_core::config::StoreConfig;
use mqstore_core::format::host::Host;
use mqstore_core::fs::OsFileSystem;
use mqstore_core::recovery::layout;
use mqstore_core::store::{Mode, Part, Store as CoreStore};
use mqstore_core::sync::RwLock;
use mqstore_core::unique_key::UniqueKeys;
use mqstore_core::{config_file, lock};
use pyo3::prelude::*;

use crate::arguments;
use crate::clock::PyClock;
use crate::engine::Engine;
use crate::errors::{IntoPyResult, detached};
use crate::given;
use crate::log_view::LogView;
use crate::options::EngineOptions;
use crate::ranges::file_system;
use crate::signals::{interruptible, interruptible_alone};

/// A part of a store: the log's end where it is known, topics or all, how many openings its plan knew of or all.
type PartRow = (Option<u64>, Option<Vec<String>>, Option<u64>);

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
    /// Whether the topic of timed messages is one of the configuration.
    pub(crate) knows_timed_topic: AtomicBool,
    pub(crate) sync_flush_timeout: Duration,
    stopping: Arc<AtomicBool>,
}

/// Whose turn it is among a topic's queues.
pub(crate) struct Round {
    pub(crate) write_queue_nums: i32,
    pub(crate) next: AtomicI32,
}

/// Refuses a folder without a store.
#[pyfunction]
pub fn check_exists(py: Python<'_>, options: EngineOptions) -> PyResult<()> {
    let config = StoreConfig::from(options);
    detached(py, || layout::check_exists(&OsFileSystem, &config))
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

/// Replaces a small file as a whole, and flushes it; its folder is there.
#[pyfunction]
pub fn write_whole(py: Python<'_>, path: std::path::PathBuf, content: &[u8]) -> PyResult<()> {
    detached(py, || config_file::swap(&OsFileSystem, &path, content))
}

/// Bytes that this process has read from stores' files; what is mapped is not counted.
#[pyfunction]
pub fn read_bytes() -> u64 {
    mqstore_core::fs::read_bytes()
}

/// Whether a mapping of a file in a folder can end a process that only reads it.
#[pyfunction]
pub fn is_mapping_risky(path: std::path::PathBuf) -> bool {
    mqstore_core::fs::is_mapping_risky(&path)
}

impl Store {
    /// The engine's store, unless it is closed: what it was is no answer of a store that may be another one's by now.
    pub(crate) fn open_core(&self, py: Python<'_>) -> PyResult<&CoreStore> {
        self.core.check_open().into_py(py)?;
        Ok(&self.core)
    }
}

#[pymethods]
impl Store {
    #[new]
    #[pyo3(signature = (options, *, writable, clock, born_host, store_host, sync_flush_timeout_ms, part=None, ranges=None, under=None))]
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
        ranges: Option<Py<PyAny>>,
        under: Option<&LogView>,
    ) -> PyResult<Self> {
        let mode = if writable { Mode::ReadWrite } else { Mode::Read };
        let clock: Arc<dyn Clock> = match clock {
            Some(now_ms) => Arc::new(PyClock::new(py, now_ms)?),
            None => Arc::new(SystemClock),
        };
        let (born_host, store_host) =
            (arguments::host("born_host", born_host)?, arguments::host("store_host", store_host)?);
        let config = StoreConfig::from(options);
        let fs = file_system(ranges, &config.store_path_root_dir);
        let core = interruptible_alone(py, || match (part, under.and_then(|view| view.core.held_lock())) {
            (Some((log_end, topics, openings)), _) => {
                CoreStore::open_part(config, fs, clock, &Part { log_end, topics, openings })
            }
            (None, Some(lock)) => CoreStore::open_under(config, fs, clock, lock),
            (None, None) => CoreStore::open(config, fs, clock, mode),
        })?;
        Ok(Self {
            core,
            born_host,
            store_host,
            unique_keys: UniqueKeys::new(INSTANCES.fetch_add(1, Ordering::Relaxed)),
            rounds: RwLock::default(),
            knows_timed_topic: AtomicBool::new(false),
            sync_flush_timeout: Duration::from_millis(sync_flush_timeout_ms),
            stopping: Arc::default(),
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

    /// What services hold of a store.
    #[getter]
    fn _engine(&self) -> Engine {
        let (core, stopping) = (Arc::clone(&self.core), Arc::clone(&self.stopping));
        Engine { core, store_host: self.store_host, stopping }
    }

    /// The queue that a put to a topic goes to.
    fn _queue_for(
        slf: &Bound<'_, Self>,
        #[pyo3(from_py_with = given::topic)] topic: &str,
        #[pyo3(from_py_with = given::queue_id)] queue_id: Option<i32>,
    ) -> PyResult<i32> {
        Self::queue_for(slf, topic, queue_id)
    }

    /// The number of queues that a put to a topic goes round.
    fn _set_write_queue_nums(&self, topic: String, write_queue_nums: i32) {
        let round = Round { write_queue_nums: write_queue_nums.max(1), next: AtomicI32::new(0) };
        self.rounds.write().insert(topic, Arc::new(round));
    }

    fn _reput(&self, py: Python<'_>) -> PyResult<u64> {
        interruptible(py, || self.core.reput())
    }

    fn _set_listening(&self, listening: bool) {
        self.core.dispatcher().set_listening(listening);
    }

    fn _refresh(&self, py: Python<'_>) -> PyResult<u64> {
        interruptible(py, || self.core.refresh())
    }
}
