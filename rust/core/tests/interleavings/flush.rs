//! Group commit: nobody is told too early, and everybody who waits is told.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use mqstore_core::clock::ManualClock;
use mqstore_core::commit_log::Wait;
use mqstore_core::status::PutMessageStatus;
use mqstore_core::store::{Mode, PutStep, Store};
use nix::errno::Errno;

use crate::faulty::{Call, Fault, FaultyFileSystem};
use crate::stores::{config, fill, fs, message, open_with};
use crate::{AtomicBool, FOREVER, run, thread};

/// Puts a message and gives up to where it has to be flushed; `None` where it is refused.
fn try_put_to_wait(store: &Store, body: &[u8]) -> Option<u64> {
    match store.put_message(&message("t", 0, body, ""), Wait::Block) {
        PutStep::Done(done) => done.wait_for,
        _ => None,
    }
}

fn put_to_wait(store: &Store, body: &[u8]) -> u64 {
    try_put_to_wait(store, body).unwrap()
}

fn sync_flushed(root: &std::path::Path) -> crate::stores::Opened {
    let mut config = config(root);
    config.sync_flush = true;
    open_with(config)
}

/// Three threads put and wait, while the service makes passes.
fn everybody_is_told(pass: impl Fn(&Store) -> bool + Send + Sync + Copy + 'static) {
    run(move || {
        let root = tempfile::tempdir().unwrap();
        let store = sync_flushed(root.path());
        thread::scope(|scope| {
            let flusher = scope.spawn(|| while !pass(&store) {});
            let putters = [1, 2, 3].map(|number: u8| {
                let store = &store;
                scope.spawn(move || {
                    for _ in 0..2 {
                        let end = put_to_wait(store, &[number]);
                        assert_eq!(store.wait_flushed(end, FOREVER).unwrap(), PutMessageStatus::PutOk);
                        assert!(store.log().flushed_offset() >= end);
                    }
                })
            });
            putters.into_iter().for_each(|putter| putter.join().unwrap());
            store.log().wake_flusher();
            flusher.join().unwrap();
        });
        assert_eq!(store.log().remain_how_many_data_to_flush(), 0);
    });
}

#[test]
fn everybody_who_waits_for_a_flush_is_told() {
    everybody_is_told(|store| store.log().group_commit_pass(FOREVER, true).unwrap().was_woken);
}

#[test]
fn threads_that_wait_flush_and_tell_each_other() {
    everybody_is_told(|_no_service| true);
    everybody_is_told(|store| store.log().group_commit_pass(FOREVER, false).unwrap().was_woken);
}

#[test]
fn threads_go_on_by_themselves_once_the_service_serves_no_tasks() {
    everybody_is_told(|store| {
        let pass = |max_wait, serves_tasks| store.log().group_commit_pass(max_wait, serves_tasks).unwrap();
        pass(Duration::ZERO, true).was_woken || pass(FOREVER, false).was_woken
    });
}

#[test]
fn a_flush_by_somebody_else_tells_those_who_wait_too() {
    run(|| {
        let root = tempfile::tempdir().unwrap();
        let store = sync_flushed(root.path());
        thread::scope(|scope| {
            let putter = scope.spawn(|| {
                let end = put_to_wait(&store, b"one");
                store.wait_flushed(end, FOREVER).unwrap()
            });
            while store.log().flushed_offset() == 0 {
                store.flush_commit_log(0).unwrap();
                thread::yield_now();
            }
            assert_eq!(putter.join().unwrap(), PutMessageStatus::PutOk);
        });
    });
}

#[test]
fn a_flusher_that_waits_for_work_is_told_of_it_and_of_its_end() {
    run(|| {
        let root = tempfile::tempdir().unwrap();
        let mut config = config(root.path());
        config.flush_commit_log_timed = false;
        let store = open_with(config);
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Acquire) {
                    store.log().wait_flush_requested(FOREVER);
                    store.flush_commit_log(0).unwrap();
                }
            });
            fill(&store, 0..2);
            let end = store.max_phy_offset();
            assert!(store.log().wait_flushed(end, FOREVER).unwrap().is_flushed);
            is_over.store(true, Ordering::Release);
            store.log().wake_flusher();
        });
    });
}

fn everybody_is_told_of_a_disk_that_fails(serves_tasks: bool) {
    run(move || {
        let root = tempfile::tempdir().unwrap();
        let mut config = config(root.path());
        config.sync_flush = true;
        let fault = Fault::new(Call::FlushMapped, Errno::EIO, 0, usize::MAX);
        let fs = Arc::new(FaultyFileSystem { fs: fs(), fault });
        let store = Store::open(config, fs, Arc::new(ManualClock::at(1_000_000)), Mode::ReadWrite).unwrap();
        thread::scope(|scope| {
            let flusher =
                scope.spawn(|| while store.log().group_commit_pass(FOREVER, serves_tasks).is_ok() {});
            let putters = [1, 2].map(|number: u8| {
                let store = &store;
                scope.spawn(move || Some(store.wait_flushed(try_put_to_wait(store, &[number])?, FOREVER)))
            });
            let told: Vec<_> = putters.into_iter().filter_map(|putter| putter.join().unwrap()).collect();
            assert!(!told.is_empty() && told.iter().all(Result::is_err), "{told:?}");
            store.log().wake_flusher();
            flusher.join().unwrap();
        });
    });
}

#[test]
fn everybody_who_waits_is_told_of_a_disk_that_fails() {
    everybody_is_told_of_a_disk_that_fails(true);
    everybody_is_told_of_a_disk_that_fails(false);
}
