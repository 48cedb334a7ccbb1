//! One file of fixed size, mapped or read when it is first used.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::map_budget::MapBudget;
use super::region::{OS_PAGE_SIZE, Region};
use super::slice::Slice;
use crate::error::{Error, Result};
use crate::fs::{FileHandle, FileSystem, OpenMode, is_named};
use crate::num;
use crate::sync::{AtomicBool, AtomicU32, Ordering, RwLock};
use crate::zeros::is_zero;

/// A file is short where less than this part of it is written.
const SHORT_PART: u64 = 16;
/// Of files that may be closed any time one is read so often before it is mapped, and so many bytes at a time at
/// most: to map, touch and unmap one costs as much as some ten reads, and of many files most are closed again
/// after one or two.
const READS_BEFORE_MAP: u32 = 8;
const MAX_READ_BEFORE_MAP: u64 = 32 << 10;

/// How the bytes of a file are reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Through a mapping that can be written to.
    MapWrite,
    /// Through a mapping to read.
    MapRead,
    /// By reads alone, for a file that another process may cut off.
    Read,
}

/// The size that a file is to have, and what is there of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileSizes {
    /// What its queue's files have.
    pub file: u64,
    /// Bytes on the disk.
    pub present: u64,
}

/// A file of fixed size.
#[derive(Debug)]
pub struct MappedFile {
    path: PathBuf,
    file_from_offset: u64,
    file_size: u64,
    /// Bytes that are there: fewer than its size where a copy was cut off.
    present_size: u64,
    access: Access,
    fs: Arc<dyn FileSystem>,
    open: RwLock<Opened>,
    /// Whether it has no name any more, or is just losing it: it cannot be opened again then.
    removed: AtomicBool,
    /// Reads since it was opened, while it is not mapped.
    read_count: AtomicU32,
    /// Set by use while it is open, cleared by the budget's hand as it passes. Opening it does not
    /// count: what is opened for one use would push out what is used all the time.
    used: AtomicBool,
    /// Holds what is not on the disk yet.
    is_kept_open: AtomicBool,
    budget: Option<Arc<MapBudget>>,
}

#[derive(Debug, Default)]
struct Opened {
    handle: Option<Arc<dyn FileHandle>>,
    region: Option<Arc<Region>>,
}

impl MappedFile {
    /// A file that is opened when it is first used. With a budget it is closed again when cold.
    #[must_use]
    pub fn new(
        fs: Arc<dyn FileSystem>,
        path: PathBuf,
        file_from_offset: u64,
        sizes: FileSizes,
        access: Access,
        budget: Option<Arc<MapBudget>>,
    ) -> Arc<Self> {
        Arc::new(Self {
            path,
            file_from_offset,
            file_size: sizes.file,
            present_size: sizes.present.min(sizes.file),
            access,
            fs,
            open: RwLock::default(),
            removed: AtomicBool::new(false),
            read_count: AtomicU32::new(0),
            used: AtomicBool::new(false),
            is_kept_open: AtomicBool::new(false),
            budget,
        })
    }

    /// Makes a new file of full size, also of an empty one that an earlier attempt left. Blocks are not
    /// reserved yet.
    ///
    /// # Errors
    /// Where the file can't be made, or is there already.
    pub fn create(
        fs: Arc<dyn FileSystem>,
        path: PathBuf,
        file_from_offset: u64,
        file_size: u64,
        access: Access,
        budget: Option<Arc<MapBudget>>,
    ) -> Result<Arc<Self>> {
        let handle = match fs.open(&path, OpenMode::CreateNew) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists && is_empty_file(&*fs, &path) => {
                fs.open(&path, OpenMode::Write)
            }
            outcome => outcome,
        };
        let handle = handle.map_err(Error::io("create", &path))?;
        if let Err(error) = handle.set_len(file_size) {
            // What could not be finished is not left in the way of the next attempt.
            let _already_failing = fs.remove_file(&path);
            return Err(Error::io("set the size of", &path)(error));
        }
        let sizes = FileSizes { file: file_size, present: file_size };
        let file = Self::new(fs, path, file_from_offset, sizes, access, budget);
        file.is_opened_by(handle);
        Ok(file)
    }

    /// Takes over an open file of it, by which it was made or looked at.
    pub(crate) fn is_opened_by(self: &Arc<Self>, handle: Arc<dyn FileHandle>) {
        self.open.write().handle = Some(handle);
        self.register();
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The offset of its first byte.
    #[must_use]
    pub const fn file_from_offset(&self) -> u64 {
        self.file_from_offset
    }

    /// Its size, which is what its queue's files have; a damaged file may be shorter on disk.
    #[must_use]
    pub const fn file_size(&self) -> u64 {
        self.file_size
    }

    /// Bytes of it that are on the disk.
    #[must_use]
    pub const fn present_size(&self) -> u64 {
        self.present_size
    }

    /// The offset behind its last byte.
    #[must_use]
    pub const fn end_offset(&self) -> u64 {
        self.file_from_offset + self.file_size
    }

    /// Whether an offset lies in it.
    #[must_use]
    pub const fn contains(&self, offset: u64) -> bool {
        offset >= self.file_from_offset && offset < self.end_offset()
    }

    /// The open file.
    ///
    /// # Errors
    /// Where it can't be opened.
    pub fn handle(self: &Arc<Self>) -> Result<Arc<dyn FileHandle>> {
        if let Some(handle) = &self.open.read().handle {
            self.used.store(true, Ordering::Relaxed);
            return Ok(Arc::clone(handle));
        }
        let mut open = self.open.write();
        let handle = self.open_handle(&mut open)?;
        drop(open);
        self.register();
        Ok(handle)
    }

    /// Another open file of the same, for who has to see for himself which writes have failed.
    ///
    /// # Errors
    /// Where the file can't be opened.
    pub(crate) fn open_apart(&self) -> Result<Arc<dyn FileHandle>> {
        self.fs.open(&self.path, OpenMode::Write).map_err(Error::io("open", &self.path))
    }

    fn open_handle(&self, open: &mut Opened) -> Result<Arc<dyn FileHandle>> {
        if let Some(handle) = &open.handle {
            return Ok(Arc::clone(handle));
        }
        let mode = if self.access == Access::MapWrite { OpenMode::Write } else { OpenMode::Read };
        let handle = self.fs.open(&self.path, mode).map_err(Error::io("open", &self.path))?;
        open.handle = Some(Arc::clone(&handle));
        Ok(handle)
    }

    /// Whether its name leads to the very file that is open; so it does to one that is yet to be opened. What can't be looked
    /// at counts as another: who opens that is told why.
    pub(crate) fn is_what_is_named(&self) -> bool {
        let Some(handle) = self.open.read().handle.clone() else { return true };
        let open = handle.metadata();
        open.and_then(|open| is_named(&*self.fs, &self.path, open.identity)).unwrap_or(false)
    }

    /// The mapping of the whole file, as far as it is there.
    ///
    /// # Errors
    /// Where it can't be opened or mapped, or is shorter than its size.
    pub fn region(self: &Arc<Self>) -> Result<Arc<Region>> {
        if let Some(region) = self.open_region() {
            return Ok(region);
        }
        let mut open = self.open.write();
        if let Some(region) = &open.region {
            return Ok(Arc::clone(region));
        }
        let handle = self.open_handle(&mut open)?;
        let region = self.map(&*handle).map_err(Error::io("map", &self.path))?;
        let region = Arc::new(region);
        open.region = Some(Arc::clone(&region));
        drop(open);
        self.register();
        Ok(region)
    }

    fn open_region(&self) -> Option<Arc<Region>> {
        let region = self.open.read().region.clone()?;
        self.used.store(true, Ordering::Relaxed);
        Some(region)
    }

    /// Of many files most are short. What stands behind their end is a hole, and a system that reads ahead by
    /// megabytes would fill memory with its zeros at every first touch: what is written is fetched alone.
    fn map(&self, handle: &dyn FileHandle) -> io::Result<Region> {
        let region = handle.map(num::index(self.present_size), self.access == Access::MapWrite)?;
        if self.is_one_of_short() && self.present_size > 0 {
            let written = handle.next_hole(0)?;
            if written < self.present_size / SHORT_PART {
                region.take_pages_alone(0)?;
                region.will_need(0, num::index(written))?;
            }
        }
        Ok(region)
    }

    /// Asks for all to be read that is written of it.
    ///
    /// # Errors
    /// Where it can't be opened or mapped.
    pub fn fetch(self: &Arc<Self>) -> Result<()> {
        let (region, handle) = (self.region()?, self.handle()?);
        let written = handle.next_hole(0).map_err(Error::io("look for a hole in", &self.path))?;
        let _best_effort = region.will_need(0, num::index(written).min(region.len()));
        Ok(())
    }

    /// Asks for a range to be read, unless nothing is written there.
    ///
    /// # Errors
    /// Where it can't be opened or mapped, or its holes not be found.
    pub fn fetch_range(self: &Arc<Self>, position: u64, len: u64) -> Result<()> {
        let region = self.region()?;
        let end = position.saturating_add(len).min(self.present_size);
        let data = self.next_data(position)?;
        match data.filter(|&data| data < end) {
            Some(data) => region
                .will_need(num::index(data), num::index(end - data))
                .map_err(Error::io("read ahead in", &self.path)),
            None => Ok(()),
        }
    }

    /// The first position from another one on that may be written; `None` where only a hole follows.
    ///
    /// # Errors
    /// Where it can't be opened, or its holes not be found.
    pub fn next_data(self: &Arc<Self>, position: u64) -> Result<Option<u64>> {
        self.handle()?.next_data(position).map_err(Error::io("look for data in", &self.path))
    }

    fn is_one_of_short(&self) -> bool {
        self.budget.as_ref().is_some_and(|budget| budget.are_short())
    }

    fn register(self: &Arc<Self>) {
        if let Some(budget) = &self.budget {
            budget.opened(self);
        }
    }

    /// Bytes from a position on; fewer than `len` where the file ends before. The caller asks only
    /// for what is published.
    ///
    /// # Errors
    /// Where the file can't be opened, mapped or read.
    pub fn slice(self: &Arc<Self>, position: u64, len: u64) -> Result<Slice> {
        let position = position.min(self.present_size);
        let len = len.min(self.present_size - position);
        if let Some(region) = self.region_for(len)? {
            let (at, len) = (num::index(position), num::index(len));
            return Ok(Slice::mapped(region, at, len).unwrap_or_else(|| Slice::read([])));
        }
        let len = num::index(len);
        let mut bytes = vec![0; len];
        let count = self.handle()?.read_at(&mut bytes, position).map_err(Error::io("read", &self.path))?;
        if count < len {
            return Err(Error::cut_off(&self.path, self.present_size, position + num::offset(count)));
        }
        Ok(Slice::read(bytes))
    }

    /// As [`MappedFile::slice`]; `None` where [`MappedFile::unless_removed`] says so.
    ///
    /// # Errors
    /// As there.
    pub fn slice_if_there(self: &Arc<Self>, position: u64, len: u64) -> Result<Option<Slice>> {
        self.unless_removed(self.slice(position, len))
    }

    /// The outcome of reading it; `None` where it was removed since it was looked up, or since it was listed by
    /// another process, whose store this is. What is not of this machine cannot go like that.
    ///
    /// # Errors
    /// Any other of the outcome.
    pub(crate) fn unless_removed<T>(&self, outcome: Result<T>) -> Result<Option<T>> {
        match outcome {
            Err(error) if self.may_be_removed() && error.is_removed(&*self.fs) => Ok(None),
            outcome => outcome.map(Some),
        }
    }

    fn may_be_removed(&self) -> bool {
        self.access != Access::MapWrite || self.removed.load(Ordering::Acquire)
    }

    /// The mapping to take so many bytes from; `None` where they are to be read.
    fn region_for(self: &Arc<Self>, len: u64) -> Result<Option<Arc<Region>>> {
        if self.access == Access::Read {
            return Ok(None);
        }
        if let Some(region) = self.open_region() {
            return Ok(Some(region));
        }
        let is_read_first = self.is_one_of_short()
            && len <= MAX_READ_BEFORE_MAP
            && self.read_count.fetch_add(1, Ordering::Relaxed) < READS_BEFORE_MAP;
        if is_read_first { Ok(None) } else { self.region().map(Some) }
    }

    /// Bytes as [`MappedFile::slice`] gives them, as a place in a window that others of this file may
    /// share: of a mapping all of it.
    ///
    /// # Errors
    /// As there.
    pub fn window(self: &Arc<Self>, position: u64, len: u64) -> Result<(Slice, usize)> {
        if self.access == Access::Read {
            return Ok((self.slice(position, len)?, 0));
        }
        Ok((self.slice(0, self.present_size)?, num::index(position)))
    }

    /// Whether it is reached by reads alone.
    #[must_use]
    pub fn is_read(&self) -> bool {
        self.access == Access::Read
    }

    /// Overwrites with zeros whatever stands behind a position. Reserved blocks stay reserved. Gives up to where
    /// there was anything, which is to be brought to the disk then ([`MappedFile::sync`]).
    ///
    /// # Errors
    /// Where the file can't be read or written.
    pub fn zero_from(self: &Arc<Self>, position: u64) -> Result<Option<u64>> {
        self.zero_by(&*self.handle()?, position)
    }

    /// As [`MappedFile::zero_from`], by a handle that writes to it.
    ///
    /// # Errors
    /// As there.
    pub fn zero_by(&self, handle: &dyn FileHandle, position: u64) -> Result<Option<u64>> {
        const MAX_STEP: usize = 1 << 20;
        // It grows: a hole that is read with what stands before it would take memory for each of its pages.
        let mut window = vec![0; num::index(OS_PAGE_SIZE - position % OS_PAGE_SIZE)];
        let mut at = position;
        let mut changed_to = None;
        while at < self.file_size {
            match handle.next_data(at).map_err(Error::io("look for data in", &self.path))? {
                Some(data) if data < self.file_size => at = at.max(data),
                _ => break,
            }
            let count = handle.read_at(&mut window, at).map_err(Error::io("read", &self.path))?;
            if count == 0 {
                break;
            }
            let found = window.get_mut(..count).unwrap_or_default();
            if !is_zero(found) {
                let last = found.iter().rposition(|&byte| byte != 0).unwrap_or_default();
                changed_to = Some(at + num::offset(last) + 1);
                found.fill(0);
                handle.write_at(found, at).map_err(Error::io("write", &self.path))?;
            }
            at += num::offset(count);
            let step = (2 * window.len()).clamp(num::index(OS_PAGE_SIZE), MAX_STEP);
            window.resize(step - num::index(at) % num::index(OS_PAGE_SIZE), 0);
        }
        Ok(changed_to)
    }

    /// Brings what was written to it to the disk.
    ///
    /// # Errors
    /// Where the disk did not take it.
    pub fn sync(self: &Arc<Self>) -> Result<()> {
        self.handle()?.sync_data().map_err(Error::io("flush", &self.path))
    }

    /// When its content changed last, in milliseconds.
    ///
    /// # Errors
    /// Where the file can't be asked.
    pub fn last_modified_timestamp(&self) -> Result<i64> {
        let found = self.fs.metadata(&self.path).map_err(Error::io("look at", &self.path))?;
        Ok(found.map_or(0, |found| found.modified_ms))
    }

    /// Takes its name off the disk. Slices of it stay valid, and so does itself to whoever holds it.
    ///
    /// # Errors
    /// Where it can't be opened or removed.
    pub fn unlink(self: &Arc<Self>) -> Result<()> {
        self.remove(|| match self.access {
            Access::Read => self.handle().map(|_| ()),
            Access::MapRead | Access::MapWrite => self.region().map(|_| ()),
        })
    }

    /// Takes its name off the disk, once something else is done that counts on nobody closing it from then on.
    fn remove(&self, before: impl FnOnce() -> Result<()>) -> Result<()> {
        self.removed.store(true, Ordering::Release);
        let outcome = before().and_then(|()| match self.fs.remove_file(&self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            outcome => outcome.map_err(Error::io("remove", &self.path)),
        });
        if outcome.is_err() {
            self.removed.store(false, Ordering::Release);
        }
        outcome
    }

    /// Removes it from the disk. Slices of it stay valid.
    ///
    /// # Errors
    /// Where it can't be removed.
    pub fn delete(&self) -> Result<()> {
        self.close();
        self.remove(|| Ok(()))
    }

    /// Closes it until it is used again, unless it could not be. Slices of it stay valid.
    pub fn close(&self) {
        self.close_unless(|| false);
    }

    /// As [`MappedFile::close`], unless it is to be kept open: whoever says so and opens it then finds it open from then on.
    pub(crate) fn close_unless_kept_open(&self) {
        self.close_unless(|| self.is_kept_open());
    }

    fn close_unless(&self, is_needed: impl FnOnce() -> bool) {
        let mut open = self.open.write();
        if self.removed.load(Ordering::Acquire) || is_needed() {
            return;
        }
        *open = Opened::default();
        drop(open);
        self.read_count.store(0, Ordering::Relaxed);
        self.used.store(false, Ordering::Relaxed);
    }

    /// Has the budget keep it open, or no longer: the system forgets a write that failed once nobody has the file.
    pub(crate) fn keep_open(&self, is_kept_open: bool) {
        self.is_kept_open.store(is_kept_open, Ordering::Release);
    }

    /// Whether the budget is to keep it open.
    pub(crate) fn is_kept_open(&self) -> bool {
        self.is_kept_open.load(Ordering::Acquire)
    }

    /// Whether it was used since the last time this was asked.
    pub(crate) fn take_used(&self) -> bool {
        self.used.swap(false, Ordering::Relaxed)
    }

    /// How many slices and users hold its mapping, besides itself.
    #[must_use]
    pub fn held_count(&self) -> usize {
        self.open.read().region.as_ref().map_or(0, |region| Arc::strong_count(region) - 1)
    }
}

fn is_empty_file(fs: &dyn FileSystem, path: &Path) -> bool {
    matches!(fs.metadata(path), Ok(Some(found)) if !found.is_dir && found.len == 0)
}
