//! A file system that knows what of it is on the disk.
//!
//! Files are real, below a real folder; beside them stands what of each is on the disk for certain: the
//! bytes and the length at its last sync, and a folder's entries at its last sync. Before each call that
//! changes something the state can be captured: what is certain, and what is there now. A crash at that
//! moment leaves some of the difference, which is for [`crate::image`] to choose. Entries of one folder
//! get to the disk in the order in which they were made, as with every journal; beyond that in any.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mqstore_core::fs::{
    DirEntry, FileHandle, FileSystem, LockOutcome, Metadata, OpenMode, OsFileSystem, Space,
};
use mqstore_core::mmap::region::Region;
use mqstore_core::sync::{Mutex, MutexGuard};

/// The least that gets to the disk as a whole.
pub(crate) const SECTOR: usize = 512;

/// A change of a folder's entries.
#[derive(Debug, Clone)]
pub(crate) enum Change {
    /// A name for a file, new or in the place of another.
    File(String, usize),
    /// A folder in it.
    Folder(String),
    /// A name is gone.
    Gone(String),
    /// A file has another name, in the place of what had it.
    Renamed(String, String),
}

/// An entry of a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Entry {
    /// A file by its number.
    File(usize),
    /// A folder.
    Folder,
}

/// A folder's entries.
#[derive(Debug, Clone, Default)]
pub(crate) struct Folder {
    /// Those that are on the disk.
    pub(crate) certain: BTreeMap<String, Entry>,
    /// What was done since.
    pub(crate) since: Vec<Change>,
}

/// A file.
#[derive(Debug, Clone, Default)]
pub(crate) struct Content {
    /// What is on the disk, its length too.
    pub(crate) certain: Vec<u8>,
    /// What is in it now; `None` once it has no name.
    pub(crate) now: Option<Vec<u8>>,
}

/// The state at one moment.
#[derive(Debug, Clone)]
pub(crate) struct Capture<T> {
    pub(crate) root: PathBuf,
    pub(crate) folders: BTreeMap<PathBuf, Folder>,
    pub(crate) files: Vec<Content>,
    /// What was known of the store then.
    pub(crate) known: T,
}

/// At which calls the power is cut.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moments {
    /// One in so many of those below a folder of this name.
    pub(crate) below: Option<(&'static str, usize)>,
    /// One in so many of all others; none of them where it is 0.
    pub(crate) one_in: usize,
}

impl Moments {
    /// One in so many of all calls.
    pub(crate) fn one_in(one_in: usize) -> Self {
        Self { below: None, one_in }
    }

    fn one_in_at(&self, path: &Path) -> usize {
        let below =
            self.below.filter(|(folder, _)| path.components().any(|part| part.as_os_str() == *folder));
        below.map_or(self.one_in, |(_, one_in)| one_in)
    }
}

#[derive(Debug)]
struct State<T> {
    root: PathBuf,
    folders: BTreeMap<PathBuf, Folder>,
    files: Vec<Content>,
    names: HashMap<PathBuf, usize>,
    random: fastrand::Rng,
    moments: Moments,
    captures: Vec<Capture<T>>,
    known: T,
    beside: Beside,
    closer: Option<usize>,
}

/// What another thread does.
struct Beside(Option<Box<dyn FnOnce() + Send>>);

impl std::fmt::Debug for Beside {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("Beside").field(&self.0.is_some()).finish()
    }
}

/// The file system. `T` is what is known of the store that is on it, and goes into each capture.
#[derive(Debug)]
pub(crate) struct RecordedDisk<T> {
    state: Arc<Mutex<State<T>>>,
}

#[derive(Debug)]
struct RecordedFile<T> {
    file: Arc<dyn FileHandle>,
    path: PathBuf,
    number: usize,
    state: Arc<Mutex<State<T>>>,
}

impl<T: Clone + Send + std::fmt::Debug + 'static> RecordedDisk<T> {
    /// A file system below a folder; all that is there is on the disk.
    pub(crate) fn new(root: &Path, seed: u64, moments: Moments, known: T) -> Self {
        let mut state = State {
            root: root.into(),
            folders: BTreeMap::new(),
            files: Vec::new(),
            names: HashMap::new(),
            random: fastrand::Rng::with_seed(seed),
            moments,
            captures: Vec::new(),
            known,
            beside: Beside(None),
            closer: None,
        };
        state.load(root);
        Self { state: Arc::new(Mutex::new(state)) }
    }

    /// It, as the engine takes it.
    pub(crate) fn file_system(&self) -> Arc<dyn FileSystem> {
        Arc::new(Self { state: Arc::clone(&self.state) })
    }

    /// Says what is known of the store from now on.
    pub(crate) fn know<R>(&self, tell: impl FnOnce(&mut T) -> R) -> R {
        tell(&mut self.state.lock().known)
    }

    /// The power is cut at one in so many of all calls from now on, or again where the moments say.
    pub(crate) fn look_closer(&self, one_in: Option<usize>) {
        self.state.lock().closer = one_in;
    }

    /// What another thread does just before the next file of a queue goes, or nothing any more.
    pub(crate) fn when_a_queue_file_goes(&self, beside: Option<Box<dyn FnOnce() + Send>>) {
        let before = std::mem::replace(&mut self.state.lock().beside, Beside(beside));
        drop(before);
    }

    /// What is known of the store.
    pub(crate) fn known(&self) -> T {
        self.state.lock().known.clone()
    }

    /// Captures what is there at the end, and gives all captures.
    pub(crate) fn captures(&self) -> Vec<Capture<T>> {
        let mut state = self.state.lock();
        state.capture();
        std::mem::take(&mut state.captures)
    }

    /// Something is about to change.
    fn before(&self, path: &Path) -> MutexGuard<'_, State<T>> {
        before(&self.state, path)
    }
}

fn before<'a, T: Clone>(state: &'a Mutex<State<T>>, path: &Path) -> MutexGuard<'a, State<T>> {
    let mut state = state.lock();
    state.write_back();
    let one_in = state.closer.unwrap_or_else(|| state.moments.one_in_at(path));
    if one_in > 0 && state.random.usize(..one_in) == 0 {
        state.capture();
    }
    state
}

impl<T: Clone> State<T> {
    fn load(&mut self, folder: &Path) {
        let mut entries = BTreeMap::new();
        for entry in std::fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            if entry.file_type().unwrap().is_dir() {
                entries.insert(name, Entry::Folder);
                self.load(&entry.path());
            } else {
                let number = self.add(&entry.path());
                self.files[number].certain = std::fs::read(entry.path()).unwrap();
                entries.insert(name, Entry::File(number));
            }
        }
        self.folders.insert(folder.into(), Folder { certain: entries, since: Vec::new() });
    }

    fn add(&mut self, path: &Path) -> usize {
        self.files.push(Content::default());
        self.names.insert(path.into(), self.files.len() - 1);
        self.files.len() - 1
    }

    fn capture(&mut self) {
        let mut files = self.files.clone();
        for (path, &number) in &self.names {
            files[number].now = Some(std::fs::read(path).unwrap());
        }
        self.captures.push(Capture {
            root: self.root.clone(),
            folders: self.folders.clone(),
            files,
            known: self.known.clone(),
        });
    }

    /// The kernel writes back what it likes when it likes.
    fn write_back(&mut self) {
        if self.names.is_empty() || self.random.usize(..8) > 0 {
            return;
        }
        let turn = self.random.usize(..self.names.len());
        let mut names: Vec<_> = self.names.iter().collect();
        names.sort_unstable();
        let (path, &number) = names[turn];
        let now = std::fs::read(path).unwrap();
        let certain = &mut self.files[number].certain;
        if self.random.bool() {
            certain.resize(now.len(), 0);
        }
        for (to, from) in certain.chunks_mut(SECTOR).zip(now.chunks(SECTOR)) {
            if to.len() == from.len() && self.random.bool() {
                to.copy_from_slice(from);
            }
        }
    }

    fn change(&mut self, path: &Path, change: impl FnOnce(String) -> Change) {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        self.folders.get_mut(path.parent().unwrap()).unwrap().since.push(change(name));
    }

    fn sync_folder(&mut self, path: &Path) {
        if let Some(folder) = self.folders.get_mut(path) {
            let since = std::mem::take(&mut folder.since);
            since.iter().for_each(|change| apply(&mut folder.certain, change));
        }
    }
}

/// Makes a change to a folder's entries.
pub(crate) fn apply(entries: &mut BTreeMap<String, Entry>, change: &Change) {
    match change {
        Change::File(name, number) => _ = entries.insert(name.clone(), Entry::File(*number)),
        Change::Folder(name) => _ = entries.insert(name.clone(), Entry::Folder),
        Change::Gone(name) => _ = entries.remove(name),
        Change::Renamed(from, to) => {
            if let Some(entry) = entries.remove(from) {
                entries.insert(to.clone(), entry);
            }
        }
    }
}

impl<T: Clone + Send + std::fmt::Debug + 'static> FileSystem for RecordedDisk<T> {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn FileHandle>> {
        let mut state = self.before(path);
        let file = OsFileSystem.open(path, mode)?;
        let known = state.names.get(path).copied();
        let number = known.unwrap_or_else(|| {
            let number = state.add(path);
            state.change(path, |name| Change::File(name, number));
            number
        });
        Ok(Arc::new(RecordedFile { file, path: path.into(), number, state: Arc::clone(&self.state) }))
    }

    fn metadata(&self, path: &Path) -> io::Result<Option<Metadata>> {
        OsFileSystem.metadata(path)
    }

    fn read_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        OsFileSystem.read_dir(path)
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        let mut state = self.before(path);
        OsFileSystem.create_dir_all(path)?;
        let missing: Vec<_> =
            path.ancestors().take_while(|folder| !state.folders.contains_key(*folder)).collect();
        for folder in missing.into_iter().rev() {
            state.folders.insert(folder.into(), Folder::default());
            state.change(folder, Change::Folder);
        }
        Ok(())
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        // Nobody else can put while a list that could not be written is removed.
        let is_of_queue = path.components().any(|part| part.as_os_str() == "consumequeue");
        let beside = if is_of_queue { self.state.lock().beside.0.take() } else { None };
        if let Some(beside) = beside {
            beside();
        }
        let mut state = self.before(path);
        OsFileSystem.remove_file(path)?;
        state.names.remove(path);
        state.change(path, Change::Gone);
        Ok(())
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        let mut state = self.before(path);
        OsFileSystem.remove_dir(path)?;
        state.folders.remove(path);
        state.change(path, Change::Gone);
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        assert_eq!(from.parent(), to.parent(), "files are renamed within their folder");
        let mut state = self.before(to);
        OsFileSystem.rename(from, to)?;
        let number = state.names.remove(from).unwrap();
        state.names.insert(to.into(), number);
        let new_name = to.file_name().unwrap().to_str().unwrap().to_owned();
        state.change(from, |name| Change::Renamed(name, new_name));
        Ok(())
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        let mut state = self.before(path);
        OsFileSystem.sync_dir(path)?;
        state.sync_folder(path);
        Ok(())
    }

    fn sync_all(&self, path: &Path) -> io::Result<()> {
        let mut state = self.before(path);
        let folders: Vec<_> = state.folders.keys().cloned().collect();
        folders.iter().for_each(|folder| state.sync_folder(folder));
        let names: Vec<_> = state.names.iter().map(|(path, &number)| (path.clone(), number)).collect();
        for (path, number) in names {
            state.files[number].certain = std::fs::read(path)?;
        }
        Ok(())
    }

    fn space(&self, path: &Path) -> io::Result<Space> {
        OsFileSystem.space(path)
    }
}

impl<T: Clone> RecordedFile<T> {
    fn before(&self) -> MutexGuard<'_, State<T>> {
        before(&self.state, &self.path)
    }

    fn content(&self) -> io::Result<Vec<u8>> {
        let mut content = vec![0; self.file.metadata()?.len as usize];
        self.file.read_at(&mut content, 0)?;
        Ok(content)
    }
}

impl<T: Clone + Send + std::fmt::Debug> FileHandle for RecordedFile<T> {
    fn metadata(&self) -> io::Result<Metadata> {
        self.file.metadata()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let _state = self.before();
        self.file.set_len(len)
    }

    fn allocate(&self, offset: u64, len: u64) -> io::Result<()> {
        let _state = self.before();
        self.file.allocate(offset, len)
    }

    fn allocate_unwritten(&self, offset: u64, len: u64) -> io::Result<bool> {
        let _state = self.before();
        self.file.allocate_unwritten(offset, len)
    }

    fn give_back(&self, offset: u64, len: u64) -> io::Result<()> {
        let _state = self.before();
        self.file.give_back(offset, len)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let _state = self.before();
        self.file.write_at(bytes, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut state = self.before();
        state.files[self.number].certain = self.content()?;
        Ok(())
    }

    fn next_data(&self, offset: u64) -> io::Result<Option<u64>> {
        self.file.next_data(offset)
    }

    fn next_hole(&self, offset: u64) -> io::Result<u64> {
        self.file.next_hole(offset)
    }

    fn map(&self, len: usize, writable: bool) -> io::Result<Region> {
        self.file.map(len, writable)
    }

    fn flush_mapped(&self, region: &Region, offset: usize, len: usize) -> io::Result<()> {
        let mut state = self.before();
        let length = self.file.metadata()?.len as usize;
        let certain = &mut state.files[self.number].certain;
        certain.resize(length, 0);
        certain[offset..offset + len].copy_from_slice(region.bytes(offset, len).unwrap());
        Ok(())
    }

    fn populate(&self, region: &Region, offset: usize, len: usize) -> io::Result<()> {
        self.file.populate(region, offset, len)
    }

    fn try_lock(&self) -> io::Result<LockOutcome> {
        self.file.try_lock()
    }

    fn lock_holder(&self) -> io::Result<Option<LockOutcome>> {
        self.file.lock_holder()
    }

    fn unlock(&self) -> io::Result<()> {
        self.file.unlock()
    }
}
