//! A file system of which the nth call of a kind fails.
//!
//! A file of which a sync failed gets nothing more to the disk, though later syncs say that they did:
//! so kernels do that drop the pages they could not write and call them clean.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use mqstore_core::fs::{DirEntry, FileHandle, FileSystem, LockOutcome, Metadata, OpenMode, Space};
use mqstore_core::mmap::region::Region;
use nix::errno::Errno;

/// A kind of call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Call {
    Open,
    Create,
    Metadata,
    ReadDir,
    CreateDir,
    RemoveFile,
    RemoveDir,
    Rename,
    SyncDir,
    SyncAll,
    SetLen,
    Allocate,
    Read,
    Write,
    /// A write of which the first half is done.
    ShortWrite,
    Sync,
    NextData,
    NextHole,
    Map,
    FlushMapped,
    Lock,
}

/// Each kind of call with the errors that it can come to.
pub(crate) const FAULTS: [(Call, Errno); 27] = [
    (Call::Open, Errno::EIO),
    (Call::Open, Errno::EMFILE),
    (Call::Create, Errno::EROFS),
    (Call::Create, Errno::ENOSPC),
    (Call::Metadata, Errno::EIO),
    (Call::ReadDir, Errno::EIO),
    (Call::ReadDir, Errno::EMFILE),
    (Call::CreateDir, Errno::EROFS),
    (Call::CreateDir, Errno::ENOSPC),
    (Call::RemoveFile, Errno::EROFS),
    (Call::RemoveFile, Errno::EIO),
    (Call::RemoveDir, Errno::EIO),
    (Call::Rename, Errno::EIO),
    (Call::SyncDir, Errno::EIO),
    (Call::SyncAll, Errno::EIO),
    (Call::SetLen, Errno::ENOSPC),
    (Call::Allocate, Errno::ENOSPC),
    (Call::Allocate, Errno::EDQUOT),
    (Call::Read, Errno::EIO),
    (Call::Write, Errno::EIO),
    (Call::ShortWrite, Errno::ENOSPC),
    (Call::Sync, Errno::EIO),
    (Call::NextData, Errno::EIO),
    (Call::NextHole, Errno::EIO),
    (Call::Map, Errno::ENOMEM),
    (Call::FlushMapped, Errno::EIO),
    (Call::Lock, Errno::ENOLCK),
];

/// Which calls fail.
#[derive(Debug)]
pub(crate) struct Fault {
    call: Call,
    error: Errno,
    /// Calls of the kind that are still let through.
    left: AtomicUsize,
    /// How many calls fail then.
    failing: usize,
    failed: AtomicUsize,
    /// Calls of the kind, failed or not.
    seen: AtomicUsize,
    /// Whether every call is let through, and none is counted.
    is_paused: AtomicBool,
    /// Files of which a sync failed.
    broken: Mutex<HashSet<PathBuf>>,
}

impl Fault {
    /// `failing` calls of a kind fail after the first `let_through`.
    pub(crate) fn new(call: Call, error: Errno, let_through: usize, failing: usize) -> Arc<Self> {
        let (left, failed, seen) = (AtomicUsize::new(let_through), AtomicUsize::new(0), AtomicUsize::new(0));
        let (is_paused, broken) = (AtomicBool::new(false), Mutex::default());
        Arc::new(Self { call, error, left, failing, failed, seen, is_paused, broken })
    }

    /// How many calls failed.
    pub(crate) fn failed_count(&self) -> usize {
        self.failed.load(Ordering::Relaxed)
    }

    /// How many calls of the kind there were.
    pub(crate) fn seen_count(&self) -> usize {
        self.seen.load(Ordering::Relaxed)
    }

    /// Lets every call through, and counts none, or no longer.
    pub(crate) fn pause(&self, is_paused: bool) {
        self.is_paused.store(is_paused, Ordering::Relaxed);
    }

    fn is_due(&self, call: Call) -> bool {
        if call != self.call || self.is_paused.load(Ordering::Relaxed) {
            return false;
        }
        self.seen.fetch_add(1, Ordering::Relaxed);
        let one_less = |left: usize| left.checked_sub(1);
        if self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).is_ok() {
            return false;
        }
        let one_more = |failed: usize| (failed < self.failing).then_some(failed + 1);
        self.failed.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).is_ok()
    }

    fn check(&self, call: Call) -> io::Result<()> {
        if self.is_due(call) { Err(self.error.into()) } else { Ok(()) }
    }
}

/// The file system.
#[derive(Debug)]
pub(crate) struct FaultyFileSystem {
    pub(crate) fs: Arc<dyn FileSystem>,
    pub(crate) fault: Arc<Fault>,
}

#[derive(Debug)]
struct FaultyFile {
    file: Arc<dyn FileHandle>,
    fault: Arc<Fault>,
    path: PathBuf,
}

impl FaultyFile {
    /// Syncs, unless a sync of this file failed before.
    fn sync(&self, call: Call, sync: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        if let Err(error) = self.fault.check(call) {
            self.fault.broken.lock().unwrap().insert(self.path.clone());
            return Err(error);
        }
        if self.fault.broken.lock().unwrap().contains(&self.path) { Ok(()) } else { sync() }
    }
}

impl FileSystem for FaultyFileSystem {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn FileHandle>> {
        self.fault.check(Call::Open)?;
        if matches!(mode, OpenMode::Create | OpenMode::CreateNew) {
            self.fault.check(Call::Create)?;
        }
        let file = self.fs.open(path, mode)?;
        Ok(Arc::new(FaultyFile { file, fault: Arc::clone(&self.fault), path: path.into() }))
    }

    fn metadata(&self, path: &Path) -> io::Result<Option<Metadata>> {
        self.fault.check(Call::Metadata)?;
        self.fs.metadata(path)
    }

    fn read_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        self.fault.check(Call::ReadDir)?;
        self.fs.read_dir(path)
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.fault.check(Call::CreateDir)?;
        self.fs.create_dir_all(path)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.fault.check(Call::RemoveFile)?;
        self.fault.broken.lock().unwrap().remove(path);
        self.fs.remove_file(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.fault.check(Call::RemoveDir)?;
        self.fs.remove_dir(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.fault.check(Call::Rename)?;
        self.fs.rename(from, to)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.fault.check(Call::SyncDir)?;
        self.fs.sync_dir(path)
    }

    fn sync_all(&self, path: &Path) -> io::Result<()> {
        self.fault.check(Call::SyncAll)?;
        self.fs.sync_all(path)
    }

    fn space(&self, path: &Path) -> io::Result<Space> {
        self.fs.space(path)
    }
}

impl FileHandle for FaultyFile {
    fn metadata(&self) -> io::Result<Metadata> {
        self.fault.check(Call::Metadata)?;
        self.file.metadata()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.fault.check(Call::SetLen)?;
        self.file.set_len(len)
    }

    fn allocate(&self, offset: u64, len: u64) -> io::Result<()> {
        self.fault.check(Call::Allocate)?;
        self.file.allocate(offset, len)
    }

    fn allocate_unwritten(&self, offset: u64, len: u64) -> io::Result<bool> {
        self.fault.check(Call::Allocate)?;
        self.file.allocate_unwritten(offset, len)
    }

    fn give_back(&self, offset: u64, len: u64) -> io::Result<()> {
        self.fault.check(Call::Allocate)?;
        self.file.give_back(offset, len)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.fault.check(Call::Read)?;
        self.file.read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.fault.check(Call::Write)?;
        if let Err(error) = self.fault.check(Call::ShortWrite) {
            self.file.write_at(&bytes[..bytes.len() / 2], offset)?;
            return Err(error);
        }
        self.file.write_at(bytes, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.sync(Call::Sync, || self.file.sync_data())
    }

    fn next_data(&self, offset: u64) -> io::Result<Option<u64>> {
        self.fault.check(Call::NextData)?;
        self.file.next_data(offset)
    }

    fn next_hole(&self, offset: u64) -> io::Result<u64> {
        self.fault.check(Call::NextHole)?;
        self.file.next_hole(offset)
    }

    fn map(&self, len: usize, writable: bool) -> io::Result<Region> {
        self.fault.check(Call::Map)?;
        self.file.map(len, writable)
    }

    fn flush_mapped(&self, region: &Region, offset: usize, len: usize) -> io::Result<()> {
        self.sync(Call::FlushMapped, || self.file.flush_mapped(region, offset, len))
    }

    fn populate(&self, region: &Region, offset: usize, len: usize) -> io::Result<()> {
        self.file.populate(region, offset, len)
    }

    fn try_lock(&self) -> io::Result<LockOutcome> {
        self.fault.check(Call::Lock)?;
        self.file.try_lock()
    }

    fn lock_holder(&self) -> io::Result<Option<LockOutcome>> {
        self.file.lock_holder()
    }

    fn unlock(&self) -> io::Result<()> {
        self.file.unlock()
    }
}
