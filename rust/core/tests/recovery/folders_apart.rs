//! Folders that a log can't share: a store that took messages there would not be opened again.

use std::path::{Path, PathBuf};

use mqstore_core::error::Error;
use mqstore_core::store::Mode;

use crate::stores::{config, fill, numbers, open_with, tree, try_open};

/// What an opening for writing says of these folders of the log, which it does not touch.
fn refusal(root: &Path, folders: &[PathBuf]) -> String {
    let before = tree(root);
    let mut config = config(&root.join("store"));
    config.store_path_commit_log = folders.to_vec();
    let error = try_open(config, Mode::ReadWrite).map(drop).unwrap_err();
    assert!(matches!(error, Error::Option { option: "storePathCommitLog", .. }), "{error}");
    assert_eq!(tree(root), before);
    error.to_string()
}

#[test]
fn two_folders_of_a_log_that_are_one_or_lie_in_each_other() {
    let root = tempfile::tempdir().unwrap();
    let [a, b, inner] = ["a", "b", "a/missing/inner"].map(|name| root.path().join(name));
    std::fs::create_dir(&a).unwrap();
    std::os::unix::fs::symlink(&a, &b).unwrap();
    assert!(refusal(root.path(), &[a.clone(), b.clone()]).contains("is the same folder"));
    assert!(refusal(root.path(), &[a.clone(), inner.clone()]).contains("inner lies in it"));
    assert!(refusal(root.path(), &[inner, b]).contains("it lies in"), "by its other name");
    // A folder whose name begins with the other's is beside it, and one may be named by what it is itself.
    let mut config = config(&root.path().join("store"));
    config.store_path_commit_log = vec![a, root.path().join("a2/.")];
    for life in 1..3 {
        let store = open_with(config.clone());
        fill(&store, (life - 1) * 60..life * 60);
        assert_eq!(numbers(&store), (0..life * 60).collect::<Vec<_>>());
        store.close().unwrap();
    }
}

#[test]
fn a_folder_to_read_that_is_one_of_the_others_by_another_name() {
    let root = tempfile::tempdir().unwrap();
    let [log, read] = ["log", "read"].map(|name| root.path().join(name));
    std::fs::create_dir(&log).unwrap();
    std::os::unix::fs::symlink(&log, &read).unwrap();
    let mut config = config(&root.path().join("store"));
    config.store_path_commit_log = vec![log.clone()];
    config.read_only_commit_log_store_paths = vec![log];
    open_with(config.clone()).close().unwrap();
    config.read_only_commit_log_store_paths = vec![read];
    let error = try_open(config, Mode::ReadWrite).map(drop).unwrap_err();
    assert!(error.to_string().contains("is the same folder"), "{error}");
}

#[test]
fn a_log_among_what_the_store_keeps_beside_it() {
    let root = tempfile::tempdir().unwrap();
    let store = root.path().join("store");
    for folder in ["consumequeue", "consumequeue/log", "consumequeue_ext/log", "index", "index/log"] {
        let told = refusal(root.path(), &[store.join(folder)]);
        assert!(told.contains("is the same folder") || told.contains("it lies in"), "{folder}: {told}");
    }
    for folder in ["mqstore", "config", ".", ".."] {
        assert!(refusal(root.path(), &[store.join(folder)]).contains("lies in it"), "{folder}");
    }
}
