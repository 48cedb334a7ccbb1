//! Committing: from the transient store pool's memory to the files.
//!
//! Source: `CommitLog.CommitRealTimeService` and `MappedFile.commit`.

use std::sync::Arc;

use super::CommitLog;
use crate::error::{Error, Result};
use crate::mmap::mapped_file::MappedFile;
use crate::mmap::region::{OS_PAGE_SIZE, Region};
use crate::mmap::transient_store_pool::TransientStorePool;
use crate::num;
use crate::sync::{AtomicBool, Mutex, Ordering};

/// Which files are written through a buffer.
#[derive(Debug)]
pub(super) struct TransientBuffers {
    pool: Arc<TransientStorePool>,
    in_use: Mutex<Vec<(Arc<MappedFile>, Arc<Region>)>>,
    /// Whether the log is closed: what was not committed then never is.
    is_gone: AtomicBool,
}

impl TransientBuffers {
    pub(super) fn new(pool: Arc<TransientStorePool>) -> Self {
        Self { pool, in_use: Mutex::default(), is_gone: AtomicBool::new(false) }
    }

    pub(super) fn available_buffer_count(&self) -> usize {
        self.pool.available_buffer_count()
    }

    /// A buffer for a new file, or `None` when all are in use: such a file is written directly.
    pub(super) fn buffer_for(&self, file: &Arc<MappedFile>) -> Option<Arc<Region>> {
        let buffer = self.pool.borrow_buffer()?;
        self.in_use.lock().push((Arc::clone(file), Arc::clone(&buffer)));
        Some(buffer)
    }

    fn buffer_of(&self, file: &Arc<MappedFile>) -> Option<Arc<Region>> {
        let in_use = self.in_use.lock();
        in_use.iter().find(|(known, _)| Arc::ptr_eq(known, file)).map(|(_, buffer)| Arc::clone(buffer))
    }

    pub(super) fn release(&self, file: &Arc<MappedFile>) {
        let mut in_use = self.in_use.lock();
        if let Some(at) = in_use.iter().position(|(known, _)| Arc::ptr_eq(known, file)) {
            let (_, buffer) = in_use.swap_remove(at);
            self.pool.return_buffer(buffer);
        }
    }
}

impl CommitLog {
    /// Lets go of all buffers of a log that is sealed and committed. A file without one counts as written directly: so
    /// nothing is committed from then on.
    pub(super) fn let_go_of_buffers(&self) {
        let Some(transient) = &self.transient else { return };
        let _not_while_committing = self.flusher.committing();
        transient.is_gone.store(true, Ordering::Release);
        *transient.in_use.lock() = Vec::new();
        transient.pool.let_go();
    }

    /// One commit pass: writes what is in memory to the files where at least `least_pages` pages of
    /// it are full, or a file is. Gives whether something was committed.
    ///
    /// # Errors
    /// Where a file can't be written; the store takes no messages from then on.
    pub fn commit(&self, least_pages: u64) -> Result<bool> {
        let Some(transient) = &self.transient else { return Ok(false) };
        let _one_at_a_time = self.flusher.committing();
        if transient.is_gone.load(Ordering::Acquire) {
            return Ok(false);
        }
        let store_timestamp = self.last_store_timestamp();
        let (from, to) = (self.committed_offset(), self.wrote_offset());
        let fills_a_file = from / self.files.file_size() != to / self.files.file_size();
        if from == to || (!fills_a_file && to / OS_PAGE_SIZE - from / OS_PAGE_SIZE < least_pages) {
            return Ok(false);
        }
        let mut at = from;
        while at < to {
            let Some(file) = self.files.find(at) else { break };
            let end = to.min(file.end_offset());
            self.poison.watch("commit", commit_range(transient, &file, at, end))?;
            self.positions.committed.store(end, Ordering::Release);
            if let Some(published) = self.published() {
                published.set_wrote(end);
            }
            if end == file.end_offset() {
                transient.release(&file);
            }
            at = end;
        }
        self.positions.committed_timestamp.store(store_timestamp, Ordering::Release);
        Ok(true)
    }
}

fn commit_range(transient: &TransientBuffers, file: &Arc<MappedFile>, from: u64, to: u64) -> Result<()> {
    let Some(buffer) = transient.buffer_of(file) else { return Ok(()) };
    let position = from - file.file_from_offset();
    let bytes = buffer.bytes(num::index(position), num::index(to - from)).unwrap_or_default();
    file.handle()?.write_at(bytes, position).map_err(Error::io("write", file.path()))
}
