//! A store's folder as its writer has it: by name it opens, makes, renames and removes something only as long as the file
//! `lock` there is the one that it has locked.
//!
//! Somebody may move the folder of a store that is open, and make another store in its place. What the writer then
//! made by name would be in a store that is not its own, beside that one's writer; what it has open has moved with the folder.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::fs::{DirEntry, FileHandle, FileSystem, Metadata, OpenMode, Space, is_named};
use crate::lock::StoreLock;

/// A file system that asks for a lock's file first.
#[derive(Debug)]
pub(crate) struct LockedFolder {
    fs: Arc<dyn FileSystem>,
    lock_file: PathBuf,
    /// What was locked. Not the lock itself, which is not to last as long as what has the file system.
    identity: (u64, u64),
}

impl LockedFolder {
    /// The folder in which a lock was taken.
    ///
    /// # Errors
    /// Where the lock's file can't be looked at.
    pub(crate) fn new(fs: Arc<dyn FileSystem>, lock: &StoreLock) -> Result<Self> {
        let lock_file = lock.path().to_path_buf();
        let identity = lock.identity().map_err(Error::io("look at", &lock_file))?;
        Ok(Self { fs, lock_file, identity })
    }

    fn checked(&self) -> io::Result<&dyn FileSystem> {
        if is_named(&*self.fs, &self.lock_file, self.identity)? {
            return Ok(&*self.fs);
        }
        let lock_file = self.lock_file.display();
        Err(io::Error::other(format!(
            "the store was moved or replaced: {lock_file} is not the file that was locked"
        )))
    }
}

impl FileSystem for LockedFolder {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn FileHandle>> {
        self.checked()?.open(path, mode)
    }

    fn metadata(&self, path: &Path) -> io::Result<Option<Metadata>> {
        self.fs.metadata(path)
    }

    fn read_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        self.fs.read_dir(path)
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.checked()?.create_dir_all(path)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.checked()?.remove_file(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.checked()?.remove_dir(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.checked()?.rename(from, to)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.fs.sync_dir(path)
    }

    fn sync_all(&self, path: &Path) -> io::Result<()> {
        self.fs.sync_all(path)
    }

    fn space(&self, path: &Path) -> io::Result<Space> {
        self.fs.space(path)
    }

    fn real_path(&self, path: &Path) -> io::Result<PathBuf> {
        self.fs.real_path(path)
    }

    fn is_remote(&self) -> bool {
        self.fs.is_remote()
    }
}
