//! The end of a store that was closed, found from where its queues end.

use std::path::Path;

use mqstore_core::format::positions::{LastRecord, LogMarks, POSITIONS_FILE_SIZE};
use mqstore_core::format::sys_flag::TRANSACTION_PREPARED_TYPE;
use mqstore_core::recovery::{Recovered, StoreState, find_end_by_queues, recover_by_queues};

use crate::parts::Parts;
use crate::stores::{LOG_FILE_SIZE, fill, log_file, message, open, patch, try_put};

/// A closed store whose last message is in no queue. Gives where that one stands and where it ends.
fn closed(root: &Path, count: usize) -> (u64, u64) {
    let store = open(root);
    fill(&store, 0..count);
    let mut prepared = message("t", 0, b"in no queue", "");
    prepared.sys_flag = TRANSACTION_PREPARED_TYPE;
    let place = try_put(&store, &prepared).unwrap().wrote_offset;
    let end = store.max_phy_offset();
    store.close().unwrap();
    (place, end)
}

/// Where the queues end and where the log does, near and from afar alike.
fn find(root: &Path, state: StoreState) -> Option<(u64, u64)> {
    let found = [false, true].map(|is_remote| {
        let parts = Parts::of(root);
        let of = Recovered { is_remote, writable: false, ..parts.recovered(state) };
        find_end_by_queues(of).unwrap().map(|ends| (ends.dispatch_from, parts.log.max_offset()))
    });
    assert_eq!(found[0], found[1]);
    found[0]
}

#[test]
fn it_lies_behind_the_last_unit_s_record_and_those_that_have_none() {
    for count in [1, 22, 25, 60] {
        let root = tempfile::tempdir().unwrap();
        let (place, end) = closed(root.path(), count);
        let expected = if place.is_multiple_of(LOG_FILE_SIZE) {
            None // what the queues have ends before the newest file
        } else {
            Some((place, end))
        };
        assert_eq!(find(root.path(), StoreState::Closed), expected, "{count} messages");
    }
}

#[test]
fn recovery_by_it_dispatches_what_is_behind_the_queues_and_changes_nothing() {
    let root = tempfile::tempdir().unwrap();
    let (place, end) = closed(root.path(), 25);
    let parts = Parts::of(root.path());
    let recovery = recover_by_queues(parts.recovered(StoreState::Closed)).unwrap().unwrap();
    assert_eq!((recovery.dispatch_from, recovery.log_end), (place, end));
    assert!(!recovery.must_trim && recovery.gaps.is_empty() && recovery.index_from.is_none());
    assert!(recover_by_queues(parts.recovered(StoreState::Crashed)).unwrap().is_none());
}

#[test]
fn queues_of_another_log_are_not_believed() {
    let root = tempfile::tempdir().unwrap();
    closed(root.path(), 25);
    let path = root.path().join("mqstore/positions");
    let mut file = std::fs::read(&path).unwrap();
    let marks = file.split_off(POSITIONS_FILE_SIZE);
    let last = LogMarks::read(&marks).last.unwrap();
    let another = LastRecord { body_crc: last.body_crc ^ 1, ..last };
    file.extend(LogMarks { last: Some(another), ..LogMarks::default() }.to_bytes());
    std::fs::write(&path, file).unwrap();
    assert!(recover_by_queues(Parts::of(root.path()).recovered(StoreState::Closed)).unwrap().is_none());
}

#[test]
fn a_store_that_was_not_closed_is_walked_over() {
    let root = tempfile::tempdir().unwrap();
    closed(root.path(), 25);
    for state in [StoreState::Crashed, StoreState::Live { wrote: None, dispatched: 0 }] {
        assert_eq!(find(root.path(), state), None);
    }
}

#[test]
fn queues_that_end_before_the_newest_file_tell_nothing() {
    let root = tempfile::tempdir().unwrap();
    closed(root.path(), 60);
    let queues = root.path().join("consumequeue/t/0");
    // The newest log file begins with message 44.
    for first in [1000, 800] {
        std::fs::remove_file(queues.join(format!("{first:020}"))).unwrap();
    }
    assert_eq!(find(root.path(), StoreState::Closed), None);
    std::fs::remove_dir_all(root.path().join("consumequeue")).unwrap();
    assert_eq!(find(root.path(), StoreState::Closed), None);
    let of_one_file = tempfile::tempdir().unwrap();
    closed(of_one_file.path(), 5);
    std::fs::remove_dir_all(of_one_file.path().join("consumequeue")).unwrap();
    assert_eq!(find(of_one_file.path(), StoreState::Closed), None, "no queue has anything");
}

#[test]
fn an_end_behind_which_something_stands_is_not_believed() {
    for behind in [0, 1, 100, 1000] {
        let root = tempfile::tempdir().unwrap();
        let (_, end) = closed(root.path(), 25);
        patch(&log_file(root.path(), LOG_FILE_SIZE), end % LOG_FILE_SIZE + behind, |at| at[0] = 1);
        assert_eq!(find(root.path(), StoreState::Closed), None, "{behind} bytes behind the end");
    }
    // A torn record is something too.
    let root = tempfile::tempdir().unwrap();
    let (place, _) = closed(root.path(), 25);
    patch(&log_file(root.path(), LOG_FILE_SIZE), place % LOG_FILE_SIZE + 90, |at| at[0] ^= 1);
    assert_eq!(find(root.path(), StoreState::Closed), None);
}
