//! One writer.

use mqstore_core::error::Error;
use mqstore_core::lock::{StoreLock, writer};
use mqstore_core::store::Mode;

use crate::stores::{config, fs, numbers, open, put, read, tree, try_open};

#[test]
fn a_second_writer_is_told_who_has_the_store() {
    let root = tempfile::tempdir().unwrap();
    let first = open(root.path());
    put(&first, "t", 0, b"0", "");
    let before = tree(root.path());
    let error = try_open(config(root.path()), Mode::ReadWrite).map(|_| ()).unwrap_err();
    assert!(matches!(error, Error::Locked { .. }));
    let expected = format!("already open for writing by mqstore in process {}", std::process::id());
    assert!(error.to_string().ends_with(&expected), "{error}");
    assert_eq!(tree(root.path()), before);
    let reader = read(root.path());
    assert!(reader.notes().writer.as_ref().unwrap().contains(&std::process::id().to_string()));
    assert_eq!(numbers(&reader), [0]);
    first.close().unwrap();
    let second = open(root.path());
    assert_eq!(numbers(&second), [0]);
}

#[test]
fn the_file_holds_what_rocketmq_writes() {
    let root = tempfile::tempdir().unwrap();
    let (path, own) = (root.path().join("lock"), root.path().join("mqstore"));
    assert_eq!(writer(&*fs(), &path, &own).unwrap(), None);
    let lock = StoreLock::take(&*fs(), &path, &own).unwrap();
    lock.mark().unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"lock");
    let found = writer(&*fs(), &path, &own).unwrap().unwrap();
    assert_eq!((found.holder.as_str(), found.published), ("another process", None));
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
