//! Putting the rows of Arrow's tables.

use std::sync::Arc;

use hashbrown::HashMap;
use mqstore_core::arrow::{MessageRows, PutRows, RowFault, Shared, queue_by_keys};
use mqstore_core::clock::{Clock, SystemClock};
use mqstore_core::config::StoreConfig;
use mqstore_core::format::host::Host;
use mqstore_core::format::properties::DELIVER_AT;
use mqstore_core::fs::OsFileSystem;
use mqstore_core::num;
use mqstore_core::recovery::layout::log_file_size;
use mqstore_core::status::PutMessageStatus;
use mqstore_core::store::Admission;
use mqstore_core::sync::Mutex;
use mqstore_core::unique_key::UniqueKeys;
use pyo3::exceptions::{PyKeyboardInterrupt, PyValueError};
use pyo3::prelude::*;

use crate::arguments::{ArrowStream, PropertyMap, TimeMs};
use crate::errors;
use crate::given;
use crate::options::EngineOptions;
use crate::results::PutMessageResult;
use crate::signals::interruptible;
use crate::store::{Round, Store};

/// Topics and whose turn it is in each.
type Rounds = HashMap<Vec<u8>, Arc<Round>>;

/// Which queue a message without one goes to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Partitioner {
    Turns,
    Keys,
}

impl Partitioner {
    fn parse(name: &str) -> PyResult<Self> {
        match name {
            "turns" => Ok(Self::Turns),
            "keys" => Ok(Self::Keys),
            _ => Err(PyValueError::new_err(format!("partitioner is turns or keys, not {name:?}"))),
        }
    }

    fn queue_of(self, round: &Round, keys: &[u8]) -> i32 {
        if self == Self::Keys && !keys.is_empty() {
            queue_by_keys(keys, round.write_queue_nums)
        } else {
            round.next()
        }
    }
}

#[pymethods]
impl Store {
    /// Puts the rows of a table, one after another, and gives how many.
    ///
    /// A row gives the message that :meth:`put_many` makes of the same values; rows of a queue keep their
    /// order in it. No Python object is made for a row, and of a reader only one batch is in memory at a time.
    ///
    /// Args:
    ///     data: A table, a batch or a reader of pyarrow, Polars or any other library that has Arrow's PyCapsule
    ///         interface. Its columns are ``body`` (binary or string; needed), ``topic``, ``tags`` (strings),
    ///         ``keys`` (strings or lists of strings), ``properties`` (maps of string to string), ``queue_id``,
    ///         ``flag`` (integers) and ``born_timestamp`` (timestamps, or milliseconds).
    ///     topic: The topic of rows that have none.
    ///     queue_id: The queue of rows that have none; else the partitioner says it.
    ///     partitioner: ``"turns"``: a topic's queues take turns; ``"keys"``: messages of the same keys share
    ///         a queue, those without keys take turns.
    ///     properties: Properties that all rows have; they go before a row's own.
    ///     flag: The user's flag of rows that have none.
    ///     born_timestamp: When rows that do not say it were made: see :meth:`put`.
    ///     wait_store_msg_ok: Whether, with synchronous flush, the call waits for the disk, once at its end.
    ///     unique_key: Whether each gets a unique key, where its properties have none.
    ///
    /// Raises:
    ///     TypeError: ``data`` gives no Arrow.
    ///     ValueError: a column is unknown, missing or of another type.
    ///     MessageIllegalError: a row is no message, or can't be stored: ``row`` and ``column`` say which. Rows are
    ///         checked some thousands at a time before the first of them is put.
    ///     PutError: as for :meth:`put`. Whatever is raised has ``put_count``: so many rows, the first ones, are
    ///         stored. The call waits for them too, if it is not broken off by Ctrl-C, which it is between some
    ///         thousands of rows; a note says it where they were not confirmed.
    #[pyo3(signature = (
        data, *, topic=None, queue_id=None, partitioner="turns", properties=None, flag=0, born_timestamp=None,
        wait_store_msg_ok=true, unique_key=true
    ))]
    #[allow(clippy::too_many_arguments)] // what the messages of a call share
    fn put_arrow(
        slf: &Bound<'_, Self>,
        data: ArrowStream,
        #[pyo3(from_py_with = given::topic_of_others)] topic: Option<&str>,
        #[pyo3(from_py_with = given::queue_id)] queue_id: Option<i32>,
        #[pyo3(from_py_with = given::partitioner)] partitioner: &str,
        properties: Option<PropertyMap>,
        #[pyo3(from_py_with = given::flag)] flag: i32,
        #[pyo3(from_py_with = given::born_timestamp)] born_timestamp: Option<TimeMs>,
        #[pyo3(from_py_with = given::wait_store_msg_ok)] wait_store_msg_ok: bool,
        #[pyo3(from_py_with = given::unique_key)] unique_key: bool,
    ) -> PyResult<u64> {
        let (py, this) = (slf.py(), slf.get());
        if let Some(queue_id) = queue_id.filter(|queue_id| *queue_id < 0) {
            return Err(errors::negative_queue_id(queue_id));
        }
        let given = properties.unwrap_or_default();
        let now_ms = this.core.now_ms();
        let shared = Shared {
            topic: topic.map(str::as_bytes),
            queue_id,
            properties: &given.borrow(),
            flag,
            born_timestamp: born_timestamp.map_or(now_ms, |born| born.0),
            born_host: this.born_host,
            store_host: this.store_host,
            wait_store_msg_ok,
            unique_keys: unique_key.then_some(&this.unique_keys),
            now_ms,
        };
        let mut put = PutRows::default();
        let partitioner = Partitioner::parse(partitioner)?;
        let outcome = Self::put_stream(slf, data, &shared, partitioner, &mut put);
        if let Err(error) = this.all_confirmed(py, outcome, &mut put) {
            error.value(py).setattr("put_count", put.count)?;
            return Err(error);
        }
        Ok(put.count)
    }
}

impl Store {
    /// Waits for the disk and for a slave, also for the rows before one that is not put: they count as stored.
    fn all_confirmed(&self, py: Python<'_>, outcome: PyResult<()>, put: &mut PutRows) -> PyResult<()> {
        if outcome.as_ref().is_err_and(|error| error.is_instance_of::<PyKeyboardInterrupt>(py)) {
            return outcome;
        }
        let last = put.last.take().into_iter().collect::<Vec<_>>();
        let result = PutMessageResult::stored(PutMessageStatus::PutOk, last, self.store_host);
        let confirmed = self.confirmed_from(py, put.from, result, put.wait_for);
        if let (Err(error), Err(unconfirmed)) = (&outcome, &confirmed) {
            let note = format!("of the rows before it: {}", unconfirmed.value(py));
            error.value(py).call_method1("add_note", (note,))?;
        }
        outcome.and(confirmed.map(drop))
    }

    fn put_stream(
        slf: &Bound<'_, Self>,
        data: ArrowStream,
        shared: &Shared<'_>,
        partitioner: Partitioner,
        put: &mut PutRows,
    ) -> PyResult<()> {
        let (py, this) = (slf.py(), slf.get());
        let mut stream = data.0;
        let mut rounds = Rounds::default();
        let mut first_row = 0;
        while let Some(batch) = py.detach(|| stream.next()) {
            let batch = batch.map_err(|error| errors::arrow_error(&error))?;
            let bad = |fault| errors::batch_error(py, &fault);
            let rows = py.detach(|| MessageRows::of(&batch, first_row)).map_err(bad)?;
            for topic in py.detach(|| rows.topics(shared)).map_err(bad)? {
                if !rounds.contains_key(topic) {
                    rounds.insert(topic.to_vec(), Self::round_of(slf, &String::from_utf8_lossy(topic))?);
                }
            }
            Self::know_timed_topic(slf, || py.detach(|| rows.have_property(shared, DELIVER_AT)))?;
            let queue_of = |topic: &[u8], keys: &[u8]| {
                rounds.get(topic).map_or(0, |round| partitioner.queue_of(round, keys))
            };
            let outcome = interruptible(py, || Ok(rows.put(&this.core, shared, queue_of, put)))?;
            outcome.map_err(|fault| row_error(py, &fault))?;
            first_row += num::offset(rows.count());
            py.check_signals()?;
        }
        Ok(())
    }
}

fn row_error(py: Python<'_>, fault: &RowFault) -> PyErr {
    match fault {
        RowFault::Batch(fault) => errors::batch_error(py, fault),
        RowFault::Refused { row, refusal } => errors::refused_row(py, *row, refusal),
        RowFault::Interrupted(error) => errors::to_py(py, error),
    }
}

/// What holds rows against what a store takes, before any of them is put.
#[pyclass(frozen, module = "mqstore._native")]
pub struct RowCheck {
    config: StoreConfig,
    file_size: u64,
    topic: Option<String>,
    properties: PropertyMap,
    unique_keys: UniqueKeys,
    /// The rows so far.
    count: Mutex<u64>,
}

#[pymethods]
impl RowCheck {
    /// Holds rows that come some at a time against what a store takes, before any of them is put.
    ///
    /// Args:
    ///     options: The options that the store will be open with.
    ///     topic: The topic of rows that have none.
    ///     properties: Properties that all rows will have.
    ///
    /// Raises:
    ///     StoreIOError: the folders of its log can't be read, whose files say how large they are.
    #[new]
    #[pyo3(signature = (options, *, topic=None, properties=None))]
    fn new(
        py: Python<'_>,
        options: EngineOptions,
        topic: Option<String>,
        properties: Option<PropertyMap>,
    ) -> PyResult<Self> {
        let config = StoreConfig::from(options);
        let file_size = errors::detached(py, || log_file_size(&OsFileSystem, &config))?;
        let (properties, unique_keys) = (properties.unwrap_or_default(), UniqueKeys::new(0));
        Ok(Self { config, file_size, topic, properties, unique_keys, count: Mutex::new(0) })
    }

    /// Whether the store takes the next rows, as far as each alone tells; gives how many they are.
    ///
    /// Raises:
    ///     ValueError: as for :meth:`Store.put_arrow`.
    ///     MessageIllegalError: as there. Its ``row`` counts from the first of all rows.
    fn check(&self, py: Python<'_>, data: ArrowStream) -> PyResult<u64> {
        let nowhere = Host { ip: std::net::Ipv4Addr::UNSPECIFIED.into(), port: 0 };
        let shared = Shared {
            topic: self.topic.as_deref().map(str::as_bytes),
            queue_id: None,
            properties: &self.properties.borrow(),
            flag: 0,
            born_timestamp: 0,
            born_host: nowhere,
            store_host: nowhere,
            wait_store_msg_ok: true,
            // They take their room among the properties.
            unique_keys: Some(&self.unique_keys),
            now_ms: SystemClock.now_ms(),
        };
        let admission = Admission::new(&self.config, &SystemClock, self.file_size);
        let mut count = 0;
        let mut stream = data.0;
        while let Some(batch) = py.detach(|| stream.next()) {
            let batch = batch.map_err(|error| errors::arrow_error(&error))?;
            let checked = py.detach(|| {
                let mut known = self.count.lock();
                let rows = MessageRows::of(&batch, *known)?;
                rows.check(admission, &shared)?;
                *known += num::offset(rows.count());
                Ok(rows.count())
            });
            count += num::offset(checked.map_err(|fault| row_error(py, &fault))?);
            py.check_signals()?;
        }
        Ok(count)
    }
}
