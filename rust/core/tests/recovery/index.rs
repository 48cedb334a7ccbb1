//! Which index files are trusted.

use std::path::Path;

use mqstore_core::format::positions::DurablePositions;
use mqstore_core::index::KeyQuery;
use mqstore_core::recovery::{self, StoreState};
use mqstore_core::store::Store;

use crate::parts::{Parts, set_positions, set_times};
use crate::stores::{crash, cutting, fill, forget_own_files, open, open_with, put, read};

/// Keys that a file takes.
const IN_FILE: usize = 19;

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
    let store = open_with(cutting(root.path()));
    let end = store.max_phy_offset().cast_signed();
    for file in store.index().unwrap().files().iter() {
        let is_before = |entry: u32| file.entry(entry).unwrap().unwrap().phy_offset < end;
        assert!((1..file.index_count()).all(is_before), "an entry leads to what will be put here next");
    }
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

/// A store that was killed with three full index files and a fourth, full of messages stored at 1,000,000,
/// 1,010,000 and 1,020,000 ms. Gives where the last message of each file stands.
fn killed(root: &Path) -> [u64; 4] {
    let store = open(root);
    let ends = [0, 1, 2, 3].map(|file| {
        store.clock.set(1_000_000 + 10_000 * i64::try_from(file).unwrap());
        let count = if file < 3 { IN_FILE } else { 5 };
        fill(&store, file * IN_FILE..file * IN_FILE + count);
        store.reput().unwrap();
        let last = store.find_consume_queue("t", 0).unwrap().max_offset_in_queue() - 1;
        let unit = store.find_consume_queue("t", 0).unwrap().unit(last).unwrap().unwrap();
        unit.physical_offset.cast_unsigned()
    });
    assert_eq!(store.index().unwrap().files().len(), 4);
    crash(store);
    ends
}

/// How many index files are taken out, and where keys are put again from.
fn dropped(root: &Path, state: StoreState) -> (usize, Option<u64>) {
    let parts = Parts::of(root);
    let recovery = recovery::recover(parts.recovered(state)).unwrap();
    (recovery.dropped.len(), recovery.index_from)
}

#[test]
fn after_a_crash_those_stay_that_were_full_and_on_the_disk_by_mqstore_s_position() {
    let root = tempfile::tempdir().unwrap();
    let ends = killed(root.path());
    set_times(root.path(), [1_030_000; 3]);
    for (index, kept) in [
        (ends[3] + 1000, 3),
        (ends[2] + 1, 3),
        (ends[2], 2),
        (ends[1] + 1, 2),
        (ends[1], 1),
        (ends[0] + 1, 1),
        (ends[0], 0),
        (0, 0),
    ] {
        set_positions(root.path(), ends[3], ends[3], index);
        let from = if kept == 0 { 0 } else { ends[kept - 1] };
        assert_eq!(dropped(root.path(), StoreState::Crashed), (4 - kept, Some(from)), "position {index}");
    }
    std::fs::write(root.path().join("mqstore/positions"), "torn").unwrap();
    assert_eq!(dropped(root.path(), StoreState::Crashed), (4, Some(0)));
}

#[test]
fn after_a_crash_of_rocketmq_those_stay_that_its_checkpoint_covers() {
    let root = tempfile::tempdir().unwrap();
    let ends = killed(root.path());
    forget_own_files(root.path());
    for (time, kept) in [(1_030_000, 3), (1_020_000, 3), (1_019_999, 2), (1_000_000, 1), (999_999, 0), (0, 0)]
    {
        set_times(root.path(), [1_030_000, 1_030_000, time]);
        let from = if kept == 0 { 0 } else { ends[kept - 1] };
        assert_eq!(dropped(root.path(), StoreState::Crashed), (4 - kept, Some(from)), "time {time}");
        // By times they are believed, and by no position: of those none was known, and none comes of cutting.
        let parts = Parts::of(root.path());
        let of = parts.recovered(StoreState::Crashed);
        let known = recovery::known_after_trim(of, &recovery::recover(of).unwrap());
        assert_eq!(known, DurablePositions::default(), "time {time}");
    }
}

#[test]
fn of_a_closed_store_all_stay_but_one_that_is_not_made_yet() {
    let root = tempfile::tempdir().unwrap();
    let ends = killed(root.path());
    open(root.path()).close().unwrap();
    assert_eq!(dropped(root.path(), StoreState::Closed), (0, None));
    let not_made = root.path().join("index/99991231235959999");
    std::fs::write(&not_made, [0; 40 + 7 * 4 + 20 * 20]).unwrap();
    assert_eq!(dropped(root.path(), StoreState::Closed), (1, Some(ends[3])));
    let store = open(root.path());
    assert!(!not_made.exists());
    check(&store, 0..3 * IN_FILE + 5);
}

/// Where no message has a key the index has nothing, and that it is this log's cannot be told by any.
#[test]
fn of_a_closed_store_without_keys_the_index_stays() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    put(&store, "t", 0, b"without", "");
    store.close().unwrap();
    assert_eq!(std::fs::read_dir(root.path().join("index")).unwrap().count(), 1);
    assert_eq!(dropped(root.path(), StoreState::Closed), (0, None));
}

/// What tells it is the last message of the newest file: one that holds nothing yet says where the one before ended, and
/// one that ends where the log begins is held against the log's first message.
#[test]
fn an_index_of_another_log_is_made_again_whatever_its_newest_file_has() {
    for (count, file_count) in [(1, 1), (IN_FILE, 2), (IN_FILE + 5, 2)] {
        let (root, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let store = open(other.path());
        store.clock.set(2_000_000);
        fill(&store, 0..count);
        put(&store, "t", 0, b"without", "");
        store.close().unwrap();
        let store = open(root.path());
        fill(&store, 0..30);
        store.close().unwrap();
        std::fs::remove_dir_all(root.path().join("index")).unwrap();
        std::fs::rename(other.path().join("index"), root.path().join("index")).unwrap();
        assert_eq!(std::fs::read_dir(root.path().join("index")).unwrap().count(), file_count);
        let store = open(root.path());
        check(&store, 0..30);
        let first = store.index().unwrap().files()[0].header().begin_timestamp;
        assert_eq!(first, 1_000_000, "{count} messages with keys");
    }
}
