//! The only mapping: a range of memory that is a file's, or nobody's.
//!
//! All `unsafe` of reading and writing mapped memory is here. What the rest of the engine keeps to:
//! bytes are written once, before the position that publishes them is stored, and read only below
//! such a position; what does change in place (an index file's slots, the published positions) is
//! read and written through atomics. What another process does to the file is not in our hands:
//! such bytes are never trusted, and a file cut off under a mapping ends the process, which is why
//! stores that others write are read without mappings by default.

#![allow(unsafe_code)] // the reason is above; every block says why it holds

use std::fs::File;
use std::io;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, compiler_fence};

use memmap2::{Advice, MmapMut, MmapOptions, MmapRaw, UncheckedAdvice};
use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous};

use crate::num;
use crate::sync::before_visible_change;

/// Mapped memory.
#[derive(Debug)]
pub struct Region {
    map: MmapRaw,
    writable: bool,
    /// Whether it is a file's: an anonymous region has nothing to flush to.
    is_file: bool,
}

/// What the processor fetches at once.
const CACHE_LINE: usize = 64;

/// Size of a page as RocketMQ counts them.
pub const OS_PAGE_SIZE: u64 = 4096;

impl Region {
    /// Maps the first `len` bytes of a file that is at least that long.
    pub(crate) fn map(file: &File, len: usize, writable: bool) -> io::Result<Self> {
        let mut options = MmapOptions::new();
        options.len(len);
        let map = if writable { options.map_raw(file)? } else { options.map_raw_read_only(file)? };
        Ok(Self { map, writable, is_file: true })
    }

    /// Memory of zeros that belongs to no file.
    pub(crate) fn anonymous(len: usize) -> io::Result<Self> {
        let map = MmapRaw::from(MmapMut::map_anon(len)?);
        Ok(Self { map, writable: true, is_file: false })
    }

    /// Its length.
    #[must_use]
    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// Whether it has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn contains(&self, at: usize, len: usize) -> bool {
        at.checked_add(len).is_some_and(|end| end <= self.len())
    }

    /// The bytes of a range, to be read below a published position alone; `None` where it leaves the region.
    #[inline]
    #[must_use]
    pub fn bytes(&self, at: usize, len: usize) -> Option<&[u8]> {
        if !self.contains(at, len) {
            return None;
        }
        // SAFETY: `at` was just checked to lie inside the mapping.
        let start = unsafe { self.map.as_ptr().add(at) };
        // SAFETY: the range lies inside the mapping, which lives as long as `self`. Published bytes are not
        // written again by this process; what a window of a whole file spans behind them, nobody looks at.
        Some(unsafe { std::slice::from_raw_parts(start, len) })
    }

    /// Writes bytes that no position has published yet; `false` where they do not fit.
    #[inline]
    #[must_use]
    pub fn write(&self, at: usize, bytes: &[u8]) -> bool {
        if !self.writable || !self.contains(at, bytes.len()) {
            return false;
        }
        before_visible_change();
        // SAFETY: `at` was just checked to lie inside the mapping.
        let start = unsafe { self.map.as_mut_ptr().add(at) };
        // SAFETY: the range lies inside a writable mapping; `bytes` cannot overlap it, since nobody
        // holds a slice of bytes that are not published.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), start, bytes.len()) };
        true
    }

    /// As [`Region::write`], the first byte first: a library's copy of many bytes may well begin with the last ones. What a
    /// process that is killed in between has written then ends within one step, in which no record has room.
    #[must_use]
    pub fn write_in_order(&self, at: usize, bytes: &[u8]) -> bool {
        const STEP: usize = 64;
        self.contains(at, bytes.len())
            && bytes.chunks(STEP).zip((at..).step_by(STEP)).all(|(step, place)| {
                // Else the compiler would make one copy of all.
                compiler_fence(Ordering::SeqCst);
                self.write(place, step)
            })
    }

    /// Fills a range with zeros; `false` where it leaves the region.
    #[must_use]
    pub fn zero(&self, at: usize, len: usize) -> bool {
        if !self.writable || !self.contains(at, len) {
            return false;
        }
        // SAFETY: `at` was just checked to lie inside the mapping.
        let start = unsafe { self.map.as_mut_ptr().add(at) };
        // SAFETY: the range lies inside a writable mapping and holds nothing published.
        unsafe { std::ptr::write_bytes(start, 0, len) };
        true
    }

    /// A word that changes in place, in the byte order in which it is stored.
    #[inline]
    #[must_use]
    pub fn atomic_u32(&self, at: usize) -> Option<&AtomicU32> {
        if !at.is_multiple_of(align_of::<AtomicU32>()) || !self.contains(at, size_of::<AtomicU32>()) {
            return None;
        }
        // SAFETY: `at` was just checked to lie inside the mapping.
        let start = unsafe { self.map.as_mut_ptr().add(at) };
        // SAFETY: in range and aligned (a mapping starts at a page), and the engine touches such
        // words through atomics alone.
        Some(unsafe { AtomicU32::from_ptr(start.cast()) })
    }

    /// A double word that changes in place, in the byte order in which it is stored.
    #[inline]
    #[must_use]
    pub fn atomic_u64(&self, at: usize) -> Option<&AtomicU64> {
        if !at.is_multiple_of(align_of::<AtomicU64>()) || !self.contains(at, size_of::<AtomicU64>()) {
            return None;
        }
        // SAFETY: `at` was just checked to lie inside the mapping.
        let start = unsafe { self.map.as_mut_ptr().add(at) };
        // SAFETY: as for `atomic_u32`.
        Some(unsafe { AtomicU64::from_ptr(start.cast()) })
    }

    pub(crate) fn flush(&self, at: usize, len: usize) -> io::Result<()> {
        if self.is_file && len > 0 { self.map.flush_range(at, len) } else { Ok(()) }
    }

    /// Takes the whole pages of a range of a file out of the mapping: they stay in memory, as the file's, and come
    /// back where they are touched. It fails where pages are locked in memory.
    pub(crate) fn take_out(&self, at: usize, len: usize) -> io::Result<()> {
        let page_size = num::index(OS_PAGE_SIZE);
        let end = at.saturating_add(len).min(self.len()) / page_size * page_size;
        let begin = at.next_multiple_of(page_size);
        if !self.is_file || begin >= end {
            return Ok(());
        }
        // SAFETY: what a shared mapping of a file holds is the file's, in which it stays whatever is mapped; nobody
        // else's memory lies in the range, which is inside the mapping.
        unsafe { self.map.unchecked_advise_range(UncheckedAdvice::DontNeed, begin, end - begin) }
    }

    /// Puts zeros that belong to no file where its file was, for whoever writes to it still. Its bytes must not be asked for any
    /// more.
    pub(crate) fn let_go_of_file(&self) -> io::Result<()> {
        let zeros = (NonZeroUsize::new(self.map.as_ptr().addr()), NonZeroUsize::new(self.len()));
        let (Some(start), Some(len)) = zeros else { return Ok(()) };
        let (access, fixed) =
            (ProtFlags::PROT_READ | ProtFlags::PROT_WRITE, MapFlags::MAP_FIXED | MapFlags::MAP_PRIVATE);
        // SAFETY: it takes the place of this very mapping, which ends where a page does as that did, and is let go of with it.
        unsafe { mmap_anonymous(Some(start), len, access, fixed) }.map(drop).map_err(io::Error::from)
    }

    /// Makes pages present and writable ahead of their use. Kernels before 5.14 cannot; there the
    /// first write does it.
    pub(crate) fn populate(&self, at: usize, len: usize) -> io::Result<()> {
        if len == 0 {
            return Ok(());
        }
        match self.map.advise_range(Advice::PopulateWrite, at, len) {
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
            outcome => outcome,
        }
    }

    /// Asks for pages to be read ahead.
    pub(crate) fn will_need(&self, at: usize, len: usize) -> io::Result<()> {
        if len == 0 { Ok(()) } else { self.map.advise_range(Advice::WillNeed, at, len) }
    }

    /// Lets a page from a place on that is touched be brought into memory alone, without those next to it.
    pub(crate) fn take_pages_alone(&self, from: usize) -> io::Result<()> {
        match self.len().checked_sub(from) {
            None | Some(0) => Ok(()),
            Some(len) => self.map.advise_range(Advice::Random, from, len),
        }
    }

    /// Has pages brought into memory with those next to them, as they are where nothing else was said.
    pub(crate) fn take_pages_together(&self) -> io::Result<()> {
        self.map.advise(Advice::Normal)
    }

    /// Keeps its pages in memory.
    pub(crate) fn lock(&self) -> io::Result<()> {
        self.map.lock()
    }

    /// Lets its pages go again.
    pub(crate) fn unlock(&self) -> io::Result<()> {
        self.map.unlock()
    }

    /// Has the processor fetch what stands at a place, without waiting for it.
    #[inline]
    pub fn prefetch(&self, at: usize, len: usize) {
        #[cfg(target_arch = "x86_64")]
        for line in self.lines(at, len) {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            // SAFETY: a hint that reads nothing; every x86-64 processor has it.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(line.cast()) };
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _no_hint_known = (at, len);
    }

    /// As [`Region::prefetch`], to be written to.
    #[inline]
    pub fn prefetch_to_write(&self, at: usize, len: usize) {
        #[cfg(target_arch = "x86_64")]
        for line in self.lines(at, len) {
            // SAFETY: a hint that changes nothing; a processor that does not have it does nothing.
            unsafe {
                std::arch::asm!("prefetchw [{}]", in(reg) line, options(nostack, preserves_flags, readonly));
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _no_hint_known = (at, len);
    }

    /// As [`Region::prefetch`], into the second cache: it is needed soon, and more of it than the first one holds.
    #[inline]
    pub fn prefetch_into_l2(&self, at: usize, len: usize) {
        #[cfg(target_arch = "x86_64")]
        for line in self.lines(at, len) {
            use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
            // SAFETY: as for `prefetch`.
            unsafe { _mm_prefetch::<_MM_HINT_T1>(line.cast()) };
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _no_hint_known = (at, len);
    }

    /// Where the lines of memory begin that a range touches, as far as it lies in the region.
    #[cfg(target_arch = "x86_64")]
    #[inline]
    fn lines(&self, at: usize, len: usize) -> impl Iterator<Item = *const u8> {
        lines_of(at..at.saturating_add(len).min(self.len())).map(|line| {
            // SAFETY: it lies before the range's end, which is no further than the mapping's.
            unsafe { self.map.as_ptr().add(line) }
        })
    }
}

/// Where the lines begin that a range touches. A mapping begins with one.
#[inline]
fn lines_of(range: Range<usize>) -> impl Iterator<Item = usize> {
    let first = if range.is_empty() { range.end } else { range.start - range.start % CACHE_LINE };
    (first..range.end).step_by(CACHE_LINE)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{CACHE_LINE, lines_of};

    #[test]
    fn a_range_has_each_line_that_one_of_its_bytes_is_in() {
        for start in 0..2 * CACHE_LINE {
            for len in 0..4 * CACHE_LINE {
                let lines: BTreeSet<_> =
                    (start..start + len).map(|at| at / CACHE_LINE * CACHE_LINE).collect();
                assert!(lines_of(start..start + len).eq(lines), "{start}, {len}");
            }
        }
    }
}
