//! A slave has records from its master, in one of which a bit may have flipped: that costs one message.

use std::ops::Range;
use std::path::Path;
use std::sync::Barrier;
use std::thread;

use mqstore_core::commit_log::topic_queue::QueueRef;
use mqstore_core::config::StoreConfig;
use mqstore_core::consume_queue::RejectReason;
use mqstore_core::error::Error;
use mqstore_core::format::message::RecordFault;
use mqstore_core::store::{Mode, Store};

use crate::stores::{
    Opened, config, crash, fill, found, log_file, numbers, open_with, patch, put, read, try_open,
};

const QUEUE_OFFSET_AT: u64 = 20;
const COUNT: usize = 20;
/// A log that no other file follows.
const FILE_SIZE: u64 = 1 << 16;

fn config_of(root: &Path, is_slave: bool) -> StoreConfig {
    StoreConfig { is_slave, mapped_file_size_commit_log: FILE_SIZE, ..config(root) }
}

fn slave(root: &Path) -> Opened {
    open_with(config_of(root, true))
}

/// A master's log, with where each record begins and the last one ends.
struct Log {
    bytes: Vec<u8>,
    begins: Vec<u64>,
}

impl Log {
    /// With one record that says another offset.
    fn with(bad: usize, change: impl FnOnce(&mut [u8])) -> Self {
        let root = tempfile::tempdir().unwrap();
        let store = open_with(config_of(root.path(), false));
        let mut begins = vec![0];
        for number in 0..COUNT {
            fill(&store, number..number + 1);
            begins.push(store.max_phy_offset());
        }
        store.close().unwrap();
        let path = log_file(root.path(), 0);
        patch(&path, begins[bad] + QUEUE_OFFSET_AT, |bytes| change(&mut bytes[..8]));
        Self { bytes: std::fs::read(path).unwrap(), begins }
    }

    fn send(&self, records: Range<usize>, slave: &Store) {
        let [from, to] = [records.start, records.end].map(|number| self.begins[number]);
        let bytes = &self.bytes[usize::try_from(from).unwrap()..usize::try_from(to).unwrap()];
        slave.append_to_commit_log(from, bytes).unwrap();
    }
}

fn further(bytes: &mut [u8]) {
    bytes[6] ^= 1;
}

fn all_but(bad: usize) -> Vec<usize> {
    (0..COUNT).filter(|&number| number != bad).collect()
}

/// What a store gives where one record is told to be no place's.
fn check_without(bad: usize, store: &Store, log: &Log) {
    assert_eq!(numbers(store), all_but(bad));
    let queue = store.find_consume_queue("t", 0).unwrap();
    assert_eq!(queue.max_offset_in_queue(), COUNT as u64);
    let begins = (bad + 1..COUNT).map(|index| queue.unit(index as u64).unwrap().unwrap().physical_offset);
    assert!(begins.eq(log.begins[bad + 1..COUNT].iter().map(|&begin| i64::try_from(begin).unwrap())));
    assert_eq!((found(store, "k2"), found(store, "k19")), (1, 1));
    assert_eq!(store.rejected(), [], "what was told before it was taken back is served");
    assert_eq!(store.rejected_count(), 0);
}

/// Messages that dispatch told to be served by nothing: offset in the queue, place in the log.
fn told(store: &Store) -> Vec<(i64, u64)> {
    let rejected = store.rejected();
    assert!(rejected.iter().all(|rejected| rejected.reason == RejectReason::OffsetTaken));
    rejected.iter().map(|found| (found.queue_offset, u64::try_from(found.physical_offset).unwrap())).collect()
}

#[test]
fn one_record_further_than_its_queue_costs_one_message() {
    // The one behind it, which the next message has as well, and one further away.
    let cases = [0, 1, 7, 18].into_iter().flat_map(|bad: usize| [(bad, bad + 1), (bad, bad + 256)]);
    for (bad, said) in cases {
        let said = said as u64;
        let log = Log::with(bad, |bytes| bytes.copy_from_slice(&said.to_be_bytes()));
        // Up to which record each pass has the log.
        for parts in [vec![COUNT], vec![bad + 1, COUNT], vec![bad + 1, bad + 2, COUNT], (1..=COUNT).collect()]
        {
            let root = tempfile::tempdir().unwrap();
            let store = slave(root.path());
            let mut sent = 0;
            for to in parts {
                log.send(sent..to, &store);
                store.reput().unwrap();
                store.flush_everything().unwrap();
                sent = to;
            }
            check_without(bad, &store, &log);
            let told: Vec<_> = store.gaps().iter().map(|gap| (gap.from, gap.to)).collect();
            assert_eq!(told, [(log.begins[bad], log.begins[bad + 1])]);
            assert!(
                matches!(store.gaps()[0].fault, Some(RecordFault::Misplaced { queue_offset, .. }) if u64::try_from(queue_offset) == Ok(said))
            );
            check_without(bad, &read(root.path()), &log);
            store.close().unwrap();
            check_without(bad, &read(root.path()), &log);
            check_without(bad, &slave(root.path()), &log);
        }
    }
}

#[test]
fn what_tells_may_come_once_the_store_is_open_again() {
    let bad = 7;
    let log = Log::with(bad, further);
    for is_killed in [false, true] {
        for is_flushed in [false, true] {
            let root = tempfile::tempdir().unwrap();
            let store = slave(root.path());
            log.send(0..bad + 1, &store);
            store.reput().unwrap();
            if is_flushed {
                store.flush_everything().unwrap();
            }
            if is_killed {
                crash(store);
            } else {
                store.close().unwrap();
            }
            let store = slave(root.path());
            log.send(bad + 1..COUNT, &store);
            store.reput().unwrap();
            check_without(bad, &store, &log);
            crash(store);
            check_without(bad, &read(root.path()), &log);
            // As where a record is bad in any other way.
            let refused = try_open(config_of(root.path(), true), Mode::ReadWrite).map(drop);
            let Err(Error::Damaged { offset, fault: RecordFault::Misplaced { .. }, .. }) = refused else {
                panic!("{refused:?}")
            };
            assert_eq!(offset, log.begins[bad]);
        }
    }
}

#[test]
fn a_reader_beside_it_takes_back_what_it_has_in_memory() {
    let log = Log::with(7, further);
    let root = tempfile::tempdir().unwrap();
    let store = slave(root.path());
    log.send(0..8, &store);
    let reader = read(root.path());
    assert_eq!(reader.find_consume_queue("t", 0).unwrap().max_offset_in_queue(), 7 + 256 + 1);
    log.send(8..COUNT, &store);
    reader.refresh().unwrap();
    check_without(7, &reader, &log);
}

/// The next one is wrong as well, and says an offset in between.
#[test]
fn two_that_follow_each_other_tell_as_well() {
    let bad = 7;
    let mut log = Log::with(bad, further);
    let next = usize::try_from(log.begins[bad + 1] + QUEUE_OFFSET_AT).unwrap();
    log.bytes[next + 7] ^= 4;
    let root = tempfile::tempdir().unwrap();
    let store = slave(root.path());
    for number in 0..COUNT {
        log.send(number..number + 1, &store);
        store.reput().unwrap();
    }
    let expected: Vec<_> = (0..COUNT).filter(|&number| ![bad, bad + 1].contains(&number)).collect();
    assert_eq!(numbers(&store), expected);
    assert_eq!(told(&store), []);
}

/// Where messages are missing, the queue goes on behind them: a single one that says an earlier place is the one that is wrong.
#[test]
fn a_queue_that_goes_on_further_stays_where_it_is() {
    let root = tempfile::tempdir().unwrap();
    let (master_root, bad) = (tempfile::tempdir().unwrap(), 9);
    let master = open_with(config_of(master_root.path(), false));
    fill(&master, 0..5);
    master.log().set_next_queue_offset(QueueRef { topic: b"t", queue_id: 0 }, 40);
    let mut begins = Vec::new();
    for number in 5..COUNT {
        begins.push(put(&master, "t", 0, format!("{number}").as_bytes(), "").wrote_offset);
    }
    let end = usize::try_from(master.max_phy_offset()).unwrap();
    master.close().unwrap();
    let path = log_file(master_root.path(), 0);
    // The one at 44 says 12, which is none of the two that the queue had before would be followed by.
    patch(&path, begins[bad - 5] + QUEUE_OFFSET_AT, |bytes| bytes[7] ^= 0x20);
    let bytes = std::fs::read(path).unwrap();
    let store = slave(root.path());
    store.append_to_commit_log(0, &bytes[..end]).unwrap();
    store.reput().unwrap();
    assert_eq!(numbers(&store), all_but(bad));
    assert_eq!(store.find_consume_queue("t", 0).unwrap().max_offset_in_queue(), 55);
    assert_eq!(told(&store), [(12, begins[bad - 5])]);
}

/// Its master lost the queue's files, or somebody removed them: what a slave has of it stays, and what comes is in the log alone.
#[test]
fn messages_of_a_queue_that_its_master_began_anew_are_told() {
    let (root, master_root) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let master = open_with(config_of(master_root.path(), false));
    fill(&master, 0..5);
    master.log().set_next_queue_offset(QueueRef { topic: b"t", queue_id: 0 }, 0);
    let anew: Vec<_> = (0..3).map(|at| (at, put(&master, "t", 0, b"anew", "").wrote_offset)).collect();
    let end = usize::try_from(master.max_phy_offset()).unwrap();
    master.close().unwrap();
    let bytes = std::fs::read(log_file(master_root.path(), 0)).unwrap();
    let store = slave(root.path());
    store.append_to_commit_log(0, &bytes[..end]).unwrap();
    store.reput().unwrap();
    assert_eq!(told(&store), anew);
    assert_eq!(numbers(&store), (0..5).collect::<Vec<_>>());
}

/// What is dispatched again is there already in another queue, which tells nothing of it twice.
#[test]
fn what_was_told_of_another_queue_stays_told() {
    let (root, master_root) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let master = open_with(config_of(master_root.path(), false));
    fill(&master, 0..7);
    let bad = put(&master, "t", 0, b"7", "").wrote_offset;
    let other: Vec<_> = (0..4).map(|_| put(&master, "t", 1, b"other", "").wrote_offset).collect();
    let parts = [0, master.max_phy_offset()];
    fill(&master, 8..12);
    let ends = [parts[1], master.max_phy_offset()];
    master.close().unwrap();
    let path = log_file(master_root.path(), 0);
    patch(&path, bad + QUEUE_OFFSET_AT, further);
    patch(&path, other[2] + QUEUE_OFFSET_AT, |bytes| bytes[7] = 1);
    let bytes = std::fs::read(path).unwrap();
    let store = slave(root.path());
    for (from, end) in parts.into_iter().zip(ends) {
        let part = usize::try_from(from).unwrap()..usize::try_from(end).unwrap();
        store.append_to_commit_log(from, &bytes[part]).unwrap();
        store.reput().unwrap();
        assert_eq!(told(&store), [(1, other[2])]);
    }
    assert_eq!(store.find_consume_queue("t", 0).unwrap().max_offset_in_queue(), 12);
    assert_eq!(store.rejected_count(), 1);
}

/// Passes of several threads may all meet it before one has taken it back: what stands behind it by then stays.
#[test]
fn threads_that_dispatch_side_by_side_take_it_back_once() {
    let log = Log::with(7, further);
    for _ in 0..200 {
        let root = tempfile::tempdir().unwrap();
        let store = slave(root.path());
        log.send(0..COUNT, &store);
        let start = Barrier::new(3);
        thread::scope(|threads| {
            for _ in 0..3 {
                threads.spawn(|| {
                    start.wait();
                    store.reput().unwrap();
                    assert_eq!(numbers(&store), all_but(7));
                });
            }
        });
        check_without(7, &store, &log);
    }
}
