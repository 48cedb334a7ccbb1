//! Space for the log, ahead of the writer.
//!
//! Two background passes, each in a thread of its own. One keeps some steps of blocks ahead, and has their pages ready where
//! records go through the mapping. The other makes the next file, long before it is needed: its name and its size go to the
//! disk first, behind all that the disk was given to do. Where they are late the append does it itself. Steps grow with what
//! was written, so that an empty store is small. Source for what is made when: `AllocateMappedFileService`.

use std::sync::Arc;
use std::time::Duration;

use super::CommitLog;
use super::active_file::{ActiveFile, ZeroSteps};
use super::append::{AppendRefusal, Wait};
use crate::error::{Error, Result};
use crate::mmap::mapped_file::MappedFile;
use crate::mmap::region::Region;
use crate::num;
use crate::sync::{Condvar, Mutex};

/// Largest step in which blocks are reserved.
const MAX_STEP: u64 = 64 << 20;
/// The same where what is reserved is flushed, beside the records that somebody waits for.
const MAX_FLUSHED_STEP: u64 = 4 << 20;
/// More than a record takes beside its body.
const MAX_AROUND_BODY: u64 = 64 << 10;
/// A log gets blocks early, and its next file, once it has this part of a file.
const EARLY_PART: u64 = 4;

/// The file that is appended to, the next one, and what the background passes are asked for.
#[derive(Debug, Default)]
pub(super) struct Allocator {
    /// Held while a file is made, so that append and background pass never make the same one.
    making: Mutex<()>,
    state: Mutex<AllocatorState>,
    /// More space ahead of the writer.
    reserve: Request,
    /// The next file.
    make_next: Request,
}

#[derive(Debug, Default)]
struct AllocatorState {
    current: Option<Arc<ActiveFile>>,
    next: Option<Arc<ActiveFile>>,
    /// Rolled files whose pages are still locked in memory.
    to_unlock: Vec<Arc<Region>>,
}

/// What a background pass waits for.
#[derive(Debug, Default)]
struct Request {
    state: Mutex<RequestState>,
    bell: Condvar,
}

#[derive(Debug, Default)]
struct RequestState {
    is_made: bool,
    /// Somebody wants a pass that waits to end.
    is_woken: bool,
}

impl Request {
    fn make(&self) {
        let mut state = self.state.lock();
        if !state.is_made {
            state.is_made = true;
            self.bell.notify_one();
        }
    }

    fn wake(&self) {
        self.state.lock().is_woken = true;
        self.bell.notify_all();
    }

    fn is_woken(&self) -> bool {
        self.state.lock().is_woken
    }

    /// Whether a pass that waited would not wait any more.
    fn is_wanted(&self) -> bool {
        let state = self.state.lock();
        state.is_made || state.is_woken
    }

    /// Waits at most `max_wait` for it, and gives whether it was made. Each is told once.
    fn wait(&self, max_wait: Duration) -> bool {
        let mut state = self.state.lock();
        if !state.is_made && !state.is_woken {
            // One that ends untold is as one whose time is up: the pass makes nothing, and the next one waits again.
            (state, _) = self.bell.wait_for(state, max_wait);
        }
        state.is_woken = false;
        std::mem::take(&mut state.is_made)
    }
}

impl CommitLog {
    /// Opens a file of the log for appending.
    pub(super) fn activate(&self, file: &Arc<MappedFile>) -> Result<Arc<ActiveFile>> {
        let reserved = file.file_from_offset().max(self.wrote_offset().min(file.end_offset()));
        // A file that was there when the store was opened is written through its mapping, as in 4.9.3.
        let active = Arc::new(ActiveFile::new(file, reserved, None)?);
        self.allocator.state.lock().current = Some(Arc::clone(&active));
        Ok(active)
    }

    /// The file behind the one that is full, made ahead or now.
    pub(super) fn next_active(&self, from_offset: u64, wait: Wait) -> Result<Arc<ActiveFile>, AppendRefusal> {
        let prepared = || {
            let mut state = self.allocator.state.lock();
            let next = state.next.take_if(|next| next.file_from_offset() == from_offset)?;
            self.make_current(&mut state, &next);
            Some(next)
        };
        let next = match prepared() {
            Some(next) => next,
            None if wait.is_try() => return Err(AppendRefusal::WouldBlock),
            None => {
                let _making = self.allocator.making.lock();
                match prepared() {
                    Some(next) => next,
                    None => {
                        let next = self.make_file(from_offset).map_err(AppendRefusal::NoSpace)?;
                        self.make_current(&mut self.allocator.state.lock(), &next);
                        next
                    }
                }
            }
        };
        self.files.push(Arc::clone(&next.file));
        Ok(next)
    }

    /// Of the file that is made or taken in the same hold of its lock: a background pass that finds neither it
    /// nor a next one would make it again.
    fn make_current(&self, state: &mut AllocatorState, next: &Arc<ActiveFile>) {
        if next.is_reserved() {
            // No append rings for more of it, and it is time for the one behind it.
            self.allocator.reserve.make();
        }
        let Some(full) = state.current.replace(Arc::clone(next)) else { return };
        // From here on it is only read.
        let _best_effort = full.region.take_pages_together();
        if self.config.warm_mapped_file_enable {
            state.to_unlock.push(Arc::clone(&full.region));
        }
    }

    /// Makes a file of full size, with its first step reserved and its name on the disk.
    fn make_file(&self, from_offset: u64) -> Result<Arc<ActiveFile>> {
        if let Some(transient) = &self.transient
            && self.config.fast_fail_if_no_buffer_in_store_pool
            && !self.config.is_slave
            && transient.available_buffer_count() == 0
        {
            return Err(Error::Option {
                option: "transientStorePoolSize",
                value: self.config.transient_store_pool_size.to_string(),
                reason: "no buffer is left for a new log file, and fastFailIfNoBufferInStorePool is on"
                    .into(),
            });
        }
        self.bound_unflushed()?;
        self.files.create_first(from_offset, |file| {
            let made = self.prepare_file(&file);
            if made.is_err() {
                // A file without blocks would only be in the way of the next attempt.
                let _already_failing = file.delete();
                if let Some(transient) = &self.transient {
                    transient.release(&file);
                }
            }
            made
        })
    }

    /// Flushes where files that hold what is not on the disk yet, and so stay open, are half of those that may be: very small ones.
    fn bound_unflushed(&self) -> Result<()> {
        let most = self.files.most_open().map(|most| num::offset(most / 2));
        if most.is_some_and(|most| self.unflushed_size() / self.files.file_size() > most) {
            self.flush(0)?;
        }
        Ok(())
    }

    fn prepare_file(&self, file: &Arc<MappedFile>) -> Result<Arc<ActiveFile>> {
        let buffer = self.transient.as_ref().and_then(|transient| transient.buffer_for(file));
        let active = ActiveFile::new(file, file.file_from_offset(), buffer)?;
        active.reserve(file.file_from_offset() + self.first_step())?;
        // Its size and name are on the disk before anything in it counts as flushed.
        active.handle.sync_data().map_err(Error::io("flush", file.path()))?;
        self.files.sync_dirs()?;
        if self.config.warm_mapped_file_enable {
            active.reserve(file.end_offset())?;
            active.populate(file.file_from_offset(), file.end_offset());
            let _best_effort = active.region.lock();
        }
        Ok(Arc::new(active))
    }

    /// What the disk of a new file has to have room for. Where others lie on other disks: any record, and on a slave, which ends no
    /// file early, all of it.
    fn first_step(&self) -> u64 {
        let step = self.config.reserve_step_size;
        if !self.files.has_several_paths() {
            step
        } else if self.config.is_slave {
            self.files.file_size()
        } else {
            step.max(u64::from(self.config.max_message_size) + MAX_AROUND_BODY)
        }
    }

    /// How much is reserved at a time: as much as was written already, within bounds.
    fn step(&self) -> u64 {
        let most = if self.flushes_zeros() { MAX_FLUSHED_STEP } else { MAX_STEP };
        self.size_so_far().clamp(self.config.reserve_step_size, most.max(self.config.reserve_step_size))
    }

    /// Bytes from the log's begin to its end.
    fn size_so_far(&self) -> u64 {
        self.wrote_offset().saturating_sub(self.min_offset().unwrap_or(0))
    }

    /// Whether it has so much, with files of this size, that blocks and files are got early.
    pub(super) fn is_growing(&self, file_size: u64) -> bool {
        self.size_so_far() >= file_size / EARLY_PART
    }

    /// Bytes that were written and are not on the disk yet.
    fn unflushed_size(&self) -> u64 {
        self.wrote_offset().saturating_sub(self.flushed_offset())
    }

    /// Sees to it that blocks are reserved up to an offset, and rings for more when they run short.
    pub(super) fn reserve_blocks(
        &self,
        active: &ActiveFile,
        up_to: u64,
        wait: Wait,
    ) -> Result<(), AppendRefusal> {
        let reserved = active.reserved_offset();
        if up_to > reserved {
            if wait.is_try() {
                return Err(AppendRefusal::WouldBlock);
            }
            // No more than has to be: a background pass, which may have the next pages ready, goes on behind it.
            let up_to = up_to.max(reserved + self.config.reserve_step_size);
            active.reserve(up_to).map_err(AppendRefusal::NoSpace)?;
        }
        // The size of a step, which the list of files has a say in, only where the longest would not do.
        let is_near = reserved < active.end_offset() && up_to + MAX_STEP / 2 > reserved;
        if is_near && up_to + self.step() / 2 > reserved {
            self.allocator.reserve.make();
        }
        Ok(())
    }

    /// One pass of the background reservation: waits at most `max_wait` for an append to ask, then reserves the next step,
    /// also of the next file behind the current one's end, and has that made where it is time to.
    ///
    /// # Errors
    /// Where space can't be had. That is no failure yet: the append that needs it will say so.
    pub fn reserve_pass(&self, max_wait: Duration) -> Result<()> {
        if !self.allocator.reserve.wait(max_wait) {
            return Ok(());
        }
        let (current, to_unlock) = {
            let mut state = self.allocator.state.lock();
            (state.current.clone(), std::mem::take(&mut state.to_unlock))
        };
        for region in to_unlock {
            let _best_effort = region.unlock();
        }
        let Some(current) = current else { return Ok(()) };
        let (reserved, wrote, step) = (current.reserved_offset(), self.wrote_offset(), self.step());
        if wrote + 2 * step > reserved {
            self.reserve_ahead(&current, reserved + step)?;
            self.allocate_early(&current, || self.allocator.reserve.is_wanted())?;
        }
        let next = self.allocator.state.lock().next.clone();
        match next {
            None if self.is_time_for_next(&current) => self.allocator.make_next.make(),
            Some(next) if current.is_reserved() => {
                next.expect_as(&current);
                self.reserve_ahead(&next, next.file_from_offset() + step)?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Whether the file behind the current one is to be made: early, but not for a small log, nor while the buffers of files
    /// before are still to be committed, since a file without one is written directly.
    fn is_time_for_next(&self, current: &ActiveFile) -> bool {
        let file_size = current.file.file_size();
        let has_buffer = || self.transient.as_ref().is_none_or(|pool| pool.available_buffer_count() > 0);
        let is_early = || self.is_growing(file_size) && has_buffer();
        file_size >= 2 * self.config.reserve_step_size && (current.is_reserved() || is_early())
    }

    /// One pass of the background making of files: waits at most `max_wait` until the next one is wanted, and makes it.
    ///
    /// # Errors
    /// Where it can't be made. That is no failure yet: the append that needs it will say so.
    pub fn make_next_pass(&self, max_wait: Duration) -> Result<()> {
        if !self.allocator.make_next.wait(max_wait) {
            return Ok(());
        }
        let _making = self.allocator.making.lock();
        let current = {
            let state = self.allocator.state.lock();
            state.current.clone().filter(|_| state.next.is_none())
        };
        let Some(current) = current else { return Ok(()) };
        let next = self.make_file(current.end_offset())?;
        if !current.is_by_call() {
            next.populate(next.file_from_offset(), next.reserved_offset());
        }
        self.allocator.state.lock().next = Some(Arc::clone(&next));
        if current.is_reserved() {
            // What is written next is about to come to it.
            self.allocator.reserve.make();
        }
        self.allocate_early(&next, || self.allocator.make_next.is_wanted())
    }

    /// Reserves blocks up to an offset, with their pages in memory where what is appended is likely to need them.
    fn reserve_ahead(&self, current: &ActiveFile, up_to: u64) -> Result<()> {
        if let Some(steps) = self.zero_steps(current) {
            let flush = || self.flush_zeros(current);
            return current.make_ready(up_to, steps, flush, || self.allocator.reserve.is_woken());
        }
        let reserved = current.reserved_offset();
        current.reserve(up_to)?;
        if !current.is_by_call() {
            current.populate(reserved, current.reserved_offset());
        }
        Ok(())
    }

    /// A flush of the whole file, records too: where it fails, so has one of theirs.
    fn flush_zeros(&self, current: &ActiveFile) -> Result<()> {
        let handle = current.zeros_handle()?;
        self.watch_flush(handle.sync_data().map_err(Error::io("flush", current.file.path())))
    }

    /// How pages ahead are written with zeros; `None` where they are not. With synchronous flush pieces would be in the way: the
    /// system would write all of one for the page in which a record is.
    fn zero_steps(&self, current: &ActiveFile) -> Option<ZeroSteps> {
        let step_size = self.config.reserve_step_size;
        if current.is_by_call() {
            None
        } else if self.flushes_zeros() {
            Some(ZeroSteps::flushed(step_size))
        } else {
            (!self.config.sync_flush).then(|| ZeroSteps::new(step_size, self.unflushed_size()))
        }
    }

    /// Whether what is reserved is flushed as well. Where much is flushed at once that would be as much again, and what
    /// it saves is shared by many records.
    fn flushes_zeros(&self) -> bool {
        self.config.sync_flush && self.flusher.is_usually_small()
    }

    /// Wakes the background passes that wait, so that they can end.
    pub fn wake_allocator(&self) {
        self.allocator.reserve.wake();
        self.allocator.make_next.wake();
    }

    /// The file that is appended to, once one is.
    pub(super) fn current_file(&self) -> Option<Arc<ActiveFile>> {
        self.allocator.state.lock().current.clone()
    }

    /// Lets go of the files that are appended to or were: those of a log that is sealed. A background pass makes no next
    /// one any more.
    pub(super) fn let_go_of_allocated(&self) {
        let _made_if_under_way = self.allocator.making.lock();
        let mut state = self.allocator.state.lock();
        (state.current, state.next) = (None, None);
        state.to_unlock = Vec::new();
    }

    /// Removes the file that was made ahead and not used; no other is before one is appended to.
    ///
    /// # Errors
    /// Where it can't be removed.
    pub fn discard_prepared_file(&self) -> Result<()> {
        let _made_if_under_way = self.allocator.making.lock();
        let next = {
            let mut state = self.allocator.state.lock();
            state.current = None;
            state.next.take()
        };
        let Some(next) = next else { return Ok(()) };
        if let Some(transient) = &self.transient {
            transient.release(&next.file);
        }
        next.file.delete()?;
        self.files.sync_dirs()
    }
}
