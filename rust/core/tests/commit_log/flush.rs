//! How far the log is on the disk, and who waits for it.

use std::path::Path;
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mqstore_core::commit_log::{FlushOutcome, Waited};
use mqstore_core::config::StoreConfig;
use mqstore_core::format::message::{Check, Decoded, decode};
use mqstore_core::mmap::mapped_file::Access;

use crate::stores::{LOG_FILE_SIZE, config};
use crate::{SIZE, append, log, log_with};

const NO_TIME: Duration = Duration::ZERO;
const LONG: Duration = Duration::from_secs(60);

#[test]
fn a_pass_flushes_what_was_written() {
    let root = tempfile::tempdir().unwrap();
    let log = log(root.path());
    let nothing = log.flush(0).unwrap();
    assert_eq!((nothing.flushed_offset, nothing.flushed_some), (0, false));
    append(&log, 0, b"");
    assert_eq!((log.flushed_offset(), log.remain_how_many_data_to_flush()), (0, SIZE));
    let some = log.flush(0).unwrap();
    assert_eq!((some.flushed_offset, some.store_timestamp, some.flushed_some), (SIZE, 1000, true));
    assert_eq!((log.flushed_offset(), log.remain_how_many_data_to_flush()), (SIZE, 0));
}

/// Pages of the log's first file that this process has mapped.
fn mapped_kib(root: &Path) -> u64 {
    let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let name = root.join("commitlog").join(format!("{:020}", 0)).display().to_string();
    let of_file = maps.split_once(&name).unwrap().1;
    let resident = of_file.lines().find_map(|line| line.strip_prefix("Rss:")).unwrap();
    resident.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn what_is_flushed_in_bulk_leaves_the_mapping_and_is_read_as_before() {
    let root = tempfile::tempdir().unwrap();
    let config = StoreConfig { mapped_file_size_commit_log: 4 << 20, ..config(root.path()) };
    let log = log_with(config, Access::MapWrite);
    let body: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    let places: Vec<_> = (0..20).map(|_| append(&log, 0, &body).wrote_offset).collect();
    let before_kib = mapped_kib(root.path());
    assert!(before_kib > 1900);
    log.flush(0).unwrap();
    assert!(mapped_kib(root.path()) < 100, "the page that is written to stays");
    let last = append(&log, 0, &body).wrote_offset;
    for place in places.into_iter().chain([last]) {
        let record = log.get_message(place, 100_000 + u32::try_from(SIZE).unwrap()).unwrap().unwrap();
        assert_eq!(
            decode(&record, Check::BodyCrc).map(|found| matches!(found, Decoded::Message(_))),
            Ok(true)
        );
    }
}

#[test]
fn a_pass_waits_until_enough_pages_or_a_file_are_full() {
    let root = tempfile::tempdir().unwrap();
    let log = log(root.path());
    append(&log, 0, &[0; 3000]);
    let waits = log.flush(1).unwrap();
    assert_eq!((waits.flushed_offset, waits.flushed_some), (0, false));
    assert_eq!(waits.store_timestamp, 0, "what is not on the disk has no time to tell");
    append(&log, 0, &[0; 3000]);
    let flushed = log.flush(9).unwrap();
    assert_eq!(flushed.flushed_offset, LOG_FILE_SIZE + 3000 + SIZE, "a file is full");
}

#[test]
fn who_waits_is_told_once_it_is_on_the_disk() {
    let root = tempfile::tempdir().unwrap();
    let log = log(root.path());
    let end = append(&log, 0, b"").wrote_offset + SIZE;
    let waited = |offset, timeout| log.wait_flushed(offset, timeout).unwrap();
    assert!(!waited(end, NO_TIME).is_flushed);
    assert!(waited(0, NO_TIME).is_flushed);
    std::thread::scope(|scope| {
        // What was not handed in is left to others.
        let waiter = scope.spawn(|| waited(end, LONG));
        assert_eq!(log.group_commit_pass(NO_TIME, false).unwrap().flush.flushed_offset, end);
        assert_eq!(waiter.join().unwrap(), Waited { is_flushed: true, own_flush: None });
    });
}

#[test]
fn a_thread_that_waits_flushes_what_is_there() {
    let root = tempfile::tempdir().unwrap();
    let log = log(root.path());
    append(&log, 0, b"another's");
    let last = append(&log, 0, b"");
    let end = last.wrote_offset + SIZE;
    log.request_group_flush(end);
    let waited = log.wait_flushed(end, LONG).unwrap();
    let own = FlushOutcome { flushed_offset: end, store_timestamp: last.store_timestamp, flushed_some: true };
    assert_eq!(waited, Waited { is_flushed: true, own_flush: Some(own) });
}

#[test]
fn of_threads_that_wait_together_few_flush() {
    const ROUNDS: usize = 200;
    const THREADS: usize = 4;
    let root = tempfile::tempdir().unwrap();
    let log = log(root.path());
    let (flushes, puts) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let all_there = Barrier::new(THREADS);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for round in 0..ROUNDS {
                    let appended = append(&log, 0, b"");
                    let end = appended.wrote_offset + u64::from(appended.wrote_bytes);
                    log.request_group_flush(end);
                    if round == 0 {
                        all_there.wait();
                    }
                    let waited = log.wait_flushed(end, LONG).unwrap();
                    assert!(waited.is_flushed && log.flushed_offset() >= end);
                    flushes.fetch_add(usize::from(waited.own_flush.is_some()), Ordering::Relaxed);
                    puts.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(puts.into_inner(), ROUNDS * THREADS);
    assert!((1..ROUNDS * THREADS).contains(&flushes.into_inner()), "the first flush serves all four");
    assert_eq!(log.flushed_offset(), log.max_offset());
}

#[test]
fn once_the_service_has_ended_threads_flush_though_tasks_wait() {
    let root = tempfile::tempdir().unwrap();
    let log = log(root.path());
    log.wake_flusher();
    assert!(log.group_commit_pass(LONG, true).unwrap().was_woken);
    let end = append(&log, 0, b"").wrote_offset + SIZE;
    log.request_group_flush(end);
    let is_flushed = std::thread::scope(|scope| {
        let waiter = scope.spawn(|| log.wait_flushed(end, LONG).unwrap().is_flushed);
        log.end_group_commit();
        waiter.join().unwrap()
    });
    assert!(is_flushed);
}

#[test]
fn while_tasks_wait_the_service_flushes_for_all() {
    let root = tempfile::tempdir().unwrap();
    let log = log(root.path());
    let end = append(&log, 0, b"").wrote_offset + SIZE;
    std::thread::scope(|scope| {
        log.wake_flusher();
        assert!(log.group_commit_pass(LONG, true).unwrap().was_woken);
        let later = append(&log, 0, b"").wrote_offset + SIZE;
        log.request_group_flush(later);
        let waiter = scope.spawn({
            let log = &log;
            move || log.wait_flushed(later, LONG).unwrap()
        });
        let pass = log.group_commit_pass(LONG, true).unwrap();
        assert_eq!((pass.flush.flushed_offset, pass.was_woken), (later, false));
        assert_eq!(waiter.join().unwrap(), Waited { is_flushed: true, own_flush: None });
        // No task waits any more: a thread that waited for the service goes on by itself.
        let last = append(&log, 0, b"").wrote_offset + SIZE;
        log.request_group_flush(last);
        let waiter = scope.spawn({
            let log = &log;
            move || log.wait_flushed(last, LONG).unwrap()
        });
        log.group_commit_pass(NO_TIME, false).unwrap();
        assert!(waiter.join().unwrap().is_flushed);
    });
    assert!(log.flushed_offset() > end);
}

#[test]
fn a_pass_that_waits_is_woken_by_an_offset_or_by_a_call() {
    let root = tempfile::tempdir().unwrap();
    let log = log(root.path());
    append(&log, 0, b"");
    std::thread::scope(|scope| {
        let flusher = scope.spawn(|| log.group_commit_pass(LONG, true).unwrap().flush.flushed_offset);
        log.request_group_flush(SIZE);
        while log.flushed_offset() < SIZE {
            log.request_flush(SIZE);
            std::thread::yield_now();
        }
        assert_eq!(flusher.join().unwrap(), SIZE);
        let woken = scope.spawn(|| log.wait_flush_requested(LONG));
        log.wake_flusher();
        woken.join().unwrap();
    });
    log.request_flush(SIZE); // it is on the disk already: nobody is woken for it
    log.wait_flush_requested(NO_TIME);
}

#[test]
fn a_flush_passes_over_files_that_retention_took() {
    let root = tempfile::tempdir().unwrap();
    let log = log(root.path());
    for _ in 0..4 {
        append(&log, 0, &[0; 3900]);
    }
    let files = log.files().files();
    log.files().delete(&files[..2]).unwrap();
    assert_eq!(log.flush(0).unwrap().flushed_offset, log.max_offset());
}

#[test]
fn a_flusher_is_told_once_of_what_fills_too_few_pages() {
    let root = tempfile::tempdir().unwrap();
    let log = log(root.path());
    append(&log, 0, b"");
    log.request_flush(SIZE);
    assert!(log.wait_flush_requested(LONG));
    assert!(!log.flush(4).unwrap().flushed_some);
    assert!(!log.wait_flush_requested(NO_TIME), "nothing new");
    std::thread::scope(|scope| {
        let flusher = scope.spawn(|| log.wait_flush_requested(LONG));
        append(&log, 0, b"");
        log.request_flush(2 * SIZE);
        assert!(flusher.join().unwrap());
    });
    log.request_flush(2 * SIZE);
    log.flush(0).unwrap();
    assert!(!log.wait_flush_requested(NO_TIME), "it is on the disk by now");
    log.wake_flusher();
    assert!(log.wait_flush_requested(LONG));
}
