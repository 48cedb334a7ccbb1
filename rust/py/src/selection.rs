//! Selections: their messages, and their messages as Arrow.

use std::sync::Arc;

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use mqstore_core::arrow::{BatchOptions, BodyType, Columns, MessageReader, record_batch};
use mqstore_core::consume_queue::Boundary;
use mqstore_core::selection::{Cursor as CoreCursor, QueueRange, Selection};
use mqstore_core::store::Subscription;
use parking_lot::Mutex;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::errors::{self, detached};
use crate::message::Message;
use crate::reading::boundary_of;
use crate::results::GetMessageResult;
use crate::store::Store;

/// A topic, a queue or all, the first offset, behind the last.
type QueueRow = (String, Option<i32>, Option<u64>, Option<u64>);

/// Which messages, by the names of the attributes of `mqstore.Selection`.
#[derive(FromPyObject)]
pub struct SelectionSpec {
    queues: Option<Vec<QueueRow>>,
    keys: Option<Vec<String>>,
    tags: Option<String>,
    begin_timestamp: Option<i64>,
    end_timestamp: Option<i64>,
    from_phy_offset: Option<u64>,
    to_phy_offset: Option<u64>,
    limit: Option<u64>,
}

impl From<SelectionSpec> for Selection {
    fn from(spec: SelectionSpec) -> Self {
        let range = |(topic, queue_id, from, to)| QueueRange { topic, queue_id, from, to };
        Self {
            queues: spec.queues.map(|queues| queues.into_iter().map(range).collect()),
            keys: spec.keys,
            tags: spec.tags.as_deref().and_then(Subscription::parse),
            begin_timestamp: spec.begin_timestamp,
            end_timestamp: spec.end_timestamp,
            from_phy_offset: spec.from_phy_offset,
            to_phy_offset: spec.to_phy_offset,
            limit: spec.limit,
        }
    }
}

/// A place in a selection's messages.
#[pyclass(frozen, module = "mqstore._native")]
pub struct Cursor(Mutex<CoreCursor>);

#[pymethods]
impl Cursor {
    /// The next messages: at most so many, and about as many bytes; none at the end.
    fn next_messages(&self, py: Python<'_>, max_count: usize, max_bytes: u64) -> PyResult<Vec<Message>> {
        let found = detached(py, || self.0.lock().next_messages(max_count, max_bytes))?;
        Ok(found
            .iter()
            .filter_map(|got| Some(Message::new(got.record()?, Some(got.queue_offset()))))
            .collect())
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

fn capsule(
    py: Python<'_>,
    reader: Box<dyn arrow_array::RecordBatchReader + Send>,
) -> PyResult<Bound<'_, PyCapsule>> {
    PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(reader), c"arrow_array_stream")
}

#[pymethods]
impl Store {
    fn _cursor(&self, py: Python<'_>, spec: SelectionSpec) -> PyResult<Cursor> {
        let selection = Selection::from(spec);
        let cursor = detached(py, || selection.cursor(Arc::clone(&self.core)))?;
        Ok(Cursor(Mutex::new(cursor)))
    }

    fn _count(&self, py: Python<'_>, spec: SelectionSpec) -> PyResult<u64> {
        let selection = Selection::from(spec);
        detached(py, || selection.count(Arc::clone(&self.core)))
    }

    /// The messages as a capsule of an Arrow stream, which reads them as it is read.
    fn _arrow_stream<'py>(
        &self,
        py: Python<'py>,
        spec: SelectionSpec,
        columns: Option<Vec<String>>,
        body: &str,
        max_messages: usize,
        max_bytes: u64,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let columns = columns_of(columns, body)?;
        let selection = Selection::from(spec);
        let cursor = detached(py, || selection.cursor(Arc::clone(&self.core)))?;
        let options = BatchOptions { max_messages: max_messages.max(1), max_bytes };
        capsule(py, Box::new(MessageReader::new(cursor, columns, options)))
    }

    /// Offsets by several times at once.
    #[pyo3(signature = (topic, queue_id, timestamps, boundary="nearest"))]
    fn get_offsets_in_queue_by_time(
        &self,
        py: Python<'_>,
        topic: &str,
        queue_id: i32,
        timestamps: Vec<i64>,
        boundary: &str,
    ) -> PyResult<Vec<u64>> {
        let boundary: Boundary = boundary_of(boundary)?;
        detached(py, || self.core.get_offsets_in_queue_by_time(topic, queue_id, &timestamps, boundary))
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
