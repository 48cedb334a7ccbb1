//! One index file: putting keys into it and following its chains. Source: `IndexFile`.
//!
//! One thread puts; any number look up beside it. An entry is written before its slot points at it,
//! and the count that bounds what a look-up believes is stored last.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::format::index::{INDEX_HEADER_SIZE, INVALID_INDEX, IndexEntry, IndexHeader, IndexShape};
use crate::fs::{FileHandle, FileSystem, OpenMode};
use crate::index::content::{Content, OpenContent, possible_access};
use crate::index::infer::infer_shape_of;
use crate::index::reading::Reading;
use crate::mmap::map_budget::MapBudget;
use crate::mmap::mapped_file::{Access, FileSizes, MappedFile};
use crate::mmap::region::Region;
use crate::num;
use crate::sync::{AtomicBool, AtomicI32, AtomicI64, AtomicU32, Mutex, Ordering};

/// Blocks of entries are reserved in steps of this size.
const RESERVE_STEP: usize = 1 << 20;

/// An index file.
#[derive(Debug)]
pub struct IndexFile {
    path: PathBuf,
    shape: IndexShape,
    content: Content,
    begin_timestamp: AtomicI64,
    end_timestamp: AtomicI64,
    begin_phy_offset: AtomicI64,
    end_phy_offset: AtomicI64,
    hash_slot_count: AtomicI32,
    index_count: AtomicU32,
    /// Up to which byte blocks are reserved.
    reserved: AtomicU32,
    /// Held while the header is written: a pass and a flush both do.
    writing_header: Mutex<()>,
    /// What became of a flush that came before the one that is to tell of it.
    early_flush: Mutex<Option<Result<()>>>,
    /// Whether another process puts keys into it: its header is read from the file then, and as
    /// that lags behind, its count bounds nothing.
    is_live: AtomicBool,
    /// Whether it was made with other options than the store has.
    is_foreign: bool,
}

/// What became of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PutKey {
    /// It is in the file.
    Put,
    /// The file is full.
    Full,
}

impl IndexFile {
    fn over(path: PathBuf, shape: IndexShape, content: Content, header: IndexHeader) -> Self {
        let reserved = if content.file().is_some() { 0 } else { u32::MAX };
        Self {
            path,
            shape,
            content,
            begin_timestamp: AtomicI64::new(header.begin_timestamp),
            end_timestamp: AtomicI64::new(header.end_timestamp),
            begin_phy_offset: AtomicI64::new(header.begin_phy_offset),
            end_phy_offset: AtomicI64::new(header.end_phy_offset),
            hash_slot_count: AtomicI32::new(header.hash_slot_count),
            index_count: AtomicU32::new(num::int_as_bits(header.index_count.max(1))),
            reserved: AtomicU32::new(reserved),
            writing_header: Mutex::default(),
            early_flush: Mutex::default(),
            is_live: AtomicBool::new(false),
            is_foreign: false,
        }
    }

    /// Opens a file that is there, and closes it again where a budget says so. Blocks of it may not be reserved, which
    /// the first put sees to. One of another size than its shape gives was made with other options: its own shape is
    /// found out, and it takes no more keys.
    ///
    /// # Errors
    /// Where it can't be opened or read, or its shape not be found out.
    pub fn open(
        fs: &Arc<dyn FileSystem>,
        path: &Path,
        shape: IndexShape,
        access: Access,
        is_live: bool,
        budget: Option<Arc<MapBudget>>,
    ) -> Result<Self> {
        let wanted = shape;
        let mode = if access == Access::MapWrite { OpenMode::Write } else { OpenMode::Read };
        let handle = fs.open(path, mode).map_err(Error::io("open", path))?;
        let found = handle.metadata().map_err(Error::io("look at", path))?;
        let shape = if found.len == num::offset(shape.file_size()) {
            shape
        } else {
            inferred_shape(&handle, path, found.len, shape, access)?
        };
        // Of many files most are not looked into before they are closed again: a mapping would be for nothing.
        let read = OpenContent::of(&handle, path, shape.file_size(), Access::Read)?;
        let header = read.bytes::<INDEX_HEADER_SIZE>(path, 0)?;
        let header = header.and_then(|bytes| IndexHeader::read(&bytes)).unwrap_or_default();
        let access = possible_access(&*handle, access);
        let content = Content::File(file_of(fs, path, shape, access, budget, handle));
        let is_foreign = shape != wanted;
        let is_live = AtomicBool::new(is_live);
        Ok(Self { is_live, is_foreign, ..Self::over(path.into(), shape, content, header) })
    }

    /// Whether a file is only just being made, by whoever writes the store: it has its size and no header yet.
    pub(super) fn is_being_made(fs: &dyn FileSystem, path: &Path) -> bool {
        let mut header = [0; INDEX_HEADER_SIZE];
        let read = fs.open(path, OpenMode::Read).and_then(|handle| handle.read_at(&mut header, 0));
        read.is_ok_and(|count| count == INDEX_HEADER_SIZE) && header == [0; INDEX_HEADER_SIZE]
    }

    /// Makes a file. Its header takes over the end of the file before it, as in 4.9.3. It stays open until it is full
    /// and flushed.
    ///
    /// # Errors
    /// Where it can't be made or its slots' space not be had.
    pub fn create(
        fs: &Arc<dyn FileSystem>,
        path: &Path,
        shape: IndexShape,
        previous_end: Option<(i64, i64)>,
        budget: Option<Arc<MapBudget>>,
    ) -> Result<Self> {
        let handle = fs.open(path, OpenMode::CreateNew).map_err(Error::io("create", path))?;
        let made = handle
            .set_len(num::offset(shape.file_size()))
            .and_then(|()| handle.allocate(0, num::offset(shape.entry_at(1))))
            .map_err(Error::io("make the index file", path))
            .and_then(|()| {
                let file = file_of(fs, path, shape, Access::MapWrite, budget, handle);
                file.keep_open(true);
                file.region().map(|_| file)
            });
        let file = made.inspect_err(|_| {
            let _already_failing = fs.remove_file(path);
        })?;
        let file = Self::over(path.into(), shape, Content::File(file), first_header(previous_end));
        file.write_header();
        Ok(file)
    }

    /// A file in memory, for a store that is only read.
    ///
    /// # Errors
    /// Where the memory can't be had.
    pub fn in_memory(shape: IndexShape, previous_end: Option<(i64, i64)>) -> Result<Self> {
        let region = Region::anonymous(shape.file_size()).map_err(Error::io("allocate", "memory"))?;
        let content = Content::Memory(Arc::new(region));
        Ok(Self::over(PathBuf::new(), shape, content, first_header(previous_end)))
    }

    /// Where it is; empty for one in memory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn is_live(&self) -> bool {
        self.is_live.load(Ordering::Relaxed)
    }

    /// From here on another process may put keys into it, where it is on the disk.
    pub(super) fn follow(&self) {
        self.is_live.store(self.content.file().is_some(), Ordering::Relaxed);
    }

    /// Whether it is of other options, and has no entries to tell by how many slots and entries they made it.
    pub(super) fn has_any_shape(&self) -> bool {
        self.is_foreign && self.index_count() <= 1
    }

    /// Its slots and entries.
    #[must_use]
    pub const fn shape(&self) -> IndexShape {
        self.shape
    }

    /// Its header as it stands now.
    #[must_use]
    pub fn header(&self) -> IndexHeader {
        let read = if self.is_live() { self.read().ok().flatten() } else { None };
        read.map_or_else(|| self.known_header(), |read| read.header())
    }

    /// Its header as this process knows it.
    pub(super) fn known_header(&self) -> IndexHeader {
        IndexHeader {
            begin_timestamp: self.begin_timestamp.load(Ordering::Acquire),
            end_timestamp: self.end_timestamp.load(Ordering::Acquire),
            begin_phy_offset: self.begin_phy_offset.load(Ordering::Acquire),
            end_phy_offset: self.end_phy_offset.load(Ordering::Acquire),
            hash_slot_count: self.hash_slot_count.load(Ordering::Acquire),
            index_count: num::bits_as_int(self.index_count()),
        }
    }

    /// Entries plus one: the number that the next entry gets.
    #[must_use]
    pub fn index_count(&self) -> u32 {
        self.index_count.load(Ordering::Acquire)
    }

    /// Whether it takes no more keys.
    #[must_use]
    pub fn is_write_full(&self) -> bool {
        self.is_foreign || self.index_count() >= self.shape.index_num
    }

    /// Has it open as long as the result is held; `None` where it was removed and closed before. Who removes a file has
    /// what it held elsewhere, or nobody asks for that any more.
    ///
    /// # Errors
    /// Where it can't be opened or mapped.
    pub fn read(&self) -> Result<Option<Reading<'_>>> {
        Ok(self.content.open_if_there()?.map(|content| Reading::new(self, content)))
    }

    /// An entry by its number; `None` too where the file was removed.
    ///
    /// # Errors
    /// Where the file can't be read.
    pub fn entry(&self, number: u32) -> Result<Option<IndexEntry>> {
        self.read()?.map_or(Ok(None), |read| read.entry(number))
    }

    /// The newest entry of a slot; 0 for none, and where the file was removed.
    ///
    /// # Errors
    /// Where the file can't be read.
    pub fn slot(&self, slot: u32) -> Result<u32> {
        self.read()?.map_or(Ok(INVALID_INDEX), |read| read.slot(slot))
    }

    pub(super) fn slot_in(&self, content: &OpenContent, slot: u32) -> Result<u32> {
        let value = content.word(&self.path, self.shape.slot_at(slot))?;
        let last = if self.is_live() { self.shape.index_num } else { self.index_count() };
        Ok(if value > last || num::bits_as_int(value) <= 0 { INVALID_INDEX } else { value })
    }

    /// Puts a key's hash. Source: `putKey`.
    ///
    /// # Errors
    /// Where space for the entry can't be had; nothing was put then.
    pub fn put_key(&self, key_hash: u32, phy_offset: u64, store_timestamp: i64) -> Result<PutKey> {
        if self.is_write_full() {
            return Ok(PutKey::Full);
        }
        self.put_key_in(&self.open_to_put()?, key_hash, phy_offset, store_timestamp)
    }

    /// Opens it to put keys into it. It stays open until it is full and flushed: the system forgets a write that failed
    /// once nobody has the file.
    ///
    /// # Errors
    /// Where it can't be opened or mapped.
    pub(super) fn open_to_put(&self) -> Result<OpenContent> {
        if let Some(file) = self.content.file() {
            file.keep_open(!self.is_write_full());
        }
        self.content.open()
    }

    /// As [`IndexFile::put_key`], into what was opened for that.
    ///
    /// # Errors
    /// As there.
    pub(super) fn put_key_in(
        &self,
        content: &OpenContent,
        key_hash: u32,
        phy_offset: u64,
        store_timestamp: i64,
    ) -> Result<PutKey> {
        let number = self.index_count();
        let Some(region) = content.region().filter(|_| !self.is_write_full()) else {
            return Ok(PutKey::Full);
        };
        let at = self.shape.entry_at(number);
        self.reserve(self.shape.entry_at(number + 1))?;
        let slot = self.shape.slot_of(key_hash);
        let previous = self.slot_in(content, slot)?;
        let header = self.known_header();
        let entry = IndexEntry {
            key_hash: num::bits_as_int(key_hash),
            phy_offset: num::java_long(phy_offset),
            time_diff: header.time_diff(store_timestamp),
            prev_index: num::bits_as_int(previous),
        };
        let fits = region.write(at, &entry.to_bytes());
        debug_assert!(fits, "an entry below the file's number of entries lies in the file");
        if let Some(word) = region.atomic_u32(self.shape.slot_at(slot)) {
            word.store(number.to_be(), Ordering::Release);
        }
        if number <= 1 {
            self.begin_phy_offset.store(entry.phy_offset, Ordering::Release);
            self.begin_timestamp.store(store_timestamp, Ordering::Release);
        }
        if previous == INVALID_INDEX {
            self.hash_slot_count.fetch_add(1, Ordering::Release);
        }
        self.end_phy_offset.store(entry.phy_offset, Ordering::Release);
        self.end_timestamp.store(store_timestamp, Ordering::Release);
        self.index_count.store(number + 1, Ordering::Release);
        if number <= 1 {
            // Every entry's time counts from the begin that is known from here on.
            self.write_header();
        }
        Ok(PutKey::Put)
    }

    /// Writes the header into the file. Done when the first key is in it, when it is full, and once a
    /// pass: in between only look-ups of this process need it, and those read it from memory. Where nothing was put
    /// the file has it.
    pub fn write_header(&self) {
        let _one_at_a_time = self.writing_header.lock();
        let Some(file) = self.content.file().filter(|file| file.is_kept_open()) else { return };
        // It is mapped, unless it is just being removed.
        let Ok(region) = file.region() else { return };
        let fits = region.write(0, &self.known_header().to_bytes());
        debug_assert!(fits, "a file has room for its header");
    }

    fn reserve(&self, up_to: usize) -> Result<()> {
        let reserved = self.reserved.load(Ordering::Relaxed) as usize;
        let Some(file) = self.content.file().filter(|_| up_to > reserved) else { return Ok(()) };
        let target = (up_to + RESERVE_STEP).min(self.shape.file_size());
        file.handle()?
            .allocate(num::offset(reserved), num::offset(target - reserved))
            .map_err(Error::io("reserve space in", &self.path))?;
        self.reserved.store(num::int_as_bits(num::java_int(target)), Ordering::Relaxed);
        Ok(())
    }

    /// Brings it to the disk. From then on it may be closed, if it is full.
    ///
    /// # Errors
    /// Where the disk did not take it.
    pub fn flush(&self) -> Result<()> {
        let early = self.early_flush.lock().take();
        early.unwrap_or_else(|| self.flush_now())
    }

    /// Brings a full file to the disk before [`IndexFile::flush`] does, which then tells what became of it.
    pub(super) fn flush_early(&self) {
        let mut early = self.early_flush.lock();
        *early = Some(self.flush_now());
    }

    fn flush_now(&self) -> Result<()> {
        let Some(file) = self.content.file().filter(|file| !file.is_read()) else { return Ok(()) };
        let opened = file.handle().and_then(|handle| Ok((handle, file.region()?)));
        // One that was removed needs no flush.
        let Some((handle, region)) = file.unless_removed(opened)? else { return Ok(()) };
        // What is put while it is flushed may not be on the disk.
        let is_full = self.is_write_full();
        self.write_header();
        let used = self.shape.entry_at(self.index_count().min(self.shape.index_num));
        handle.flush_mapped(&region, 0, used).map_err(Error::io("flush", &self.path))?;
        if is_full {
            file.keep_open(false);
        }
        Ok(())
    }

    /// Has the file look written to just now.
    ///
    /// # Errors
    /// Where its time can't be set.
    pub fn touch(&self) -> Result<()> {
        let Some(file) = self.content.file() else { return Ok(()) };
        file.handle()?.touch().map_err(Error::io("set the time of", &self.path))
    }

    /// Has the budget keep it open, or no longer, where it is one of a store that is only read.
    pub(super) fn keep_open(&self, is_kept_open: bool) {
        if let Some(file) = self.content.file() {
            file.keep_open(is_kept_open);
        }
    }

    /// Closes it and removes it from the disk, where it is on it. Who has it open goes on reading it.
    ///
    /// # Errors
    /// Where it can't be removed.
    pub(super) fn delete(&self) -> Result<()> {
        self.content.file().map_or(Ok(()), |file| file.delete())
    }

    /// How many of the last entries belong to the message at the end of the file: a message whose
    /// keys did not all fit has the rest of them in the next file.
    ///
    /// # Errors
    /// Where the file can't be read.
    pub fn keys_of_last_message(&self) -> Result<usize> {
        self.read()?.map_or(Ok(0), |read| read.keys_of_last_message())
    }
}

/// The file of an open one.
fn file_of(
    fs: &Arc<dyn FileSystem>,
    path: &Path,
    shape: IndexShape,
    access: Access,
    budget: Option<Arc<MapBudget>>,
    handle: Arc<dyn FileHandle>,
) -> Arc<MappedFile> {
    let size = num::offset(shape.file_size());
    let sizes = FileSizes { file: size, present: size };
    let file = MappedFile::new(Arc::clone(fs), path.into(), 0, sizes, access, budget);
    file.is_opened_by(handle);
    file
}

fn inferred_shape(
    handle: &Arc<dyn FileHandle>,
    path: &Path,
    len: u64,
    wanted: IndexShape,
    access: Access,
) -> Result<IndexShape> {
    let len = num::index(len);
    let access = if access == Access::MapWrite { Access::MapRead } else { access };
    let content = OpenContent::of(handle, path, len, access)?;
    let header = content.bytes::<INDEX_HEADER_SIZE>(path, 0)?.and_then(|bytes| IndexHeader::read(&bytes));
    let inferred = match &header {
        Some(header) => {
            infer_shape_of(len, header, |at| content.bytes(path, at), |at| content.bytes(path, at))?
        }
        None => None,
    };
    inferred.ok_or_else(|| Error::Layout {
        path: path.into(),
        expected: format!(
            "{} bytes, by maxHashSlotNum={} and maxIndexNum={}",
            wanted.file_size(),
            wanted.hash_slot_num,
            wanted.index_num
        ),
        found: format!("{len} bytes, and no numbers that fit what is in them"),
    })
}

fn first_header(previous_end: Option<(i64, i64)>) -> IndexHeader {
    let (offset, timestamp) = previous_end.unwrap_or_default();
    let mut header = IndexHeader { index_count: 1, ..IndexHeader::default() };
    if offset > 0 {
        header.begin_phy_offset = offset;
        header.end_phy_offset = offset;
    }
    if timestamp > 0 {
        header.begin_timestamp = timestamp;
        header.end_timestamp = timestamp;
    }
    header
}
