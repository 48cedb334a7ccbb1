//! The writer's position and the bytes below it; space that is made ahead of the writer.

use std::ops::ControlFlow;
use std::sync::atomic::Ordering;

use mqstore_core::commit_log::scan::{ScanEnd, scan};
use mqstore_core::format::message::Check;
use mqstore_core::store::{Finishing, Store};

use crate::stores::{config, fields, fill, open, open_with, put, record_bytes};
use crate::{AtomicBool, FOREVER, run, thread};

/// Walks the log to an end that was read before, and gives how many records are below it.
fn count_below_end(store: &Store) -> usize {
    let end = store.log().max_offset();
    let mut count = 0;
    let reached = scan(store.log().files(), 0, end, Check::BodyCrc, |_, _, _| {
        count += 1;
        Ok(ControlFlow::Continue(()))
    });
    assert_eq!(reached.unwrap(), ScanEnd::Reached(end));
    count
}

#[test]
fn what_is_below_the_end_is_whole() {
    run(|| {
        let root = tempfile::tempdir().unwrap();
        let store = open(root.path());
        thread::scope(|scope| {
            // Seventeen records fill a file: the last ones stand in the next.
            scope.spawn(|| fill(&store, 0..10));
            scope.spawn(|| fill(&store, 10..20));
            let mut seen = 0;
            for _ in 0..4 {
                let count = count_below_end(&store);
                assert!(count >= seen, "{count} records are below the end where {seen} were");
                seen = count;
                thread::yield_now();
            }
        });
        assert_eq!(count_below_end(&store), 20);
    });
}

/// What an op ends stands at offsets of its own log.
#[test]
fn what_speaks_of_places_comes_to_its_own_or_is_left_out() {
    run(|| {
        let root = tempfile::tempdir().unwrap();
        let store = open(root.path());
        let op = record_bytes(&fields("RMQ_SYS_TRANS_OP_HALF_TOPIC", 0, b"0", ""), 0, 0);
        let leave_out = Finishing { leaves_out_places: true, ..Finishing::default() };
        let mut done = Vec::new();
        thread::scope(|scope| {
            scope.spawn(|| fill(&store, 0..1));
            scope.spawn(|| store.append_records(&[&op], &leave_out, &mut done).map(drop).unwrap());
        });
        assert!(done.iter().all(|appended| appended.wrote_offset == 0), "{done:?}");
        assert_eq!(count_below_end(&store), 1 + done.len());
    });
}

#[test]
fn a_store_time_is_that_of_a_record_below_the_end() {
    run(|| {
        let root = tempfile::tempdir().unwrap();
        let store = open(root.path());
        thread::scope(|scope| {
            scope.spawn(|| {
                store.clock.set(2_000_000);
                fill(&store, 0..1);
            });
            for _ in 0..5 {
                let time = store.log().last_store_timestamp();
                assert!(time == 0 || count_below_end(&store) == 1, "nothing of {time} is below the end");
                thread::yield_now();
            }
        });
    });
}

#[test]
fn what_is_committed_from_memory_is_whole() {
    run(|| {
        let root = tempfile::tempdir().unwrap();
        let mut config = config(root.path());
        config.transient_store_pool_enable = true;
        config.transient_store_pool_size = 2;
        let store = open_with(config);
        thread::scope(|scope| {
            scope.spawn(|| fill(&store, 0..20));
            scope.spawn(|| {
                for _ in 0..3 {
                    store.log().commit(0).unwrap();
                }
            });
            for _ in 0..3 {
                count_below_end(&store);
                thread::yield_now();
            }
        });
        store.log().commit(0).unwrap();
        assert_eq!(count_below_end(&store), 20);
    });
}

/// What goes on while passes make space ahead in files of 4 MiB.
fn beside_allocation(append: impl Fn(&Store) + Send + Sync + Copy + 'static) {
    run(move || {
        let root = tempfile::tempdir().unwrap();
        let mut config = config(root.path());
        // Large enough for steps, and for a next file that is made ahead.
        config.mapped_file_size_commit_log = 4 << 20;
        let store = open_with(config);
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Acquire) {
                    store.log().reserve_pass(FOREVER).unwrap();
                }
            });
            scope.spawn(|| {
                while !is_over.load(Ordering::Acquire) {
                    store.log().make_next_pass(FOREVER).unwrap();
                }
            });
            append(&store);
            is_over.store(true, Ordering::Release);
            store.log().wake_allocator();
        });
    });
}

#[test]
fn space_is_made_ahead_until_somebody_ends_that() {
    beside_allocation(|store| fill(store, 0..1));
}

#[test]
fn a_file_is_made_once_by_who_needs_it_or_ahead() {
    beside_allocation(|store| {
        for _ in 0..3 {
            // Of these each file holds two.
            put(store, "t", 0, &vec![7; 3 << 19], "");
        }
    });
}
