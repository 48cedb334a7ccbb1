//! Which index files are trusted.

use mqstore_core::index::KeyQuery;
use mqstore_core::store::Store;

use crate::stores::{crash, fill, open, read};

fn count(store: &Store, number: usize) -> usize {
    let key = format!("k{number}");
    let query = KeyQuery { topic: b"t", key: key.as_bytes(), max_num: 10, begin: 0, end: i64::MAX };
    store.query_message(&query).unwrap().len()
}

fn check(store: &Store, numbers: std::ops::Range<usize>) {
    for number in numbers {
        assert_eq!(count(store, number), 1, "k{number}");
    }
}

#[test]
fn every_key_is_found_once_after_closings_and_crashes() {
    let root = tempfile::tempdir().unwrap();
    let mut end = 0;
    for life in 0..6 {
        let store = open(root.path());
        check(&store, 0..end);
        fill(&store, end..end + 27);
        end += 27;
        match life % 3 {
            0 => store.close().unwrap(),
            1 => {
                store.reput().unwrap();
                store.flush_everything().unwrap();
                fill(&store, end..end + 30);
                end += 30;
                store.reput().unwrap();
                crash(store);
            }
            _ => crash(store),
        }
    }
    check(&read(root.path()), 0..end);
    check(&open(root.path()), 0..end);
}

#[test]
fn keys_of_messages_that_were_cut_go() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    fill(&store, 0..50);
    store.reput().unwrap();
    let last = store.find_consume_queue("t", 0).unwrap().unit(49).unwrap().unwrap().physical_offset;
    store.close().unwrap();
    let last = last.cast_unsigned();
    let path = crate::stores::log_file(root.path(), last / 4096 * 4096);
    crate::stores::patch(&path, last % 4096, |at| at.fill(0));
    let store = open(root.path());
    check(&store, 0..49);
    assert_eq!(count(&store, 49), 0);
    fill(&store, 49..52);
    check(&store, 0..52);
}

#[test]
fn a_missing_index_is_made_again_after_a_crash() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    fill(&store, 0..50);
    store.close().unwrap();
    std::fs::remove_dir_all(root.path().join("index")).unwrap();
    std::fs::remove_dir_all(root.path().join("mqstore")).unwrap();
    std::fs::remove_file(root.path().join("checkpoint")).unwrap();
    std::fs::write(root.path().join("abort"), "").unwrap();
    check(&read(root.path()), 0..50);
    check(&open(root.path()), 0..50);
}

/// The position says up to which message entries are on the disk, the file's header which was the last:
/// the entry of that one need not be.
#[test]
fn a_file_that_says_it_is_full_may_lack_its_last_entry() {
    const IN_FILE: usize = 19;
    const LAST_ENTRY_AT: u64 = 40 + 7 * 4 + 19 * 20;
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    fill(&store, 0..2 * IN_FILE - 1);
    store.reput().unwrap();
    store.flush_everything().unwrap();
    fill(&store, 2 * IN_FILE - 1..2 * IN_FILE);
    store.reput().unwrap();
    let path = store.index().unwrap().files().last().unwrap().path().to_owned();
    crash(store);
    crate::stores::patch(&path, LAST_ENTRY_AT, |at| at[..20].fill(0));
    check(&read(root.path()), 0..2 * IN_FILE);
    check(&open(root.path()), 0..2 * IN_FILE);
}
