//! Removing queues whose messages may still be in the log.

use std::sync::Arc;

use super::Store;
use crate::commit_log::topic_queue::QueueKey;
use crate::consume_queue::ConsumeQueue;
use crate::error::Result;
use crate::format::message::decode_record;
use crate::format::removed_queues::LastMessage;
use crate::interrupt;
use crate::mmap::file_queue::Listing;
use crate::num;

/// A queue that is to be removed, where it ends, and its last message where the log has it.
struct Going<'a> {
    queue: &'a Arc<ConsumeQueue>,
    end: u64,
    last: Option<LastMessage>,
}

impl Store {
    /// Removes a queue with its files; the next message that goes to it is its number 0.
    ///
    /// # Errors
    /// As for [`Store::destroy_queues`].
    pub fn destroy_queue(&self, queue: &Arc<ConsumeQueue>) -> Result<()> {
        // It stays where a message has come in meanwhile, which is in it then.
        while self.destroy_queues(std::slice::from_ref(queue), |_| Ok(true))? == 0 && self.queues.has(queue) {
            interrupt::check()?;
        }
        Ok(())
    }

    /// Removes those queues with their files of which a function says so; the next message that goes to one is
    /// its number 0. Gives how many. What they had stays away, though the log may be dispatched again.
    ///
    /// # Errors
    /// Those of the function, where nothing has changed. Where the list of removed queues can't be written, or a
    /// file not be removed: the next opening removes what the list names.
    pub fn destroy_queues(
        &self,
        queues: &[Arc<ConsumeQueue>],
        goes: impl Fn(&ConsumeQueue) -> Result<bool>,
    ) -> Result<usize> {
        self.check_writable()?;
        // Before: what is dispatched under the lock of flushes can take nothing back.
        self.reput()?;
        // A flush would miss the files that go.
        self.while_writable(|| self.destroy_those(queues, goes))
    }

    fn destroy_those(
        &self,
        queues: &[Arc<ConsumeQueue>],
        goes: impl Fn(&ConsumeQueue) -> Result<bool>,
    ) -> Result<usize> {
        self.log.commit(0)?;
        self.dispatcher.pass_and_then(self.targets(), || {
            let mut going = Vec::new();
            // Another call may have removed one, whose name another one has by now.
            for queue in queues.iter().filter(|queue| self.queues.has(queue)) {
                if goes(queue)? {
                    going.push(Going {
                        queue,
                        end: queue.max_offset_in_queue(),
                        last: self.last_message(queue)?,
                    });
                }
            }
            if going.is_empty() {
                return Ok(0);
            }
            // A file that could not be deleted is there again once the store is opened.
            let on_disk = Listing::read(&*self.fs, self.log.files().paths())?;
            // One that has had a message since stays.
            let remember = |going: &[Going<'_>]| self.remember(going, on_disk.min_offset().unwrap_or(0));
            let going = self.log.remove_queues_from_topic_queue_table(
                going,
                |going| (going.queue.name(), self.end_of(going)),
                remember,
            )?;
            // All of them, whatever becomes of one: their next messages are number 0 from here on.
            let removed = going.iter().map(|going| self.queues.destroy(going.queue)).collect::<Vec<_>>();
            let outcome = removed.into_iter().collect::<Result<()>>();
            // Files that stay, with others' units in them by then, are for a recovery to go through.
            self.derived_poison.watch("remove", outcome)?;
            Ok(going.len())
        })
    }

    /// Where a queue's next message stands at most if all of its messages are dispatched. Asked while nobody puts.
    fn end_of(&self, going: &Going<'_>) -> i64 {
        // Where the whole log is dispatched, its queues' ends say nothing: one that passed over offsets ends before them.
        let is_all_dispatched = self.dispatcher.reput_from_offset() >= self.log.wrote_offset();
        // What stands behind the confirm offset is not dispatched, for how long nobody knows.
        if is_all_dispatched || self.config.duplication_enable { i64::MAX } else { num::java_long(going.end) }
    }

    /// Puts queues of which the log has messages on the list of removed ones.
    fn remember(&self, going: &[Going<'_>], min_offset: u64) -> Result<()> {
        let listed = |going: &Going<'_>| going.last.map(|last| (QueueKey::from(going.queue.name()), last));
        let removed: Vec<_> = going.iter().filter_map(listed).collect();
        if removed.is_empty() {
            return Ok(());
        }
        self.config.removed_queues.add(&*self.fs, &self.config.own_dir(), removed, min_offset)
    }

    /// The last message of a queue, where the log has it.
    fn last_message(&self, queue: &ConsumeQueue) -> Result<Option<LastMessage>> {
        let Some(last) = queue.max_offset_in_queue().checked_sub(1) else { return Ok(None) };
        let Some((physical_offset, size)) = queue.unit(last)?.and_then(|unit| unit.place()) else {
            return Ok(None);
        };
        let Some(bytes) = self.log.get_message(physical_offset, size)? else { return Ok(None) };
        Ok(decode_record(&bytes).map(|record| LastMessage {
            physical_offset,
            size,
            store_timestamp: record.store_timestamp,
        }))
    }

    /// Removes what something left of removed queues, and what the list has that the log has not.
    pub(super) fn finish_removals(&self) -> Result<()> {
        let removed = &self.config.removed_queues;
        for key in removed.queues() {
            if let Some(queue) =
                self.queues.get(key.as_ref()).filter(|queue| queue.max_offset_in_queue() == 0)
            {
                self.queues.destroy(&queue)?;
            }
        }
        removed.write_back(&*self.fs, &self.config.own_dir())
    }
}
