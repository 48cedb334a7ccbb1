//! Where a queue ends when a store is opened.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use mqstore_core::format::cq_unit::CqUnit;

use mqstore_core::config::StoreConfig;
use mqstore_core::consume_queue::Boundary;

use crate::stores::{
    bodies, config, crash, crash_files_later, cutting, fill, numbers, open, open_with, patch, put, read,
};

fn queue_file(root: &Path, file_from_offset: u64) -> std::path::PathBuf {
    root.join("consumequeue/t/0").join(format!("{file_from_offset:020}"))
}

fn closed(root: &Path, count: usize) {
    let store = open(root);
    fill(&store, 0..count);
    store.close().unwrap();
}

fn ended_unclean(root: &Path) {
    std::fs::write(root.join("abort"), "").unwrap();
}

#[test]
fn units_that_point_behind_the_log_are_cut_and_zeroed() {
    let root = tempfile::tempdir().unwrap();
    closed(root.path(), 13);
    let file = queue_file(root.path(), 200);
    let garbage = CqUnit { physical_offset: 1 << 30, size: 100, tags_code: 1 };
    patch(&file, 60, |at| at[..20].copy_from_slice(&garbage.to_bytes()));
    assert_eq!(numbers(&read(root.path())), (0..13).collect::<Vec<_>>());
    let store = open(root.path());
    assert_eq!(numbers(&store), (0..13).collect::<Vec<_>>());
    fill(&store, 13..15);
    assert_eq!(numbers(&store), (0..15).collect::<Vec<_>>());
    store.close().unwrap();
    assert!(std::fs::read(&file).unwrap()[100..].iter().all(|&byte| byte == 0));
}

#[test]
fn a_file_full_of_units_ends_at_its_end() {
    for count in [9, 10, 11, 20] {
        let root = tempfile::tempdir().unwrap();
        closed(root.path(), count);
        for clean in [true, false] {
            if !clean {
                ended_unclean(root.path());
            }
            let store = open(root.path());
            assert_eq!(store.find_consume_queue("t", 0).unwrap().max_offset_in_queue(), count as u64);
            assert_eq!(numbers(&store), (0..count).collect::<Vec<_>>());
            store.close().unwrap();
        }
    }
}

#[test]
fn queues_that_are_missing_or_short_are_filled_again_after_a_crash() {
    let root = tempfile::tempdir().unwrap();
    closed(root.path(), 40);
    let whole = crate::stores::tree(&root.path().join("consumequeue"));
    type Damage = fn(&Path);
    let damages: [Damage; 4] = [
        |root| std::fs::remove_dir_all(root.join("consumequeue")).unwrap(),
        |root| std::fs::remove_file(queue_file(root, 600)).unwrap(),
        |root| patch(&queue_file(root, 400), 0, |at| at.fill(0)),
        |root| patch(&queue_file(root, 600), 60, |at| at[..20].fill(0xff)),
    ];
    for damage in damages {
        damage(root.path());
        std::fs::remove_dir_all(root.path().join("mqstore")).unwrap();
        std::fs::remove_file(root.path().join("checkpoint")).unwrap();
        ended_unclean(root.path());
        assert_eq!(numbers(&read(root.path())), (0..40).collect::<Vec<_>>());
        let store = open(root.path());
        assert_eq!(numbers(&store), (0..40).collect::<Vec<_>>());
        store.close().unwrap();
        assert_eq!(crate::stores::tree(&root.path().join("consumequeue")), whole);
    }
}

#[test]
fn what_was_in_memory_only_is_dispatched_again() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    fill(&store, 0..5);
    store.reput().unwrap();
    store.flush_everything().unwrap();
    fill(&store, 5..30);
    store.reput().unwrap();
    crash(store);
    let store = open(root.path());
    assert_eq!(numbers(&store), (0..30).collect::<Vec<_>>());
    fill(&store, 30..31);
    assert_eq!(numbers(&store), (0..31).collect::<Vec<_>>());
}

/// A unit whose size is negative is none, and does not hide those that point behind the log.
#[test]
fn units_that_are_none_are_cut_with_those_behind_the_log() {
    let root = tempfile::tempdir().unwrap();
    closed(root.path(), 18);
    let last = 17 * 179; // the place of the last record, whose log is cut there
    patch(&crate::stores::log_file(root.path(), 0), last, |at| at.fill(0));
    let negative = CqUnit { physical_offset: 1, size: -1, tags_code: 1 };
    patch(&queue_file(root.path(), 200), 120, |at| at[..20].copy_from_slice(&negative.to_bytes()));
    let store = open_with(cutting(root.path()));
    assert_eq!(store.find_consume_queue("t", 0).unwrap().max_offset_in_queue(), 17);
    fill(&store, 17..19);
    assert_eq!(numbers(&store), (0..19).collect::<Vec<_>>());
}

/// Its end is looked for in steps that grow and then by halving, in the last of several files.
#[test]
fn the_end_of_a_long_queue_is_found_wherever_it_is() {
    for count in [1, 63, 64, 65, 66, 128, 129, 130, 195, 196, 500, 999, 1000, 1001, 1064, 1999, 2300] {
        let root = tempfile::tempdir().unwrap();
        let config = || StoreConfig { mapped_file_size_consume_queue: 1000 * 20, ..config(root.path()) };
        let store = open_with(config());
        fill(&store, 0..count);
        store.close().unwrap();
        for clean in [true, false] {
            if !clean {
                ended_unclean(root.path());
            }
            let store = open_with(config());
            let queue = store.find_consume_queue("t", 0).unwrap();
            assert_eq!(queue.max_offset_in_queue(), count as u64, "clean: {clean}");
            if clean {
                assert_eq!(store.notes().dispatched_from, store.max_phy_offset(), "{count} units");
            }
            assert_eq!(numbers(&store), (0..count).collect::<Vec<_>>());
            store.close().unwrap();
        }
    }
}

/// Zeros in the last file hide what stands behind them: it is dispatched again.
#[test]
fn units_that_read_as_zeros_before_others_are_made_again_after_a_close() {
    for damaged in [10, 11, 13] {
        let root = tempfile::tempdir().unwrap();
        let store = open(root.path());
        fill(&store, 0..15);
        // Another queue reaches further.
        put(&store, "other", 0, b"last", "");
        store.close().unwrap();
        patch(&queue_file(root.path(), 200), (damaged - 10) * 20, |at| at[..20].fill(0));
        assert_eq!(numbers(&read(root.path())), (0..15).collect::<Vec<_>>(), "{damaged}");
        let store = open(root.path());
        assert_eq!(numbers(&store), (0..15).collect::<Vec<_>>(), "{damaged}");
    }
}

#[test]
fn what_stands_behind_zeros_goes_where_no_message_is_missing() {
    let root = tempfile::tempdir().unwrap();
    closed(root.path(), 3);
    let file = queue_file(root.path(), 0);
    let garbage = CqUnit { physical_offset: 1 << 30, size: 100, tags_code: 1 };
    patch(&file, 5 * 20, |at| at[..20].copy_from_slice(&garbage.to_bytes()));
    let store = open(root.path());
    assert_eq!(numbers(&store), [0, 1, 2]);
    store.close().unwrap();
    assert!(std::fs::read(&file).unwrap()[60..].iter().all(|&byte| byte == 0));
}

/// A file that recovery leaves nothing in is written again, and is removed where nothing is dispatched to it.
#[test]
fn a_file_that_recovery_empties_is_kept_where_its_units_come_again() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    fill(&store, 0..15);
    put(&store, "shorter", 0, b"kept", "");
    let lost = put(&store, "lost", 0, b"lost", "").wrote_offset;
    put(&store, "shorter", 0, b"lost", "");
    store.close().unwrap();
    let whole = crate::stores::tree(&root.path().join("consumequeue/t"));
    patch(&crate::stores::log_file(root.path(), 0), lost, |at| at.fill(0));
    std::fs::remove_file(root.path().join("mqstore/positions")).unwrap();
    ended_unclean(root.path());
    let first = std::fs::File::open(queue_file(root.path(), 0)).unwrap();
    let store = open(root.path());
    assert_eq!(numbers(&store), (0..15).collect::<Vec<_>>());
    store.close().unwrap();
    assert_eq!(crate::stores::tree(&root.path().join("consumequeue/t")), whole);
    assert_eq!(first.metadata().unwrap().nlink(), 1, "it is the same file");
    let file_of = |topic| root.path().join("consumequeue").join(topic).join("0/00000000000000000000");
    assert!(!file_of("lost").exists());
    let shorter = std::fs::read(file_of("shorter")).unwrap();
    assert!(shorter[..20].iter().any(|&byte| byte != 0) && shorter[20..].iter().all(|&byte| byte == 0));
}

/// Of many queues several are looked at at a time.
#[test]
fn many_queues_open_as_few_do() {
    const QUEUE_COUNT: i32 = 300;
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    for number in 0..3 {
        for queue_id in 0..QUEUE_COUNT {
            put(&store, "t", queue_id, format!("{queue_id} {number}").as_bytes(), "");
        }
    }
    store.close().unwrap();
    let whole = crate::stores::tree(&root.path().join("consumequeue"));
    for clean in [true, false] {
        if !clean {
            std::fs::remove_file(root.path().join("mqstore/positions")).unwrap();
            ended_unclean(root.path());
        }
        let damaged = root.path().join("consumequeue/t/270/00000000000000000000");
        patch(&damaged, 20, |at| at[..20].fill(0));
        for store in [read(root.path()), open(root.path())] {
            assert!(store.notes().dispatched_from < store.max_phy_offset(), "clean: {clean}");
            for queue_id in 0..QUEUE_COUNT {
                let expected = [0, 1, 2].map(|number| format!("{queue_id} {number}"));
                assert_eq!(bodies(&store, "t", queue_id), expected, "clean: {clean}");
            }
            store.close().unwrap();
        }
        assert_eq!(crate::stores::tree(&root.path().join("consumequeue")), whole);
    }
}

/// The name of a file says how many units stand before it, and nothing else has to: what is made of them is bounded by
/// the files that are there.
#[test]
fn a_file_of_a_far_off_name_is_passed_over() {
    let far = (1 << 62) / 200 * 200;
    let garbage = vec![1; 200];
    let blanks = CqUnit::PRE_BLANK.to_bytes().repeat(10);
    for (units, clean_end) in [(garbage, 25), (blanks, far / 20 + 10)] {
        for (clean, end) in [(true, clean_end), (false, 25)] {
            let root = tempfile::tempdir().unwrap();
            closed(root.path(), 25);
            if !clean {
                ended_unclean(root.path());
            }
            std::fs::write(queue_file(root.path(), far), &units).unwrap();
            let store = read(root.path());
            let queue = store.find_consume_queue("t", 0).unwrap();
            assert_eq!(queue.max_offset_in_queue(), end, "clean: {clean}");
            assert_eq!(numbers(&store), (0..25).collect::<Vec<_>>());
            let last = queue.unit(24).unwrap().unwrap().physical_offset.cast_unsigned();
            assert_eq!([0, last, last + 1].map(|place| queue.first_unit_at(place).unwrap()), [0, 24, 25]);
            let by_time = |time| store.get_offset_in_queue_by_time("t", 0, time, Boundary::Lower).unwrap();
            assert_eq!([0, i64::MAX].map(by_time), [0, 25]);
        }
    }
}

/// A file of zeros at a queue's end sends the search for the end to those before it, of which one may be missing.
#[test]
fn a_reader_finds_the_end_where_a_file_is_missing_before_one_that_holds_nothing() {
    for clean in [true, false] {
        let root = tempfile::tempdir().unwrap();
        closed(root.path(), 25);
        if !clean {
            ended_unclean(root.path());
        }
        std::fs::remove_file(queue_file(root.path(), 200)).unwrap();
        patch(&queue_file(root.path(), 400), 0, |at| at.fill(0));
        assert_eq!(numbers(&read(root.path())), (0..25).collect::<Vec<_>>(), "clean: {clean}");
    }
}

/// They were on the disk, as far as the positions know, and nothing else has the log dispatched again.
#[test]
fn the_last_units_of_a_queue_are_made_again_where_a_crash_left_something_else() {
    const TAG_ALONE: CqUnit = CqUnit { physical_offset: 0, size: 0, tags_code: 1 };
    type Damage = fn(&Path);
    let damages: [(&str, Damage); 4] = [
        ("no file of them", |file| std::fs::write(file, "").unwrap()),
        ("one that leads behind the log", |file| patch(file, 4 * 20, |at| at[0] = 1)),
        ("a tag alone", |file| patch(file, 4 * 20, |at| at[..20].copy_from_slice(&TAG_ALONE.to_bytes()))),
        ("a place alone", |file| patch(file, 4 * 20, |at| at[8..20].fill(0))),
    ];
    for (what, damage) in damages {
        let root = tempfile::tempdir().unwrap();
        let store = open(root.path());
        fill(&store, 0..25);
        // A full index file is believed, and has no message before its last dispatched again.
        (0..40).for_each(|number| _ = put(&store, "u", 0, b"", &format!("KEYS\x01u{number}")));
        store.reput().unwrap();
        store.flush_everything().unwrap();
        crash_files_later(store);
        damage(&queue_file(root.path(), 400));
        assert_eq!(numbers(&read(root.path())), (0..25).collect::<Vec<_>>(), "{what}");
        assert_eq!(numbers(&open(root.path())), (0..25).collect::<Vec<_>>(), "{what}");
    }
}
