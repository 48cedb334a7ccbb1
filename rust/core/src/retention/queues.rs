//! Queues and index behind a log whose first files are gone, and what of the log is still needed.

use std::collections::HashSet;
use std::sync::Arc;

use crate::commit_log::topic_queue::QueueRef;
use crate::consume_queue::ConsumeQueue;
use crate::consume_queue::table::LMQ_PREFIX;
use crate::dispatch::keeps_its_queues;
use crate::error::Result;
use crate::format::cq_unit::CqUnit;
use crate::num;
use crate::store::Store;

impl Store {
    /// Deletes a queue's files that hold nothing but messages before the log's first, and moves its
    /// first offset. Gives how many files went.
    ///
    /// # Errors
    /// Where a file can't be read or removed.
    pub fn delete_expired_queue_files(&self, queue: &ConsumeQueue) -> Result<usize> {
        self.while_writable(|| queue.delete_expired_file(self.first_offset()))
    }

    /// Deletes index files that hold nothing but messages before the log's first. Gives how many.
    ///
    /// # Errors
    /// Where one can't be removed.
    pub fn delete_expired_index_files(&self) -> Result<usize> {
        self.while_writable(|| {
            self.index().map_or(Ok(0), |index| index.delete_expired_file(self.first_offset()))
        })
    }

    /// Removes queues whose messages are all gone with the log's files; a message that comes later is
    /// its queue's number 0. Gives how many. Source: `cleanExpiredConsumerQueue`.
    ///
    /// # Errors
    /// Where a queue can't be read or its files not be removed.
    pub fn clean_expired_consume_queue(&self) -> Result<usize> {
        self.check_writable()?;
        self.catch_up()?;
        let min_offset = self.min_phy_offset();
        self.destroy_queues(&self.queues().all(), |queue| {
            let last = queue.max_offset_in_queue().checked_sub(1).map(|last| queue.unit(last));
            Ok(match last.transpose()?.flatten() {
                Some(unit) => {
                    !keeps_its_queues(queue.topic().as_bytes())
                        && unit.place().is_some()
                        && unit.end() <= min_offset
                }
                None => false,
            })
        })
    }

    /// Removes the queues of all topics but those that are named, those of messages that wait and of
    /// transactions, and light queues. Gives how many. Source: `cleanUnusedTopic`.
    ///
    /// # Errors
    /// Where files can't be removed.
    pub fn clean_unused_topic(&self, used: &HashSet<String>) -> Result<usize> {
        self.check_writable()?;
        self.catch_up()?;
        self.destroy_queues(&self.queues().all(), |queue| {
            let topic = queue.topic();
            let stays =
                used.contains(topic) || keeps_its_queues(topic.as_bytes()) || topic.starts_with(LMQ_PREFIX);
            Ok(!stays)
        })
    }

    /// Where the first message stands in the log that is at an offset of its queue or behind it, of
    /// some topics' queues; `None` where there is none.
    ///
    /// # Errors
    /// Where a queue can't be read; where the store is closed.
    pub fn first_needed(&self, queues: &[(String, i32, u64)]) -> Result<Option<u64>> {
        self.while_open(|| self.find_first_needed(queues))
    }

    fn find_first_needed(&self, queues: &[(String, i32, u64)]) -> Result<Option<u64>> {
        self.catch_up_for_room()?;
        let mut first = None;
        for (topic, queue_id, offset) in queues {
            let Some(queue) = self.queues().get(QueueRef { topic: topic.as_bytes(), queue_id: *queue_id })
            else {
                continue;
            };
            let found = first_place(&queue, *offset)?;
            first = first.into_iter().chain(found).min();
        }
        Ok(first)
    }
}

/// Where the first message at an offset of a queue or behind it stands.
fn first_place(queue: &Arc<ConsumeQueue>, offset: u64) -> Result<Option<u64>> {
    let mut index = offset.max(queue.min_offset_in_queue());
    while index < queue.max_offset_in_queue() {
        let units = queue.units(index, 64)?;
        if let Some((place, _)) = units.iter().find_map(CqUnit::place) {
            return Ok(Some(place));
        }
        index = if units.is_empty() {
            queue.next_behind_missing(index)
        } else {
            index + num::offset(units.len())
        };
    }
    Ok(None)
}
