//! Whether a folder is a store, before anything in it is touched.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::config::StoreConfig;
use crate::consume_queue::listing::QueueListing;
use crate::error::{Error, Result};
use crate::fs::{DirEntry, FileSystem};
use crate::mmap::file_queue::{Listing, Stray};
use crate::recovery::cut_short;

/// Names that a RocketMQ store's folder can hold, and ours.
const KNOWN: [&str; 11] = [
    "abort",
    "checkpoint",
    "commitlog",
    "config",
    "consumequeue",
    "consumequeue_ext",
    "index",
    "lock",
    "mqstore",
    "timerlog",
    "timerwheel",
];

/// What a store's folders hold.
#[derive(Debug)]
pub struct Layout {
    /// Whether there is a log.
    pub exists: bool,
    /// The log's files.
    pub log: Listing,
    /// The queues'.
    pub queues: QueueListing,
    /// What a writer would not accept, and why.
    pub faults: Vec<Stray>,
    /// Bytes of a log file.
    pub log_file_size: u64,
}

impl Layout {
    /// Looks at a store's folders. Bytes of a log file come from the files where there are some.
    ///
    /// # Errors
    /// Where a folder can't be read, or the layout is another version's.
    pub fn read(fs: &dyn FileSystem, config: &StoreConfig) -> Result<Self> {
        Self::read_part(fs, config, None)
    }

    /// As [`Layout::read`], with the queues of some topics alone.
    ///
    /// # Errors
    /// As for [`Layout::read`].
    pub fn read_part(fs: &dyn FileSystem, config: &StoreConfig, topics: Option<&[String]>) -> Result<Self> {
        refuse_rocksdb(fs, config)?;
        let folders = config.log_folders();
        let exists = has_log(fs, &folders)?;
        let log = Listing::read(fs, folders)?;
        let queues = QueueListing::read(fs, &config.store_path_consume_queue(), topics)?;
        let log_file_size = file_size_of(fs, &log, config)?;
        let mut faults = log.faults(log_file_size);
        faults.extend(queues.faults.iter().cloned());
        Ok(Self { exists, log, queues, faults, log_file_size })
    }

    /// Refuses what cannot be opened for writing without loss.
    ///
    /// # Errors
    /// [`Error::Layout`] for the first thing that is wrong.
    pub fn check_for_writing(&self, fs: &dyn FileSystem, config: &StoreConfig) -> Result<()> {
        if let Some(Stray { path, expected, found }) = self.faults.first().cloned() {
            let is_short = |(_, len, file): &(u64, u64, PathBuf)| *file == path && *len < self.log_file_size;
            let is_cut = self.log.files.iter().any(is_short);
            let found = if is_cut { format!("{found}: {}", cut_short::TO_DO) } else { found };
            return Err(Error::Layout { path, expected, found });
        }
        if !self.exists {
            refuse_foreign(fs, &config.store_path_root_dir)?;
        }
        Ok(())
    }
}

/// Bytes of a store's log files; of those to come where it has none.
///
/// # Errors
/// Where a folder can't be read.
pub fn log_file_size(fs: &dyn FileSystem, config: &StoreConfig) -> Result<u64> {
    file_size_of(fs, &Listing::read(fs, config.log_folders())?, config)
}

/// Bytes of a log file, as the files say it; without one, as the options do. A single file that is shorter than the store's
/// last writer made it was cut, and says nothing.
///
/// # Errors
/// Where it can't be read how the last writer made it.
pub(crate) fn file_size_of(fs: &dyn FileSystem, log: &Listing, config: &StoreConfig) -> Result<u64> {
    let by_files = log.file_size().unwrap_or(config.mapped_file_size_commit_log);
    Ok(cut_short::size_when_made(fs, log, config)?.unwrap_or(by_files))
}

/// Whether one of a log's folders is there.
///
/// # Errors
/// Where one can't be looked at.
fn has_log(fs: &dyn FileSystem, folders: &BTreeSet<&PathBuf>) -> Result<bool> {
    let mut exists = false;
    for folder in folders {
        exists |= fs.metadata(folder).map_err(Error::io("look at", *folder))?.is_some();
    }
    Ok(exists)
}

/// Refuses a folder without a store: there is nothing to read, and who writes would make one there.
///
/// # Errors
/// [`Error::NotFound`], which says what is missing.
pub fn check_exists(fs: &dyn FileSystem, config: &StoreConfig) -> Result<()> {
    let root = &config.store_path_root_dir;
    let reason = if fs.metadata(root).map_err(Error::io("look at", root))?.is_none() {
        "the folder does not exist".to_owned()
    } else if has_log(fs, &config.log_folders())? {
        return Ok(());
    } else if config.store_path_commit_log == [root.join("commitlog")] {
        "there is no folder commitlog in it".to_owned()
    } else {
        let paths: Vec<_> = config.store_path_commit_log.iter().map(|path| path.to_string_lossy()).collect();
        format!("there is no folder {}, where storePathCommitLog has its log", paths.join(" or "))
    };
    Err(Error::NotFound { path: root.clone(), reason })
}

/// A folder that holds other things and no log is not turned into a store.
fn refuse_foreign(fs: &dyn FileSystem, root: &Path) -> Result<()> {
    let Some(found) = fs.metadata(root).map_err(Error::io("look at", root))? else { return Ok(()) };
    let expected = "a RocketMQ store or an empty folder";
    if !found.is_dir {
        return Err(Error::Layout { path: root.into(), expected: expected.into(), found: "a file".into() });
    }
    let entries = fs.read_dir(root).map_err(Error::io("list", root))?;
    let foreign = |entry: &&DirEntry| !KNOWN.contains(&entry.name.as_str());
    match entries.iter().find(foreign) {
        Some(entry) => Err(Error::Layout {
            path: root.into(),
            expected: expected.into(),
            found: format!("a folder without commitlog that holds {:?}", entry.name),
        }),
        None => Ok(()),
    }
}

/// RocketMQ 5 can keep queues in RocksDB, in the folder where 4.9.3 has its own.
fn refuse_rocksdb(fs: &dyn FileSystem, config: &StoreConfig) -> Result<()> {
    let path = config.store_path_consume_queue();
    let is_rocksdb = |folder: &Path| -> Result<bool> {
        let current = folder.join("CURRENT");
        Ok(fs.metadata(&current).map_err(Error::io("look at", &current))?.is_some_and(|found| !found.is_dir))
    };
    if is_rocksdb(&path)? {
        return Err(Error::Unsupported {
            path,
            found: "RocketMQ 5's RocksDB consume queue (storeType=defaultRocksDB)",
            reason: "only queues of units in files are read; move the folder away to read the log alone",
        });
    }
    Ok(())
}
