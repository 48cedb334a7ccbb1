//! Closing a store, and removing it.

use super::{Mode, Store};
use crate::closed::{self, Closed};
use crate::commit_log::topic_queue::QueueRef;
use crate::error::{Error, Result};
use crate::format::closed::{ClosedHeader, ClosedQueue};
use crate::index::IndexService;
use crate::num;
use crate::removed_queues;
use crate::sync::Ordering;

impl Store {
    /// Closes a store. A writer flushes what there is, in the order in which each depends on the
    /// other: log, queues, index, checkpoint; then it removes the mark of an unclean stop. No file stays open; slices
    /// that were given out stay valid.
    ///
    /// # Errors
    /// Where something could not be flushed: the next opening recovers as after a crash.
    pub fn close(&self) -> Result<()> {
        if self.closed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        self.replication.shutdown();
        let outcome = if self.mode == Mode::ReadWrite { self.close_for_writing() } else { Ok(()) };
        let let_go = self.let_go();
        self.lock.lock().take();
        outcome.and(let_go)
    }

    fn close_for_writing(&self) -> Result<()> {
        // A put that found the store open a moment ago is in the log now, or never will be.
        self.log.seal();
        self.log.commit(0)?;
        // What is to be written yet may need the room.
        self.log.give_back_blocks();
        let discarded = self.log.discard_prepared_file();
        // Where queues cannot be written the log still gets to the disk.
        let dispatched = self.reput();
        self.flush_all(&self.flushing())?;
        dispatched?;
        discarded?;
        self.touch_mapped()?;
        let is_whole = !self.log.is_poisoned() && !self.derived_poison.is_set();
        if is_whole && self.flags.is_writeable() && self.dispatch_behind_bytes() == 0 {
            self.leave_closed()?;
            let abort = self.config.abort_file();
            self.fs.remove_file(&abort).map_err(Error::io("remove", &abort))?;
            self.fs.sync_dir(self.path()).map_err(Error::io("sync the folder", self.path()))?;
        }
        Ok(())
    }

    /// Has the files that were written through mappings say so: who copies by size and time would leave them out.
    fn touch_mapped(&self) -> Result<()> {
        if self.dispatcher.message_count() == 0 {
            return Ok(());
        }
        if let Some(last) = self.log.files().find(self.log.max_offset().saturating_sub(1)) {
            last.handle()?.touch().map_err(Error::io("set the time of", last.path()))?;
        }
        self.index.as_ref().map_or(Ok(()), IndexService::touch)
    }

    /// Leaves what the store has, for the next opening.
    fn leave_closed(&self) -> Result<()> {
        let Some(published) = &self.published else { return Ok(()) };
        let log_end = self.log.max_offset();
        let header = ClosedHeader {
            opening_count: published.opening_count(),
            log_begin: self.log.min_offset().unwrap_or(log_end),
            log_end,
        };
        let queues = self.queues.all();
        let of_queues = queues.iter().map(|queue| {
            let QueueRef { topic, queue_id } = queue.name();
            let end = queue.max_offset_in_queue();
            let next_offset =
                num::from_java_long(self.log.next_queue_offset(queue.name())).unwrap_or(0).max(end);
            ClosedQueue { topic, queue_id, next_offset, reached: queue.reached() }
        });
        // Those of which nothing is left but their next offsets.
        let without_units = self.log.next_queue_offsets();
        let without_units = without_units.iter().filter_map(|(name, next_offset)| {
            let QueueRef { topic, queue_id } = name.as_ref();
            let next_offset = num::from_java_long(*next_offset)
                .filter(|_| self.queues.get_decoded(name.as_ref()).is_none())?;
            Some(ClosedQueue { topic, queue_id, next_offset, reached: 0 })
        });
        Closed::leave(&*self.fs, &self.config.own_dir(), header, of_queues.chain(without_units))
    }

    /// Removes everything in the store but its configuration. The store is closed then.
    ///
    /// # Errors
    /// Where something can't be removed.
    pub fn destroy(&self) -> Result<()> {
        self.check_writable()?;
        self.closed.store(true, Ordering::Release);
        self.log.seal();
        self.replication.shutdown();
        // What is dispatched or flushed would make files again that are removed.
        self.dispatcher.end();
        let outcome = self.while_at_rest(|| self.remove_all());
        let let_go = self.let_go();
        self.lock.lock().take();
        outcome.and(let_go)
    }

    fn remove_all(&self) -> Result<()> {
        for queue in self.queues.all() {
            self.queues.destroy(&queue)?;
        }
        self.queues.remove_empty_topics()?;
        self.log.discard_prepared_file()?;
        self.log.files().delete(&self.log.files().files())?;
        if let Some(index) = &self.index {
            index.delete(&index.files())?;
        }
        let positions = self.checkpoint.positions_path().to_path_buf();
        let own_dir = self.config.own_dir();
        let (removed_queues, closed) = (removed_queues::path(&own_dir), closed::path(&own_dir));
        for path in
            [self.config.abort_file(), self.config.store_checkpoint(), positions, removed_queues, closed]
        {
            match self.fs.remove_file(&path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(Error::io("remove", path)(error));
                }
                _ => {}
            }
        }
        Ok(())
    }
}
