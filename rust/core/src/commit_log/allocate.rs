//! Space for the log, ahead of the writer.
//!
//! Blocks are reserved before they are written through a mapping, so that a full disk is an error
//! from an append and never a signal that ends the process. A background pass keeps some steps
//! ahead, has their pages ready where records go through the mapping, and makes the next file before it is
//! needed; where it is late the append does it itself. Steps grow with what was written, so that an empty store is small.
//! Source for what is made when: `AllocateMappedFileService`.

use std::sync::Arc;
use std::time::Duration;

use super::CommitLog;
use super::append::{AppendRefusal, Wait};
use crate::error::{Error, Result};
use crate::fs::FileHandle;
use crate::mmap::mapped_file::MappedFile;
use crate::mmap::region::{OS_PAGE_SIZE, Region};
use crate::num;
use crate::sync::{AtomicBool, AtomicU64, Condvar, Mutex, MutexGuard, Ordering};

/// Smallest and largest step in which blocks are reserved.
const MIN_STEP: u64 = 1 << 20;
const MAX_STEP: u64 = 64 << 20;

/// How much is made ready at a time. An append that has come as far waits for it.
const READY_STEP: u64 = MIN_STEP;
/// What is written at once then. The system takes memory for it in one piece, of which it knows as a whole that it has
/// changed: more at once takes less time, and has more written anew where a flush ends in it.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// The file that is appended to.
#[derive(Debug)]
pub(super) struct ActiveFile {
    file: Arc<MappedFile>,
    handle: Arc<dyn FileHandle>,
    /// The file's mapping.
    region: Arc<Region>,
    /// Where records are written to: the mapping, or a buffer of the transient store pool.
    target: Arc<Region>,
    /// Up to which offset of the log blocks are reserved.
    reserved: AtomicU64,
    /// Held while blocks are reserved: where the file system can't, that writes back what was read, and nothing may
    /// have been appended in between.
    reserving: Mutex<()>,
    /// Whether a system call wrote what was appended last: pages that are mapped ahead are of no use to it.
    is_by_call: AtomicBool,
}

impl ActiveFile {
    /// A file of which blocks are reserved, and records written, up to an offset of the log; through a buffer where there
    /// is one.
    fn new(file: &Arc<MappedFile>, reserved: u64, buffer: Option<Arc<Region>>) -> Result<Self> {
        let (handle, region) = (file.handle()?, file.region()?);
        // Each page that is yet to be written comes into memory by itself. A file system that holds pages in large pieces,
        // up to 2 MiB, takes a whole piece for changed where a mapping changed a byte of it, and each flush of a record
        // would write it all.
        let _best_effort = region.take_pages_alone(num::index(reserved - file.file_from_offset()));
        Ok(Self {
            file: Arc::clone(file),
            handle,
            target: buffer.unwrap_or_else(|| Arc::clone(&region)),
            region,
            reserved: AtomicU64::new(reserved),
            reserving: Mutex::default(),
            is_by_call: AtomicBool::new(false),
        })
    }

    pub(super) fn file_from_offset(&self) -> u64 {
        self.file.file_from_offset()
    }

    pub(super) fn end_offset(&self) -> u64 {
        self.file.end_offset()
    }

    pub(super) fn reserved_offset(&self) -> u64 {
        self.reserved.load(Ordering::Acquire)
    }

    /// Writes bytes for which room was reserved.
    #[inline]
    pub(super) fn write(&self, position: usize, bytes: &[u8]) {
        let fits = self.target.write(position, bytes);
        debug_assert!(fits, "room for the record was reserved");
    }

    /// Writes bytes of several records for which room was reserved: none of them stands behind one that is not whole, whenever
    /// the process is killed.
    pub(super) fn write_in_order(&self, position: usize, bytes: &[u8]) {
        let fits = self.target.write_in_order(position, bytes);
        debug_assert!(fits, "room for the records was reserved");
    }

    /// Whether records go through a buffer.
    pub(super) fn is_buffered(&self) -> bool {
        !Arc::ptr_eq(&self.target, &self.region)
    }

    /// Writes bytes for which room was reserved by a system call, past the mapping.
    pub(super) fn write_by_call(&self, position: usize, bytes: &[u8]) -> Result<()> {
        self.handle.write_at(bytes, num::offset(position)).map_err(Error::io("write", self.file.path()))
    }

    /// Says whether a system call wrote what was appended last.
    #[inline]
    pub(super) fn set_by_call(&self, is_by_call: bool) {
        if self.is_by_call.load(Ordering::Relaxed) != is_by_call {
            self.is_by_call.store(is_by_call, Ordering::Relaxed);
        }
    }

    /// Whether pages of the mapping are likely not to be written to.
    fn is_by_call(&self) -> bool {
        self.is_buffered() || self.is_by_call.load(Ordering::Relaxed)
    }

    /// Has the processor fetch what is about to be written over, without waiting for it.
    #[inline]
    pub(super) fn prefetch_to_write(&self, position: usize, len: usize) {
        self.target.prefetch_to_write(position, len);
    }

    fn reserve(&self, up_to: u64) -> Result<()> {
        let reserving = self.reserving.lock();
        let up_to = self.allocate(&reserving, up_to)?;
        self.reserved.fetch_max(up_to, Ordering::AcqRel);
        Ok(())
    }

    /// Gets the blocks up to an offset, or to the file's end, without saying so. Gives where that is.
    fn allocate(&self, _reserving: &MutexGuard<'_, ()>, up_to: u64) -> Result<u64> {
        let reserved = self.reserved_offset();
        let up_to = up_to.min(self.end_offset());
        if up_to > reserved {
            self.handle
                .allocate(reserved - self.file_from_offset(), up_to - reserved)
                .map_err(Error::io("reserve space in", self.file.path()))?;
        }
        Ok(up_to)
    }

    /// Reserves blocks up to an offset, and has their pages in memory and mapped before anything can be appended there:
    /// the zeros that a system call writes take a third of the time that it takes to have each page made and filled
    /// with zeros where the mapping is touched.
    fn make_ready(&self, up_to: u64, is_to_end: impl Fn() -> bool) -> Result<()> {
        let up_to = self.allocate(&self.reserving.lock(), up_to)?;
        while !is_to_end() {
            let reserving = self.reserving.lock();
            let from = self.reserved_offset();
            let to = up_to.min(from + READY_STEP);
            if from >= to {
                break;
            }
            self.zero(from, to)?;
            self.reserved.fetch_max(to, Ordering::AcqRel);
            drop(reserving);
            self.populate(from, to);
        }
        Ok(())
    }

    /// Writes zeros where nothing can have been appended.
    fn zero(&self, from: u64, to: u64) -> Result<()> {
        let piece_size = num::offset(ZEROS.len());
        let mut at = from - self.file_from_offset();
        let end = to - self.file_from_offset();
        while at < end {
            // Pieces of whole pages, which begin where the system's do.
            let next = end.min((at / piece_size + 1) * piece_size);
            let zeros = ZEROS.get(..num::index(next - at)).unwrap_or_default();
            self.handle.write_at(zeros, at).map_err(Error::io("write zeros to", self.file.path()))?;
            at = next;
        }
        Ok(())
    }

    /// Makes pages of the mapping present. Failing to do so costs time at the first write, no more.
    fn populate(&self, from: u64, to: u64) {
        let at = num::index((from - self.file_from_offset()) / OS_PAGE_SIZE * OS_PAGE_SIZE);
        let end = num::index(to - self.file_from_offset());
        let _best_effort = self.handle.populate(&self.region, at, end.saturating_sub(at));
    }
}

/// The next file and the background pass's bell.
#[derive(Debug, Default)]
pub(super) struct Allocator {
    /// Held while a file is made, so that append and background pass never make the same one.
    making: Mutex<()>,
    state: Mutex<AllocatorState>,
    bell: Condvar,
}

#[derive(Debug, Default)]
struct AllocatorState {
    current: Option<Arc<ActiveFile>>,
    next: Option<Arc<ActiveFile>>,
    /// Whether an append asked for more than is reserved.
    asked: bool,
    /// Somebody wants a pass that waits to end.
    woken: bool,
    /// Rolled files whose pages are still locked in memory.
    to_unlock: Vec<Arc<Region>>,
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
        let file = self.files.create(from_offset)?;
        let made = self.prepare_file(&file);
        if made.is_err() {
            // A file without blocks would only be in the way of the next attempt.
            let _already_failing = file.delete();
            if let Some(transient) = &self.transient {
                transient.release(&file);
            }
        }
        made
    }

    fn prepare_file(&self, file: &Arc<MappedFile>) -> Result<Arc<ActiveFile>> {
        let buffer = self.transient.as_ref().and_then(|transient| transient.buffer_for(file));
        let active = ActiveFile::new(file, file.file_from_offset(), buffer)?;
        active.reserve(file.file_from_offset() + self.step())?;
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

    /// How much is reserved at a time: as much as was written already, within bounds.
    fn step(&self) -> u64 {
        let since = self.wrote_offset().saturating_sub(self.min_offset().unwrap_or(0));
        since.clamp(MIN_STEP, MAX_STEP)
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
            active.reserve(up_to.max(reserved + READY_STEP)).map_err(AppendRefusal::NoSpace)?;
        }
        // The size of a step, which the list of files has a say in, only where the longest would not do.
        let is_near = reserved < active.end_offset() && up_to + MAX_STEP / 2 > reserved;
        if is_near && up_to + self.step() / 2 > reserved {
            self.ring_allocator();
        }
        Ok(())
    }

    fn ring_allocator(&self) {
        let mut state = self.allocator.state.lock();
        if !state.asked {
            state.asked = true;
            self.allocator.bell.notify_one();
        }
    }

    /// One pass of the background allocation: waits at most `max_wait` for an append to ask, then
    /// reserves the next step and makes the next file when the current one nears its end.
    ///
    /// # Errors
    /// Where space can't be had. That is no failure yet: the append that needs it will say so.
    pub fn allocate_pass(&self, max_wait: Duration) -> Result<()> {
        let (current, to_unlock) = {
            let mut state = self.allocator.state.lock();
            if !state.asked && !state.woken {
                self.allocator.bell.wait_for(&mut state, max_wait);
            }
            state.woken = false;
            if !std::mem::take(&mut state.asked) {
                return Ok(());
            }
            (state.current.clone(), std::mem::take(&mut state.to_unlock))
        };
        for region in to_unlock {
            let _best_effort = region.unlock();
        }
        let Some(current) = current else { return Ok(()) };
        let (reserved, wrote, step) = (current.reserved_offset(), self.wrote_offset(), self.step());
        if wrote + 2 * step > reserved {
            self.reserve_ahead(&current, reserved + step)?;
        }
        if current.reserved_offset() == current.end_offset() && current.file.file_size() >= 2 * MIN_STEP {
            self.prepare_next(&current)?;
        }
        Ok(())
    }

    /// Reserves blocks up to an offset, with their pages in memory where what is appended is likely to need them.
    fn reserve_ahead(&self, current: &ActiveFile, up_to: u64) -> Result<()> {
        if self.takes_zeros(current) {
            return current.make_ready(up_to, || self.allocator.state.lock().woken);
        }
        let reserved = current.reserved_offset();
        current.reserve(up_to)?;
        if !current.is_by_call() {
            current.populate(reserved, current.reserved_offset());
        }
        Ok(())
    }

    /// Whether pages ahead are written with zeros. With synchronous flush they are not: the system knows of them by pieces
    /// then, and would write more than the page in which a record is.
    fn takes_zeros(&self, current: &ActiveFile) -> bool {
        !self.config.sync_flush && !current.is_by_call()
    }

    fn prepare_next(&self, current: &Arc<ActiveFile>) -> Result<()> {
        let _making = self.allocator.making.lock();
        let wanted = {
            let state = self.allocator.state.lock();
            state.next.is_none() && state.current.as_ref().is_some_and(|now| Arc::ptr_eq(now, current))
        };
        if wanted {
            let next = self.make_file(current.end_offset())?;
            let (from, to) = (next.file_from_offset(), next.reserved_offset());
            if self.takes_zeros(current) && !self.config.warm_mapped_file_enable {
                let _best_effort = next.zero(from, to);
            }
            if !current.is_by_call() {
                next.populate(from, to);
            }
            self.allocator.state.lock().next = Some(next);
        }
        Ok(())
    }

    /// Wakes a background pass that waits, so that it can end.
    pub fn wake_allocator(&self) {
        self.allocator.state.lock().woken = true;
        self.allocator.bell.notify_all();
    }

    /// Lets go of the files that are appended to or were: those of a log that is sealed. A background pass makes no next
    /// one any more.
    pub(super) fn let_go_of_allocated(&self) {
        let _made_if_under_way = self.allocator.making.lock();
        let mut state = self.allocator.state.lock();
        (state.current, state.next) = (None, None);
        state.to_unlock = Vec::new();
    }

    /// Removes the file that was made ahead and not used.
    ///
    /// # Errors
    /// Where it can't be removed.
    pub fn discard_prepared_file(&self) -> Result<()> {
        let Some(next) = self.allocator.state.lock().next.take() else { return Ok(()) };
        if let Some(transient) = &self.transient {
            transient.release(&next.file);
        }
        next.file.delete()?;
        self.files.sync_dirs()
    }
}
