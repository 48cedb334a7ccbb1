//! One writer.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};

use mqstore_core::clock::ManualClock;
use mqstore_core::config::StoreConfig;
use mqstore_core::error::Error;
use mqstore_core::fs::{DirEntry, FileHandle, FileSystem, Metadata, OpenMode, OsFileSystem, Space};
use mqstore_core::lock::{StoreLock, writer};
use mqstore_core::log_view::LogView;
use mqstore_core::published::Progress;
use mqstore_core::store::Mode;

use crate::stores::{config, fill, fs, numbers, open, put, read, tree, try_open};

#[test]
fn a_second_writer_is_told_who_has_the_store() {
    let root = tempfile::tempdir().unwrap();
    let first = open(root.path());
    put(&first, "t", 0, b"0", "");
    let before = tree(root.path());
    let error = try_open(config(root.path()), Mode::ReadWrite).map(|_| ()).unwrap_err();
    assert!(matches!(error, Error::Locked { .. }));
    let holder = format!("mqstore in process {}", std::process::id());
    let expected = format!("already open for writing by {holder}: close it there, or open with mode=\"r\"");
    assert!(error.to_string().ends_with(&expected), "{error}");
    assert_eq!(tree(root.path()), before);
    let reader = read(root.path());
    assert!(reader.notes().writer.as_ref().unwrap().contains(&std::process::id().to_string()));
    assert_eq!(numbers(&reader), [0]);
    first.close().unwrap();
    let second = open(root.path());
    assert_eq!(numbers(&second), [0]);
}

/// By the options of the store that it was made of, or by a link.
#[test]
fn a_copy_whose_log_is_the_original_s_is_no_second_writer() {
    let (original, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let log = original.path().join("commitlog");
    let by_option = StoreConfig { store_path_commit_log: vec![log.clone()], ..config(copy.path()) };
    let writer = open(original.path());
    put(&writer, "t", 0, b"0", "");
    let refused = |config: &StoreConfig| {
        for opened in [
            try_open(config.clone(), Mode::ReadWrite).map(|_| ()),
            LogView::open_locked(config.clone(), fs(), Arc::new(ManualClock::at(0))).map(|_| ()),
        ] {
            let error = opened.unwrap_err();
            assert!(
                matches!(&error, Error::Locked { path, .. } if *path == log.with_file_name("lock")),
                "{error}"
            );
        }
        assert!(!copy.path().join("lock").exists());
    };
    refused(&by_option);
    std::os::unix::fs::symlink(&log, copy.path().join("commitlog")).unwrap();
    refused(&config(copy.path()));
    writer.close().unwrap();
    drop(writer);
    // And the other way round.
    let writer = try_open(by_option, Mode::ReadWrite).unwrap();
    assert!(matches!(try_open(config(original.path()), Mode::ReadWrite), Err(Error::Locked { .. })));
    drop(writer);
    open(original.path());
}

/// There is no other store's lock: the log has disks of its own.
#[test]
fn a_log_outside_of_its_store_has_one_writer() {
    let layouts: [(&[&str], &[&str]); 3] = [(&["log"], &[]), (&["log", "other"], &[]), (&[], &["old"])];
    for (paths, read_only_paths) in layouts {
        let disks = tempfile::tempdir().unwrap();
        let below = |names: &[&str]| names.iter().map(|name| disks.path().join(name)).collect::<Vec<_>>();
        let (paths, read_only_paths) = (below(paths), below(read_only_paths));
        read_only_paths.iter().for_each(|path| std::fs::create_dir(path).unwrap());
        let roots = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let [first, second] = roots.each_ref().map(|root| {
            let own = config(root.path());
            let own_paths = if paths.is_empty() { own.store_path_commit_log.clone() } else { paths.clone() };
            let read_only_commit_log_store_paths = read_only_paths.clone();
            StoreConfig { store_path_commit_log: own_paths, read_only_commit_log_store_paths, ..own }
        });
        let shared = paths.first().or(read_only_paths.first()).unwrap().clone();
        let writer = try_open(first.clone(), Mode::ReadWrite).unwrap();
        let acknowledged = fill_to(&writer, 3);
        let refused = try_open(second.clone(), Mode::ReadWrite).map(|_| ()).unwrap_err();
        assert!(matches!(&refused, Error::Locked { path, .. } if *path == shared), "{refused}");
        assert!(refused.to_string().contains("another store, whose log lies there too"), "{refused}");
        assert!(!roots[1].path().join("lock").exists());
        writer.close().unwrap();
        drop(writer);
        let writer = try_open(first, Mode::ReadWrite).unwrap();
        assert_eq!(numbers(&writer), acknowledged);
    }
}

fn fill_to(store: &mqstore_core::store::Store, end: usize) -> Vec<usize> {
    fill(store, 0..end);
    (0..end).collect()
}

/// Both found none, and made it at the same time.
#[test]
fn of_two_new_stores_with_one_log_one_is_opened() {
    let disk = tempfile::tempdir().unwrap();
    let roots = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let [first, second] = roots.each_ref().map(|root| StoreConfig {
        store_path_commit_log: vec![disk.path().join("log")],
        ..config(root.path())
    });
    let early = StoreLock::take_all(&*fs(), &first).unwrap();
    let writer = try_open(second, Mode::ReadWrite).unwrap();
    assert!(matches!(early.mark(&*fs(), &first), Err(Error::Locked { .. })));
    drop(early);
    writer.close().unwrap();
    drop(writer);
    try_open(first, Mode::ReadWrite).unwrap();
}

#[test]
fn a_folder_that_is_named_twice_is_locked_once() {
    let disk = tempfile::tempdir().unwrap();
    let root = tempfile::tempdir().unwrap();
    let [log, link] = ["log", "link"].map(|name| disk.path().join(name));
    std::fs::create_dir(&log).unwrap();
    std::os::unix::fs::symlink(&log, &link).unwrap();
    let named = StoreConfig {
        read_only_commit_log_store_paths: vec![link],
        store_path_commit_log: vec![log],
        ..config(root.path())
    };
    assert!(StoreLock::take_all(&*fs(), &named).is_ok());
}

/// All that a store has can be a link, its lock too.
#[test]
fn a_folder_of_links_has_one_lock() {
    let (original, links) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let store = open(original.path());
    fill(&store, 0..3);
    store.close().unwrap();
    for entry in std::fs::read_dir(original.path()).unwrap().map(Result::unwrap) {
        std::os::unix::fs::symlink(entry.path(), links.path().join(entry.file_name())).unwrap();
    }
    let store = open(links.path());
    assert!(matches!(try_open(config(original.path()), Mode::ReadWrite), Err(Error::Locked { .. })));
    fill(&store, 3..5);
    store.close().unwrap();
    assert_eq!(numbers(&open(original.path())), (0..5).collect::<Vec<_>>());
}

#[test]
fn the_file_holds_what_rocketmq_writes() {
    let root = tempfile::tempdir().unwrap();
    let (path, own) = (root.path().join("lock"), root.path().join("mqstore"));
    assert_eq!(writer(&*fs(), &path, &own).unwrap(), None);
    let lock = StoreLock::take(&*fs(), &path, &own).unwrap();
    lock.mark(&*fs(), &config(root.path())).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"lock");
    let found = writer(&*fs(), &path, &own).unwrap().unwrap();
    assert_eq!((found.holder.as_str(), found.progress), ("another process", Progress::Untold));
    drop(lock);
    assert_eq!(writer(&*fs(), &path, &own).unwrap(), None);
    StoreLock::take(&*fs(), &path, &own).unwrap().undo(&*fs());
    assert!(path.exists(), "what was there before stays");
}

#[test]
fn a_lock_that_was_made_in_vain_goes() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("lock");
    StoreLock::take(&*fs(), &path, root.path()).unwrap().undo(&*fs());
    assert!(!path.exists());
}

/// Files of which something happens to the first one right after it was opened.
struct AfterOpen(Mutex<Option<Box<dyn FnOnce() + Send>>>);

impl std::fmt::Debug for AfterOpen {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("AfterOpen").finish_non_exhaustive()
    }
}

#[rustfmt::skip] // handed on, all but one
impl FileSystem for AfterOpen {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn FileHandle>> {
        let opened = OsFileSystem.open(path, mode);
        if let Some(happens) = self.0.lock().unwrap().take() { happens(); }
        opened
    }
    fn metadata(&self, path: &Path) -> io::Result<Option<Metadata>> { OsFileSystem.metadata(path) }
    fn read_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>> { OsFileSystem.read_dir(path) }
    fn create_dir_all(&self, path: &Path) -> io::Result<()> { OsFileSystem.create_dir_all(path) }
    fn remove_file(&self, path: &Path) -> io::Result<()> { OsFileSystem.remove_file(path) }
    fn remove_dir(&self, path: &Path) -> io::Result<()> { OsFileSystem.remove_dir(path) }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> { OsFileSystem.rename(from, to) }
    fn sync_dir(&self, path: &Path) -> io::Result<()> { OsFileSystem.sync_dir(path) }
    fn sync_all(&self, path: &Path) -> io::Result<()> { OsFileSystem.sync_all(path) }
    fn space(&self, path: &Path) -> io::Result<Space> { OsFileSystem.space(path) }
}

#[test]
fn a_lock_is_taken_on_the_file_that_has_the_name() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("lock");
    let failed = StoreLock::take(&*fs(), &path, root.path()).unwrap();
    let undo = Box::new(move || failed.undo(&OsFileSystem));
    let second = StoreLock::take(&AfterOpen(Mutex::new(Some(undo))), &path, root.path()).unwrap();
    assert!(path.exists());
    let third = StoreLock::take(&*fs(), &path, root.path());
    assert!(matches!(third, Err(Error::Locked { .. })), "two writers: {third:?}");
    second.undo(&*fs());
    assert!(!path.exists(), "the second one made it anew");
}
