//! What a store counts, as rows for the control plane, which names their columns.

use pyo3::prelude::*;

use crate::store::Store;

#[pymethods]
impl Store {
    /// Messages put, bytes of their records, puts that stored nothing, puts by class of time, the longest
    /// in microseconds.
    fn _put_figures(&self) -> (u64, u64, u64, Vec<u64>, u64) {
        let figures = self.core.stats().figures();
        (
            figures.put_message_times_total,
            figures.put_message_size_total,
            figures.put_message_failed_times,
            figures.put_message_distribute_time.to_vec(),
            figures.put_message_entire_time_max_us,
        )
    }

    /// Gets that found messages, gets that found none, messages that they gave, the longest in
    /// microseconds.
    fn _get_figures(&self) -> (u64, u64, u64, u64) {
        let figures = self.core.stats().figures();
        (
            figures.get_message_times_total_found,
            figures.get_message_times_total_miss,
            figures.get_message_transfered_msg_count,
            figures.get_message_entire_time_max_us,
        )
    }

    /// Topic, queue, and bytes of the records dispatched to it, of every queue.
    fn _dispatched_sizes(&self) -> Vec<(String, i32, u64)> {
        let queues = self.core.queues().all();
        queues
            .iter()
            .map(|queue| (queue.topic().to_owned(), queue.queue_id(), queue.dispatched_size()))
            .collect()
    }
}
