//! What is asked of a single queue beside its messages. Who has the queue itself would not be told that the store is closed, and
//! its files would stay open.

use std::sync::Arc;

use super::Store;
use crate::commit_log::topic_queue::QueueRef;
use crate::consume_queue::ConsumeQueue;
use crate::error::Result;
use crate::format::cq_ext_unit::CqExtUnit;

impl Store {
    /// A queue, made where there was none.
    ///
    /// # Errors
    /// Where the files of its extension can't be listed; where the store is closed.
    pub fn make_queue(&self, queue: QueueRef<'_>) -> Result<Arc<ConsumeQueue>> {
        let _not_beside_a_close = self.flushing();
        self.while_open(|| self.queues.get_or_make(queue))
    }

    /// What a queue's extension has of its units from an offset on.
    ///
    /// # Errors
    /// Where a file can't be read; where the store is closed.
    pub fn ext_units(
        &self,
        topic: &str,
        queue_id: i32,
        from: u64,
        count: usize,
    ) -> Result<Vec<Option<CqExtUnit>>> {
        self.while_open(|| {
            let Some(queue) = self.find_consume_queue(topic, queue_id) else { return Ok(Vec::new()) };
            queue.units(from, count)?.iter().map(|unit| queue.ext(unit.tags_code)).collect()
        })
    }

    /// Has a queue's files read; see [`ConsumeQueue::warm_up`].
    ///
    /// # Errors
    /// Where a file can't be opened or mapped; where the store is closed.
    pub fn warm_up_queue(&self, topic: &str, queue_id: i32) -> Result<()> {
        self.while_open(|| self.find_consume_queue(topic, queue_id).map_or(Ok(()), |queue| queue.warm_up()))
    }
}
