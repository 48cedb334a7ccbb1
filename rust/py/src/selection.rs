//! Selections: their messages, and their messages as Arrow.

use std::sync::Arc;

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};
use mqstore_core::arrow::{BatchOptions, BodyType, Columns, Dialect, MessageReader, record_batch};
use mqstore_core::commit_log::topic_queue::{QueueKey, QueueRef};
use mqstore_core::consume_queue::Boundary;
use mqstore_core::error::Error;
use mqstore_core::filter::SqlFilter;
use mqstore_core::format::java_string;
use mqstore_core::selection::{BadRanges as CoreBadRanges, Cursor as CoreCursor, QueueRange, Selection};
use mqstore_core::side_by_side::available_threads;
use mqstore_core::store::Subscription;
use mqstore_core::sync::Mutex;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::attach::Kept;
use crate::errors::{self, detached};
use crate::given;
use crate::message::Message;
use crate::reading::boundary_of;
use crate::results::GetMessageResult;
use crate::signals::{broken_off, interruptible};
use crate::store::Store;

/// A topic, a queue or all, the first offset, behind the last.
type QueueRow = (String, Option<i32>, Option<u64>, Option<u64>);

/// Which messages, by the names of the attributes of `mqstore.Selection`.
#[derive(FromPyObject)]
pub struct SelectionSpec {
    queues: Option<Vec<QueueRow>>,
    own_only: bool,
    keys: Option<Vec<String>>,
    topics_of_keys: Option<Vec<String>>,
    tags: Option<String>,
    sql: Option<String>,
    begin_timestamp: Option<i64>,
    end_timestamp: Option<i64>,
    times_in_any_order: bool,
    from_phy_offset: Option<u64>,
    to_phy_offset: Option<u64>,
    places: Option<Vec<u64>>,
    limit: Option<u64>,
}

impl Store {
    /// A selection as the engine goes by it.
    fn selection(&self, py: Python<'_>, spec: SelectionSpec) -> PyResult<Selection> {
        let range = |(topic, queue_id, from, to)| QueueRange { topic, queue_id, from, to };
        let compat = self.core.config().compat;
        let compile = |sql: String| interruptible(py, || SqlFilter::compile(&sql, compat)).map(Arc::new);
        Ok(Selection {
            queues: spec.queues.map(|queues| queues.into_iter().map(range).collect()),
            own_only: spec.own_only,
            keys: spec.keys,
            topics_of_keys: spec.topics_of_keys.unwrap_or_default(),
            tags: spec.tags.as_deref().and_then(Subscription::parse),
            sql: spec.sql.map(compile).transpose()?,
            begin_timestamp: spec.begin_timestamp,
            end_timestamp: spec.end_timestamp,
            times_in_any_order: spec.times_in_any_order,
            from_phy_offset: spec.from_phy_offset,
            to_phy_offset: spec.to_phy_offset,
            places: spec.places,
            limit: spec.limit,
        })
    }
}

/// A place in a selection's messages.
#[pyclass(frozen, module = "mqstore._native")]
pub struct Cursor(Mutex<CoreCursor>);

#[pymethods]
impl Cursor {
    /// The next messages: at most so many, and about as many bytes; none at the end.
    fn next_messages(&self, py: Python<'_>, max_count: usize, max_bytes: u64) -> PyResult<Vec<Message>> {
        let found = interruptible(py, || self.0.lock().next_messages(max_count, max_bytes))?;
        Ok(found
            .iter()
            .filter_map(|got| Some(Message::new(got.record()?, Some(got.queue_offset()))))
            .collect())
    }
}

/// What a selection named and the log did not give, while its batches are read, and what ended them.
#[pyclass(frozen, module = "mqstore._native")]
pub struct BadRanges {
    ranges: CoreBadRanges,
    error: Arc<Mutex<Option<Error>>>,
}

#[pymethods]
impl BadRanges {
    /// What has come since the last call: from, to, whether it is gone, why.
    fn take(&self) -> Vec<(u64, u64, bool, String)> {
        self.ranges.take().into_iter().map(|bad| (bad.from, bad.to, bad.is_gone, bad.reason)).collect()
    }

    /// Raises the engine's error that ended the batches, if one did: Arrow passes on its text alone.
    fn raise_error(&self, py: Python<'_>) -> PyResult<()> {
        self.error.lock().take().map_or(Ok(()), |error| Err(errors::to_py(py, &error)))
    }
}

fn columns_of(columns: Option<Vec<String>>, body: &str) -> PyResult<Columns> {
    let body = match body {
        "binary" => BodyType::Binary,
        "view" => BodyType::BinaryView,
        _ => return Err(PyValueError::new_err(format!("body is binary or view, not {body:?}"))),
    };
    match columns {
        None => Ok(Columns::all(body)),
        Some(names) => Columns::by_name(names.iter().map(String::as_str), body)
            .map_err(|unknown| PyValueError::new_err(unknown.to_string())),
    }
}

/// A reader that keeps its store, which would be closed with whoever has it.
struct KeptReader {
    reader: MessageReader,
    schema: SchemaRef,
    /// The engine's error that ended it.
    error: Arc<Mutex<Option<Error>>>,
    _store: Kept<Store>,
}

impl KeptReader {
    fn new(store: &Bound<'_, Store>, reader: MessageReader) -> Box<Self> {
        let schema = reader.schema();
        Box::new(Self { reader, schema, error: Arc::default(), _store: Kept::new(store.clone().unbind()) })
    }
}

impl Iterator for KeptReader {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = broken_off(|| self.reader.next())?;
        Some(batch.map_err(|error| match error {
            ArrowError::ExternalError(source) => {
                ArrowError::ExternalError(match source.downcast::<Error>() {
                    Ok(error) => {
                        let text = error.to_string();
                        *self.error.lock() = Some(*error);
                        text.into()
                    }
                    Err(source) => source,
                })
            }
            error => error,
        }))
    }
}

impl RecordBatchReader for KeptReader {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

fn capsule(py: Python<'_>, reader: Box<dyn RecordBatchReader + Send>) -> PyResult<Bound<'_, PyCapsule>> {
    PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(reader), c"arrow_array_stream")
}

#[pymethods]
impl Store {
    fn _cursor(&self, py: Python<'_>, spec: SelectionSpec) -> PyResult<Cursor> {
        let selection = self.selection(py, spec)?;
        let cursor = interruptible(py, || selection.cursor(Arc::clone(&self.core)))?;
        Ok(Cursor(Mutex::new(cursor)))
    }

    fn _count(&self, py: Python<'_>, spec: SelectionSpec) -> PyResult<u64> {
        let selection = self.selection(py, spec)?;
        interruptible(py, || selection.count(Arc::clone(&self.core)))
    }

    /// The messages as a capsule of an Arrow stream, which reads them as it is read.
    #[allow(clippy::too_many_arguments)] // all of what a stream is made with
    fn _arrow_stream<'py>(
        slf: &Bound<'py, Self>,
        spec: SelectionSpec,
        columns: Option<Vec<String>>,
        body: &str,
        max_messages: usize,
        max_bytes: u64,
        use_threads: bool,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let (py, this) = (slf.py(), slf.get());
        let columns = columns_of(columns, body)?;
        let selection = this.selection(py, spec)?;
        let bodies = columns.checked_bodies();
        let cursor = interruptible(py, || selection.cursor_with(Arc::clone(&this.core), bodies))?;
        let max_threads = if use_threads { available_threads() } else { 1 };
        let options = BatchOptions { max_messages: max_messages.max(1), max_bytes, max_threads };
        capsule(py, KeptReader::new(slf, MessageReader::new(cursor, columns, options)))
    }

    /// The messages as Spark takes them, and what gave none. Bodies are read where they are a column.
    fn _spark_stream<'py>(
        slf: &Bound<'py, Self>,
        spec: SelectionSpec,
        columns: Vec<String>,
        max_messages: usize,
        max_bytes: u64,
    ) -> PyResult<(Bound<'py, PyCapsule>, BadRanges)> {
        let (py, this) = (slf.py(), slf.get());
        let columns = columns_of(Some(columns), "binary")?.with_dialect(Dialect::Spark);
        let selection = this.selection(py, spec)?;
        let bodies = columns.bodies();
        let cursor = interruptible(py, || selection.cursor_with(Arc::clone(&this.core), bodies))?;
        let ranges = cursor.bad_ranges();
        // Spark has a task on each core.
        let options = BatchOptions { max_messages: max_messages.max(1), max_bytes, max_threads: 1 };
        let reader = KeptReader::new(slf, MessageReader::new(cursor, columns, options));
        let error = Arc::clone(&reader.error);
        Ok((capsule(py, reader)?, BadRanges { ranges, error }))
    }

    /// The part of the log that a walk for a selection's messages goes over.
    fn _log_range(&self, py: Python<'_>, spec: SelectionSpec) -> PyResult<(u64, u64)> {
        let selection = self.selection(py, spec)?;
        interruptible(py, || selection.log_range(&self.core))
    }

    /// Where the index says that messages with a selection's keys stand, unread.
    fn _places_of_keys(&self, py: Python<'_>, spec: SelectionSpec) -> PyResult<Vec<u64>> {
        let selection = self.selection(py, spec)?;
        interruptible(py, || selection.places_of_keys(&self.core))
    }

    /// Where the log stands behind the first so many selected messages.
    fn _position_behind(&self, py: Python<'_>, spec: SelectionSpec, max_count: u64) -> PyResult<u64> {
        let selection = self.selection(py, spec)?;
        interruptible(py, || selection.position_behind(&self.core, max_count))
    }

    /// The first place at or behind an offset of the log at which it can be divided.
    fn _boundary_at(&self, py: Python<'_>, offset: u64) -> PyResult<u64> {
        interruptible(py, || self.core.boundary_at(offset))
    }

    /// From which offset of the log on units were made anew since the store was opened to read; `None` where none were.
    fn _made_anew_from(&self, py: Python<'_>) -> PyResult<Option<u64>> {
        detached(py, || self.core.made_anew_from())
    }

    /// Raises where there is such an offset.
    fn _check_not_made_anew(&self, py: Python<'_>) -> PyResult<()> {
        detached(py, || self.core.check_not_made_anew())
    }

    /// How many openings of the store by writers it has seen.
    fn _openings_seen(&self, py: Python<'_>) -> PyResult<u64> {
        detached(py, || Ok(self.core.openings_seen()))
    }

    /// Up to where the log is as it was when so many openings had been seen.
    fn _log_unchanged_since(&self, py: Python<'_>, openings: u64) -> PyResult<u64> {
        detached(py, || Ok(self.core.log_unchanged_since(openings)))
    }

    /// How often what it has has changed otherwise than by growing, once no such change is under way.
    fn _settled_changes(&self, py: Python<'_>) -> PyResult<u64> {
        self.settled_changes(py)
    }

    /// The number of a queue's first unit whose message stands at an offset of the log or behind it.
    fn _first_unit_at(&self, py: Python<'_>, topic: &str, queue_id: i32, offset: u64) -> PyResult<u64> {
        let Some(queue) = self.core.find_consume_queue(topic, queue_id) else { return Ok(0) };
        interruptible(py, || queue.first_unit_at(offset))
    }

    /// The offset of the log up to which a queue's messages are those of one that was removed.
    fn _removed_up_to(&self, topic: &str, queue_id: i32) -> Option<u64> {
        let queue = QueueRef { topic: topic.as_bytes(), queue_id };
        self.core.config().removed_queues.last_of(queue).map(|last| last + 1)
    }

    /// The queues that were removed while the log has their messages, each with the offset up to which these are.
    fn _removed_queues(&self) -> Vec<(String, i32, u64)> {
        let removed = &self.core.config().removed_queues;
        let up_to = |queue: &QueueKey| removed.last_of(queue.as_ref()).map(|last| last + 1);
        let row = |queue: QueueKey| {
            Some((java_string::decode(&queue.topic).into_owned(), queue.queue_id, up_to(&queue)?))
        };
        removed.queues().into_iter().filter_map(row).collect()
    }

    /// For each of several times what :meth:`get_offset_in_queue_by_time` gives.
    #[pyo3(signature = (topic, queue_id, timestamps, boundary="nearest"))]
    fn get_offsets_in_queue_by_time(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = given::topic)] topic: &str,
        #[pyo3(from_py_with = given::field::queue_id)] queue_id: i32,
        #[pyo3(from_py_with = given::timestamps)] timestamps: Vec<i64>,
        #[pyo3(from_py_with = given::boundary)] boundary: &str,
    ) -> PyResult<Vec<u64>> {
        let boundary: Boundary = boundary_of(boundary)?;
        interruptible(py, || self.core.get_offsets_in_queue_by_time(topic, queue_id, &timestamps, boundary))
    }
}

#[pymethods]
impl GetMessageResult {
    /// The messages as a capsule of an Arrow stream of one batch.
    #[pyo3(signature = (columns=None, body="binary"))]
    fn _arrow_stream<'py>(
        &self,
        py: Python<'py>,
        columns: Option<Vec<String>>,
        body: &str,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let columns = columns_of(columns, body)?;
        let batch = py
            .detach(|| record_batch(&self.core().messages, &columns))
            .map_err(|error| errors::record_error(py, &error.to_string()))?;
        let schema = batch.schema();
        capsule(py, Box::new(arrow_array::RecordBatchIterator::new([Ok(batch)], schema)))
    }

    /// The PyCapsule interface: any Arrow library takes the result as it is.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _best_effort = requested_schema;
        self._arrow_stream(py, None, "binary")
    }
}
