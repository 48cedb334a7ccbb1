//! Queues that are removed while the log has their messages, and are used again.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use mqstore_core::clock::ManualClock;
use mqstore_core::commit_log::topic_queue::QueueRef;
use mqstore_core::consume_queue::ConsumeQueue;
use mqstore_core::fs::OsFileSystem;
use mqstore_core::log_view::LogView;
use mqstore_core::repair::{fill_in_place, holes};
use mqstore_core::store::{Finishing, Store};

use crate::stores::{
    LOG_FILE_SIZE, bodies, config, crash, cutting, log_file, open, open_with, patch, put, read, tree,
};

/// Where a record has its body.
const BODY_AT: u64 = 88;

fn puts(store: &Store, life: &str, count: usize) -> Vec<String> {
    let body = |number| format!("{life} {number}");
    (0..count).for_each(|number| {
        put(store, "t", 0, body(number).as_bytes(), "");
        put(store, "other", 0, b"stays", "");
    });
    (0..count).map(body).collect()
}

fn remove(store: &Store) {
    store.reput().unwrap();
    store.destroy_queue(&store.find_consume_queue("t", 0).unwrap()).unwrap();
}

fn list(root: &Path) -> std::path::PathBuf {
    root.join("mqstore").join("removed_queues")
}

/// What the queue holds, whoever opens the store.
fn check(root: &Path, expected: &[String]) {
    let others = bodies(&read(root), "other", 0).len();
    for _ in 0..2 {
        assert_eq!(bodies(&read(root), "t", 0), expected);
        let store = open(root);
        assert_eq!(bodies(&store, "t", 0), expected);
        assert_eq!(
            store.find_consume_queue("t", 0).is_some(),
            !expected.is_empty(),
            "it exists with messages"
        );
        assert_eq!(bodies(&store, "other", 0).len(), others);
        crash(store);
    }
    open(root).close().unwrap();
    std::fs::remove_dir_all(root.join("consumequeue")).unwrap();
    assert_eq!(bodies(&read(root), "t", 0), expected, "dispatched anew");
}

#[test]
fn what_was_removed_stays_away_and_what_came_then_stays() {
    for (before, after) in [(5, 0), (5, 1), (5, 3), (5, 5), (5, 40), (1, 3), (40, 3)] {
        for (flush_removed, flush_new, close) in
            [(false, false, false), (true, false, false), (true, true, false), (true, true, true)]
        {
            let root = tempfile::tempdir().unwrap();
            let store = open(root.path());
            puts(&store, "old", before);
            if flush_removed {
                store.reput().unwrap();
                store.flush_everything().unwrap();
            }
            remove(&store);
            let expected = puts(&store, "new", after);
            assert_eq!(bodies(&store, "t", 0), expected);
            if flush_new {
                store.flush_everything().unwrap();
            }
            if close {
                store.close().unwrap();
            }
            crash(store);
            check(root.path(), &expected);
        }
    }
}

#[test]
fn a_queue_is_removed_again_and_again() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    let mut expected = Vec::new();
    for life in 0..4 {
        if life > 0 {
            remove(&store);
        }
        expected = puts(&store, &format!("life {life}"), 3 + life);
    }
    crash(store);
    check(root.path(), &expected);
}

#[test]
fn a_removal_that_was_broken_off_is_finished() {
    // Of one message the first unit is the last one's too.
    for (count, clean) in [(25, false), (25, true), (1, false), (1, true)] {
        let root = tempfile::tempdir().unwrap();
        let store = open(root.path());
        puts(&store, "old", count);
        store.reput().unwrap();
        store.flush_everything().unwrap();
        let folder = root.path().join("consumequeue/t/0");
        let files = tree(&folder);
        remove(&store);
        if clean {
            store.close().unwrap();
        }
        crash(store);
        std::fs::create_dir_all(&folder).unwrap();
        for (path, content) in files {
            std::fs::write(path, content.unwrap()).unwrap();
        }
        check(root.path(), &[]);
        assert!(!folder.exists());
    }
}

#[test]
fn a_queue_begins_at_its_begin_though_a_later_file_of_the_removed_one_came_back() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    puts(&store, "old", 25);
    store.reput().unwrap();
    store.flush_everything().unwrap();
    let folder = root.path().join("consumequeue/t/0");
    let files = tree(&folder);
    remove(&store);
    let new = puts(&store, "new", 3);
    crash(store);
    std::fs::create_dir_all(&folder).unwrap();
    for (path, content) in files.into_iter().skip(1) {
        std::fs::write(path, content.unwrap()).unwrap();
    }
    check(root.path(), &new);
}

#[test]
fn a_list_is_forgotten_with_the_log() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    let old = puts(&store, "old", 30);
    store.reput().unwrap();
    remove(&store);
    store.close().unwrap();
    // The log is cut in front of the last message; others come to where it stood.
    let last_file = log_file(root.path(), 4096);
    patch(&last_file, 0, |bytes| bytes[..16].fill(1));
    let cutting = cutting(root.path());
    let store = open_with(cutting);
    let kept = bodies(&store, "t", 0);
    assert_eq!(kept, old[..kept.len()], "what there is of them is theirs again: the removal was cut off too");
    assert!(!kept.is_empty() && kept.len() < 30);
    let expected = [kept, puts(&store, "new", 30)].concat();
    crash(store);
    check(root.path(), &expected);
}

/// Of that record only the body is bad, which is looked at when the log's end is looked for.
#[test]
fn a_removal_is_forgotten_with_the_very_record_that_it_names() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    let kept = puts(&store, "old", 3);
    let last = put(&store, "t", 0, b"last", "").wrote_offset;
    put(&store, "other", 0, b"stays", "");
    remove(&store);
    crash(store);
    patch(&log_file(root.path(), 0), last + BODY_AT, |body| body[0] ^= 1);
    let cutting = cutting(root.path());
    let store = open_with(cutting);
    assert_eq!((store.max_phy_offset(), bodies(&store, "t", 0)), (last, kept.clone()));
    // What comes to its place, as large and at the same time, is not removed with it.
    assert_eq!(put(&store, "t", 0, b"next", "").wrote_offset, last);
    crash(store);
    check(root.path(), &[kept, vec!["next".into()]].concat());
}

/// A hole says nothing of where a log was cut: what stands behind it is there.
#[test]
fn a_removal_counts_where_its_last_record_is_damaged() {
    for (at, damage, lost_count) in [(0, 8, 1), (4, 40, 1), (70, 20, 1), (BODY_AT, 4, 1), (4, 40, 3)] {
        let root = tempfile::tempdir().unwrap();
        let store = open(root.path());
        puts(&store, "old", 5);
        let old: Vec<_> = (0..3).map(|_| put(&store, "t", 0, b"last", "").wrote_offset).collect();
        remove(&store);
        store.clock.set(1_000_500);
        let new = puts(&store, "new", 7);
        store.close().unwrap();
        for last in old.iter().rev().take(lost_count) {
            patch(&log_file(root.path(), 0), last + at, |bytes| bytes[..damage].fill(0xff));
        }
        let reader = read(root.path());
        assert_eq!(reader.gaps().len(), 1, "{damage} bytes at {at}");
        assert_eq!(bodies(&reader, "t", 0), new, "{damage} bytes at {at}");
        std::fs::remove_dir_all(root.path().join("consumequeue")).unwrap();
        assert_eq!(bodies(&read(root.path()), "t", 0), new, "{damage} bytes at {at}, dispatched anew");
    }
}

/// As below, where it begins before that place.
#[test]
fn a_removal_does_not_count_where_another_record_goes_over_its_last_one_s_place() {
    for is_damaged_before in [false, true] {
        let root = tempfile::tempdir().unwrap();
        let store = open(root.path());
        let kept = puts(&store, "old", 3);
        let early = put(&store, "other", 0, b"early", "").wrote_offset;
        put(&store, "other", 0, b"stays", "");
        let cut = put(&store, "t", 0, b"cut", "").wrote_offset;
        put(&store, "t", 0, b"last", "");
        remove(&store);
        crash(store);
        let removed = std::fs::read(list(root.path())).unwrap();
        patch(&log_file(root.path(), 0), cut + BODY_AT, |body| body[0] ^= 1);
        let cutting = cutting(root.path());
        let store = open_with(cutting);
        let next = "next ".repeat(60);
        assert_eq!(put(&store, "t", 0, next.as_bytes(), "").wrote_offset, cut);
        crash(store);
        std::fs::write(list(root.path()), removed).unwrap();
        let expected = [kept, vec![next]].concat();
        if is_damaged_before {
            patch(&log_file(root.path(), 0), early, |bytes| bytes[..8].fill(1));
            std::fs::remove_dir_all(root.path().join("consumequeue")).unwrap();
            let reader = read(root.path());
            assert_eq!((reader.gaps().len(), bodies(&reader, "t", 0)), (1, expected));
        } else {
            check(root.path(), &expected);
        }
    }
}

/// Puts of a size to the queue until there is room for no other in the file; where they stand.
fn fill_file(store: &Store, size: usize) -> Vec<u64> {
    let begin = store.max_phy_offset();
    let mut places: Vec<_> = (0..3).map(|_| put(store, "t", 0, &vec![b'x'; size], "").wrote_offset).collect();
    while 2 * store.max_phy_offset() - places[places.len() - 1] + 8 <= LOG_FILE_SIZE {
        places.push(put(store, "t", 0, &vec![b'x'; size], "").wrote_offset);
    }
    assert!(begin < LOG_FILE_SIZE && store.max_phy_offset() < LOG_FILE_SIZE);
    places
}

/// A hole that reaches to its file's end is filled with a record and a blank.
#[test]
fn a_removal_counts_where_a_repairs_blank_goes_over_its_last_record() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    let old = fill_file(&store, 200);
    remove(&store);
    let new = puts(&store, "new", 3);
    store.close().unwrap();
    for place in &old[old.len() - 2..] {
        patch(&log_file(root.path(), 0), *place, |bytes| bytes[..8].fill(1));
    }
    let (fs, clock) = (Arc::new(OsFileSystem), Arc::new(ManualClock::at(1_000_000)));
    let view = LogView::open_locked(config(root.path()), fs, clock).unwrap();
    let holes = holes(&view).unwrap();
    assert_eq!((holes.len(), holes[0].from, holes[0].to), (1, old[old.len() - 2], LOG_FILE_SIZE));
    fill_in_place(&view, &holes, &OsFileSystem).unwrap();
    view.unlock();
    check(root.path(), &new);
}

/// One that the log was cut before, and what came then did not fit into the file.
#[test]
fn a_removal_does_not_count_where_anothers_blank_goes_over_its_last_record() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    let old = fill_file(&store, 200);
    remove(&store);
    crash(store);
    let removed = std::fs::read(list(root.path())).unwrap();
    let cut = old[old.len() - 2];
    patch(&log_file(root.path(), 0), cut, |bytes| bytes[..8].fill(1));
    let cutting = cutting(root.path());
    let store = open_with(cutting);
    assert_eq!(store.max_phy_offset(), cut);
    let next = "next ".repeat(120);
    assert_eq!(put(&store, "t", 0, next.as_bytes(), "").wrote_offset, LOG_FILE_SIZE);
    crash(store);
    std::fs::write(list(root.path()), removed).unwrap();
    let kept = old[..old.len() - 2].iter().map(|_| "x".repeat(200));
    check(root.path(), &kept.chain([next]).collect::<Vec<_>>());
}

/// RocketMQ cuts a log and leaves the list: what it puts to the place of that record, of another size or at another
/// time, was not removed.
#[test]
fn a_removal_does_not_count_where_another_record_stands_in_its_last_one_s_place() {
    for (next, time) in [("of another size", 1_000_000), ("next", 1_000_500)] {
        let root = tempfile::tempdir().unwrap();
        let store = open(root.path());
        let kept = puts(&store, "old", 3);
        let last = put(&store, "t", 0, b"last", "").wrote_offset;
        remove(&store);
        crash(store);
        let removed = std::fs::read(list(root.path())).unwrap();
        patch(&log_file(root.path(), 0), last + BODY_AT, |body| body[0] ^= 1);
        let store = open(root.path());
        store.clock.set(time);
        assert_eq!(put(&store, "t", 0, next.as_bytes(), "").wrote_offset, last);
        crash(store);
        std::fs::write(list(root.path()), removed).unwrap();
        check(root.path(), &[kept, vec![next.into()]].concat());
    }
}

#[test]
fn a_list_that_is_not_whole_is_told() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    puts(&store, "old", 3);
    remove(&store);
    crash(store);
    patch(&list(root.path()), 20, |bytes| bytes[0] ^= 1);
    let reader = read(root.path());
    assert_eq!(bodies(&reader, "t", 0).len(), 3, "nothing in it counts");
    assert_eq!(reader.notes().strays.iter().filter(|stray| stray.path == list(root.path())).count(), 1);
}

#[test]
fn what_retention_could_not_take_stays_on_the_list() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    puts(&store, "old", 3);
    remove(&store);
    let new = puts(&store, "new", 40);
    store.reput().unwrap();
    // As where a file can't be removed: it is out of the log, and on the disk.
    store.log().files().forget(&store.log().files().files()[..1]);
    store.destroy_queue(&store.find_consume_queue("other", 0).unwrap()).unwrap();
    crash(store);
    let store = open(root.path());
    assert_eq!(bodies(&store, "t", 0), new);
}

#[test]
fn what_retention_took_leaves_the_list() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    puts(&store, "old", 3);
    remove(&store);
    let short = std::fs::metadata(list(root.path())).unwrap().len();
    puts(&store, "new", 40);
    store.reput().unwrap();
    store.log().files().delete(&store.log().files().files()[..1]).unwrap();
    let other = store.find_consume_queue("other", 0).unwrap();
    store.destroy_queue(&other).unwrap();
    // "other" is there in place of "t".
    assert_eq!(std::fs::metadata(list(root.path())).unwrap().len(), short + 4);
    store.destroy().unwrap();
    assert!(!list(root.path()).exists());
}

/// An import that kept far offsets: the queue's end is before the offset that the next message gets.
#[test]
fn a_queue_that_passed_over_offsets_goes_too() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let source = open(from.path());
    put(&source, "t", 0, b"first", "");
    let first = source.record_at(0).unwrap().unwrap();
    let store = open(to.path());
    store.append_records(&[&first], &Finishing::default(), &mut Vec::new()).unwrap();
    // What queues no longer go on at by themselves, but records of other stores do.
    store.log().set_next_queue_offset(QueueRef { topic: b"t", queue_id: 0 }, 5000);
    put(&store, "t", 0, b"far", "");
    store.reput().unwrap();
    let queue = store.find_consume_queue("t", 0).unwrap();
    assert!(
        store.log().next_queue_offset(queue.name()) > i64::try_from(queue.max_offset_in_queue()).unwrap()
    );
    store.destroy_queue(&queue).unwrap();
    assert_eq!(put(&store, "t", 0, b"new", "").logics_offset, 0);
}

#[test]
fn a_queue_that_two_remove_is_removed_once() {
    let root = tempfile::tempdir().unwrap();
    let mut with = config(root.path());
    (with.enable_lmq, with.enable_multi_dispatch) = (true, true);
    let store = open_with(with);
    put(&store, "%LMQ%t", 0, b"old", "");
    store.reput().unwrap();
    let queue = store.find_consume_queue("%LMQ%t", 0).unwrap();
    store.destroy_queue(&queue).unwrap();
    // The second of two that found it, and waited for the first.
    store.destroy_queue(&queue).unwrap();
    assert_eq!(store.queues().lmq_count(), 0);
    put(&store, "%LMQ%t", 0, b"new", "");
    store.reput().unwrap();
    store.destroy_queue(&queue).unwrap();
    assert_eq!(store.queues().lmq_count(), 1);
    assert_eq!(put(&store, "%LMQ%t", 0, b"newer", "").logics_offset, 1);
    assert_eq!(bodies(&store, "%LMQ%t", 0), ["new", "newer"]);
    store.close().unwrap();
    assert_eq!(bodies(&open(root.path()), "%LMQ%t", 0), ["new", "newer"]);
}

#[test]
fn one_queue_that_cannot_be_removed_keeps_no_other() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    for topic in ["a", "b", "c"] {
        (0..3).for_each(|number| _ = put(&store, topic, 0, format!("old {number}").as_bytes(), ""));
    }
    store.reput().unwrap();
    store.flush_everything().unwrap();
    let file = root.path().join("consumequeue/a/0/00000000000000000000");
    std::fs::remove_file(&file).unwrap();
    std::fs::create_dir(&file).unwrap();
    assert!(store.clean_unused_topic(&std::collections::HashSet::new()).is_err());
    for number in 0..3 {
        assert_eq!(put(&store, "b", 0, format!("new {number}").as_bytes(), "").logics_offset, number);
    }
    assert_eq!(bodies(&store, "b", 0), ["new 0", "new 1", "new 2"]);
}

/// Which queues go is asked about what they have by then.
#[test]
fn a_removal_takes_in_what_was_not_dispatched_yet() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    puts(&store, "first", 3);
    store.reput().unwrap();
    let queues = ["t", "other"].map(|topic| store.find_consume_queue(topic, 0).unwrap());
    puts(&store, "second", 2);
    let seen = AtomicU64::new(0);
    let goes = |queue: &ConsumeQueue| {
        seen.fetch_add(queue.max_offset_in_queue(), Ordering::Relaxed);
        Ok(queue.topic() == "t")
    };
    assert_eq!((store.destroy_queues(&queues, goes).unwrap(), seen.into_inner()), (1, 10));
    assert_eq!((bodies(&store, "t", 0).len(), bodies(&store, "other", 0).len()), (0, 5));
    store.close().unwrap();
    check(root.path(), &[]);
}
