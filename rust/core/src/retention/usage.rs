//! What each topic takes: found from its queues' units, without reading the log.

use crate::error::Result;
use crate::format::cq_unit::CqUnit;
use crate::num;
use crate::store::Store;

/// Units that are read at a time.
const UNITS_AT_ONCE: usize = 16 << 10;

/// What a topic takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicUsage {
    /// The topic.
    pub topic: String,
    /// Its queues.
    pub queue_count: usize,
    /// Its messages that are in the log.
    pub message_count: u64,
    /// Bytes of their records.
    pub log_size: u64,
    /// Bytes of its queues' files.
    pub queue_size: u64,
}

impl Store {
    /// What each topic takes, by topic. A message that was dispatched to further queues counts for
    /// each; one that is in no queue, as a prepared half before 4.9.3's broker moved it, for none.
    ///
    /// # Errors
    /// Where a queue can't be read.
    pub fn topic_usage(&self) -> Result<Vec<TopicUsage>> {
        self.while_open(|| self.find_topic_usage())
    }

    fn find_topic_usage(&self) -> Result<Vec<TopicUsage>> {
        self.catch_up()?;
        let first_offset = self.first_offset();
        let mut usage: Vec<TopicUsage> = Vec::new();
        for queue in self.queues().all() {
            if usage.last().is_none_or(|last| last.topic != queue.topic()) {
                let topic = queue.topic().to_owned();
                usage.push(TopicUsage {
                    topic,
                    queue_count: 0,
                    message_count: 0,
                    log_size: 0,
                    queue_size: 0,
                });
            }
            let Some(of_topic) = usage.last_mut() else { continue };
            of_topic.queue_count += 1;
            of_topic.queue_size += queue.files().iter().map(|file| file.present_size()).sum::<u64>();
            let mut index = queue.min_offset_in_queue();
            while index < queue.max_offset_in_queue() {
                let units = queue.units(index, UNITS_AT_ONCE)?;
                if units.is_empty() {
                    index = queue.next_behind_missing(index);
                    continue;
                }
                index += num::offset(units.len());
                let places = units.iter().filter_map(CqUnit::place);
                for (_, size) in places.filter(|(offset, _)| *offset >= first_offset) {
                    of_topic.message_count += 1;
                    of_topic.log_size += u64::from(size);
                }
            }
        }
        Ok(usage)
    }
}
