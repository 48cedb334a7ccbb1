//! What is no store, or none of this kind, is refused and left as it was.

use std::path::Path;

use mqstore_core::config::StoreConfig;
use mqstore_core::error::Error;
use mqstore_core::store::Mode;

use crate::stores::{config, fill, log_file, numbers, open, read, tree, try_open};

fn closed(root: &Path) {
    let store = open(root);
    fill(&store, 0..60);
    store.close().unwrap();
}

/// Opening for writing fails with a text that holds these words, and changes nothing.
fn refused(root: &Path, words: &[&str]) -> Error {
    let before = tree(root);
    let error = try_open(config(root), Mode::ReadWrite).map(|_| ()).unwrap_err();
    let text = error.to_string();
    for word in words {
        assert!(text.contains(word), "{word:?} is missing in {text:?}");
    }
    assert_eq!(tree(root), before);
    error
}

#[test]
fn a_log_file_of_an_odd_size() {
    let root = tempfile::tempdir().unwrap();
    closed(root.path());
    let file = std::fs::File::options().write(true).open(log_file(root.path(), 4096)).unwrap();
    file.set_len(4000).unwrap();
    refused(root.path(), &["00000000000000004096", "4096 bytes", "found 4000 bytes"]);
    let store = read(root.path());
    assert!(!store.notes().strays.is_empty());
    assert!(numbers(&store).len() >= 59, "what lay in the missing bytes is lost, no more");
}

/// Its length says nothing of the store's files: the writer before has left which one they have, and what stands at its end
/// tells where none has.
#[test]
fn the_only_file_of_a_log_cut_short() {
    for (len, is_known, words) in [
        (1000, true, ["4096 bytes", "found 1000 bytes", "mqstore repair"]),
        (4000, true, ["4096 bytes", "found 4000 bytes", "mqstore repair"]),
        (1000, false, ["4096 bytes, as mappedFileSizeCommitLog", "found 1000 bytes", "mqstore repair"]),
    ] {
        let root = tempfile::tempdir().unwrap();
        let store = open(root.path());
        fill(&store, 0..10);
        store.close().unwrap();
        if !is_known {
            std::fs::remove_dir_all(root.path().join("mqstore")).unwrap();
        }
        let file = std::fs::File::options().write(true).open(log_file(root.path(), 0)).unwrap();
        file.set_len(len).unwrap();
        refused(root.path(), &words);
        let found = numbers(&read(root.path()));
        assert_eq!(found, (0..found.len()).collect::<Vec<_>>());
        assert_eq!(found.len() == 10, len == 4000);
    }
}

#[test]
fn a_name_that_no_file_has() {
    let root = tempfile::tempdir().unwrap();
    closed(root.path());
    std::fs::write(root.path().join("commitlog/notes.txt"), "mine").unwrap();
    refused(root.path(), &["notes.txt", "a file of another name"]);
    assert_eq!(numbers(&read(root.path())), (0..60).collect::<Vec<_>>());
    std::fs::remove_file(root.path().join("commitlog/notes.txt")).unwrap();
    std::fs::write(root.path().join("consumequeue/t/0/notes.txt"), "mine").unwrap();
    refused(root.path(), &["notes.txt"]);
}

#[test]
fn a_file_that_is_missing_in_the_middle() {
    let root = tempfile::tempdir().unwrap();
    closed(root.path());
    std::fs::remove_file(log_file(root.path(), 4096)).unwrap();
    refused(root.path(), &["00000000000000008192", "the file 00000000000000004096"]);
    let store = read(root.path());
    let found = numbers(&store);
    assert!(found.contains(&0) && found.contains(&59) && found.len() < 60);
    assert!(found.is_sorted());
    assert_eq!(store.gaps().len(), 1);
    assert_eq!((store.gaps()[0].from, store.gaps()[0].to), (4096, 8192));
}

/// It says nothing of the sizes of the others, and holds none of their records.
#[test]
fn a_file_with_another_number_among_those_of_the_log() {
    for (number, size) in [(2048, 0), (6000, 0), (6000, 100), (10_000, 4096)] {
        let root = tempfile::tempdir().unwrap();
        closed(root.path());
        let stray = root.path().join(format!("commitlog/{number:020}"));
        std::fs::write(stray, vec![1; size]).unwrap();
        let text = refused(root.path(), &[&format!("{number:020}")]).to_string();
        assert!(text.contains("4096"), "{text}");
        let reader = read(root.path());
        assert_eq!(numbers(&reader), (0..60).collect::<Vec<_>>(), "{size} bytes at {number}");
        assert_eq!(reader.gaps(), []);
    }
}

#[test]
fn a_folder_of_something_else() {
    let root = tempfile::tempdir().unwrap();
    std::fs::write(root.path().join("holiday.jpg"), "mine").unwrap();
    refused(root.path(), &["holiday.jpg", "a RocketMQ store or an empty folder"]);
    let missing = try_open(config(root.path()), Mode::Read).map(|_| ()).unwrap_err();
    assert!(matches!(missing, Error::NotFound { .. }), "{missing}");
    let file = root.path().join("holiday.jpg");
    assert!(try_open(config(&file), Mode::ReadWrite).is_err());
    assert_eq!(std::fs::read(&file).unwrap(), b"mine");
}

#[test]
fn a_log_that_is_not_where_the_options_say() {
    let root = tempfile::tempdir().unwrap();
    closed(root.path());
    let told = |paths: &[&str]| {
        let paths = paths.iter().map(|path| root.path().join(path)).collect();
        let elsewhere = StoreConfig { store_path_commit_log: paths, ..config(root.path()) };
        let error = try_open(elsewhere, Mode::Read).map(|_| ()).unwrap_err();
        assert!(matches!(error, Error::NotFound { .. }), "{error}");
        error.to_string()
    };
    let text = told(&["one", "another"]);
    assert!(
        ["/one or ", "/another, where storePathCommitLog"].iter().all(|part| text.contains(part)),
        "{text}"
    );
    std::fs::remove_dir_all(root.path().join("commitlog")).unwrap();
    assert!(told(&["commitlog"]).ends_with("there is no folder commitlog in it"));
}

#[test]
fn queues_in_rocksdb() {
    let root = tempfile::tempdir().unwrap();
    closed(root.path());
    std::fs::write(root.path().join("consumequeue/CURRENT"), "MANIFEST-000001\n").unwrap();
    let error = refused(root.path(), &["RocksDB"]);
    assert!(matches!(error, Error::Unsupported { .. }));
    assert!(matches!(try_open(config(root.path()), Mode::Read), Err(Error::Unsupported { .. })));
}

#[test]
fn a_file_where_a_folder_is_expected() {
    let root = tempfile::tempdir().unwrap();
    std::fs::write(root.path().join("commitlog"), "mine").unwrap();
    for mode in [Mode::Read, Mode::ReadWrite] {
        let before = tree(root.path());
        let error = try_open(config(root.path()), mode).map(|_| ()).unwrap_err();
        assert!(matches!(&error, Error::Layout { .. }), "{error}");
        assert_eq!(tree(root.path()), before);
    }
}

#[test]
fn a_missing_or_empty_folder_becomes_a_store() {
    let root = tempfile::tempdir().unwrap();
    let missing = root.path().join("a/b");
    assert!(matches!(try_open(config(&missing), Mode::Read), Err(Error::NotFound { .. })));
    assert!(!missing.exists());
    for folder in [missing, root.path().join("c")] {
        let store = open(&folder);
        fill(&store, 0..3);
        assert_eq!(numbers(&store), [0, 1, 2]);
        store.close().unwrap();
    }
}

#[test]
fn an_empty_newest_file_is_what_a_crash_leaves() {
    let root = tempfile::tempdir().unwrap();
    closed(root.path());
    let next = tree(&root.path().join("commitlog")).len() as u64 * 4096;
    std::fs::write(log_file(root.path(), next), "").unwrap();
    assert_eq!(numbers(&read(root.path())), (0..60).collect::<Vec<_>>());
    let store = open(root.path());
    fill(&store, 60..90);
    assert_eq!(numbers(&store), (0..90).collect::<Vec<_>>());
}

#[test]
fn short_and_odd_files_are_read_as_far_as_they_go() {
    for len in [0, 1, 7, 8, 90, 200, 1000, 4095] {
        let root = tempfile::tempdir().unwrap();
        closed(root.path());
        let last = tree(&root.path().join("commitlog")).len() as u64 - 1;
        let path = log_file(root.path(), last * 4096);
        std::fs::File::options().write(true).open(&path).unwrap().set_len(len).unwrap();
        let before = tree(root.path());
        let store = read(root.path());
        let found = numbers(&store);
        assert!(found.len() >= 40 && found == (0..found.len()).collect::<Vec<_>>(), "{len}: {found:?}");
        assert_eq!(tree(root.path()), before);
    }
}
