//! What a store holds, for the control plane: rows that it names and shows.

use std::sync::Arc;

use mqstore_core::commit_log::topic_queue::QueueRef;
use mqstore_core::consume_queue::{ConsumeQueue, Rejected};
use mqstore_core::dispatch::Gap;
use mqstore_core::index::file::IndexFile;
use mqstore_core::mmap::file_queue::Stray;
use mqstore_core::mmap::mapped_file::MappedFile;
use pyo3::prelude::*;

use crate::errors::{IntoPyResult, detached};
use crate::options::FilterRow;
use crate::signals::interruptible;
use crate::store::Store;

type StrayRow = (String, String, String);
pub(crate) type GapRow = (u64, u64, Option<String>);

fn stray_row(stray: &Stray) -> StrayRow {
    (stray.path.to_string_lossy().into_owned(), stray.expected.clone(), stray.found.clone())
}

pub(crate) fn gap_row(gap: &Gap) -> GapRow {
    (gap.from, gap.to, gap.fault.map(|fault| fault.to_string()))
}

#[pymethods]
impl Store {
    /// Topic, queue, first offset, end, bytes of units in memory, of every queue.
    #[allow(clippy::type_complexity)] // a row for the control plane, which names its columns
    fn _queues(&self, py: Python<'_>) -> PyResult<Vec<(String, i32, u64, u64, usize)>> {
        let row = |queue: &Arc<ConsumeQueue>| {
            (
                queue.topic().to_owned(),
                queue.queue_id(),
                queue.min_offset_in_queue(),
                queue.max_offset_in_queue(),
                queue.tail_len(),
            )
        };
        // A queue's lock may be held by a look into files that Python reads.
        let core = self.open_core(py)?;
        Ok(py.detach(|| core.queues().all().iter().map(row).collect()))
    }

    /// The queues of a topic, by number.
    fn _queue_ids(&self, py: Python<'_>, topic: &str) -> PyResult<Vec<i32>> {
        let queues = self.open_core(py)?.queues().of_topic(topic);
        Ok(queues.iter().map(|queue| queue.queue_id()).collect())
    }

    /// Units of a queue from a number on: physical offset, size, tags code as stored.
    fn _units(
        &self,
        py: Python<'_>,
        topic: &str,
        queue_id: i32,
        first: u64,
        count: usize,
    ) -> PyResult<Vec<(i64, i32, i64)>> {
        let Some(queue) = self.core.find_consume_queue(topic, queue_id) else { return Ok(Vec::new()) };
        let units = detached(py, || self.core.units(&queue, first, count))?;
        Ok(units.iter().map(|unit| (unit.physical_offset, unit.size, unit.tags_code)).collect())
    }

    /// What a queue's extension has of its units from a number on: tags code, store time, bit map.
    fn _ext_units(
        &self,
        py: Python<'_>,
        topic: &str,
        queue_id: i32,
        first: u64,
        count: usize,
    ) -> PyResult<Vec<(i64, i64, Vec<u8>)>> {
        let units = detached(py, || self.core.ext_units(topic, queue_id, first, count))?;
        Ok(units
            .into_iter()
            .flatten()
            .map(|unit| (unit.tags_code, unit.msg_store_time, unit.filter_bit_map))
            .collect())
    }

    /// Replaces the filters that bit maps are made for; gives why some cannot be compiled.
    fn _set_filters(&self, py: Python<'_>, filters: Vec<FilterRow>) -> Vec<String> {
        py.detach(|| self.core.config().filters.set(filters))
    }

    fn _make_queue(&self, py: Python<'_>, topic: &str, queue_id: i32) -> PyResult<()> {
        let queue = QueueRef { topic: topic.as_bytes(), queue_id };
        detached(py, || self.core.make_queue(queue)).map(|_| ())
    }

    fn _destroy_queue(&self, py: Python<'_>, topic: &str, queue_id: i32) -> PyResult<bool> {
        let Some(queue) = self.core.find_consume_queue(topic, queue_id) else { return Ok(false) };
        detached(py, || self.core.destroy_queue(&queue)).map(|()| true)
    }

    fn _warm_up_queue(&self, py: Python<'_>, topic: &str, queue_id: i32) -> PyResult<()> {
        detached(py, || self.core.warm_up_queue(topic, queue_id))
    }

    /// Files and folders that are not as they should be: path, expected, found.
    fn _strays(&self) -> Vec<StrayRow> {
        self.core.notes().strays.iter().map(stray_row).collect()
    }

    /// Parts of the log without a record: from, to, why.
    fn _gaps(&self) -> Vec<GapRow> {
        self.core.gaps().iter().map(gap_row).collect()
    }

    /// What was on the disk behind the log's end and is there no more, as a row of `_gaps`.
    fn _lost_end(&self) -> Option<GapRow> {
        self.core.lost_end().as_ref().map(gap_row)
    }

    /// Parts of the log of which no index file says that it has their keys: from, to, whether there are some.
    fn _unindexed(&self, py: Python<'_>) -> PyResult<Vec<(u64, u64, bool)>> {
        let found = interruptible(py, || self.core.unindexed())?;
        Ok(found.iter().map(|part| (part.from, part.to, part.is_certain)).collect())
    }

    /// Units that did not agree with the log: topic, queue, index, physical offset, why.
    fn _rejected(&self) -> Vec<(String, i32, i64, i64, String)> {
        let row = |row: Rejected| {
            (row.topic, row.queue_id, row.queue_offset, row.physical_offset, row.reason.to_string())
        };
        self.core.rejected().into_iter().map(row).collect()
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
        let row = |file: &Arc<IndexFile>| {
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
        let row =
            |file: &Arc<MappedFile>| (file.path().to_string_lossy().into_owned(), file.file_from_offset());
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

    fn _check_open(&self, py: Python<'_>) -> PyResult<()> {
        self.core.check_open().into_py(py)
    }
}
