//! A file that is appended to: what is written to it, and how blocks and pages get there before that.
//!
//! Blocks are reserved before they are written through a mapping, so that a full disk is an error
//! from an append and never a signal that ends the process.

use std::sync::{Arc, LazyLock, OnceLock};

use crate::error::{Error, Result};
use crate::fs::FileHandle;
use crate::mmap::mapped_file::MappedFile;
use crate::mmap::region::{OS_PAGE_SIZE, Region};
use crate::num;
use crate::sync::{AtomicBool, AtomicU64, Mutex, MutexGuard, Ordering};

/// What makes pages ready is written from here. Nobody writes to it, so that it takes no memory.
static ZEROS: LazyLock<Box<[u8]>> = LazyLock::new(|| vec![0; LARGE_PIECE_SIZE].into());
/// As much is written at once. The system takes memory for it in one piece, of which it knows as a whole that it has
/// changed: more at once takes less time, and has more written anew where a flush ends in it.
const SMALL_PIECE_SIZE: usize = 64 << 10;
/// Less than what the host of a virtual machine takes back of memory that is free, 2 MiB at a time: pieces of that size would
/// always come from there.
const LARGE_PIECE_SIZE: usize = 512 << 10;
/// Pieces are large where there are this many between two flushes, so that little is written anew.
const LARGE_PIECES_A_FLUSH: usize = 16;

/// How pages are made ready.
#[derive(Debug, Clone, Copy)]
pub(super) struct ZeroSteps {
    /// What an append waits for that has come as far.
    step_size: u64,
    /// What is written at once.
    piece_size: u64,
    /// Whether each step is flushed.
    is_flushed: bool,
}

impl ZeroSteps {
    /// Of at least this size, for a log of which so much is yet to be flushed.
    pub(super) fn new(least_step_size: u64, unflushed_size: u64) -> Self {
        let large = num::offset(LARGE_PIECE_SIZE);
        if unflushed_size >= num::offset(LARGE_PIECES_A_FLUSH) * large {
            Self { step_size: least_step_size.max(large), piece_size: large, is_flushed: false }
        } else {
            let piece_size = num::offset(SMALL_PIECE_SIZE);
            Self { step_size: least_step_size, piece_size, is_flushed: false }
        }
    }

    /// For a log each of whose records is flushed. Pages are written one by one, so that the system knows of each by itself whether it
    /// has changed; and flushed, so that their blocks count as written on the disk. Else the flush of a record
    /// that is the first in its page would wait for the file system's journal to say so: twice as long.
    pub(super) const fn flushed(step_size: u64) -> Self {
        Self { step_size, piece_size: OS_PAGE_SIZE, is_flushed: true }
    }
}

/// The file that is appended to.
#[derive(Debug)]
pub(super) struct ActiveFile {
    pub(super) file: Arc<MappedFile>,
    pub(super) handle: Arc<dyn FileHandle>,
    /// The file's mapping.
    pub(super) region: Arc<Region>,
    /// Where records are written to: the mapping, or a buffer of the transient store pool.
    target: Arc<Region>,
    /// Up to which offset of the log blocks are reserved, and may be appended to.
    reserved: AtomicU64,
    /// Up to where blocks are there; behind `reserved` nobody knows it yet. Changed while `reserving` is held.
    allocated: AtomicU64,
    /// Held while blocks are reserved: where the file system can't, that writes back what was read, and nothing may
    /// have been appended in between.
    reserving: Mutex<()>,
    /// Flushes what makes pages ready.
    zeros_handle: OnceLock<Arc<dyn FileHandle>>,
    /// Whether a system call wrote what was appended last: pages that are mapped ahead are of no use to it.
    is_by_call: AtomicBool,
}

impl ActiveFile {
    /// A file of which blocks are reserved, and records written, up to an offset of the log; through a buffer where there
    /// is one.
    pub(super) fn new(file: &Arc<MappedFile>, reserved: u64, buffer: Option<Arc<Region>>) -> Result<Self> {
        let (handle, region) = (file.handle()?, file.region()?);
        // Until all of it is flushed.
        file.keep_open(true);
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
            allocated: AtomicU64::new(reserved),
            reserving: Mutex::default(),
            zeros_handle: OnceLock::new(),
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

    /// Expects records to be written as those of the file before it are.
    pub(super) fn expect_as(&self, before: &Self) {
        self.set_by_call(before.is_by_call.load(Ordering::Relaxed));
    }

    /// Whether pages of the mapping are likely not to be written to.
    pub(super) fn is_by_call(&self) -> bool {
        self.is_buffered() || self.is_by_call.load(Ordering::Relaxed)
    }

    /// Has the processor fetch what is about to be written over, without waiting for it.
    #[inline]
    pub(super) fn prefetch_to_write(&self, position: usize, len: usize) {
        self.target.prefetch_to_write(position, len);
    }

    /// Whether blocks are reserved for all of it.
    pub(super) fn is_reserved(&self) -> bool {
        self.reserved_offset() == self.end_offset()
    }

    /// Reserves blocks up to an offset, or to the file's end.
    pub(super) fn reserve(&self, up_to: u64) -> Result<()> {
        let reserving = self.reserving.lock();
        let up_to = self.allocate(&reserving, up_to)?;
        self.reserved.fetch_max(up_to, Ordering::AcqRel);
        Ok(())
    }

    /// Gets the blocks up to an offset, or to the file's end, without saying so. Gives where that is.
    fn allocate(&self, _reserving: &MutexGuard<'_, ()>, up_to: u64) -> Result<u64> {
        let (allocated, up_to) = (self.allocated_offset(), up_to.min(self.end_offset()));
        if up_to > allocated {
            self.handle
                .allocate(allocated - self.file_from_offset(), up_to - allocated)
                .map_err(Error::io("reserve space in", self.file.path()))?;
            self.allocated.store(up_to, Ordering::Release);
        }
        Ok(up_to)
    }

    /// Up to where blocks are there.
    pub(super) fn allocated_offset(&self) -> u64 {
        self.allocated.load(Ordering::Acquire)
    }

    /// Gets the next blocks long before they are needed. Gives whether it did: none may be left to get, the file system may have
    /// to write for it, or have no room for all of them, and is given back then what it has of them.
    pub(super) fn allocate_early(&self, step_size: u64) -> Result<bool> {
        let _reserving = self.reserving.lock();
        let (allocated, path) = (self.allocated_offset(), self.file.path());
        let (position, size) =
            (allocated - self.file_from_offset(), step_size.min(self.end_offset() - allocated));
        if size == 0 {
            return Ok(false);
        }
        match self.handle.allocate_unwritten(position, size).map_err(Error::io("reserve space in", path)) {
            Ok(true) => {
                self.allocated.store(allocated + size, Ordering::Release);
                Ok(true)
            }
            Ok(false) => Ok(false),
            Err(error) => {
                self.handle.give_back(position, size).map_err(Error::io("give space back of", path))?;
                if error.is_disk_full() { Ok(false) } else { Err(error) }
            }
        }
    }

    /// Gives back the blocks that were got from an offset on, where nothing is appended any more. The pages there that
    /// hold zeros need not be written then.
    pub(super) fn give_back(&self, from: u64) -> Result<()> {
        let _reserving = self.reserving.lock();
        let (position, allocated) = (from.max(self.file_from_offset()), self.allocated_offset());
        self.handle
            .give_back(position - self.file_from_offset(), allocated.saturating_sub(position))
            .map_err(Error::io("give space back of", self.file.path()))
    }

    /// Reserves blocks up to an offset, and has their pages in memory and mapped before anything can be appended there:
    /// the zeros that a system call writes take a third of the time that it takes to have each page made and filled
    /// with zeros where the mapping is touched. An append that has come as far waits for the step that is under way.
    /// `flush` comes behind each step that is to be flushed.
    pub(super) fn make_ready(
        &self,
        up_to: u64,
        steps: ZeroSteps,
        flush: impl Fn() -> Result<()>,
        is_to_end: impl Fn() -> bool,
    ) -> Result<()> {
        let up_to = self.allocate(&self.reserving.lock(), self.end_of_piece(up_to, steps.piece_size))?;
        while !is_to_end() {
            let reserving = self.reserving.lock();
            let from = self.reserved_offset();
            let to = up_to.min(self.end_of_piece(from + 1, steps.step_size));
            if from >= to {
                break;
            }
            self.zero(from, to, steps.piece_size)?;
            if steps.is_flushed {
                flush()?;
            }
            self.reserved.fetch_max(to, Ordering::AcqRel);
            drop(reserving);
            self.populate(from, to);
        }
        Ok(())
    }

    /// Writes zeros where nothing can have been appended.
    fn zero(&self, from: u64, to: u64, piece_size: u64) -> Result<()> {
        let mut at = from;
        while at < to {
            // Pieces of whole pages, which begin where the system's do.
            let next = to.min(self.end_of_piece(at + 1, piece_size));
            let zeros = ZEROS.get(..num::index(next - at)).unwrap_or_default();
            self.handle
                .write_at(zeros, at - self.file_from_offset())
                .map_err(Error::io("write zeros to", self.file.path()))?;
            at = next;
        }
        Ok(())
    }

    /// The handle that flushes what makes pages ready, and nothing else: of a write that failed each tells once, and what failed
    /// of records is for who flushes those.
    pub(super) fn zeros_handle(&self) -> Result<Arc<dyn FileHandle>> {
        if let Some(handle) = self.zeros_handle.get() {
            return Ok(Arc::clone(handle));
        }
        let own = self.file.open_apart()?;
        Ok(Arc::clone(self.zeros_handle.get_or_init(|| own)))
    }

    /// The first offset from another on in front of which the file is a whole number of pieces.
    fn end_of_piece(&self, from: u64, piece_size: u64) -> u64 {
        let begin = self.file_from_offset();
        begin + (from - begin).next_multiple_of(piece_size)
    }

    /// Makes pages of the mapping present. Failing to do so costs time at the first write, no more.
    pub(super) fn populate(&self, from: u64, to: u64) {
        let at = num::index((from - self.file_from_offset()) / OS_PAGE_SIZE * OS_PAGE_SIZE);
        let end = num::index(to - self.file_from_offset());
        let _best_effort = self.handle.populate(&self.region, at, end.saturating_sub(at));
    }
}
