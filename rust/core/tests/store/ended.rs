//! The ends of a store: closed beside puts, halted, abandoned in a forked process, broken off.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use mqstore_core::bell::Bell;
use mqstore_core::commit_log::Wait;
use mqstore_core::error::Error;
use mqstore_core::interrupt;
use mqstore_core::status::PutMessageStatus;
use mqstore_core::store::{Mode, PutStep, Store};

use crate::stores::{
    bodies, config, crash, fill, message, numbers, open, open_with, read, tree, try_open, try_put,
};

/// Puts until the store refuses; gives the bodies that it has acknowledged.
fn put_until_closed(store: &Store, queue_id: i32) -> Vec<String> {
    let mut acknowledged = Vec::new();
    loop {
        let body = format!("{queue_id} {}", acknowledged.len());
        match try_put(store, &message("t", queue_id, body.as_bytes(), "")) {
            Ok(_) => acknowledged.push(body),
            Err(refusal) => {
                assert!(matches!(*refusal.reason, Error::Closed), "{:?}", refusal.reason);
                return acknowledged;
            }
        }
    }
}

#[test]
fn a_close_takes_in_every_put_that_was_acknowledged() {
    for _ in 0..40 {
        let root = tempfile::tempdir().unwrap();
        let store = open(root.path());
        let begin = Barrier::new(4);
        let acknowledged: Vec<_> = std::thread::scope(|scope| {
            let putting: Vec<_> = (0..3)
                .map(|queue_id| {
                    let (store, begin) = (Arc::clone(&store), &begin);
                    scope.spawn(move || {
                        begin.wait();
                        put_until_closed(&store, queue_id)
                    })
                })
                .collect();
            begin.wait();
            while store.max_phy_offset() == 0 {
                std::hint::spin_loop();
            }
            store.close().unwrap();
            putting.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(!root.path().join("abort").exists(), "all that is there is dispatched and flushed");
        let after = tree(root.path());
        crash(store);
        assert_eq!(tree(root.path()), after, "nothing is written behind the close");
        let reader = read(root.path());
        for (queue_id, acknowledged) in (0..).zip(acknowledged) {
            let found = if acknowledged.is_empty() { Vec::new() } else { bodies(&reader, "t", queue_id) };
            assert_eq!(found, acknowledged);
        }
    }
}

#[test]
fn what_is_closed_or_read_is_not_flushed() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    fill(&store, 0..5);
    store.close().unwrap();
    let before = tree(root.path());
    assert!(matches!(store.flush_everything(), Err(Error::Closed)));
    assert!(matches!(read(root.path()).flush_everything(), Err(Error::ReadOnly { .. })));
    assert_eq!(tree(root.path()), before);
}

/// As while asyncio tasks wait: no thread flushes what it waits for.
fn leave_flushes_to_the_service(store: &Store) {
    store.group_commit(Duration::ZERO, &[Arc::new(Bell::new().unwrap())]).unwrap();
}

#[test]
fn a_halted_store_takes_nothing_and_closes_whole() {
    let root = tempfile::tempdir().unwrap();
    let mut given = config(root.path());
    given.sync_flush = true;
    let store = open_with(given);
    leave_flushes_to_the_service(&store);
    let step = store.put_message(&message("t", 0, b"waits", ""), Wait::Block);
    let PutStep::Done(put) = step else { panic!("{step:?}") };
    let confirmation = store.confirmation(0..put.wait_for.unwrap(), Duration::from_secs(3600));
    assert_eq!(store.wait_confirmed(&confirmation, Duration::from_millis(1)).unwrap(), None);
    assert_eq!(store.halted(), None);
    store.halt("the flusher died".into());
    store.halt("so what".into());
    assert_eq!(store.halted(), Some("the flusher died"));
    let waited = store.wait_confirmed(&confirmation, Duration::from_millis(1));
    assert!(matches!(waited, Err(Error::Halted { reason }) if reason == "the flusher died"));
    let refusal = try_put(&store, &message("t", 0, b"later", "")).unwrap_err();
    assert_eq!(refusal.status, PutMessageStatus::ServiceNotAvailable);
    assert!(refusal.reason.to_string().contains("the flusher died"));
    store.close().unwrap();
    assert!(!root.path().join("abort").exists());
    assert_eq!(bodies(&read(root.path()), "t", 0), ["waits"]);
}

#[test]
fn what_a_put_waits_for_is_told_when_it_is_there_and_when_the_time_is_up() {
    let root = tempfile::tempdir().unwrap();
    let mut given = config(root.path());
    given.sync_flush = true;
    let store = open_with(given);
    leave_flushes_to_the_service(&store);
    let end = try_put(&store, &message("t", 0, b"", "")).map(|put| put.wrote_offset + 1).unwrap();
    let late = store.confirmation(0..end, Duration::from_millis(2));
    let begin = Instant::now();
    let mut outcome = None;
    while outcome.is_none() {
        outcome = store.wait_confirmed(&late, Duration::from_micros(100)).unwrap();
    }
    assert_eq!(outcome, Some(PutMessageStatus::FlushDiskTimeout));
    assert!(begin.elapsed() >= Duration::from_millis(2));
    store.group_commit(Duration::ZERO, &[]).unwrap();
    let there = store.confirmation(0..end, Duration::from_secs(3600));
    assert_eq!(store.wait_confirmed(&there, Duration::ZERO).unwrap(), Some(PutMessageStatus::PutOk));
}

/// In this process abandoning is what it is in a forked one, but for the lock: there is one open file.
#[test]
fn an_abandoned_store_does_nothing_more() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    fill(&store, 0..5);
    let before = tree(root.path());
    store.abandon();
    let is_forked = |error: &Error| matches!(error, Error::Forked { pid } if *pid == std::process::id());
    assert!(is_forked(&store.get_message("t", 0, 0, 1, None).unwrap_err()));
    assert!(is_forked(&try_put(&store, &message("t", 0, b"", "")).unwrap_err().reason));
    assert!(is_forked(&store.flush_everything().unwrap_err()));
    store.close().unwrap();
    crash(store);
    assert_eq!(tree(root.path()), before);
    assert_eq!(numbers(&read(root.path())), (0..5).collect::<Vec<_>>());
}

/// Wherever it is broken off, opening changes nothing, or leaves what the next opening makes whole.
#[test]
fn opening_that_is_broken_off_loses_nothing() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    fill(&store, 0..200);
    crash(store);
    let asked = Arc::new(AtomicUsize::new(0));
    for mode in [Mode::Read, Mode::ReadWrite] {
        for let_through in 0.. {
            let before = tree(root.path());
            asked.store(0, Ordering::Relaxed);
            let count = Arc::clone(&asked);
            let is_asked = move || count.fetch_add(1, Ordering::Relaxed) == let_through;
            let opened = interrupt::until(is_asked, || try_open(config(root.path()), mode));
            if asked.load(Ordering::Relaxed) <= let_through {
                assert_eq!(numbers(&opened.unwrap()), (0..200).collect::<Vec<_>>());
                assert!(let_through > 3, "it was asked {let_through} times");
                break;
            }
            assert!(matches!(opened, Err(Error::Interrupted)), "{:?}", opened.err());
            if mode == Mode::Read || !root.path().join("abort").exists() {
                assert_eq!(tree(root.path()), before);
            }
        }
    }
}

#[test]
fn nobody_is_asked_once_it_is_over() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    fill(&store, 0..5);
    let broken_off = interrupt::until(|| true, || store.reput());
    assert!(matches!(broken_off, Err(Error::Interrupted)));
    let outer = || {
        interrupt::until(|| false, || store.reput()).unwrap();
        fill(&store, 5..6);
        store.reput()
    };
    assert!(matches!(interrupt::until(|| true, outer), Err(Error::Interrupted)));
    store.reput().unwrap();
    assert_eq!(numbers(&store), (0..6).collect::<Vec<_>>());
}
