//! Messages on their way from one store to another: as finished records, many a call.

use mqstore_core::format::java_hash_map::JavaHashMap;
use mqstore_core::format::message::{self, Place, RecordFields};
use mqstore_core::format::properties;
use mqstore_core::format::sys_flag;
use mqstore_core::num;
use mqstore_core::store::Finishing;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;

use crate::arguments;
use crate::errors::{self, detached};
use crate::store::Store;

/// Messages by columns.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct RecordColumns {
    topic: Vec<String>,
    queue_id: Vec<i32>,
    queue_offset: Vec<i64>,
    flag: Vec<i32>,
    sys_flag: Vec<i32>,
    born_timestamp: Vec<i64>,
    born_host: Vec<String>,
    store_timestamp: Vec<i64>,
    store_host: Vec<String>,
    reconsume_times: Vec<i32>,
    prepared_transaction_offset: Vec<i64>,
    properties: Vec<Vec<(String, String)>>,
    body: Vec<PyBackedBytes>,
    is_raw: bool,
}

impl RecordColumns {
    /// The record of a row, appended to others; `None` where a column is too short.
    fn write(&self, row: usize, out: &mut Vec<u8>) -> Option<PyResult<()>> {
        let host = |text: &String| arguments::host(text);
        let (born_host, store_host) = (host(self.born_host.get(row)?), host(self.store_host.get(row)?));
        let (born_host, store_host) = match (born_host, store_host) {
            (Ok(born_host), Ok(store_host)) => (born_host, store_host),
            (Err(error), _) | (_, Err(error)) => return Some(Err(error)),
        };
        let mut map = JavaHashMap::default();
        for (name, value) in self.properties.get(row)? {
            map.put(name.as_bytes(), value.as_bytes());
        }
        let encoded = properties::encode(&map);
        let body: &[u8] = self.body.get(row)?;
        let topic = self.topic.get(row)?;
        if topic.len() > message::MAX_TOPIC_LENGTH || encoded.len() > message::MAX_PROPERTIES_LENGTH {
            let error =
                format!("a message of {topic:?}: its topic or its properties are too long for a record");
            return Some(Err(PyValueError::new_err(error)));
        }
        let compression = if self.is_raw { 0 } else { sys_flag::COMPRESSED | sys_flag::COMPRESSION_TYPE };
        let fields = RecordFields {
            body_crc: message::body_crc(body),
            queue_id: *self.queue_id.get(row)?,
            flag: *self.flag.get(row)?,
            sys_flag: *self.sys_flag.get(row)? & !compression,
            born_timestamp: *self.born_timestamp.get(row)?,
            born_host,
            store_host,
            reconsume_times: *self.reconsume_times.get(row)?,
            prepared_transaction_offset: *self.prepared_transaction_offset.get(row)?,
            body,
            topic: topic.as_bytes(),
            properties: &encoded,
        };
        let place = Place {
            queue_offset: *self.queue_offset.get(row)?,
            physical_offset: 0,
            store_timestamp: *self.store_timestamp.get(row)?,
        };
        fields.with_host_flags().write(place, |bytes| out.extend_from_slice(bytes));
        Some(Ok(()))
    }
}

/// Finished records of messages that are given by columns, one after another.
#[pyfunction]
pub fn encode_records<'py>(py: Python<'py>, columns: RecordColumns) -> PyResult<Bound<'py, PyBytes>> {
    let mut out = Vec::new();
    for row in 0..columns.topic.len() {
        let short = || PyValueError::new_err("expected columns of one length");
        columns.write(row, &mut out).ok_or_else(short)??;
    }
    Ok(PyBytes::new(py, &out))
}

/// The records in bytes that hold one after another; what is no record there is given as it is, and
/// refused by who takes it.
fn split(bytes: &[u8]) -> Vec<&[u8]> {
    let mut records = Vec::new();
    let mut rest = bytes;
    while let Some(size) = rest.first_chunk().copied().map(i32::from_be_bytes).and_then(num::from_java_int) {
        let Some((record, behind)) = rest.split_at_checked((size as usize).max(4)) else { break };
        records.push(record);
        rest = behind;
    }
    if !rest.is_empty() {
        records.push(rest);
    }
    records
}

#[pymethods]
impl Store {
    /// Appends finished records that follow each other in one piece of bytes; gives how many.
    fn _append_encoded(
        &self,
        py: Python<'_>,
        encoded: PyBackedBytes,
        keep_times: bool,
        keep_offsets: bool,
    ) -> PyResult<usize> {
        let how = Finishing { keep_times, keep_offsets, ..Finishing::default() };
        let mut done = Vec::new();
        let outcome = py.detach(|| self.core.append_records(&split(&encoded), &how, &mut done));
        outcome.map_err(|refusal| errors::refusal_to_py(py, &refusal))?;
        Ok(done.len())
    }

    /// Appends the records that stand at offsets of another store's log; gives how many.
    fn _append_from(
        &self,
        py: Python<'_>,
        source: &Self,
        offsets: Vec<u64>,
        topic: Option<&str>,
        keep_times: bool,
    ) -> PyResult<usize> {
        let records = detached(py, || {
            offsets
                .iter()
                .filter_map(|&offset| source.core.record_at(offset).transpose())
                .collect::<Result<Vec<_>, _>>()
        })?;
        let topic = topic.map(str::as_bytes);
        let how = Finishing { keep_times, topic, ..Finishing::default() };
        let bytes: Vec<&[u8]> = records.iter().map(|record| &**record).collect();
        let mut done = Vec::new();
        let outcome = py.detach(|| self.core.append_records(&bytes, &how, &mut done));
        outcome.map_err(|refusal| errors::refusal_to_py(py, &refusal))?;
        Ok(done.len())
    }
}
