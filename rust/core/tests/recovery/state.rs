//! How a store was left, and what follows from it for what is dispatched again.

use std::path::Path;

use mqstore_core::config::StoreConfig;
use mqstore_core::error::Error;
use mqstore_core::format::positions::DurablePositions;
use mqstore_core::recovery::{self, StoreState};
use mqstore_core::store::Mode;

use crate::parts::{Parts, set_positions, set_times};
use crate::stores::{
    LOG_FILE_SIZE, bodies, config, crash, cutting, fill, fill_two_files, forget_own_files, gaps, log_file,
    numbers, open, open_with, patch, put, read, tree, try_open,
};

/// Behind the head, a body of eighty bytes and the topic's length.
const TOPIC_AT: u64 = 88 + 80 + 1;

/// A store of thirty messages whose units are all written, though the process went down.
fn killed_with_units(root: &Path) {
    let store = open(root);
    fill(&store, 0..30);
    store.reput().unwrap();
    store.queues().spill_all().unwrap();
    crash(store);
}

fn is_dispatched_again(root: &Path) -> bool {
    let reader = read(root);
    reader.notes().dispatched_from < reader.max_phy_offset()
}

#[test]
fn what_a_closed_store_holds_is_not_dispatched_again() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    fill(&store, 0..60);
    store.close().unwrap();
    assert!(!is_dispatched_again(root.path()));
    let store = open(root.path());
    assert_eq!(store.notes().dispatched_from, store.max_phy_offset());
}

/// The mark can be lost with the disk's last writes, like anything that was not synced.
#[test]
fn a_store_that_lost_the_mark_of_an_unclean_stop_had_one() {
    let root = tempfile::tempdir().unwrap();
    killed_with_units(root.path());
    std::fs::remove_file(root.path().join("abort")).unwrap();
    // So are units before others that got to the disk.
    patch(&root.path().join("consumequeue/t/0/00000000000000000200"), 0, |at| at.fill(0));
    assert_eq!(numbers(&read(root.path())), (0..30).collect::<Vec<_>>());
    assert_eq!(numbers(&open(root.path())), (0..30).collect::<Vec<_>>());
}

/// The times in the checkpoint of 4.9.3 lag behind, also of a store that it closed.
#[test]
fn a_writer_takes_no_file_of_its_own_for_one_of_the_writer_before() {
    let root = tempfile::tempdir().unwrap();
    killed_with_units(root.path());
    std::fs::remove_file(root.path().join("abort")).unwrap();
    forget_own_files(root.path());
    set_times(root.path(), [999_999; 3]);
    let store = open(root.path());
    assert_eq!(store.notes().dispatched_from, store.max_phy_offset());
}

#[test]
fn a_store_without_the_mark_was_closed_where_anything_says_so() {
    type Left = fn(&Path);
    let ways: [(&str, Left); 3] = [
        ("by mqstore, says its position", |root| {
            open(root).close().unwrap();
            set_times(root, [0; 3]);
        }),
        ("by 4.9.3 after mqstore, says its checkpoint", |root| {
            std::fs::remove_file(root.join("abort")).unwrap();
            set_times(root, [1_000_000; 3]);
        }),
        ("by 4.9.3, that alone ever wrote it", |root| {
            std::fs::remove_file(root.join("abort")).unwrap();
            forget_own_files(root);
            set_times(root, [0; 3]);
        }),
    ];
    for (what, left) in ways {
        let root = tempfile::tempdir().unwrap();
        killed_with_units(root.path());
        left(root.path());
        assert!(!is_dispatched_again(root.path()), "closed {what}");
        std::fs::write(root.path().join("abort"), "").unwrap();
        assert!(is_dispatched_again(root.path()), "the mark says more than what says: closed {what}");
    }
}

/// As where an older copy was put over a store, and nothing was removed first: behind what that copy has of a file stand those
/// that it does not have.
#[test]
fn files_of_the_log_behind_an_older_one_are_not_cut_where_no_power_cut_was() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    fill(&store, 0..25);
    store.close().unwrap();
    let end = store.max_phy_offset();
    let of_copy = [
        log_file(root.path(), LOG_FILE_SIZE),
        root.path().join("checkpoint"),
        root.path().join("mqstore/positions"),
    ];
    let older = of_copy.map(|path| (std::fs::read(&path).unwrap(), path));
    let store = open(root.path());
    store.clock.set(1_010_000);
    fill(&store, 25..100);
    store.close().unwrap();
    for (bytes, path) in older {
        std::fs::write(path, bytes).unwrap();
    }
    let before = tree(root.path());
    let refused = try_open(config(root.path()), Mode::ReadWrite).map(drop);
    let Err(Error::Damaged { offset, next_valid, .. }) = refused else { panic!("{refused:?}") };
    assert_eq!((offset, next_valid), (end, 2 * LOG_FILE_SIZE));
    assert!(tree(root.path()) == before, "nothing is changed");
    let reader = read(root.path());
    assert_eq!(numbers(&reader), (0..25).chain(44..100).collect::<Vec<_>>());
    assert_eq!(gaps(&reader), [(end, 2 * LOG_FILE_SIZE)]);
    let store = open_with(cutting(root.path()));
    assert_eq!(numbers(&store), (0..25).collect::<Vec<_>>());
}

/// What is dispatched again can begin before what is walked over to find the log's end.
#[test]
fn a_record_that_changed_before_the_walk_s_begin_is_found_too() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    let third = LOG_FILE_SIZE * 2;
    // Its checkpoint covers the third file's first message, and a part of that file.
    for (now_ms, numbers) in [(1_000_000, 0..44), (1_010_000, 44..46), (1_020_000, 46..60)] {
        store.clock.set(now_ms);
        fill(&store, numbers);
    }
    store.reput().unwrap();
    store.flush_everything().unwrap();
    let bad = store.find_consume_queue("t", 0).unwrap().unit(5).unwrap().unwrap().physical_offset;
    crash(store);
    std::fs::remove_dir_all(root.path().join("index")).unwrap();
    let parts = Parts::of(root.path());
    let walked_from = recovery::log_end::find(parts.recovered(StoreState::Crashed)).unwrap().walked_from;
    assert_eq!(walked_from, third);
    patch(&log_file(root.path(), 0), bad.cast_unsigned() + TOPIC_AT, |at| at[0] ^= 1);
    let reader = read(root.path());
    assert_eq!(reader.notes().dispatched_from, 0, "the index is made again");
    assert_eq!(reader.gaps().iter().map(|gap| gap.from.cast_signed()).collect::<Vec<_>>(), [bad]);
    assert_eq!(reader.queues().queue_count(), 1);
}

/// 4.9.3 knows nothing of records that say another place, and its units need not stand where records say.
#[test]
fn with_compat_a_record_goes_where_it_says() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    fill(&store, 0..1);
    let second = store.max_phy_offset();
    fill(&store, 1..6);
    crash(store);
    patch(&log_file(root.path(), 0), second + TOPIC_AT, |at| at[0] = b'u');
    assert!(try_open(config(root.path()), Mode::ReadWrite).is_err());
    let store = open_with(StoreConfig { compat: true, ..config(root.path()) });
    assert_eq!(bodies(&store, "u", 0), [format!("{:0>80}", 1)]);
    assert_eq!(store.gaps(), []);
}

/// A power cut while the end is being cut off finds positions that claim nothing of what comes there next.
#[test]
fn what_is_known_to_be_on_the_disk_ends_where_things_are_cut() {
    let root = tempfile::tempdir().unwrap();
    let store = fill_two_files(root.path(), 25);
    store.flush_everything().unwrap();
    let end = store.max_phy_offset();
    crash(store);
    let known = |positions: [u64; 3]| {
        let [log, queues, index] = positions;
        set_positions(root.path(), log, queues, index);
        let parts = Parts::with(cutting(root.path()));
        let of = parts.recovered(StoreState::Crashed);
        let recovery = recovery::recover(of).unwrap();
        (recovery::known_after_trim(of, &recovery), recovery.dispatch_from, recovery.index_from)
    };
    let (of_all, dispatch_from, index_from) = known([end; 3]);
    let last_of_full_index_file = index_from.unwrap();
    assert!(0 < last_of_full_index_file && last_of_full_index_file < LOG_FILE_SIZE);
    assert_eq!(dispatch_from, LOG_FILE_SIZE);
    let expected = DurablePositions { log: end, queues: LOG_FILE_SIZE, index: last_of_full_index_file + 1 };
    assert_eq!(of_all, expected);
    assert_eq!(known([300, 200, 100]).0, DurablePositions { log: 300, queues: 0, index: 0 });
    assert_eq!(known([end + 1000; 3]).0.log, end);
}

/// Queues are written to their files at times of their own: what one has says nothing of another.
#[test]
fn a_reader_beside_a_writer_finds_what_is_in_no_file_of_a_queue_yet() {
    let root = tempfile::tempdir().unwrap();
    let writer = open(root.path());
    put(&writer, "u", 0, b"in memory", "");
    fill(&writer, 0..10);
    writer.reput().unwrap();
    writer.find_consume_queue("t", 0).unwrap().spill().unwrap();
    let reader = read(root.path());
    assert_eq!(bodies(&reader, "u", 0), ["in memory"]);
    assert_eq!(numbers(&reader), (0..10).collect::<Vec<_>>());
}
