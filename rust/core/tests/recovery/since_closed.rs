//! Queues that lost what they had when the store was closed.

use std::path::Path;

use mqstore_core::commit_log::topic_queue::QueueRef;
use mqstore_core::config::StoreConfig;
use mqstore_core::format::closed::{ClosedFile, ClosedQueue, to_bytes};

use crate::stores::{
    LOG_FILE_SIZE, UNITS_IN_FILE, bodies, config, crash, cutting, fill, found, log_file, numbers, open,
    open_with, patch, put, read, tree,
};

/// Messages of a queue that has none in the log's newest files.
const COUNT: usize = 15;
/// The queue offset behind them.
const NEXT: i64 = 15;
/// Messages behind them.
const LATER: usize = 100;

/// A closed store of several queues. Gives the messages of the one that lies far back.
fn closed(root: &Path) -> Vec<String> {
    let store = open(root);
    for number in 0..COUNT {
        put(&store, "old", 3, format!("old {number}").as_bytes(), "");
        put(&store, "beside", 0, &[b'b'; 150], "");
    }
    fill(&store, 0..LATER);
    store.close().unwrap();
    assert!(store.max_phy_offset() > 5 * LOG_FILE_SIZE);
    bodies(&read(root), "old", 3)
}

fn has_all(root: &Path, old: &[String]) {
    has_all_and(root, old, 0);
}

fn has_all_and(root: &Path, old: &[String], more: usize) {
    let reader = read(root);
    assert_eq!(bodies(&reader, "old", 3), old);
    assert_eq!(bodies(&reader, "beside", 0).len(), COUNT);
    assert_eq!(numbers(&reader), (0..LATER + more).collect::<Vec<_>>());
    assert_eq!(found(&reader, "k7"), 1);
}

type Lose = fn(&Path);

const LOSSES: [(&str, Lose); 7] = [
    ("the folder of the topic", |root| std::fs::remove_dir_all(root.join("consumequeue/old")).unwrap()),
    ("the folder of the queue", |root| std::fs::remove_dir_all(root.join("consumequeue/old/3")).unwrap()),
    ("all files", |root| {
        for first in [0, UNITS_IN_FILE] {
            std::fs::remove_file(old_file(root, first)).unwrap();
        }
    }),
    ("the newest file", |root| std::fs::remove_file(old_file(root, UNITS_IN_FILE)).unwrap()),
    ("the last units", |root| patch(&old_file(root, UNITS_IN_FILE), 20, |units| units.fill(0))),
    ("the last units, and another queue all of its own", |root| {
        patch(&old_file(root, UNITS_IN_FILE), 20, |units| units.fill(0));
        std::fs::remove_dir_all(root.join("consumequeue/beside")).unwrap();
    }),
    ("the last unit", |root| {
        patch(&old_file(root, UNITS_IN_FILE), 4 * 20, |units| units[..20].fill(0));
    }),
];

fn old_file(root: &Path, first: u64) -> std::path::PathBuf {
    root.join(format!("consumequeue/old/3/{:020}", first * 20))
}

#[test]
fn they_get_it_back_wherever_in_the_log_it_stands() {
    for (what, lose) in LOSSES {
        let root = tempfile::tempdir().unwrap();
        let old = closed(root.path());
        let whole = tree(&root.path().join("consumequeue"));
        lose(root.path());
        let left = tree(&root.path().join("consumequeue"));
        has_all(root.path(), &old);
        assert_eq!(tree(&root.path().join("consumequeue")), left, "{what}: reading changes nothing");
        let store = open(root.path());
        assert_eq!(found(&store, "k7"), 1, "{what}");
        store.close().unwrap();
        assert_eq!(tree(&root.path().join("consumequeue")), whole, "{what}");
        has_all(root.path(), &old);
        let store = open(root.path());
        assert_eq!(store.notes().dispatched_from, store.max_phy_offset(), "{what}: it has all of it again");
        assert_eq!(put(&store, "old", 3, b"next", "").logics_offset, NEXT, "{what}");
    }
}

/// So many messages that recovery begins behind all that was there when the store was closed.
const MORE: usize = 60;

/// Opens it twice, puts more, and kills the writer each time.
fn kill(root: &Path) {
    for (now_ms, from) in [(1_100_000, LATER), (1_200_000, LATER + MORE / 2)] {
        let store = open(root);
        store.clock.set(now_ms);
        fill(&store, from..from + MORE / 2);
        store.reput().unwrap();
        store.flush_everything().unwrap();
        crash(store);
    }
}

#[test]
fn after_a_crash_they_have_at_least_that() {
    for (what, lose) in LOSSES {
        let root = tempfile::tempdir().unwrap();
        let old = closed(root.path());
        let log_end = read(root.path()).max_phy_offset();
        kill(root.path());
        assert!(read(root.path()).notes().dispatched_from > log_end, "the walk has none of them");
        lose(root.path());
        has_all_and(root.path(), &old, MORE);
        crash(open(root.path()));
        has_all_and(root.path(), &old, MORE);
        lose(root.path());
        let store = open(root.path());
        assert_eq!(put(&store, "old", 3, b"next", "").logics_offset, NEXT, "{what}");
    }
}

/// What was removed since stays away, and what is under its name by now is whole.
#[test]
fn after_a_crash_a_queue_that_was_removed_is_not_missed() {
    for is_anew in [false, true] {
        let root = tempfile::tempdir().unwrap();
        closed(root.path());
        let store = open(root.path());
        store.destroy_queue(&store.find_consume_queue("old", 3).unwrap()).unwrap();
        if is_anew {
            put(&store, "old", 3, b"anew", "");
        }
        crash(store);
        let left = if is_anew { vec!["anew"] } else { Vec::new() };
        assert_eq!(bodies(&read(root.path()), "old", 3), left);
        let store = open(root.path());
        assert_eq!(bodies(&store, "old", 3), left);
        assert_eq!(put(&store, "old", 3, b"next", "").logics_offset, i64::from(is_anew));
    }
}

/// Whoever cut the log has put other messages where they were.
#[test]
fn after_a_crash_nothing_is_said_of_a_log_that_was_cut() {
    let root = tempfile::tempdir().unwrap();
    closed(root.path());
    let last = numbers(&read(root.path())).len() - 1;
    let end = read(root.path()).max_phy_offset();
    patch(&log_file(root.path(), end - end % LOG_FILE_SIZE), end % LOG_FILE_SIZE - 60, |at| at[0] ^= 1);
    let store = open_with(cutting(root.path()));
    store.clock.set(1_100_000);
    fill(&store, last..last + MORE);
    store.reput().unwrap();
    store.flush_everything().unwrap();
    crash(store);
    std::fs::remove_dir_all(root.path().join("consumequeue/old")).unwrap();
    assert!(read(root.path()).find_consume_queue("old", 3).is_none());
}

#[test]
fn a_queue_that_had_nothing_then_is_not_made() {
    let root = tempfile::tempdir().unwrap();
    closed(root.path());
    let store = open(root.path());
    store.destroy_queue(&store.find_consume_queue("old", 3).unwrap()).unwrap();
    store.close().unwrap();
    let store = open(root.path());
    assert!(store.find_consume_queue("old", 3).is_none());
    assert_eq!(put(&store, "old", 3, b"anew", "").logics_offset, 0);
}

/// Which of them is older is not asked: one that another writer left says nothing.
#[test]
fn what_another_writer_left_or_what_is_damaged_says_nothing() {
    let left_by_another: Lose = |root| {
        let path = root.join("mqstore/closed");
        let before = std::fs::read(&path).unwrap();
        open(root).close().unwrap();
        std::fs::write(path, before).unwrap();
    };
    let damaged: Lose = |root| patch(&root.join("mqstore/closed"), 50, |at| at[0] ^= 1);
    let cut: Lose = |root| std::fs::write(root.join("mqstore/closed"), []).unwrap();
    let alone: Lose = |root| std::fs::remove_file(root.join("mqstore/published")).unwrap();
    let killed_and_recovered_by_4_9_3: Lose = |root| {
        crash(open(root));
        std::fs::remove_file(root.join("abort")).unwrap();
    };
    for (number, change) in
        [left_by_another, damaged, cut, alone, killed_and_recovered_by_4_9_3].into_iter().enumerate()
    {
        let root = tempfile::tempdir().unwrap();
        closed(root.path());
        change(root.path());
        std::fs::remove_dir_all(root.path().join("consumequeue/old")).unwrap();
        let reader = read(root.path());
        assert!(reader.find_consume_queue("old", 3).is_none(), "{number}");
        assert_eq!(numbers(&reader), (0..LATER).collect::<Vec<_>>(), "{number}");
    }
}

/// As where 4.9.3 wrote since, which may have removed the queue.
#[test]
fn once_the_log_has_more_nothing_is_said() {
    let root = tempfile::tempdir().unwrap();
    closed(root.path());
    let own = tree(&root.path().join("mqstore"));
    let store = open(root.path());
    fill(&store, LATER..LATER + 1);
    store.close().unwrap();
    for (path, content) in own {
        if let Some(content) = content {
            std::fs::write(path, content).unwrap();
        }
    }
    std::fs::remove_dir_all(root.path().join("consumequeue/old")).unwrap();
    assert!(read(root.path()).find_consume_queue("old", 3).is_none());
}

/// The queue's files, and those of the log that its messages were in, which have expired.
fn lose_all_of_old(root: &Path) {
    for file in [0, LOG_FILE_SIZE] {
        std::fs::remove_file(log_file(root, file)).unwrap();
    }
    std::fs::remove_dir_all(root.join("consumequeue/old")).unwrap();
}

/// Whoever has read so far waits for them behind what there was.
#[test]
fn offsets_are_not_given_out_again_where_nothing_is_left_of_a_queue() {
    let root = tempfile::tempdir().unwrap();
    closed(root.path());
    lose_all_of_old(root.path());
    for _ in 0..2 {
        let store = open(root.path());
        assert_eq!(store.notes().dispatched_from, store.max_phy_offset(), "nothing is looked for");
        assert!(store.find_consume_queue("old", 3).is_none());
        store.close().unwrap();
    }
}

#[test]
fn what_is_put_behind_what_is_gone_is_there() {
    for compat in [false, true] {
        let root = tempfile::tempdir().unwrap();
        closed(root.path());
        lose_all_of_old(root.path());
        let store = open_with(StoreConfig { compat, ..config(root.path()) });
        assert_eq!(put(&store, "old", 3, b"next", "").logics_offset, NEXT);
        store.close().unwrap();
        assert_eq!(bodies(&read(root.path()), "old", 3), ["next"]);
    }
}

/// What can stand at no other place than the queue's end has that offset: 4.9.3's queues close gaps, and none is passed over that is
/// larger than blank units may fill.
#[test]
fn a_queue_goes_on_where_its_next_unit_can_stand() {
    const QUEUE: QueueRef<'_> = QueueRef { topic: b"old", queue_id: 3 };
    for (compat, next_offset, expected) in
        [(false, 1000, 1000), (true, 1000, 2), (false, 1 << 40, 2), (false, 1, 2)]
    {
        let root = tempfile::tempdir().unwrap();
        let store = open(root.path());
        for body in [b"0", b"1"] {
            put(&store, "old", 3, body, "");
        }
        store.close().unwrap();
        let path = root.path().join("mqstore/closed");
        let left = ClosedFile::read(std::fs::read(&path).unwrap()).unwrap();
        let changed = left.queues().map(|queue| ClosedQueue { next_offset, ..queue });
        std::fs::write(path, to_bytes(left.header(), changed)).unwrap();
        let store = open_with(StoreConfig { compat, ..config(root.path()) });
        assert_eq!(store.log().next_queue_offset(QUEUE), expected, "{compat} {next_offset}");
        put(&store, "old", 3, b"next", "");
        assert_eq!(bodies(&store, "old", 3), ["0", "1", "next"]);
    }
}

/// The files of a backup are older than the log; what follows the queue's last one has expired in part.
#[test]
fn an_older_copy_of_a_queue_gets_what_the_log_still_has() {
    let root = tempfile::tempdir().unwrap();
    let old = closed(root.path());
    std::fs::remove_file(log_file(root.path(), 0)).unwrap();
    let in_first = {
        let reader = read(root.path());
        COUNT - bodies(&reader, "old", 3).len()
    };
    assert!((1..COUNT).contains(&in_first));
    std::fs::remove_file(old_file(root.path(), UNITS_IN_FILE)).unwrap();
    patch(&old_file(root.path(), 0), 2 * 20, |units| units.fill(0));
    assert_eq!(bodies(&read(root.path()), "old", 3), old[in_first..]);
    let store = open(root.path());
    assert_eq!(put(&store, "old", 3, b"next", "").logics_offset, NEXT);
    let old: Vec<_> = old[in_first..].iter().cloned().chain(["next".into()]).collect();
    assert_eq!(bodies(&store, "old", 3), old);
}

#[test]
fn each_queue_is_named_once() {
    let root = tempfile::tempdir().unwrap();
    closed(root.path());
    let left = ClosedFile::read(std::fs::read(root.path().join("mqstore/closed")).unwrap()).unwrap();
    let mut queues: Vec<_> =
        left.queues().map(|queue| (queue.topic, queue.queue_id, queue.next_offset)).collect();
    queues.sort_unstable();
    let expected: [(&[u8], i32, u64); 3] =
        [(b"beside", 0, COUNT as u64), (b"old", 3, COUNT as u64), (b"t", 0, LATER as u64)];
    assert_eq!(queues, expected);
}

#[test]
fn who_removes_the_store_removes_what_says_that_it_was_closed() {
    let root = tempfile::tempdir().unwrap();
    closed(root.path());
    open(root.path()).destroy().unwrap();
    assert!(!root.path().join("mqstore/closed").exists());
}
