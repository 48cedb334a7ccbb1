//! Messages on their way from one store to another: as finished records, many a call.

use mqstore_core::arrow;
use mqstore_core::num;
use mqstore_core::store::Finishing;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;

use crate::arguments::ArrowStream;
use crate::errors::{self, detached};
use crate::store::Store;

/// Records of another log are read and appended this many at a time.
const OFFSETS_AT_ONCE: usize = 4096;

/// Finished records of messages that are given as Arrow, one after another.
#[pyfunction]
pub fn encode_records<'py>(
    py: Python<'py>,
    data: ArrowStream,
    is_raw: bool,
) -> PyResult<Bound<'py, PyBytes>> {
    let mut out = Vec::new();
    for batch in data.0 {
        let batch = batch.map_err(|error| errors::arrow_error(&error))?;
        let encoded = py.detach(|| arrow::encode_records(&batch, is_raw));
        out.extend(encoded.map_err(|fault| errors::batch_error(py, &fault))?);
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
        slf: &Bound<'_, Self>,
        encoded: PyBackedBytes,
        keep_times: bool,
        keep_offsets: bool,
    ) -> PyResult<usize> {
        let how = Finishing { keep_times, keep_offsets, leaves_out_places: true, ..Finishing::default() };
        let mut done = Vec::new();
        Self::append_finished(slf, &split(&encoded), &how, &mut done)?;
        Ok(done.len())
    }

    /// Appends the records that stand at offsets of another store's log: a column `commit_log_offset`.
    /// Gives how many.
    fn _append_from(
        slf: &Bound<'_, Self>,
        source: &Self,
        offsets: ArrowStream,
        topic: Option<&str>,
        keep_times: bool,
    ) -> PyResult<usize> {
        let py = slf.py();
        let topic = topic.map(str::as_bytes);
        let how = Finishing { keep_times, topic, leaves_out_places: true, ..Finishing::default() };
        let mut count = 0;
        let mut stream = offsets.0;
        while let Some(batch) = py.detach(|| stream.next()) {
            let batch = batch.map_err(|error| errors::arrow_error(&error))?;
            let offsets =
                py.detach(|| arrow::offsets_of(&batch)).map_err(|fault| errors::batch_error(py, &fault))?;
            for part in offsets.chunks(OFFSETS_AT_ONCE) {
                count += Self::append_part(slf, source, part, &how)?;
            }
        }
        Ok(count)
    }
}

impl Store {
    fn append_part(
        slf: &Bound<'_, Self>,
        source: &Self,
        offsets: &[u64],
        how: &Finishing<'_>,
    ) -> PyResult<usize> {
        let records = detached(slf.py(), || {
            let record = |&offset: &u64| source.core.record_at(offset).transpose();
            offsets.iter().filter_map(record).collect::<Result<Vec<_>, _>>()
        })?;
        let bytes: Vec<&[u8]> = records.iter().map(|record| &**record).collect();
        let mut done = Vec::new();
        Self::append_finished(slf, &bytes, how, &mut done)?;
        Ok(done.len())
    }
}
