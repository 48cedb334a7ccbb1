//! Following a store that another process writes.
//!
//! An mqstore writer publishes how far it is. Beside a Java writer a record counts once its lengths,
//! its own offset and its CRC agree; until then it is not there yet.

use std::ops::ControlFlow;

use super::{Mode, Store};
use crate::commit_log::scan;
use crate::error::Result;
use crate::format::message::Check;
use crate::lock;
use crate::mmap::file_queue::{FileQueue, Listing};
use crate::published::PublishedPositions;
use crate::sync::Mutex;

/// What following needs.
#[derive(Debug, Default)]
pub(super) struct Follow {
    pub(super) refreshing: Mutex<()>,
}

impl Store {
    /// Moves the log's end to where the writer has got.
    pub(super) fn follow_writer(&self) -> Result<()> {
        let published =
            lock::published_by_writer(&*self.fs, &self.config.lock_file(), &self.config.own_dir())?;
        let min_before = self.log.min_offset();
        self.list_log()?;
        let end = self.log.max_offset();
        let (new_end, timestamp) = match published {
            Some(published) => (published_end(self.log.files(), &published), self.log.last_store_timestamp()),
            None => self.walk_on(end)?,
        };
        // Before what was put to them since can be dispatched, by whoever asks for something just now.
        self.follow_removals()?;
        if new_end > end {
            self.log.set_end(new_end, timestamp);
        }
        if self.log.min_offset() != min_before {
            let min_offset = self.log.min_offset().unwrap_or(0);
            self.queues.all().iter().try_for_each(|queue| queue.correct_min_offset(min_offset))?;
        }
        Ok(())
    }

    /// Goes over the log; anew by the files that are there then, where the writer removes one before it is opened.
    pub(super) fn beside_removal<T>(&self, walk: impl Fn() -> Result<T>) -> Result<T> {
        loop {
            let min_before = self.log.min_offset();
            match walk() {
                Err(error) if self.mode == Mode::Read && error.is_removed(&*self.fs) => {
                    self.list_log()?;
                    if self.log.min_offset() == min_before {
                        return Err(error);
                    }
                }
                outcome => return outcome,
            }
        }
    }

    /// Goes by the log's files that are there now. Where the writer has removed what was never seen of them, the queues
    /// go on behind it.
    fn list_log(&self) -> Result<()> {
        self.log.files().refresh(&Listing::read(&*self.fs, self.log.files().paths())?);
        let min_offset = self.log.min_offset().unwrap_or(0);
        if self.dispatcher.reput_from_offset() < min_offset && !self.is_part {
            self.queues.all().iter().for_each(|queue| queue.forget_gone(min_offset));
        }
        Ok(())
    }

    /// Lets go of queues that the writer has removed: what it put to them since is dispatched anew.
    fn follow_removals(&self) -> Result<()> {
        let removed = &self.config.removed_queues;
        let gone = removed.reload(&*self.fs, &self.config.own_dir(), self.log.files())?;
        self.dispatcher.between_passes(|| {
            gone.iter()
                .filter_map(|key| self.queues.get(key.as_ref()))
                .try_for_each(|queue| self.queues.destroy(&queue))
        })
    }

    fn walk_on(&self, from: u64) -> Result<(u64, i64)> {
        let mut end = from;
        let mut timestamp = self.log.last_store_timestamp();
        // The end may stand before a blank that was written since.
        let reached = scan::scan(self.log.files(), from, u64::MAX, Check::BodyCrc, |offset, record, _| {
            end = record.next_offset(offset);
            timestamp = record.store_timestamp;
            Ok(ControlFlow::Continue(()))
        })?;
        if let scan::ScanEnd::Fault { offset, .. } = reached {
            end = end.max(offset);
        }
        Ok((end, timestamp))
    }
}

/// What a writer published is not taken for more than its files hold.
pub(super) fn published_end(files: &FileQueue, published: &PublishedPositions) -> u64 {
    files.last().map_or(0, |last| published.wrote.min(last.end_offset()))
}
