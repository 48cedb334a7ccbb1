//! The log and what lies beside it, while somebody else removes files.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use mqstore_core::clock::ManualClock;
use mqstore_core::fs::OsFileSystem;
use mqstore_core::log_view::LogView;
use mqstore_core::mmap::file_queue::Listing;
use mqstore_core::store::Store;
use mqstore_core::verify::{check_index_file, check_log, check_queue};

use crate::hooked::{Call, HookedFileSystem};
use crate::stores::{LOG_FILE_SIZE, config, fill, log_file, open, put};

/// A closed store of several log files and queue files.
fn store(root: &Path) -> u64 {
    let store = open(root);
    fill(&store, 0..70);
    ended(&store)
}

fn ended(store: &Store) -> u64 {
    let end = store.max_phy_offset();
    assert!(end > 3 * LOG_FILE_SIZE);
    store.close().unwrap();
    end
}

/// Removes some files just before it looks at the first of them.
fn beside_removal(gone: Vec<PathBuf>) -> HookedFileSystem {
    HookedFileSystem::new(Box::new(move |call: Call, path: &Path| {
        if matches!(call, Call::Metadata) && Some(path) == gone.first().map(|path| &**path) {
            gone.iter().filter(|path| path.exists()).for_each(|path| std::fs::remove_file(path).unwrap());
        }
        Ok(())
    }))
}

/// The store up to an end, of which no file is opened yet.
fn view_beside_removal(root: &Path, end: u64, gone: Vec<PathBuf>) -> LogView {
    let clock = Arc::new(ManualClock::at(1_000_000));
    LogView::open(config(root), Arc::new(beside_removal(gone)), clock, Some(end)).unwrap()
}

#[test]
fn a_file_that_is_removed_while_its_folder_is_listed_was_not_there() {
    let root = tempfile::tempdir().unwrap();
    store(root.path());
    let fs = beside_removal(vec![log_file(root.path(), 0)]);
    let listing = Listing::read(&fs, [root.path().join("commitlog")]).unwrap();
    assert_eq!((listing.min_offset(), listing.faults(LOG_FILE_SIZE)), (Some(LOG_FILE_SIZE), vec![]));
}

/// One that cannot be reached is a fault, as is any other that has no bytes.
#[test]
fn a_link_that_leads_nowhere_is_listed() {
    let root = tempfile::tempdir().unwrap();
    store(root.path());
    std::fs::remove_file(log_file(root.path(), 0)).unwrap();
    std::os::unix::fs::symlink("nowhere", log_file(root.path(), 0)).unwrap();
    let listing = Listing::read(&OsFileSystem, [root.path().join("commitlog")]).unwrap();
    assert_eq!((listing.min_offset(), listing.faults(LOG_FILE_SIZE).len()), (Some(0), 1));
}

/// One of a queue's files that looked empty would have those behind it count as not there.
#[test]
fn a_queue_file_that_is_removed_while_its_folder_is_listed_leaves_those_behind_it() {
    let root = tempfile::tempdir().unwrap();
    let end = store(root.path());
    let first = root.path().join("consumequeue/t/0").join(format!("{:020}", 0));
    let view = view_beside_removal(root.path(), end, vec![first, log_file(root.path(), 0)]);
    let queues = view.queues().unwrap();
    let done = check_log(&view, &queues, 0, view.end()).unwrap();
    assert_eq!(done.begins_anew, Some(LOG_FILE_SIZE));
    assert_eq!(done.findings.first, []);
}

#[test]
fn what_is_expired_is_seen_once_it_is_asked_for() {
    let root = tempfile::tempdir().unwrap();
    let end = store(root.path());
    let view = view_beside_removal(root.path(), end, Vec::new());
    assert!(!view.is_expired(0).unwrap());
    std::fs::remove_file(log_file(root.path(), 0)).unwrap();
    assert_eq!(view.min_offset(), 0, "nobody looked");
    assert!(view.is_expired(0).unwrap());
    assert!(!view.is_expired(LOG_FILE_SIZE).unwrap());
    assert_eq!(view.min_offset(), LOG_FILE_SIZE);
    for file in 1..=end / LOG_FILE_SIZE {
        std::fs::remove_file(log_file(root.path(), file * LOG_FILE_SIZE)).unwrap();
    }
    assert!(view.is_expired(end - 1).unwrap());
    assert_eq!(view.min_offset(), end);
}

#[test]
fn a_log_is_divided_while_files_go() {
    let root = tempfile::tempdir().unwrap();
    let end = store(root.path());
    let view = view_beside_removal(root.path(), end, Vec::new());
    std::fs::remove_file(log_file(root.path(), 0)).unwrap();
    let begins = view.divide(0, end, 500).unwrap();
    assert_eq!(begins.iter().filter(|&&begin| begin < LOG_FILE_SIZE).count(), 1);
    assert!(begins.len() > 5);
    let view = view_beside_removal(root.path(), end, Vec::new());
    std::fs::remove_file(log_file(root.path(), LOG_FILE_SIZE)).unwrap();
    assert_eq!(view.boundary(LOG_FILE_SIZE + 700).unwrap(), 2 * LOG_FILE_SIZE);
}

#[test]
fn what_is_missing_in_the_middle_is_no_removal() {
    let root = tempfile::tempdir().unwrap();
    let end = store(root.path());
    let view = view_beside_removal(root.path(), end, Vec::new());
    std::fs::remove_file(log_file(root.path(), LOG_FILE_SIZE)).unwrap();
    let queues = view.queues().unwrap();
    let done = check_log(&view, &queues, 0, view.end()).unwrap();
    assert_eq!((done.begins_anew, view.min_offset()), (None, 0));
    let bad: Vec<_> =
        done.findings.first.iter().filter(|found| found.detail.contains("found none")).collect();
    assert_eq!(bad.len(), 1);
    assert_eq!(bad[0].phy_offset, Some(LOG_FILE_SIZE));
}

/// A queue that has lost all of its messages begins anew behind them: no offset is missing.
#[test]
fn what_comes_behind_expired_files_is_not_measured_by_what_was_before() {
    let root = tempfile::tempdir().unwrap();
    let writer = open(root.path());
    put(&writer, "t", 0, &[b'x'; 3000], "");
    for _ in 0..3 {
        put(&writer, "t", 0, &[b'x'; 3000], "");
    }
    let end = ended(&writer);
    let view = view_beside_removal(root.path(), end, Vec::new());
    // Read before it goes: what is mapped stays.
    view.log().get_message(0, 100).unwrap().unwrap();
    for file in 0..2 {
        std::fs::remove_file(log_file(root.path(), file * LOG_FILE_SIZE)).unwrap();
    }
    let done = check_log(&view, &view.queues().unwrap(), 0, view.end()).unwrap();
    assert_eq!(done.begins_anew, Some(2 * LOG_FILE_SIZE));
    assert_eq!((done.findings.first, done.record_count), (vec![], 3));
    assert_eq!(done.spans[0].first.0, 2);
}

/// A log file that was opened is read on though it is gone, and what was derived from it is gone too, or the other way round.
#[test]
fn nothing_is_missing_of_what_is_expired() {
    let root = tempfile::tempdir().unwrap();
    let end = store(root.path());
    let remove = |folder: &str, count: usize| {
        let mut paths: Vec<_> =
            std::fs::read_dir(root.path().join(folder)).unwrap().map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        paths[..count].iter().for_each(|path| std::fs::remove_file(path).unwrap());
    };
    let [opened, not_opened] = [(); 2].map(|()| view_beside_removal(root.path(), end, Vec::new()));
    opened.log().get_message(0, 100).unwrap().unwrap();
    let queue = Arc::clone(&not_opened.queues().unwrap().all()[0]);
    remove("commitlog", 1);
    let done = check_queue(&not_opened, &queue, 0, 10).unwrap();
    assert_eq!((done.findings.first, done.unit_count, done.expired_count), (vec![], 0, 10));
    remove("consumequeue/t/0", 1);
    remove("index", 1);
    let (index, _) = opened.index().unwrap().unwrap();
    let done = check_index_file(&opened, &index.files(), 0).unwrap();
    assert_eq!(done.findings.first, vec![]);
}

#[test]
fn no_unit_is_missing_of_a_record_that_is_expired() {
    let root = tempfile::tempdir().unwrap();
    let end = store(root.path());
    let view = view_beside_removal(root.path(), end, Vec::new());
    view.log().get_message(0, 100).unwrap().unwrap();
    for gone in [log_file(root.path(), 0), root.path().join("consumequeue/t/0").join(format!("{:020}", 0))] {
        std::fs::remove_file(gone).unwrap();
    }
    let done = check_log(&view, &view.queues().unwrap(), 0, end).unwrap();
    assert_eq!((done.findings.first, done.record_count), (vec![], 70));
}
