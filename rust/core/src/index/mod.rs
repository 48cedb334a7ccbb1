//! The index: messages by their keys, in files that follow each other in time.
//! Source: `IndexService`.

mod content;
pub mod file;
pub mod infer;
mod pace;
mod query;

use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Arc;

use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::format::file_name;
use crate::format::index::IndexShape;
use crate::fs::{FileSystem, make_folder};
use crate::mmap::file_queue::Stray;
use crate::mmap::mapped_file::Access;
use crate::num;
use crate::sync::{AtomicBool, Mutex, Ordering, RwLock};

pub use pace::Pace;
pub use query::{KeyFinder, KeyQuery, QueryOffsetResult};

use file::{IndexFile, PutKey};

/// Entries of an index file in memory, for what a read-only store's index is missing.
const IN_MEMORY_SHAPE: IndexShape = IndexShape { hash_slot_num: 1 << 18, index_num: 1 << 20 };

/// The index files of a store.
#[derive(Debug)]
pub struct IndexService {
    fs: Arc<dyn FileSystem>,
    clock: Arc<dyn Clock>,
    folder: PathBuf,
    shape: IndexShape,
    /// How its files are reached. Where they are not written to new ones are kept in memory.
    access: Access,
    files: RwLock<Arc<Vec<Arc<IndexFile>>>>,
    half_made: Mutex<HalfMade>,
    /// Files that have become full and are not on the disk yet.
    filled: Mutex<Vec<Arc<IndexFile>>>,
    /// Whether the next key begins a file, though the last one has room.
    begins_file: AtomicBool,
    pace: Pace,
}

/// Files that a crash left before they were made.
#[derive(Debug, Default)]
struct HalfMade {
    /// Before which of the others the first of them stands.
    first: Option<usize>,
    paths: Vec<PathBuf>,
}

/// What loading found beside the files it loaded.
#[derive(Debug, Default)]
pub struct IndexLoad {
    /// Files that could not be used, and why.
    pub faults: Vec<Stray>,
}

/// The keys of one of several messages that are put at once.
#[derive(Debug, Clone, Copy)]
pub struct KeysOfMessage<'a> {
    /// Their hashes.
    pub hashes: &'a [u32],
    /// A hash that will be put soon: its slot is fetched meanwhile.
    pub ahead: Option<u32>,
    /// Where the message stands.
    pub phy_offset: u64,
    /// When it was stored, in milliseconds.
    pub store_timestamp: i64,
}

impl IndexService {
    /// The service over a folder, without any file yet.
    #[must_use]
    pub fn new(
        fs: Arc<dyn FileSystem>,
        clock: Arc<dyn Clock>,
        folder: PathBuf,
        shape: IndexShape,
        access: Access,
    ) -> Self {
        Self {
            fs,
            clock,
            folder,
            shape,
            access,
            files: RwLock::default(),
            half_made: Mutex::default(),
            filled: Mutex::default(),
            begins_file: AtomicBool::new(false),
            pace: Pace::default(),
        }
    }

    fn is_memory_only(&self) -> bool {
        self.access != Access::MapWrite
    }

    /// Opens the files that are there, oldest name first. One that cannot be used is named and left
    /// where it is. `is_live` says that another process writes them.
    ///
    /// # Errors
    /// Where the folder can't be listed.
    pub fn load(&self, is_live: bool) -> Result<IndexLoad> {
        let mut load = IndexLoad::default();
        let found = self.fs.metadata(&self.folder).map_err(Error::io("look at", &self.folder))?;
        if found.is_none() {
            return Ok(load);
        }
        let mut entries = self.fs.read_dir(&self.folder).map_err(Error::io("list", &self.folder))?;
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        let mut files = Vec::new();
        let mut half_made = HalfMade::default();
        for entry in entries {
            let path = self.folder.join(&entry.name);
            if entry.is_dir || !file_name::is_index_name(&entry.name) {
                let found = if entry.is_dir { "a folder" } else { "a file of another name" };
                let expected = "an index file named by a time of 17 digits".into();
                load.faults.push(Stray { path, expected, found: found.into() });
                continue;
            }
            let found = self.fs.metadata(&path).map_err(Error::io("look at", &path))?;
            if found.is_some_and(|found| found.len == 0) {
                half_made.first.get_or_insert(files.len());
                half_made.paths.push(path);
                continue;
            }
            // One that is written meanwhile may not tell its shape yet. That it is as long as the one before tells it.
            let as_before = |newest: &Arc<IndexFile>| {
                let shape = newest.shape();
                found.is_some_and(|found| found.len == num::offset(shape.file_size())).then_some(shape)
            };
            let shape = files.last().filter(|_| is_live).and_then(as_before).unwrap_or(self.shape);
            match IndexFile::open(&*self.fs, &path, shape, self.access, is_live) {
                Ok(file) => files.push(Arc::new(file)),
                Err(Error::Layout { path, expected, found }) => {
                    load.faults.push(Stray { path, expected, found });
                }
                // The writer has removed it since it was listed.
                Err(error) if self.is_memory_only() && error.is_removed(&*self.fs) => {}
                Err(error) => return Err(error),
            }
        }
        *self.files.write() = Arc::new(files);
        *self.half_made.lock() = half_made;
        Ok(load)
    }

    /// For a store that is only read: from here on another process may put keys into the files.
    pub fn follow(&self) {
        self.files().iter().for_each(|file| file.follow());
    }

    /// Before which of the files one is missing that a crash left before it was made.
    #[must_use]
    pub fn first_half_made(&self) -> Option<usize> {
        self.half_made.lock().first
    }

    /// Removes files that are not to be trusted, and those that a crash left before they were made. Back
    /// after a power cut they would be believed where the positions have moved on.
    ///
    /// # Errors
    /// Where one can't be removed.
    pub fn trim(&self, dropped: &[Arc<IndexFile>]) -> Result<()> {
        self.delete(dropped)?;
        let mut half_made = self.half_made.lock();
        if dropped.is_empty() && half_made.paths.is_empty() {
            return Ok(());
        }
        for path in &half_made.paths {
            self.fs.remove_file(path).map_err(Error::io("remove", path))?;
        }
        *half_made = HalfMade::default();
        self.fs.sync_dir(&self.folder).map_err(Error::io("sync the folder", &self.folder))
    }

    /// The files, oldest first.
    #[must_use]
    pub fn files(&self) -> Arc<Vec<Arc<IndexFile>>> {
        Arc::clone(&self.files.read())
    }

    /// Where the last indexed message stands; `None` while there is no file.
    #[must_use]
    pub fn end_phy_offset(&self) -> Option<u64> {
        self.files.read().last().and_then(|last| num::from_java_long(last.header().end_phy_offset))
    }

    /// Puts a message's keys, given as their hashes. Those that are there already because the
    /// message is the last one in the index are skipped. Source: `buildIndex`.
    ///
    /// # Errors
    /// Where a file can't be made or has no space.
    pub fn build_index(
        &self,
        hashes: impl Iterator<Item = u32>,
        phy_offset: u64,
        store_timestamp: i64,
    ) -> Result<()> {
        let last = self.files.read().last().cloned();
        self.build_behind(last, hashes, phy_offset, store_timestamp).map(drop)
    }

    /// As [`IndexService::build_index`] for messages that follow each other in the log.
    ///
    /// # Errors
    /// As there; those behind the one that failed have no keys put.
    pub fn build_all<'a>(&self, messages: impl Iterator<Item = KeysOfMessage<'a>>) -> Result<()> {
        let mut last = self.files.read().last().cloned();
        for KeysOfMessage { hashes, ahead, phy_offset, store_timestamp } in messages {
            if let Some((ahead, last)) = ahead.zip(last.as_ref()) {
                last.prefetch_slot(last.shape().slot_of(ahead));
            }
            last = self.build_behind(last, hashes.iter().copied(), phy_offset, store_timestamp)?;
        }
        Ok(())
    }

    /// Puts a message's keys behind what the last file has; gives what is the last one then.
    fn build_behind(
        &self,
        last: Option<Arc<IndexFile>>,
        hashes: impl Iterator<Item = u32>,
        phy_offset: u64,
        store_timestamp: i64,
    ) -> Result<Option<Arc<IndexFile>>> {
        let end =
            last.as_ref().and_then(|last| num::from_java_long(last.header().end_phy_offset)).unwrap_or(0);
        if phy_offset < end {
            return Ok(last);
        }
        let known = if phy_offset == end { self.keys_known_of(phy_offset)? } else { 0 };
        let mut hashes = hashes.skip(known).peekable();
        if known > 0 && hashes.peek().is_none() {
            // The file that follows a full one is for the next message to make.
            return Ok(last);
        }
        let mut file = self.writable_file(last)?;
        for hash in hashes {
            if file.put_key(hash, phy_offset, store_timestamp)? == PutKey::Full {
                file = self.writable_file(Some(file))?;
                file.put_key(hash, phy_offset, store_timestamp)?;
            }
        }
        Ok(Some(file))
    }

    /// Lets the next key begin a file: what files say of the messages between their ends holds for each by itself, so
    /// that what none has between two of them is told.
    pub fn begin_file(&self) {
        self.begins_file.store(true, Ordering::Relaxed);
    }

    /// The files that have become full since the last call, which have to be brought to the disk.
    #[must_use]
    pub fn take_filled(&self) -> Vec<Arc<IndexFile>> {
        std::mem::take(&mut *self.filled.lock())
    }

    /// How many keys of the last message are in the index, over as many files as they take.
    fn keys_known_of(&self, phy_offset: u64) -> Result<usize> {
        let offset = num::java_long(phy_offset);
        let ends_with = |file: &&Arc<IndexFile>| file.header().end_phy_offset == offset;
        let mut known = 0;
        for file in self.files().iter().rev().take_while(ends_with) {
            known += file.keys_of_last_message()?;
        }
        Ok(known)
    }

    /// The last file, or a new one where it is full. Source: `getAndCreateLastIndexFile`.
    fn writable_file(&self, last: Option<Arc<IndexFile>>) -> Result<Arc<IndexFile>> {
        let takes = |last: &Arc<IndexFile>| {
            !last.is_write_full() && self.takes_keys(last) && !self.begins_file.load(Ordering::Relaxed)
        };
        let last = match last {
            Some(last) if takes(&last) => return Ok(last),
            last => last,
        };
        let previous_end = last.as_ref().map(|last| {
            let header = last.header();
            (header.end_phy_offset, header.end_timestamp)
        });
        if let Some(full) = last.as_ref().filter(|last| self.takes_keys(last)) {
            // Who sees the next file takes this one's header for what it holds.
            full.write_header();
        }
        let file = Arc::new(self.create(previous_end)?);
        let mut files = self.files.write();
        let mut next = Vec::clone(&files);
        next.push(Arc::clone(&file));
        *files = Arc::new(next);
        self.begins_file.store(false, Ordering::Relaxed);
        self.filled.lock().extend(last.filter(|last| last.is_write_full()));
        Ok(file)
    }

    /// Whether keys may go into a file: in a store that is only read, into those in memory alone.
    fn takes_keys(&self, file: &IndexFile) -> bool {
        !self.is_memory_only() || file.path().as_os_str().is_empty()
    }

    fn create(&self, previous_end: Option<(i64, i64)>) -> Result<IndexFile> {
        if self.is_memory_only() {
            return IndexFile::in_memory(IN_MEMORY_SHAPE, previous_end);
        }
        make_folder(&*self.fs, &self.folder)?;
        let (path, file) = self.create_file(self.next_name(), previous_end)?;
        if let Err(error) = self.fs.sync_dir(&self.folder) {
            // Left there it would have the name of the next attempt.
            let _already_failing = self.fs.remove_file(&path);
            return Err(Error::io("sync the folder", &self.folder)(error));
        }
        Ok(file)
    }

    /// A name behind all names that there are: files are put in order by them when they are loaded,
    /// and a clock can stand still or be set back.
    fn create_file(&self, first: String, previous_end: Option<(i64, i64)>) -> Result<(PathBuf, IndexFile)> {
        let mut name = first;
        loop {
            let path = self.folder.join(&name);
            match IndexFile::create(&*self.fs, &path, self.shape, previous_end) {
                // A file that cannot be used is left where it is, and its name with it.
                Err(Error::Io { source, .. }) if source.kind() == ErrorKind::AlreadyExists => {
                    name = next_millisecond(&name);
                }
                outcome => return outcome.map(|file| (path, file)),
            }
        }
    }

    fn next_name(&self) -> String {
        let files = self.files.read();
        let last = files.last().and_then(|last| last.path().file_name()).and_then(|name| name.to_str());
        name_behind(last, self.clock.now_ms())
    }

    /// In a store that is only read: lets go of files with keys of messages at an offset of the log or behind it. Gives
    /// from where on messages are to be put again, at most that offset.
    #[must_use]
    pub fn forget_behind(&self, phy_offset: u64) -> u64 {
        let files = self.files();
        let is_behind = |file: &Arc<IndexFile>| file.header().end_phy_offset >= num::java_long(phy_offset);
        let (kept, gone) = files.split_at(files.iter().position(is_behind).unwrap_or(files.len()));
        self.forget(gone);
        // A message whose keys did not all fit into the last kept file has the rest of them behind it.
        let reached = kept.last().and_then(|last| num::from_java_long(last.header().end_phy_offset));
        if gone.is_empty() { phy_offset } else { reached.unwrap_or(0).min(phy_offset) }
    }

    /// In a store that is only read: opens files that its writer has made since, and lets go of those
    /// in memory whose messages they hold.
    ///
    /// # Errors
    /// Where the folder can't be listed.
    pub fn adopt_files(&self) -> Result<()> {
        let known = self.files();
        let (in_memory, on_disk): (Vec<_>, Vec<_>) =
            known.iter().cloned().partition(|file| self.takes_keys(file));
        if in_memory.len() < 2 {
            return Ok(());
        }
        let (fs, clock) = (Arc::clone(&self.fs), Arc::clone(&self.clock));
        let listed = Self::new(fs, clock, self.folder.clone(), self.shape, self.access);
        listed.load(true)?;
        let mut files: Vec<_> = listed.files().iter().cloned().collect();
        for file in &mut files {
            if let Some(open) = on_disk.iter().find(|open| open.path() == file.path()) {
                *file = Arc::clone(open);
            }
        }
        let reached = files.last().map_or(0, |last| last.header().end_phy_offset);
        files.extend(in_memory.into_iter().filter(|file| file.header().end_phy_offset > reached));
        *self.files.write() = Arc::new(files);
        Ok(())
    }

    /// Takes files out of the index and removes them.
    ///
    /// # Errors
    /// Where one can't be removed.
    pub fn delete(&self, gone: &[Arc<IndexFile>]) -> Result<()> {
        self.forget(gone);
        // Nobody would remove the others once they are forgotten.
        let on_disk = gone.iter().filter(|file| !file.path().as_os_str().is_empty());
        let removed = on_disk
            .map(|file| self.fs.remove_file(file.path()).map_err(Error::io("remove", file.path())))
            .collect::<Vec<_>>();
        removed.into_iter().collect()
    }

    /// Takes files out of the index and leaves them on the disk.
    pub fn forget(&self, gone: &[Arc<IndexFile>]) {
        let mut files = self.files.write();
        let kept = files.iter().filter(|file| !gone.iter().any(|gone| Arc::ptr_eq(gone, file))).cloned();
        let kept = kept.collect();
        *files = Arc::new(kept);
    }

    /// Lets go of all files and leaves them on the disk: those of an index that is flushed.
    pub(crate) fn let_go(&self) {
        *self.files.write() = Arc::default();
        *self.filled.lock() = Vec::new();
    }

    /// Removes files whose messages are all before an offset, the newest aside. Gives how many.
    /// Source: `deleteExpiredFile`.
    ///
    /// # Errors
    /// Where one can't be removed.
    pub fn delete_expired_file(&self, min_phy_offset: u64) -> Result<usize> {
        let files = self.files();
        let older = files.split_last().map_or(&[][..], |(_, older)| older);
        let before = |file: &&Arc<IndexFile>| file.header().end_phy_offset < num::java_long(min_phy_offset);
        let gone: Vec<_> = older.iter().take_while(before).cloned().collect();
        self.delete(&gone)?;
        Ok(gone.len())
    }

    /// Writes the last file's header, so that readers of the file see what was put.
    pub fn write_header(&self) {
        if let Some(last) = self.written_file() {
            last.write_header();
        }
    }

    /// Brings the last file to the disk.
    ///
    /// # Errors
    /// Where the disk did not take it.
    pub fn flush(&self) -> Result<()> {
        self.written_file().map_or(Ok(()), |last| last.flush())
    }

    /// Has the file that keys go into look written to just now.
    ///
    /// # Errors
    /// Where its time can't be set.
    pub fn touch(&self) -> Result<()> {
        self.written_file().map_or(Ok(()), |last| last.touch())
    }

    /// The last file, if keys may go into it.
    fn written_file(&self) -> Option<Arc<IndexFile>> {
        self.files.read().last().filter(|last| self.takes_keys(last)).cloned()
    }
}

/// The name of a file made at a time: behind the last name, whatever the clock does.
pub(crate) fn name_behind(last: Option<&str>, now_ms: i64) -> String {
    let now = local_time_name(now_ms);
    match last {
        Some(last) if last >= now.as_str() => next_millisecond(last),
        _ => now,
    }
}

/// A time as an index file's name, in the machine's time zone as Java has it.
fn local_time_name(now_ms: i64) -> String {
    let zone = jiff::tz::TimeZone::system();
    let timestamp = jiff::Timestamp::from_millisecond(now_ms).unwrap_or_default();
    timestamp.to_zoned(zone).strftime("%Y%m%d%H%M%S%3f").to_string()
}

/// The next name in order. Names compare as numbers, so it need not be a time that exists.
fn next_millisecond(name: &str) -> String {
    let next = name.parse::<u64>().unwrap_or(0) + 1;
    format!("{next:017}")
}
