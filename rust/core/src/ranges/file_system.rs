//! A source as the engine's file system.

use std::io::{Error, ErrorKind, Result};
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, OnceLock};

use hashbrown::HashMap;

use super::Source;
use super::block_cache::BlockCache;
use super::file::{RangeFile, refused};
use super::listing::{Entry, Folder, Listings};
use crate::fs::{DirEntry, FileHandle, FileSystem, Metadata, OpenMode, Space};
use crate::sync::Mutex;

/// Java's files are no longer.
const MAX_LEN: u64 = i64::MAX as u64;

/// The files below a folder of a source, as they were when they were listed first.
#[derive(Debug)]
pub struct RangeFileSystem {
    source: Arc<dyn Source>,
    /// What the folder is called in paths.
    root: PathBuf,
    cache: Arc<BlockCache>,
    listings: Mutex<Listings>,
    /// Files that were opened, and their numbers in the cache.
    numbers: Mutex<HashMap<String, u64>>,
    /// How long files are that were listed without it, as they were when they were opened first.
    sizes: Mutex<HashMap<String, u64>>,
}

impl RangeFileSystem {
    /// The files of a source, whose folder paths call `root`.
    #[must_use]
    pub fn new(source: Arc<dyn Source>, root: PathBuf, cache: Arc<BlockCache>) -> Self {
        Self {
            source,
            root,
            cache,
            listings: Mutex::default(),
            numbers: Mutex::default(),
            sizes: Mutex::default(),
        }
    }

    /// A path below the source.
    fn relative(&self, path: &Path) -> Result<String> {
        let below = path.strip_prefix(&self.root).ok();
        let parts: Option<Vec<_>> = below.and_then(|below| {
            below
                .components()
                .map(|part| if let Component::Normal(name) = part { name.to_str() } else { None })
                .collect()
        });
        parts.map(|parts| parts.join("/")).ok_or_else(|| {
            Error::new(ErrorKind::InvalidInput, format!("it is not below {}", self.root.display()))
        })
    }

    /// What `look` finds in a folder's listing, which is `None` where there is no folder.
    fn in_folder<T>(&self, folder: &str, recursive: bool, look: impl Fn(Option<&Folder>) -> T) -> Result<T> {
        {
            let listings = self.listings.lock();
            if let Some(known) = listings.folder(folder).filter(|_| !recursive || listings.is_whole(folder)) {
                return Ok(look(known));
            }
        }
        // Not under the lock: the source may call Python.
        let found = self.source.list(folder, recursive)?;
        let mut listings = self.listings.lock();
        listings.take(folder, recursive, found)?;
        Ok(look(listings.folder(folder).flatten()))
    }

    fn entry(&self, path: &str) -> Result<Option<Entry>> {
        if path.is_empty() {
            let is_there = self.in_folder("", false, |folder| folder.is_some())?;
            return Ok(is_there.then_some(Entry { is_dir: true, len: None, modified_ms: 0 }));
        }
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        self.in_folder(folder, false, |found| found.and_then(|entries| entries.get(name).copied()))
    }

    fn metadata_of(&self, path: &str) -> Result<Option<Metadata>> {
        let Some(Entry { is_dir, len, modified_ms }) = self.entry(path)? else { return Ok(None) };
        let len = match len {
            Some(len) => len,
            None if is_dir => 0,
            None => self.size_of(path)?,
        };
        if len > MAX_LEN {
            let found = format!("expected the length of a file, found {len}");
            return Err(Error::new(ErrorKind::InvalidData, found));
        }
        let identity = (u64::MAX, self.number(path));
        Ok(Some(Metadata { is_dir, len, allocated: len, modified_ms, identity }))
    }

    /// As it is listed, it stays: blocks that are kept are of a file of that size.
    fn size_of(&self, path: &str) -> Result<u64> {
        if let Some(&known) = self.sizes.lock().get(path) {
            return Ok(known);
        }
        // Not under the lock: the source may call Python. Of two threads that ask, the first one's answer is kept.
        let found = self.source.open(path)?.size()?;
        Ok(*self.sizes.lock().entry_ref(path).or_insert(found))
    }

    fn number(&self, path: &str) -> u64 {
        *self.numbers.lock().entry_ref(path).or_insert_with(|| self.cache.new_file())
    }
}

impl FileSystem for RangeFileSystem {
    fn is_remote(&self) -> bool {
        true
    }

    fn open(&self, path: &Path, mode: OpenMode) -> Result<Arc<dyn FileHandle>> {
        if mode != OpenMode::Read {
            return Err(refused("write"));
        }
        let path = self.relative(path)?;
        let Some(metadata) = self.metadata_of(&path)? else {
            return Err(ErrorKind::NotFound.into());
        };
        if metadata.is_dir {
            return Err(ErrorKind::IsADirectory.into());
        }
        Ok(Arc::new(RangeFile {
            source: Arc::clone(&self.source),
            number: self.number(&path),
            path,
            metadata,
            cache: Arc::clone(&self.cache),
            opened: OnceLock::new(),
            ahead: Mutex::default(),
        }))
    }

    fn metadata(&self, path: &Path) -> Result<Option<Metadata>> {
        self.metadata_of(&self.relative(path)?)
    }

    fn read_dir(&self, path: &Path) -> Result<Vec<DirEntry>> {
        let folder = self.relative(path)?;
        // With what is below it, the root aside: a folder of queues would be asked for one by one.
        let found = self.in_folder(&folder, !folder.is_empty(), |found| {
            let entries = found?.iter();
            Some(entries.map(|(name, entry)| DirEntry { name: name.clone(), is_dir: entry.is_dir }).collect())
        })?;
        found.ok_or_else(|| ErrorKind::NotFound.into())
    }

    fn create_dir_all(&self, _: &Path) -> Result<()> {
        Err(refused("make"))
    }

    fn remove_file(&self, _: &Path) -> Result<()> {
        Err(refused("remove"))
    }

    fn remove_dir(&self, _: &Path) -> Result<()> {
        Err(refused("remove"))
    }

    fn rename(&self, _: &Path, _: &Path) -> Result<()> {
        Err(refused("rename"))
    }

    fn sync_dir(&self, _: &Path) -> Result<()> {
        Err(refused("flush"))
    }

    fn sync_all(&self, _: &Path) -> Result<()> {
        Err(refused("flush"))
    }

    fn space(&self, _: &Path) -> Result<Space> {
        Err(refused("tell the space of"))
    }
}
