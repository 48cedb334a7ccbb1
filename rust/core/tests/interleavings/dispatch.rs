//! Passes over the log by the reput service and by readers, and what they hand to queues and listeners.

use mqstore_core::commit_log::topic_queue::QueueRef;
use mqstore_core::config::StoreConfig;
use mqstore_core::index::KeyQuery;
use mqstore_core::store::Store;

use crate::stores::{LOG_FILE_SIZE, bodies_of, config, log_file, message, numbers, open, open_with, try_put};
use crate::{run, thread};

fn put_numbered(store: &Store, number: usize) -> i64 {
    let (body, properties) = (number.to_string(), format!("KEYS\x01k{number}"));
    try_put(store, &message("t", 0, body.as_bytes(), &properties)).unwrap().logics_offset
}

/// Gets numbered messages, each of which has its number for its offset, and gives where the next get goes on.
fn get_from(store: &Store, from: i64, wanted: usize) -> i64 {
    let got = store.get_message("t", 0, from, wanted, None).unwrap();
    let expected: Vec<_> = (from..got.next_begin_offset).map(|number| number.to_string()).collect();
    assert_eq!(bodies_of(&got), expected);
    got.next_begin_offset
}

#[test]
fn what_was_put_is_found_at_once() {
    run(|| {
        let root = tempfile::tempdir().unwrap();
        let store = open(root.path());
        store.dispatcher().set_listening(true);
        thread::scope(|scope| {
            for first in [0, 100] {
                let store = &store;
                scope.spawn(move || {
                    for number in first..first + 2 {
                        let offset = put_numbered(store, number);
                        let got = store.get_message("t", 0, offset, 1, None).unwrap();
                        assert_eq!(bodies_of(&got), [number.to_string()]);
                        let key = format!("k{number}");
                        let (topic, key) = (b"t".as_slice(), key.as_bytes());
                        let query = KeyQuery { topic, key, max_num: 9, begin: 0, end: i64::MAX };
                        assert_eq!(store.query_message(&query).unwrap().len(), 1);
                    }
                });
            }
            for _ in 0..3 {
                store.reput().unwrap();
                thread::yield_now();
            }
        });
        assert_eq!((store.reput().unwrap(), store.dispatcher().message_count()), (0, 4));
        let told: Vec<_> = store.dispatcher().take_arrivals().iter().map(|one| one.max_offset).collect();
        assert_eq!(told, [1, 2, 3, 4]);
    });
}

#[test]
fn a_get_passes_over_nothing_that_is_put_meanwhile() {
    run(|| {
        let root = tempfile::tempdir().unwrap();
        let store = open(root.path());
        put_numbered(&store, 0);
        store.reput().unwrap();
        let mut next = 0;
        thread::scope(|scope| {
            scope.spawn(|| {
                put_numbered(&store, 1);
                store.reput().unwrap();
            });
            for wanted in [32, 1, 1, 1] {
                next = get_from(&store, next, wanted);
                thread::yield_now();
            }
        });
        while next < 2 {
            next = get_from(&store, next, 32);
        }
    });
}

#[test]
fn a_queue_has_no_holes_while_it_is_written_to_its_files() {
    run(|| {
        let root = tempfile::tempdir().unwrap();
        let store = open(root.path());
        thread::scope(|scope| {
            // Two queue files and the begin of a third.
            scope.spawn(|| {
                for number in 0..21 {
                    put_numbered(&store, number);
                    if number % 4 == 0 {
                        store.reput().unwrap();
                    }
                }
            });
            scope.spawn(|| {
                for _ in 0..3 {
                    store.flush_consume_queues(0).unwrap();
                    thread::yield_now();
                }
            });
            for _ in 0..3 {
                let found = numbers(&store);
                assert_eq!(found, (0..found.len()).collect::<Vec<_>>());
                thread::yield_now();
            }
        });
        assert_eq!(numbers(&store), (0..21).collect::<Vec<_>>());
    });
}

#[test]
fn a_slave_whose_log_begins_anywhere_dispatches_it_from_its_begin() {
    run(|| {
        let (root, slave_root) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let master = open(root.path());
        for number in 0..3 {
            let body = format!("{number}{}", "x".repeat(1800));
            try_put(&master, &message("t", 0, body.as_bytes(), "")).unwrap();
        }
        let end = usize::try_from(master.max_phy_offset() - LOG_FILE_SIZE).unwrap();
        let newest = std::fs::read(log_file(root.path(), LOG_FILE_SIZE)).unwrap();
        let slave = open_with(StoreConfig { is_slave: true, ..config(slave_root.path()) });
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut at = LOG_FILE_SIZE;
                for part in newest[..end].chunks(1000) {
                    slave.append_to_commit_log(at, part).unwrap();
                    at += u64::try_from(part.len()).unwrap();
                }
            });
            for _ in 0..4 {
                slave.reput().unwrap();
                thread::yield_now();
            }
        });
        slave.reput().unwrap();
        assert_eq!((slave.gaps(), slave.dispatcher().message_count()), (Vec::new(), 1));
    });
}

/// What is dispatched to one of two would not be in the other.
#[test]
fn a_queue_that_is_asked_for_while_it_is_made_is_made_once() {
    run(|| {
        let root = tempfile::tempdir().unwrap();
        let store = open(root.path());
        let asked = thread::scope(|scope| {
            let asked = scope.spawn(|| store.make_queue(QueueRef { topic: b"t", queue_id: 0 }).unwrap());
            put_numbered(&store, 0);
            store.reput().unwrap();
            asked.join().unwrap()
        });
        assert_eq!(asked.max_offset_in_queue(), 1);
    });
}
