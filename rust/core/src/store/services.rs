//! What has to happen again and again while a store is open, as passes that somebody calls.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::{Mode, Store};
use crate::bell::Bell;
use crate::commit_log::read::Bodies;
use crate::commit_log::{FlushOutcome, GroupCommit};
use crate::config_file;
use crate::dispatch::DerivedAhead;
use crate::error::Result;
use crate::format::index::IndexHeader;
use crate::format::message::{Record, decode_record};
use crate::format::positions::{DurablePositions, LastRecord};
use crate::index::IndexService;
use crate::num;
use crate::recovery::lost_end;
use crate::sync::MutexGuard;

/// For how long a reader waits before it looks again where a file went that it was about to open.
const PAUSE_BESIDE_REMOVAL: Duration = Duration::from_millis(1);

impl Store {
    /// Dispatches everything that can be read. Gives how many messages.
    ///
    /// # Errors
    /// Where log, queues or index can't be read or written. Nothing is lost: the next pass goes on
    /// where this one stopped.
    pub fn reput(&self) -> Result<u64> {
        let outcome = self.pass_with(DerivedAhead::default());
        if self.mode == Mode::Read {
            // A close waits for a writer's passes alone.
            self.check_still_open()?;
        }
        let dispatched = outcome?;
        if self.config.is_slave {
            self.log.saw_store_timestamp(self.dispatcher.store_timestamp());
        }
        Ok(dispatched)
    }

    /// A reader that asks for what is not dispatched yet dispatches it, so that what was put is
    /// found at once.
    pub(crate) fn catch_up(&self) -> Result<()> {
        if self.dispatch_behind_bytes() == 0 || self.is_closed() {
            return Ok(());
        }
        // Beside a writer, which may remove files meanwhile.
        let caught_up = if self.mode == Mode::Read { self.refresh() } else { self.reput() };
        caught_up.map(drop)
    }

    /// As [`Store::catch_up`], for what makes room: on a full disk there may be none for units and keys, and what is not
    /// dispatched stays in the log then.
    pub(crate) fn catch_up_for_room(&self) -> Result<()> {
        match self.catch_up() {
            Err(error) if error.is_disk_full() => Ok(()),
            outcome => outcome,
        }
    }

    /// A flush pass over the log, and with it the checkpoint's physic time.
    ///
    /// # Errors
    /// Where the disk did not take it; the store takes no messages from then on. Where the store is closed.
    pub fn flush_commit_log(&self, least_pages: u64) -> Result<FlushOutcome> {
        self.while_open(|| self.flush_log(least_pages))
    }

    fn flush_log(&self, least_pages: u64) -> Result<FlushOutcome> {
        let outcome = self.log.flush(least_pages)?;
        self.checkpoint.set_physic_msg_timestamp(outcome.store_timestamp);
        Ok(outcome)
    }

    /// Passes of the group commit's service as long as anything is put, and with them the checkpoint's physic time.
    /// Each rings the bells of those whose tasks wait; without any, threads that wait flush by themselves. Gives the
    /// flushed offset.
    ///
    /// # Errors
    /// As for [`Store::flush_commit_log`]; everybody who waits is told.
    pub fn group_commit(&self, max_wait: Duration, bells: &[Arc<Bell>]) -> Result<u64> {
        loop {
            let GroupCommit { flush, was_woken } = self.log.group_commit_pass(max_wait, !bells.is_empty())?;
            self.checkpoint.set_physic_msg_timestamp(flush.store_timestamp);
            if was_woken || !flush.flushed_some {
                return Ok(flush.flushed_offset);
            }
            bells.iter().for_each(|bell| bell.ring());
        }
    }

    /// A flush pass over the queues: writes what is in memory to their files, and brings those with
    /// at least so many pages to the disk.
    ///
    /// # Errors
    /// Where a file can't be written or flushed; what could not be written stays in memory. Where the store is closed.
    pub fn flush_consume_queues(&self, least_pages: u64) -> Result<()> {
        let _one_at_a_time = self.flushing();
        // Behind a close the store is another process's.
        self.check_open()?;
        let dispatched = self.dispatcher.reput_from_offset();
        self.flush_queues(least_pages.max(1))?;
        self.publish_dispatched(dispatched);
        self.flush_filled_index_files()
    }

    fn flush_queues(&self, least_pages: u64) -> Result<()> {
        self.queues.spill_all()?;
        self.derived_poison.watch("flush", self.queues.flush(least_pages))
    }

    pub(super) fn publish_dispatched(&self, offset: u64) {
        if let Some(published) = &self.published {
            published.set_dispatched(offset);
        }
    }

    /// Index files that became full are brought to the disk, and then the checkpoint says so.
    fn flush_filled_index_files(&self) -> Result<()> {
        let filled: Vec<_> = self.index.iter().flat_map(IndexService::take_filled).collect();
        for file in &filled {
            self.derived_poison.watch("flush", file.flush())?;
            let IndexHeader { end_timestamp, end_phy_offset, .. } = file.header();
            if !self.derived_poison.is_set() {
                self.checkpoint.set_index_msg_timestamp(end_timestamp);
                // The file's last message included: with the same position and without this flush that one's
                // entry may be missing from a file that says it is full.
                self.checkpoint
                    .advance_index_position(num::from_java_long(end_phy_offset).map_or(0, |at| at + 1));
            }
        }
        if filled.is_empty() { Ok(()) } else { self.checkpoint.flush() }
    }

    /// Brings log, queues and index to the disk, then the checkpoint: each time and position is read
    /// before what it covers is flushed.
    ///
    /// # Errors
    /// Where the disk did not take it.
    pub fn flush_everything(&self) -> Result<()> {
        self.check_writable()?;
        self.log.commit(0)?;
        let one_at_a_time = self.flushing();
        // It may have waited for a close, behind which the store is another process's.
        self.check_writable()?;
        self.flush_all(&one_at_a_time)
    }

    /// Brings the log to the disk: what an opening found is served from now on, and no power cut takes it any more. What
    /// it dispatched again can be much, and is for the next [`Store::flush_everything`]: until then the positions stay that
    /// say what queues and index have on the disk. A reader beside finds it in the files.
    pub(super) fn flush_what_is_served(&self) -> Result<()> {
        self.publish_dispatched(self.dispatcher.reput_from_offset());
        let log = self.flush_commit_log(0)?.flushed_offset;
        self.checkpoint.set_positions(DurablePositions { log, ..self.checkpoint.positions() });
        self.checkpoint.flush()
    }

    /// As [`Store::flush_everything`], for the store's own end too.
    pub(super) fn flush_all(&self, _one_at_a_time: &MutexGuard<'_, ()>) -> Result<()> {
        let dispatched_time = self.dispatcher.store_timestamp();
        let last_record = self.dispatcher.last_record();
        let dispatched = self.dispatcher.reput_from_offset();
        let log = self.flush_log(0)?.flushed_offset;
        self.flush_queues(0)?;
        self.publish_dispatched(dispatched);
        // The last file first: one that becomes full meanwhile is among the filled ones then.
        if let Some(index) = &self.index {
            self.derived_poison.watch("flush", index.flush())?;
        }
        self.flush_filled_index_files()?;
        // Of what the disk once refused nobody knows what it holds: until the store is reopened no
        // more is claimed than before. Units of what is not on the disk itself would be of no use.
        if !self.derived_poison.is_set() {
            let derived = dispatched.min(log);
            self.checkpoint.set_logics_msg_timestamp(dispatched_time);
            self.checkpoint.set_positions(DurablePositions { log, queues: derived, index: derived });
            self.mark_last_record(last_record)?;
        }
        // What is not on the disk a power cut can take again.
        self.checkpoint.set_owed(lost_end::owed(&self.checkpoint, &self.log, log));
        self.checkpoint.flush()
    }

    /// Leaves by what the log is known again of which queues and index are made.
    fn mark_last_record(&self, offset: Option<u64>) -> Result<()> {
        let Some(offset) = offset else { return Ok(()) };
        let Some(bytes) = self.log.select_one_message_with(offset, Bodies::Unwanted)? else { return Ok(()) };
        if let Some(record) = decode_record(&bytes) {
            let Record { store_timestamp, body_crc, .. } = record;
            self.checkpoint.set_last_record(LastRecord { offset, store_timestamp, body_crc });
        }
        Ok(())
    }

    /// Replaces one of the store's small files as a whole.
    ///
    /// # Errors
    /// As for [`config_file::replace`].
    pub fn replace_config(&self, path: &Path, content: &[u8]) -> Result<()> {
        config_file::replace(&*self.fs, path, content)
    }

    /// Sees what a live writer has added since the store was opened or last refreshed.
    ///
    /// # Errors
    /// Where the store's folders or files can't be read.
    pub fn refresh(&self) -> Result<u64> {
        self.refresh_alone(&self.follow.refreshing.lock())
    }

    /// As [`Store::refresh`], for who holds its lock.
    pub(super) fn refresh_alone(&self, _one_at_a_time: &MutexGuard<'_, ()>) -> Result<u64> {
        let outcome = loop {
            self.check_open()?;
            match self.look_again() {
                // A writer that recovers the store has removed a file since it was listed, which a listing does not have
                // once that is over.
                Err(error) if error.is_removed(&*self.fs) => std::thread::sleep(PAUSE_BESIDE_REMOVAL),
                outcome => break outcome,
            }
        };
        if outcome.is_ok() {
            self.end_change();
        }
        self.check_still_open()?;
        outcome
    }

    fn look_again(&self) -> Result<u64> {
        let goes_by_files = self.follow_writer()?;
        if self.is_part {
            self.dispatcher.set_reput_from_offset(self.log.max_offset());
            return Ok(0);
        }
        let dispatched = self.reput()?;
        if !goes_by_files {
            return Ok(dispatched);
        }
        self.queues.adopt_files()?;
        if let Some(index) = &self.index {
            index.adopt_files()?;
        }
        Ok(dispatched)
    }
}
