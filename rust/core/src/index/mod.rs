//! The index: messages by their keys, in files that follow each other in time.
//! Source: `IndexService`.

mod building;
mod content;
pub mod file;
pub mod infer;
mod pace;
mod query;
mod reading;

use std::path::PathBuf;
use std::sync::Arc;

use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::format::file_name;
use crate::format::index::IndexShape;
use crate::fs::FileSystem;
use crate::mmap::file_queue::Stray;
use crate::mmap::map_budget::MapBudget;
use crate::mmap::mapped_file::Access;
use crate::num;
use crate::sync::{AtomicBool, Mutex, RwLock};

pub use building::KeysOfMessage;
pub(crate) use building::name_behind;
pub use pace::Pace;
pub use query::{KeyFinder, KeyQuery, QueryOffsetResult};
pub use reading::Reading;

use file::IndexFile;

/// The index files of a store.
#[derive(Debug)]
pub struct IndexService {
    fs: Arc<dyn FileSystem>,
    clock: Arc<dyn Clock>,
    folder: PathBuf,
    shape: IndexShape,
    /// How its files are reached. Where they are not written to new ones are kept in memory.
    access: Access,
    /// How many of them are open at once.
    budget: Arc<MapBudget>,
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

impl HalfMade {
    fn add(&mut self, path: PathBuf, before: usize) {
        self.first.get_or_insert(before);
        self.paths.push(path);
    }
}

/// What loading found beside the files it loaded.
#[derive(Debug, Default)]
pub struct IndexLoad {
    /// Files that could not be used, and why.
    pub faults: Vec<Stray>,
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
            budget: MapBudget::of_index(),
            files: RwLock::default(),
            half_made: Mutex::default(),
            filled: Mutex::default(),
            begins_file: AtomicBool::new(false),
            pace: Pace::default(),
        }
    }

    /// With another bound on the files that are open at once.
    #[must_use]
    pub fn within(self, budget: Arc<MapBudget>) -> Self {
        Self { budget, ..self }
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
        let newest = entries.last().map(|entry| entry.name.clone());
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
                half_made.add(path, files.len());
                continue;
            }
            // One that is written meanwhile may not tell its shape yet. That it is as long as the one before tells it.
            let as_before = |newest: &Arc<IndexFile>| {
                let shape = newest.shape();
                found.is_some_and(|found| found.len == num::offset(shape.file_size())).then_some(shape)
            };
            let shape = files.last().filter(|_| is_live).and_then(as_before).unwrap_or(self.shape);
            let budget = Some(Arc::clone(&self.budget));
            match IndexFile::open(&self.fs, &path, shape, self.access, is_live, budget) {
                // Once it has keys they tell its shape: then it is looked at again.
                Ok(file) if is_live && file.has_any_shape() => {}
                Ok(file) => files.push(Arc::new(file)),
                Err(Error::Layout { path, .. })
                    if (is_live || newest.as_ref() == Some(&entry.name))
                        && IndexFile::is_being_made(&*self.fs, &path) =>
                {
                    if !is_live {
                        half_made.add(path, files.len());
                    }
                }
                Err(Error::Layout { path, expected, found }) => {
                    load.faults.push(Stray { path, expected, found });
                }
                // The writer has removed it since it was listed.
                Err(error) if self.is_memory_only() && error.is_removed(&*self.fs) => {}
                Err(error) => return Err(error),
            }
        }
        self.keep_newest_open(&files);
        *self.files.write() = Arc::new(files);
        *self.half_made.lock() = half_made;
        Ok(load)
    }

    /// For a store that is only read: a writer that comes after one that was killed removes the newest files, of which it does
    /// not know that they were flushed. Until it has made them again their keys are in those that are open.
    fn keep_newest_open(&self, files: &[Arc<IndexFile>]) {
        if self.is_memory_only() {
            // Those that a flush has taken, as many again that follow, and the last one.
            let first = files.len().saturating_sub(2 * self.most_unflushed() + 1);
            files.iter().enumerate().for_each(|(at, file)| file.keep_open(at >= first));
        }
    }

    /// How many full files may wait for a flush, open as they have to be: there are to be some for others too.
    fn most_unflushed(&self) -> usize {
        self.budget.limit() / 4
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

    /// Whether keys may go into a file: in a store that is only read, into those in memory alone.
    fn takes_keys(&self, file: &IndexFile) -> bool {
        !self.is_memory_only() || file.path().as_os_str().is_empty()
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

    /// In a store that is only read: lets go of files with keys of messages at an offset of the log or behind it, and of
    /// those from one on that the next writer has removed, though the log, from its first offset on, has its last message.
    /// Gives from where on messages are to be put again, at most that offset.
    #[must_use]
    pub fn forget_behind(&self, phy_offset: u64, min_offset: u64) -> u64 {
        let files = self.files();
        let is_lost =
            |file: &IndexFile, end: i64| end >= num::java_long(min_offset) && matches!(file.read(), Ok(None));
        let is_behind = |file: &Arc<IndexFile>| {
            let end = file.header().end_phy_offset;
            end >= num::java_long(phy_offset) || is_lost(file, end)
        };
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
        let listed = Self::new(fs, clock, self.folder.clone(), self.shape, self.access)
            .within(Arc::clone(&self.budget));
        listed.load(true)?;
        let mut files: Vec<_> = listed.files().iter().cloned().collect();
        for file in &mut files {
            if let Some(open) = on_disk.iter().find(|open| open.path() == file.path()) {
                *file = Arc::clone(open);
            }
        }
        self.keep_newest_open(&files);
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
        let removed = gone.iter().map(|file| file.delete()).collect::<Vec<_>>();
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
