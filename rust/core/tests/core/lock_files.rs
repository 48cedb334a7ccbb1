//! Files for locks, while the process is forked. What a forked one has of them `tests/life/test_fork.py` sees.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mqstore_core::lock_files::{LockFile, after_fork, before_fork};

use crate::hooked::{Call, HookedFileSystem};
use crate::stores::fs;

/// A file system that forks the process, as far as its files for locks know, before each of the first so many openings.
fn forking(forks: usize) -> (HookedFileSystem, Arc<AtomicUsize>) {
    let opened = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&opened);
    let hook = move |call, _: &Path| {
        if matches!(call, Call::Open) && count.fetch_add(1, Ordering::Relaxed) < forks {
            before_fork();
            after_fork(false);
        }
        Ok(())
    };
    (HookedFileSystem::new(Box::new(hook)), opened)
}

#[test]
fn a_file_that_a_forked_process_may_have_is_opened_anew() {
    let root = tempfile::tempdir().unwrap();
    let (fs, opened) = forking(2);
    let file = LockFile::open(&fs, &root.path().join("lock")).unwrap();
    assert_eq!(opened.load(Ordering::Relaxed), 3);
    drop(file);
}

#[test]
fn a_file_is_open_until_it_is_let_go() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("lock");
    let file = LockFile::open(&*fs(), &path).unwrap();
    let descriptor = format!("/proc/self/fd/{}", file.descriptor().unwrap());
    assert_eq!(Path::new(&descriptor).read_link().unwrap(), path);
    drop(file);
    // Another test's file may have its number by now.
    assert!(Path::new(&descriptor).read_link().map_or(true, |found| found != path));
}
