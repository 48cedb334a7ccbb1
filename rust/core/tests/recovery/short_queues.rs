//! Queues that lost their end, of a closed store while another has the log's last message, of another one before what is
//! dispatched again.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use mqstore_core::config::{StoreConfig, WalkedParts};
use mqstore_core::recovery::{StoreState, recover};
use mqstore_core::store::Store;

use crate::parts::{Parts, set_positions};
use crate::stores::{
    LOG_FILE_SIZE, UNITS_IN_FILE, bodies, config, crash, fill, forget_closed, log_file, numbers, open, patch,
    put, read, tree, walked_parts,
};

/// So many that the log has files before the newest three.
const COUNT: usize = 75;

/// A store of two messages of one queue and one of another by turns, closed as 4.9.3 does, which leaves nothing that says
/// where its queues end. Gives where those of the first stand.
fn closed(root: &Path) -> Vec<u64> {
    let store = open(root);
    for number in 0..COUNT {
        fill(&store, number..number + 1);
        if number.is_multiple_of(2) {
            put(&store, "u", 0, b"u", "");
        }
    }
    store.close().unwrap();
    forget_closed(root);
    let places = (0..COUNT as u64).map(|index| place(&store, index)).collect();
    assert!(store.max_phy_offset() > 4 * LOG_FILE_SIZE);
    places
}

fn place(store: &Store, index: u64) -> u64 {
    let queue = store.find_consume_queue("t", 0).unwrap();
    queue.unit(index).unwrap().unwrap().physical_offset.cast_unsigned()
}

fn queue_file(root: &Path, first_unit: u64) -> PathBuf {
    root.join(format!("consumequeue/t/0/{:020}", first_unit * 20))
}

/// Writes something over all units of a queue from one on.
fn damage(root: &Path, from: u64, byte: u8) {
    for file in from / UNITS_IN_FILE..=COUNT as u64 / UNITS_IN_FILE {
        let first = from.saturating_sub(file * UNITS_IN_FILE);
        patch(&queue_file(root, file * UNITS_IN_FILE), first * 20, |units| units.fill(byte));
    }
}

/// The queues' files with zeros for the first one's last unit.
fn without_last_unit(root: &Path) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
    let mut files = tree(&root.join("consumequeue"));
    let last_file = COUNT as u64 / UNITS_IN_FILE * UNITS_IN_FILE;
    let file = files.get_mut(&queue_file(root, last_file));
    let unit = (COUNT - usize::try_from(last_file).unwrap()) * 20;
    file.unwrap().as_mut().unwrap()[unit..unit + 20].fill(0);
    files
}

/// Where dispatch begins, as one thread finds it and as several do.
fn dispatched_from(root: &Path) -> u64 {
    dispatched_from_in(root, StoreState::Closed)
}

fn dispatched_from_in(root: &Path, state: StoreState) -> u64 {
    let found = [1, 3].map(|thread_count| {
        let walked_parts = WalkedParts { thread_count, ..walked_parts(512) };
        let parts = Parts::with(StoreConfig { walked_parts, ..config(root) });
        recover(parts.recovered(state)).unwrap().dispatch_from
    });
    assert_eq!(found[0], found[1]);
    found[0]
}

#[test]
fn what_they_lost_is_dispatched_again_whatever_stands_there() {
    // Zeros, units without a size, and units of what the log does not have.
    for byte in [0, 0x99, 0x11] {
        for lost_from in [0, 7, 10, 70, 71, 74] {
            let what = format!("{byte:#x} from {lost_from} on");
            let root = tempfile::tempdir().unwrap();
            let places = closed(root.path());
            let whole = tree(&root.path().join("consumequeue"));
            damage(root.path(), lost_from, byte);
            let damaged = tree(&root.path().join("consumequeue"));
            let first = usize::try_from(lost_from).unwrap();
            assert!(dispatched_from(root.path()) <= places[first], "{what}");
            assert_eq!(numbers(&read(root.path())), (0..COUNT).collect::<Vec<_>>(), "{what}");
            assert_eq!(tree(&root.path().join("consumequeue")), damaged, "{what}");
            let store = open(root.path());
            assert_eq!(put(&store, "t", 0, b"75", "").logics_offset, 75, "{what}");
            assert_eq!(numbers(&store), (0..=COUNT).collect::<Vec<_>>(), "{what}");
            store.close().unwrap();
            assert_eq!(without_last_unit(root.path()), whole, "{what}: of what stood there nothing is left");
        }
    }
}

#[test]
fn dispatch_begins_at_the_first_record_that_lost_its_unit() {
    for lost_from in [1, 20, 74] {
        let root = tempfile::tempdir().unwrap();
        let places = closed(root.path());
        damage(root.path(), lost_from, 0);
        assert_eq!(dispatched_from(root.path()), places[usize::try_from(lost_from).unwrap()]);
    }
}

/// Each is told by a record of its own, of which the first counts.
#[test]
fn dispatch_begins_at_the_first_record_that_any_of_several_queues_lost() {
    for lost_from in [70, 74] {
        let root = tempfile::tempdir().unwrap();
        let places = closed(root.path());
        damage(root.path(), lost_from, 0);
        let last_of_other = COUNT as u64 / 2;
        let other = root
            .path()
            .join(format!("consumequeue/u/0/{:020}", last_of_other / UNITS_IN_FILE * UNITS_IN_FILE * 20));
        patch(&other, last_of_other % UNITS_IN_FILE * 20, |units| units.fill(0));
        assert_eq!(dispatched_from(root.path()), places[usize::try_from(lost_from).unwrap()]);
        let reader = read(root.path());
        assert_eq!(numbers(&reader), (0..COUNT).collect::<Vec<_>>());
        assert_eq!(bodies(&reader, "u", 0).len(), COUNT.div_ceil(2));
    }
}

/// A Java store does not say which queues it removed.
#[test]
fn a_queue_without_a_folder_was_removed() {
    let root = tempfile::tempdir().unwrap();
    closed(root.path());
    std::fs::remove_dir_all(root.path().join("consumequeue/t/0")).unwrap();
    let store = open(root.path());
    assert_eq!(store.notes().dispatched_from, store.max_phy_offset());
    assert!(store.find_consume_queue("t", 0).is_none());
    // One that began again behind that has all its units.
    fill(&store, 0..3);
    store.close().unwrap();
    assert_eq!(numbers(&read(root.path())), [0, 1, 2]);
    assert_eq!(dispatched_from(root.path()), store.max_phy_offset());
}

/// Nobody removes a queue in which messages wait: they would never be delivered.
#[test]
fn a_queue_of_delayed_messages_without_a_folder_is_made_again() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    for number in 0..COUNT {
        put(&store, "t", 0, number.to_string().as_bytes(), "DELAY\x011");
        fill(&store, number..number + 1);
    }
    store.close().unwrap();
    let waiting = bodies(&read(root.path()), "SCHEDULE_TOPIC_XXXX", 0);
    assert_eq!(waiting.len(), COUNT);
    std::fs::remove_dir_all(root.path().join("consumequeue/SCHEDULE_TOPIC_XXXX")).unwrap();
    assert_eq!(bodies(&read(root.path()), "SCHEDULE_TOPIC_XXXX", 0), waiting);
    let store = open(root.path());
    put(&store, "t", 0, b"one more", "DELAY\x011");
    let waiting: Vec<_> = waiting.into_iter().chain(["one more".to_owned()]).collect();
    assert_eq!(bodies(&store, "SCHEDULE_TOPIC_XXXX", 0), waiting);
    assert_eq!(numbers(&store), (0..COUNT).collect::<Vec<_>>());
}

#[test]
fn what_stays_away_with_a_removed_queue_is_not_lost() {
    let root = tempfile::tempdir().unwrap();
    closed(root.path());
    let store = open(root.path());
    store.destroy_queue(&store.find_consume_queue("t", 0).unwrap()).unwrap();
    fill(&store, 0..3);
    put(&store, "u", 0, b"u", "");
    store.close().unwrap();
    forget_closed(root.path());
    let first = place(&store, 0);
    drop(store);
    patch(&queue_file(root.path(), 0), 0, |units| units.fill(0));
    assert_eq!(read(root.path()).notes().dispatched_from, first);
    assert_eq!(numbers(&open(root.path())), [0, 1, 2]);
}

/// A record that says a place behind its queue's end is not taken for one that the queue lost.
#[test]
fn a_jump_of_offsets_is_no_lost_end() {
    const QUEUE_OFFSET_AT: u64 = 20;
    let root = tempfile::tempdir().unwrap();
    let places = closed(root.path());
    let last = *places.last().unwrap();
    let log = log_file(root.path(), last - last % LOG_FILE_SIZE);
    damage(root.path(), 74, 0);
    patch(&log, last % LOG_FILE_SIZE + QUEUE_OFFSET_AT + 7, |at| at[0] ^= 64);
    let reader = read(root.path());
    assert_eq!(reader.notes().dispatched_from, reader.max_phy_offset());
    assert_eq!(numbers(&reader), (0..COUNT - 1).collect::<Vec<_>>());
}

/// How many messages of the first queue a store that was not closed has before the log's last file, and in all.
const BEFORE_LAST: usize = 40;
const IN_ALL: usize = 42;

/// A store that was not closed, all of it on the disk, whose recovery begins with the log's last file: that has messages of both
/// queues. Gives where those of the first stand.
fn not_closed(root: &Path) -> Vec<u64> {
    let store = open(root);
    put(&store, "u", 0, b"u", "");
    fill(&store, 0..BEFORE_LAST);
    for now_ms in [1_005_000, 1_010_000, 1_015_000] {
        store.clock.set(now_ms);
        put(&store, "u", 0, &[b'u'; 3000], "");
    }
    store.clock.set(1_020_000);
    fill(&store, BEFORE_LAST..IN_ALL);
    store.reput().unwrap();
    store.flush_everything().unwrap();
    let places = (0..IN_ALL as u64).map(|index| place(&store, index)).collect();
    crash(store);
    places
}

/// Makes of a queue's files what they were when it had so many messages.
fn make_older(root: &Path, count: u64) {
    if count == 0 {
        std::fs::remove_dir_all(root.join("consumequeue/t")).unwrap();
        return;
    }
    for file in 0..=IN_ALL as u64 / UNITS_IN_FILE {
        let path = queue_file(root, file * UNITS_IN_FILE);
        let kept = count.saturating_sub(file * UNITS_IN_FILE);
        if kept == 0 {
            std::fs::remove_file(path).unwrap();
        } else if kept < UNITS_IN_FILE {
            patch(&path, kept * 20, |units| units.fill(0));
        }
    }
}

/// As in a copy that was made file by file of a live store: the positions are of a later time than the queue.
#[test]
fn what_older_files_of_a_queue_lack_is_dispatched_again_after_a_crash() {
    for count in [0, 7, 20, 39] {
        let what = format!("{count} messages");
        let root = tempfile::tempdir().unwrap();
        let places = not_closed(root.path());
        make_older(root.path(), count);
        let first_lost = places[usize::try_from(count).unwrap()];
        assert!(dispatched_from_in(root.path(), StoreState::Crashed) <= first_lost, "{what}");
        assert_eq!(numbers(&read(root.path())), (0..IN_ALL).collect::<Vec<_>>(), "{what}");
        let store = open(root.path());
        assert_eq!(put(&store, "t", 0, b"42", "").logics_offset, 42, "{what}");
        assert_eq!(numbers(&store), (0..=IN_ALL).collect::<Vec<_>>(), "{what}");
        assert_eq!(bodies(&store, "u", 0).len(), 4, "{what}");
    }
}

#[test]
fn where_no_queue_lacks_anything_dispatch_begins_after_a_crash_where_they_were_known_to_be_whole() {
    let root = tempfile::tempdir().unwrap();
    let places = not_closed(root.path());
    let end = places[IN_ALL - 1] + 1;
    let last_file = places[IN_ALL - 1] / LOG_FILE_SIZE * LOG_FILE_SIZE;
    set_positions(root.path(), end, end, end);
    assert_eq!(dispatched_from_in(root.path(), StoreState::Crashed), last_file);
    // Of the other queue one message is before that place, one behind it, and the next one in the last file.
    set_positions(root.path(), end, places[20], end);
    assert_eq!(dispatched_from_in(root.path(), StoreState::Crashed), places[20]);
    // Of the first one those from there on are missing, of which the walk has the last two.
    make_older(root.path(), 10);
    assert_eq!(dispatched_from_in(root.path(), StoreState::Crashed), places[10]);
}
