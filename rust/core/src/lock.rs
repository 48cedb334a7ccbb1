//! The lock of a store's one writer.
//!
//! RocketMQ takes a POSIX lock on the first byte of `lock`. It is taken here as a lock of the open
//! file description, which excludes Java's and that of another opener in this process as well.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use crate::config::StoreConfig;
use crate::error::{Error, Result};
use crate::fs::{FileSystem, LockOutcome, is_named, open_if_there, real_path_if_there};
use crate::lock_files::LockFile;
use crate::published::Progress;
use crate::sync::Mutex;

/// What RocketMQ writes into the file.
const CONTENT: &[u8] = b"lock";
/// How often the file may be taken away between its opening and its locking.
const MAX_TRIES: usize = 100;

/// A lock that is held until it is dropped.
#[derive(Debug)]
pub struct StoreLock {
    path: PathBuf,
    file: LockFile,
    created: bool,
    /// Of the stores in whose folders the log lies, where that is not this one's.
    of_logs: Vec<Self>,
    /// The folders of the log, by what they are.
    folders: Mutex<BTreeMap<(u64, u64), LockFile>>,
}

impl StoreLock {
    /// Takes the lock of a store, and where its log lies in another store's folder, by an option or a link, that one's: a copy
    /// with the options of the store that it was made of would have two write one log. So would one whose log has disks of its
    /// own: the folders of the log that are there are locked too, which RocketMQ does not ask for.
    ///
    /// # Errors
    /// [`Error::Locked`] where somebody has one of them.
    pub fn take_all(fs: &dyn FileSystem, config: &StoreConfig) -> Result<Self> {
        let mut lock = Self::take(fs, &config.lock_file(), &config.own_dir())?;
        let of_logs = other_stores_of(fs, config).and_then(|stores| {
            let of_logs = lock.take_others(fs, &stores)?;
            lock.take_folders(fs, config)?;
            Ok(of_logs)
        });
        match of_logs {
            Ok(of_logs) => lock.of_logs = of_logs,
            Err(error) => {
                lock.undo(fs);
                return Err(error);
            }
        }
        Ok(lock)
    }

    /// Takes those of other stores; one's whose file is this one, by a link, is taken already.
    fn take_others(&self, fs: &dyn FileSystem, stores: &BTreeSet<PathBuf>) -> Result<Vec<Self>> {
        let mut taken = Vec::new();
        for store in stores {
            let path = store.join("lock");
            if !self.is_of(fs, &path)? {
                taken.push(Self::take(fs, &path, &store.join("mqstore"))?);
            }
        }
        Ok(taken)
    }

    /// Takes those of the log's folders that are there, but for what it has already.
    fn take_folders(&self, fs: &dyn FileSystem, config: &StoreConfig) -> Result<()> {
        let mut taken = self.folders.lock();
        for folder in config.log_folders() {
            let found = fs.metadata(folder).map_err(Error::io("look at", folder))?;
            let Some(found) = found.filter(|found| found.is_dir && !taken.contains_key(&found.identity))
            else {
                continue;
            };
            let lock = LockFile::open_folder(folder).map_err(Error::io("open", folder))?;
            if let LockOutcome::Held(_) = lock.try_lock_folder().map_err(Error::io("lock", folder))? {
                let holder = "another store, whose log lies there too".into();
                return Err(Error::Locked { path: folder.into(), holder });
            }
            taken.insert(found.identity, lock);
        }
        Ok(())
    }

    /// Takes the lock, making the file where there is none.
    ///
    /// # Errors
    /// [`Error::Locked`] where somebody has it.
    pub fn take(fs: &dyn FileSystem, path: &Path, own_dir: &Path) -> Result<Self> {
        for _ in 0..MAX_TRIES {
            let lock = Self::take_once(fs, path, own_dir)?;
            // One whose opening failed may have removed it in between ([`StoreLock::undo`]), and a lock on a file without a
            // name keeps nobody out.
            if lock.is_of(fs, path)? {
                return Ok(lock);
            }
        }
        Err(Error::Locked { path: path.into(), holder: holder(fs, own_dir, None) })
    }

    fn take_once(fs: &dyn FileSystem, path: &Path, own_dir: &Path) -> Result<Self> {
        let created = fs.metadata(path).map_err(Error::io("look at", path))?.is_none();
        let file = LockFile::open(fs, path).map_err(Error::io("open", path))?;
        let outcome = file.with(|handle| handle.try_lock()).map_err(Error::io("lock", path))?;
        if let LockOutcome::Held(pid) = outcome {
            return Err(Error::Locked { path: path.into(), holder: holder(fs, own_dir, pid) });
        }
        Ok(Self { path: path.into(), file, created, of_logs: Vec::new(), folders: Mutex::default() })
    }

    /// Whether a path names the file that is locked.
    fn is_of(&self, fs: &dyn FileSystem, path: &Path) -> Result<bool> {
        let locked = self.identity().map_err(Error::io("look at", &self.path))?;
        is_named(fs, path, locked).map_err(Error::io("look at", path))
    }

    /// Where the file was when it was locked.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Which file it is, wherever it is by now.
    pub(crate) fn identity(&self) -> io::Result<(u64, u64)> {
        Ok(self.file.with(|handle| handle.metadata())?.identity)
    }

    /// Writes into the file what RocketMQ writes, and takes the locks of the log's folders that were made since. Done once it
    /// is certain that the store is opened.
    ///
    /// # Errors
    /// Where it can't be written; [`Error::Locked`] where another store was first in such a folder.
    pub fn mark(&self, fs: &dyn FileSystem, config: &StoreConfig) -> Result<()> {
        self.take_folders(fs, config)?;
        self.file.with(|handle| handle.write_at(CONTENT, 0)).map_err(Error::io("write", &self.path))
    }

    /// Removes the file again where taking the lock made it: opening failed.
    pub fn undo(&self, fs: &dyn FileSystem) {
        if self.created {
            let _opening_fails_with_its_own_error = fs.remove_file(&self.path);
        }
    }
}

/// The folders of other stores, which have a lock, that the log lies in.
fn other_stores_of(fs: &dyn FileSystem, config: &StoreConfig) -> Result<BTreeSet<PathBuf>> {
    let mut stores = BTreeSet::new();
    let own = real_path_if_there(fs, &config.store_path_root_dir)?;
    for folder in &config.store_path_commit_log {
        let store = real_path_if_there(fs, folder)?.and_then(|real| real.parent().map(Path::to_path_buf));
        let Some(store) = store.filter(|store| Some(store) != own.as_ref()) else { continue };
        let lock = store.join("lock");
        if fs.metadata(&lock).map_err(Error::io("look at", &lock))?.is_some() {
            stores.insert(store);
        }
    }
    Ok(stores)
}

/// Who has the lock, as far as it can be found out.
fn holder(fs: &dyn FileSystem, own_dir: &Path, pid: Option<i32>) -> String {
    if let Some(pid) = pid {
        return format!("process {pid} (a Java broker, or another that locks like one)");
    }
    match Progress::read(fs, own_dir) {
        Ok(Progress::Published(published)) => format!("mqstore in process {}", published.pid),
        _ => "another process".into(),
    }
}

/// A process that has a store open for writing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Writer {
    /// Who it is, as far as it can be found out.
    pub holder: String,
    /// How far it is.
    pub progress: Progress,
}

/// Who has a store open for writing; `None` where nobody has.
///
/// # Errors
/// Where the file is there and can't be asked.
pub fn writer(fs: &dyn FileSystem, path: &Path, own_dir: &Path) -> Result<Option<Writer>> {
    // It is gone where there is no store, or where a writer's opening failed, which removes it.
    let Some(handle) = open_if_there(fs, path)? else { return Ok(None) };
    let Some(LockOutcome::Held(pid)) =
        handle.lock_holder().map_err(Error::io("ask for the lock of", path))?
    else {
        return Ok(None);
    };
    // A POSIX lock names its process, and is not the kind that an mqstore writer takes.
    let progress = if pid.is_none() { Progress::read(fs, own_dir)? } else { Progress::Untold };
    Ok(Some(Writer { holder: holder(fs, own_dir, pid), progress }))
}
