//! Where a log ends, by what its last writer left and by who writes it now.

use std::sync::Arc;

use super::LogView;
use crate::checkpoint::{LastPositions, StoreCheckpoint};
use crate::closed::Closed;
use crate::consume_queue::listing::QueueListing;
use crate::consume_queue::table::QueueTable;
use crate::dispatch::Gap;
use crate::error::{Error, Result};
use crate::format::positions::DurablePositions;
use crate::lock::{self, Writer};
use crate::published::{self, Progress};
use crate::recovery::{Recovered, StoreState, log_end, lost_end};

/// Where a log ends, and what is known to be gone of it.
#[derive(Debug, Default)]
pub(super) struct End {
    /// Where it ends.
    pub(super) offset: u64,
    /// What it lost there.
    pub(super) lost: Option<Gap>,
    /// Where it began when its last writer closed the store, where nobody has written to it since.
    pub(super) begin_when_closed: Option<u64>,
}

impl LogView {
    /// Where the log ends.
    pub(super) fn find_end(&self) -> Result<End> {
        let config = &*self.config;
        let writer = self.writer()?;
        let is_written = writer.is_some();
        let (checkpoint, positions) = self.checkpoint()?;
        let flushed = published::flushed(&*self.fs, &config.own_dir())?;
        let abort = config.abort_file();
        let state = match writer.map(|writer| writer.progress) {
            Some(Progress::Published(published)) => {
                StoreState::Live { wrote: Some(published.wrote), dispatched: 0 }
            }
            Some(Progress::Untold) => StoreState::Live { wrote: None, dispatched: 0 },
            Some(Progress::Recovering) => StoreState::Crashed,
            None if self.fs.metadata(&abort).map_err(Error::io("look at", &abort))?.is_none() => {
                StoreState::Closed
            }
            None => StoreState::Crashed,
        };
        // They are asked only where the store was closed, or nobody left how far the log went.
        let queues = if state == StoreState::Closed || positions.known().is_none() {
            self.queues()?
        } else {
            let none = QueueListing::default();
            QueueTable::new(Arc::clone(&self.config), Arc::clone(&self.fs), self.access, &none)?
        };
        let of = Recovered {
            config,
            log: &self.log,
            queues: &queues,
            index: None,
            checkpoint: &checkpoint,
            positions,
            flushed,
            closed: None,
            state,
            writable: false,
            is_remote: self.fs.is_remote(),
        };
        let offset = log_end::find(of)?.log_end;
        self.log.set_end(offset, 0);
        // A writer that recovers the store finds out itself what is lost.
        let lost = if is_written { None } else { lost_end::find(of, offset, true)? };
        let is_closed = state == StoreState::Closed;
        let closed = if is_closed { Closed::load(&*self.fs, &config.own_dir(), true)? } else { None };
        Ok(End { offset, lost, begin_when_closed: closed.and_then(|closed| closed.log_begin(offset)) })
    }

    /// What is known to be on the disk ends with the log: what is behind its end is about to be cut.
    ///
    /// # Errors
    /// Where it can't be read or written.
    pub(crate) fn lower_positions(&self) -> Result<()> {
        let (checkpoint, positions) = self.checkpoint()?;
        let (log, own_dir) = (self.end.offset, self.config.own_dir());
        if published::flushed(&*self.fs, &own_dir)? > log {
            published::lower_flushed(&*self.fs, &own_dir, log)?;
        }
        let owes = checkpoint.owed().is_some();
        let Some(known) = positions.known().filter(|known| known.log > log || owes) else { return Ok(()) };
        checkpoint.set_owed(None);
        checkpoint.set_positions(DurablePositions {
            log: known.log.min(log),
            queues: known.queues.min(log),
            index: known.index.min(log),
        });
        checkpoint.flush()
    }

    pub(super) fn checkpoint(&self) -> Result<(StoreCheckpoint, LastPositions)> {
        let own_dir = self.config.own_dir();
        StoreCheckpoint::load(Arc::clone(&self.fs), self.config.store_checkpoint(), &own_dir)
    }

    /// Who else has the store open for writing.
    pub(super) fn writer(&self) -> Result<Option<Writer>> {
        if self.is_locked() {
            return Ok(None);
        }
        lock::writer(&*self.fs, &self.config.lock_file(), &self.config.own_dir())
    }
}
