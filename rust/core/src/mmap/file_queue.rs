//! Files of one size put end to end: the log, a consume queue, a queue's extension.
//!
//! Each file is named by the offset of its first byte. Source: `MappedFileQueue` and, for a log that
//! lies in several folders, `MultiPathMappedFileQueue`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::map_budget::MapBudget;
use super::mapped_file::{Access, FileSizes, MappedFile};
use crate::error::{Error, Result};
use crate::format::file_name;
use crate::fs::{FileSystem, list_if_there};
use crate::sync::{AtomicU64, Mutex, Ordering, RwLock};

/// A folder's file that does not belong to a queue of files, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stray {
    /// The file.
    pub path: PathBuf,
    /// What is expected in its place.
    pub expected: String,
    /// What it is.
    pub found: String,
}

/// Where and how the files of a queue are kept.
#[derive(Debug, Clone)]
pub struct FileQueueOptions {
    /// The folders; the log can have several.
    pub paths: Vec<PathBuf>,
    /// Folders whose files are read, and where none is made.
    pub read_only_paths: Vec<PathBuf>,
    /// Bytes of a file; `None` takes it from the files, for those that have some.
    pub file_size: u64,
    /// How the files are reached.
    pub access: Access,
    /// Closes cold files, where there are many.
    pub budget: Option<Arc<MapBudget>>,
}

/// Files put end to end.
#[derive(Debug)]
pub struct FileQueue {
    fs: Arc<dyn FileSystem>,
    options: FileQueueOptions,
    /// As in the options, until others have been seen that have another size.
    file_size: AtomicU64,
    /// Folders that are too full for a new file.
    full_paths: RwLock<Vec<PathBuf>>,
    files: RwLock<Arc<Vec<Arc<MappedFile>>>>,
    half_made: Mutex<Vec<PathBuf>>,
}

/// What a folder holds, before it is decided whether it is a queue of files.
#[derive(Debug, Default)]
pub struct Listing {
    /// Offset, length on disk and path of each file with an offset's name, by offset.
    pub files: Vec<(u64, u64, PathBuf)>,
    /// Files that a crash left before they were made, and what is of no use without them; the newest
    /// come first. They count as not there, and a writer removes them.
    pub half_made: Vec<PathBuf>,
    /// Everything else.
    pub strays: Vec<Stray>,
}

impl Listing {
    /// The offset of the first byte.
    #[must_use]
    pub fn min_offset(&self) -> Option<u64> {
        self.files.first().map(|(offset, _, _)| *offset)
    }

    /// Lists the files of some folders; a folder that is missing has none.
    ///
    /// # Errors
    /// Where a folder can't be read.
    pub fn read(fs: &dyn FileSystem, paths: impl IntoIterator<Item = impl AsRef<Path>>) -> Result<Self> {
        let mut listing = Self::default();
        for folder in paths {
            let folder = folder.as_ref();
            let Some(found) = fs.metadata(folder).map_err(Error::io("look at", folder))? else { continue };
            if !found.is_dir {
                return Err(Error::Layout {
                    path: folder.into(),
                    expected: "a folder".into(),
                    found: "a file".into(),
                });
            }
            // Its writer may just have removed it.
            for entry in list_if_there(fs, folder)?.unwrap_or_default() {
                let path = folder.join(&entry.name);
                match file_name::to_offset(&entry.name) {
                    Some(offset) if !entry.is_dir => {
                        let found = fs.metadata(&path).map_err(Error::io("look at", &path))?;
                        // Its writer may just have removed it. A link that leads nowhere is still listed.
                        if found.is_none() && !is_listed(fs, folder, &entry.name)? {
                            continue;
                        }
                        listing.files.push((offset, found.map_or(0, |found| found.len), path));
                    }
                    _ => listing.strays.push(Stray {
                        path,
                        expected: "a file named by an offset of 20 digits".into(),
                        found: if entry.is_dir { "a folder".into() } else { "a file of another name".into() },
                    }),
                }
            }
        }
        listing.files.sort();
        let is_made = |(_, len, _): &(u64, u64, PathBuf)| *len > 0;
        let end = listing.files.iter().rposition(is_made).map_or(0, |last| last + 1);
        listing.set_aside_from(end);
        Ok(listing)
    }

    /// As [`Listing::read`], of files that are derived from the log: what follows an empty one is made
    /// again with it. A power cut can leave any file empty whose size was not on the disk yet.
    ///
    /// # Errors
    /// Where a folder can't be read.
    pub fn read_derived(fs: &dyn FileSystem, folder: &Path) -> Result<Self> {
        let mut listing = Self::read(fs, [folder])?;
        if let Some(first_empty) = listing.files.iter().position(|(_, len, _)| *len == 0) {
            listing.set_aside_from(first_empty);
        }
        Ok(listing)
    }

    fn set_aside_from(&mut self, end: usize) {
        let aside = self.files.split_off(end).into_iter().rev().map(|(_, _, path)| path);
        self.half_made.extend(aside);
    }

    /// The size that the files have; `None` where there is none. It is what most of them have, where
    /// most names are multiples of it: a copy can have left any of them short, and others' files stand among them. Otherwise
    /// names next to each other tell.
    #[must_use]
    pub fn file_size(&self) -> Option<u64> {
        let made = || self.files.iter().filter(|(_, len, _)| *len > 0);
        let most = most_common(made().map(|(_, len, _)| (*len, 1)))?;
        let fitting_count = made().filter(|(offset, _, _)| offset.is_multiple_of(most)).count();
        if 2 * fitting_count > made().count() {
            return Some(most);
        }
        let steps = self.files.windows(2).filter_map(|pair| match pair {
            [(first, _, _), (second, _, _)] => Some(second - first),
            _ => None,
        });
        steps.filter(|&step| step > 0).min()
    }

    /// Where the files differ from a queue of files of this size: names that are no multiple, sizes,
    /// holes in the middle, two files of one name.
    #[must_use]
    pub fn faults(&self, file_size: u64) -> Vec<Stray> {
        let mut faults = self.strays.clone();
        let mut previous: Option<u64> = None;
        for (offset, len, path) in &self.files {
            let mut fault = |expected: String, found: String| {
                faults.push(Stray { path: path.clone(), expected, found });
            };
            if *len != file_size {
                fault(format!("{file_size} bytes, as the files have"), format!("{len} bytes"));
            }
            match previous {
                _ if !offset.is_multiple_of(file_size) => {
                    fault(format!("a name that is a multiple of {file_size}"), format!("{offset}"));
                }
                Some(previous) if *offset != previous + file_size => {
                    let again = if *offset == previous { ", which another folder has too" } else { "" };
                    fault(
                        format!("the file {}", file_name::from_offset(previous + file_size)),
                        format!("{offset}{again}"),
                    );
                }
                _ => {}
            }
            previous = Some(*offset);
        }
        faults
    }
}

impl FileQueue {
    /// A queue of the files of a listing.
    #[must_use]
    pub fn new(fs: Arc<dyn FileSystem>, options: FileQueueOptions, listing: &Listing) -> Self {
        let is_of_queue =
            |(offset, len, _): &&(u64, u64, PathBuf)| *len > 0 && offset.is_multiple_of(options.file_size);
        let files = listing.files.iter().filter(is_of_queue).map(|(offset, len, path)| {
            MappedFile::new(
                Arc::clone(&fs),
                path.clone(),
                *offset,
                FileSizes { file: options.file_size, present: *len },
                options.access,
                options.budget.clone(),
            )
        });
        let files = RwLock::new(Arc::new(files.collect()));
        let half_made = Mutex::new(listing.half_made.clone());
        let file_size = AtomicU64::new(options.file_size);
        Self { fs, options, file_size, full_paths: RwLock::default(), files, half_made }
    }

    /// Bytes of a file.
    #[must_use]
    pub fn file_size(&self) -> u64 {
        self.file_size.load(Ordering::Relaxed)
    }

    /// Whether its files are reached through mappings.
    #[must_use]
    pub fn is_mapped(&self) -> bool {
        self.options.access != Access::Read
    }

    /// Where they lie.
    pub(crate) fn file_system(&self) -> &dyn FileSystem {
        &*self.fs
    }

    /// Its folders, those to read only included.
    pub fn paths(&self) -> impl Iterator<Item = &PathBuf> {
        self.options.paths.iter().chain(&self.options.read_only_paths)
    }

    /// Folders that are too full for a new file, as retention finds them.
    pub fn set_full_paths(&self, paths: Vec<PathBuf>) {
        *self.full_paths.write() = paths;
    }

    /// The files, oldest first.
    #[must_use]
    pub fn files(&self) -> Arc<Vec<Arc<MappedFile>>> {
        Arc::clone(&self.files.read())
    }

    /// The oldest file.
    #[must_use]
    pub fn first(&self) -> Option<Arc<MappedFile>> {
        self.files.read().first().cloned()
    }

    /// The newest file.
    #[must_use]
    pub fn last(&self) -> Option<Arc<MappedFile>> {
        self.files.read().last().cloned()
    }

    /// The offset of the oldest file.
    #[must_use]
    pub fn min_offset(&self) -> Option<u64> {
        self.files.read().first().map(|file| file.file_from_offset())
    }

    /// The file in which an offset lies.
    #[must_use]
    pub fn find(&self, offset: u64) -> Option<Arc<MappedFile>> {
        let files = self.files.read();
        let first = files.first()?.file_from_offset();
        let at = usize::try_from(offset.checked_sub(first)? / self.file_size()).ok()?;
        if let Some(file) = files.get(at).filter(|file| file.contains(offset)) {
            return Some(Arc::clone(file));
        }
        // With a file missing in the middle the files behind it stand further to the front.
        let at = files.partition_point(|file| file.end_offset() <= offset);
        files.get(at).filter(|file| file.contains(offset)).cloned()
    }

    /// The first file that was changed at a time or later, else the last: how 4.9.3 picks a file by
    /// time.
    ///
    /// # Errors
    /// Where a file can't be asked for its time.
    pub fn by_modified_time(&self, timestamp: i64) -> Result<Option<Arc<MappedFile>>> {
        let files = self.files();
        for file in files.iter() {
            if file.last_modified_timestamp()? >= timestamp {
                return Ok(Some(Arc::clone(file)));
            }
        }
        Ok(files.last().cloned())
    }

    /// Where the file that begins at an offset can be, what fits best first. With several folders files go round; full
    /// ones come last, and read-only ones not at all.
    #[must_use]
    pub fn paths_for(&self, file_from_offset: u64) -> Vec<PathBuf> {
        let turn = usize::try_from(file_from_offset / self.file_size()).unwrap_or(0);
        let full = self.full_paths.read();
        let (mut last, mut folders): (Vec<&PathBuf>, Vec<&PathBuf>) =
            self.writable_paths().into_iter().partition(|path| full.contains(path));
        for some in [&mut folders, &mut last] {
            let first = turn.checked_rem(some.len()).unwrap_or(0);
            some.rotate_left(first);
        }
        let name = file_name::from_offset(file_from_offset);
        folders.into_iter().chain(last).map(|folder| folder.join(&name)).collect()
    }

    /// Whether a file that one folder has no room for can be in another one.
    #[must_use]
    pub fn has_several_paths(&self) -> bool {
        self.writable_paths().len() > 1
    }

    fn writable_paths(&self) -> Vec<&PathBuf> {
        let mut writable: Vec<&PathBuf> =
            self.options.paths.iter().filter(|path| !self.options.read_only_paths.contains(path)).collect();
        writable.sort();
        writable.dedup();
        writable
    }

    /// Makes the file that begins at an offset, without putting it into the queue, where it fits best.
    ///
    /// # Errors
    /// Where it can't be made; where every folder is for reading only.
    pub fn create(&self, file_from_offset: u64) -> Result<Arc<MappedFile>> {
        self.create_first(file_from_offset, Ok)
    }

    /// As [`FileQueue::create`], with what is done to the file before it is one. Where its disk is full the next folder has its
    /// turn, and if all are, the first one's error is given.
    ///
    /// # Errors
    /// As there; those of what is done, which has taken back what it did.
    pub fn create_first<T>(
        &self,
        file_from_offset: u64,
        prepare: impl Fn(Arc<MappedFile>) -> Result<T>,
    ) -> Result<T> {
        let paths = self.paths_for(file_from_offset);
        let (first, others) = paths.split_first().ok_or_else(|| Error::Option {
            option: "readOnlyCommitLogStorePaths",
            value: format!("{:?}", self.options.read_only_paths),
            reason: "no folder of storePathCommitLog is left to write to".into(),
        })?;
        let make = |path: &PathBuf| self.create_at(path, file_from_offset).and_then(&prepare);
        let is_full = |outcome: &Result<T>| outcome.as_ref().is_err_and(Error::is_disk_full);
        let outcome = make(first);
        if !is_full(&outcome) {
            return outcome;
        }
        others.iter().map(make).find(|outcome| !is_full(outcome)).unwrap_or(outcome)
    }

    fn create_at(&self, path: &Path, file_from_offset: u64) -> Result<Arc<MappedFile>> {
        if let Some(folder) = path.parent() {
            self.fs.create_dir_all(folder).map_err(Error::io("make the folder", folder))?;
        }
        MappedFile::create(
            Arc::clone(&self.fs),
            path.into(),
            file_from_offset,
            self.file_size(),
            self.options.access,
            self.options.budget.clone(),
        )
    }

    /// How many of its files may be open, where that is bounded.
    pub(crate) fn most_open(&self) -> Option<usize> {
        self.options.budget.as_ref().map(|budget| budget.limit())
    }

    /// Puts a new file behind the others.
    pub fn push(&self, file: Arc<MappedFile>) {
        let mut files = self.files.write();
        let mut next = Vec::clone(&files);
        next.push(file);
        *files = Arc::new(next);
    }

    /// Replaces the files by those of a newer listing, keeping the ones that are still there open: a writer that recovers the
    /// store removes files behind its end, and makes them anew by the same names. The first ones tell what size they have:
    /// who made them may have had other options.
    pub fn refresh(&self, listing: &Listing) {
        if let Some(file_size) = listing.file_size().filter(|_| self.files.read().is_empty()) {
            self.file_size.store(file_size, Ordering::Relaxed);
        }
        let options = FileQueueOptions { file_size: self.file_size(), ..self.options.clone() };
        let newer = Self::new(Arc::clone(&self.fs), options, listing).files();
        let mut files = self.files.write();
        let keep_open = |file: &Arc<MappedFile>| {
            let offset = file.file_from_offset();
            let first = files.partition_point(|known| known.file_from_offset() < offset);
            // Two folders may have one of a name, until somebody says so.
            let mut named_alike =
                files.iter().skip(first).take_while(|known| known.file_from_offset() == offset);
            let is_same = |known: &&Arc<MappedFile>| {
                known.path() == file.path()
                    && known.present_size() == file.present_size()
                    && known.is_what_is_named()
            };
            Arc::clone(named_alike.find(is_same).unwrap_or(file))
        };
        let next = newer.iter().map(keep_open).collect();
        *files = Arc::new(next);
    }

    /// Whether there are files that a crash left before they were made.
    #[must_use]
    pub fn has_half_made(&self) -> bool {
        !self.half_made.lock().is_empty()
    }

    /// Removes files that a crash left before they were made.
    ///
    /// # Errors
    /// Where one can't be removed.
    pub fn remove_half_made(&self) -> Result<()> {
        let mut half_made = self.half_made.lock();
        for path in half_made.iter() {
            self.fs.remove_file(path).map_err(Error::io("remove", path))?;
        }
        half_made.clear();
        Ok(())
    }

    /// Takes files out of the queue and removes them from the disk, in the order in which they are
    /// given: of files at the end the newest go first, so that a crash leaves none missing in the middle.
    ///
    /// # Errors
    /// Where one can't be removed; it is out of the queue all the same.
    pub fn delete(&self, gone: &[Arc<MappedFile>]) -> Result<()> {
        self.forget(gone);
        gone.iter().try_for_each(|file| file.delete())
    }

    /// Takes the first file out of the queue and off the disk. Who is reading it goes on reading it.
    ///
    /// # Errors
    /// Where it can't be removed; it stays the first file then.
    pub fn delete_first(&self, first: &Arc<MappedFile>) -> Result<()> {
        self.forget(std::slice::from_ref(first));
        let outcome = first.unlink();
        if outcome.is_err() {
            let mut files = self.files.write();
            let all = std::iter::once(first).chain(files.iter()).cloned().collect();
            *files = Arc::new(all);
        }
        outcome
    }

    /// Takes files out of the queue and leaves them on the disk.
    pub fn forget(&self, gone: &[Arc<MappedFile>]) {
        if gone.is_empty() {
            return;
        }
        let mut files = self.files.write();
        let kept = files.iter().filter(|file| !gone.iter().any(|gone| Arc::ptr_eq(gone, file))).cloned();
        let kept = kept.collect();
        *files = Arc::new(kept);
    }

    /// Brings the folders' entries to the disk.
    ///
    /// # Errors
    /// Where a folder can't be synced.
    pub fn sync_dirs(&self) -> Result<()> {
        for folder in self.paths() {
            if self.fs.metadata(folder).map_err(Error::io("look at", folder))?.is_some() {
                self.fs.sync_dir(folder).map_err(Error::io("sync the folder", folder))?;
            }
        }
        Ok(())
    }
}

/// The size that most files have, of as many the largest; each is given with how many have it.
pub(crate) fn most_common(sizes: impl Iterator<Item = (u64, usize)>) -> Option<u64> {
    let mut counts = BTreeMap::<u64, usize>::new();
    sizes.for_each(|(size, count)| *counts.entry(size).or_default() += count);
    counts.into_iter().max_by_key(|&(size, count)| (count, size)).map(|(size, _)| size)
}

fn is_listed(fs: &dyn FileSystem, folder: &Path, name: &str) -> Result<bool> {
    let entries = fs.read_dir(folder).map_err(Error::io("list", folder))?;
    Ok(entries.iter().any(|entry| entry.name == name))
}
