//! Retention passes of `mqstore._native.Store`.

use std::collections::HashSet;
use std::path::PathBuf;

use mqstore_core::retention::Expiry;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;

use crate::errors::detached;
use crate::given;
use crate::store::Store;

#[pymethods]
impl Store {
    /// Deletes the log's first file where it may go: its path, `None` where it stays.
    fn _delete_expired_log_file(
        &self,
        py: Python<'_>,
        reserved_ms: i64,
        at_once: bool,
        keep_from: Option<u64>,
    ) -> PyResult<Option<String>> {
        let expiry = Expiry { reserved_ms, at_once, keep_from: keep_from.unwrap_or(u64::MAX) };
        let deleted = detached(py, || self.core.delete_expired_log_file(expiry))?;
        Ok(deleted.map(|deleted| deleted.path.to_string_lossy().into_owned()))
    }

    fn _delete_expired_queue_files(&self, py: Python<'_>, topic: &str, queue_id: i32) -> PyResult<usize> {
        let Some(queue) = self.core.find_consume_queue(topic, queue_id) else { return Ok(0) };
        detached(py, || self.core.delete_expired_queue_files(&queue))
    }

    fn _delete_expired_index_files(&self, py: Python<'_>) -> PyResult<usize> {
        detached(py, || self.core.delete_expired_index_files())
    }

    /// Removes queues whose messages are all gone from the log; gives how many.
    ///
    /// A message that comes later is its queue's number 0. Source: ``cleanExpiredConsumerQueue``.
    fn clean_expired_consume_queue(&self, py: Python<'_>) -> PyResult<usize> {
        detached(py, || self.core.clean_expired_consume_queue())
    }

    /// Removes the queues of all topics but these; gives how many. Their messages stay in the log.
    ///
    /// The schedule topic, that of transactions that are done, and light queues stay. Source:
    /// ``cleanUnusedTopic``.
    ///
    /// Raises:
    ///     TypeError: they are one string, or no strings.
    fn clean_unused_topic(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = given::topics)] topics: Vec<PyBackedStr>,
    ) -> PyResult<usize> {
        let topics: HashSet<String> = topics.iter().map(ToString::to_string).collect();
        detached(py, || self.core.clean_unused_topic(&topics))
    }

    fn _first_needed(&self, py: Python<'_>, queues: Vec<(String, i32, u64)>) -> PyResult<Option<u64>> {
        detached(py, || self.core.first_needed(&queues))
    }

    /// Topic, queues, messages, bytes of their records, bytes of the queues' files.
    #[allow(clippy::type_complexity)] // a row for the control plane, which names its columns
    fn _topic_usage(&self, py: Python<'_>) -> PyResult<Vec<(String, usize, u64, u64, u64)>> {
        let usage = detached(py, || self.core.topic_usage())?;
        let row = |it: mqstore_core::retention::TopicUsage| {
            (it.topic, it.queue_count, it.message_count, it.log_size, it.queue_size)
        };
        Ok(usage.into_iter().map(row).collect())
    }

    /// Marks the disk full, or not; gives whether it was marked full before.
    fn _set_disk_full(&self, full: bool) -> bool {
        self.core.running_flags().set_disk_full(full)
    }

    /// Folders of the log that are too full for a new file.
    fn _set_full_store_paths(&self, paths: Vec<PathBuf>) {
        self.core.log().files().set_full_paths(paths);
    }
}
