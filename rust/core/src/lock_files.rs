//! Files and folders that have locks, and what becomes of them in a process that is forked.
//!
//! A lock is that of the open file, which a forked process has too: it is held until all who have the file let go. So the child
//! closes each such file, whichever thread has it, and however far the opening of a store has come there. It unlocks none, which
//! would be for both. While a process is forked nobody is between opening a file and noting it here, or between forgetting and
//! closing it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::{File, TryLockError};
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nix::libc;

use crate::fs::{FileHandle, FileSystem, LockOutcome, OpenMode};

/// The standard library's itself, since it is one for all stores: a scheduler of tests has no part in it. It keeps who waits in
/// itself, as all of `sync`: the forked process lets go of it though others wait.
static FILES: Mutex<Files> = Mutex::new(Files { fork_count: 0, next: 0, open: BTreeMap::new() });

thread_local! {
    /// What the thread that forks the process holds meanwhile.
    static FORKING: RefCell<Option<MutexGuard<'static, Files>>> = const { RefCell::new(None) };
}

struct Files {
    fork_count: u64,
    next: u64,
    /// Each is here alone: nobody else keeps it open.
    open: BTreeMap<u64, Open>,
}

enum Open {
    File(Arc<dyn FileHandle>),
    /// The operating system's own: a log that is written lies nowhere else.
    Folder(File),
}

impl Open {
    fn unlock(&self) -> io::Result<()> {
        match self {
            Self::File(handle) => handle.unlock(),
            Self::Folder(folder) => folder.unlock(),
        }
    }
}

fn files() -> MutexGuard<'static, Files> {
    FILES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A file that has a lock or is to have one: it is unlocked and closed when this is dropped.
#[derive(Debug)]
pub struct LockFile {
    number: u64,
    opened_by: u32,
}

impl LockFile {
    /// Opens a file, which is made where there is none.
    ///
    /// # Errors
    /// Where it can't be opened.
    pub fn open(fs: &dyn FileSystem, path: &Path) -> io::Result<Self> {
        Self::note(|| fs.open(path, OpenMode::Create).map(Open::File))
    }

    /// Opens a folder that is there.
    ///
    /// # Errors
    /// Where it can't be opened.
    pub(crate) fn open_folder(path: &Path) -> io::Result<Self> {
        Self::note(|| File::open(path).map(Open::Folder))
    }

    fn note(open: impl Fn() -> io::Result<Open>) -> io::Result<Self> {
        loop {
            // A disk may take long, which no fork is to wait for.
            let fork_count = files().fork_count;
            let opened = open()?;
            let mut files = files();
            // A process that was forked in between would have the lock for as long as it lives.
            if files.fork_count == fork_count {
                let number = files.next;
                files.next += 1;
                files.open.insert(number, opened);
                return Ok(Self { number, opened_by: std::process::id() });
            }
        }
    }

    /// Takes the lock of a folder. Where a file system locks no folders it counts as taken, and keeps nobody out.
    ///
    /// # Errors
    /// Where it can't be asked for; where it is no folder that this process has opened.
    pub(crate) fn try_lock_folder(&self) -> io::Result<LockOutcome> {
        let files = files();
        let Some(Open::Folder(folder)) = files.open.get(&self.number) else {
            return Err(of_another_process());
        };
        match folder.try_lock() {
            Ok(()) => Ok(LockOutcome::Taken),
            Err(TryLockError::WouldBlock) => Ok(LockOutcome::Held(None)),
            Err(TryLockError::Error(error)) if is_unsupported(&error) => Ok(LockOutcome::Taken),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// Does something with it that takes no time.
    ///
    /// # Errors
    /// Those of what is done; where the file is another process's, which was forked into this one.
    pub(crate) fn with<T>(&self, run: impl FnOnce(&dyn FileHandle) -> io::Result<T>) -> io::Result<T> {
        match files().open.get(&self.number) {
            Some(Open::File(handle)) => run(&**handle),
            _ => Err(of_another_process()),
        }
    }

    /// Its descriptor; `None` in a forked process, and where the operating system has none for it.
    #[must_use]
    pub fn descriptor(&self) -> Option<RawFd> {
        match files().open.get(&self.number)? {
            Open::File(handle) => handle.descriptor(),
            Open::Folder(folder) => Some(folder.as_raw_fd()),
        }
    }
}

fn of_another_process() -> io::Error {
    io::Error::other("it is that of the process that this one was forked from")
}

/// As of a network file system, for which only a file that is open for writing can be locked.
fn is_unsupported(error: &io::Error) -> bool {
    let none = [libc::EBADF, libc::EINVAL, libc::ENOLCK, libc::ENOSYS, libc::EOPNOTSUPP];
    error.raw_os_error().is_some_and(|code| none.contains(&code))
}

impl Drop for LockFile {
    fn drop(&mut self) {
        let mut files = files();
        let Some(handle) = files.open.remove(&self.number) else { return };
        // Not just closed: a process that is being started has the open file for a moment. One that was forked by who told
        // nobody has it too, and must not unlock what is the other's.
        if self.opened_by == std::process::id() {
            let _is_closed_all_the_same = handle.unlock();
        }
        drop(handle);
    }
}

/// Comes right before this thread forks the process.
pub fn before_fork() {
    FORKING.set(Some(files()));
}

/// Comes right behind it, in both processes.
pub fn after_fork(is_child: bool) {
    let Some(mut files) = FORKING.take() else { return };
    files.fork_count += 1;
    if is_child {
        files.open.clear();
    }
}
