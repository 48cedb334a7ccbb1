//! How far the log is on the disk, and who waits for it.

use std::time::Duration;

use crate::stores::LOG_FILE_SIZE;
use crate::{SIZE, append, log};

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
    assert!(!log.wait_flushed(end, NO_TIME).unwrap());
    assert!(log.wait_flushed(0, NO_TIME).unwrap());
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| log.wait_flushed(end, LONG).unwrap());
        log.request_flush(end);
        assert_eq!(log.group_commit_pass(LONG).unwrap().flush.flushed_offset, end);
        assert!(waiter.join().unwrap());
    });
}

#[test]
fn a_pass_that_waits_is_woken_by_an_offset_or_by_a_call() {
    let root = tempfile::tempdir().unwrap();
    let log = log(root.path());
    append(&log, 0, b"");
    std::thread::scope(|scope| {
        let flusher = scope.spawn(|| log.group_commit_pass(LONG).unwrap().flush.flushed_offset);
        log.request_flush(SIZE);
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
