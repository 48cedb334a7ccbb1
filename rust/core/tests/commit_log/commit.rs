//! Puts through locked memory.

use mqstore_core::commit_log::{AppendRefusal, Wait};
use mqstore_core::mmap::mapped_file::Access;

use crate::stores::{LOG_FILE_SIZE, config, log_file, new_record};
use crate::{Log, SIZE, append, log, log_with};

fn pooled(root: &std::path::Path, buffers: usize, fast_fail: bool) -> Log {
    let mut config = config(root);
    config.transient_store_pool_enable = true;
    config.transient_store_pool_size = buffers;
    config.fast_fail_if_no_buffer_in_store_pool = fast_fail;
    log_with(config, Access::MapWrite)
}

#[test]
fn readers_see_what_is_committed() {
    let root = tempfile::tempdir().unwrap();
    let log = pooled(root.path(), 2, false);
    let first = append(&log, 0, b"body");
    assert_eq!((log.wrote_offset(), log.committed_offset(), log.max_offset()), (SIZE + 4, 0, 0));
    assert_eq!(log.remain_how_many_data_to_commit(), SIZE + 4);
    assert!(log.get_message(0, first.wrote_bytes).unwrap().is_none());
    assert!(std::fs::read(log_file(root.path(), 0)).unwrap().iter().all(|&byte| byte == 0));
    assert!(!log.commit(1).unwrap(), "no page is full");
    assert!(log.commit(0).unwrap() && !log.commit(0).unwrap());
    assert_eq!((log.max_offset(), log.remain_how_many_data_to_commit()), (SIZE + 4, 0));
    let bytes = log.get_message(0, first.wrote_bytes).unwrap().unwrap();
    assert_eq!(std::fs::read(log_file(root.path(), 0)).unwrap()[..bytes.len()], bytes[..]);
    assert_eq!(log.flush(0).unwrap().flushed_offset, SIZE + 4);
}

#[test]
fn a_buffer_goes_back_when_its_file_is_full_and_committed() {
    let root = tempfile::tempdir().unwrap();
    let log = pooled(root.path(), 2, false);
    assert_eq!(log.remain_transient_store_buffer_count(), 2);
    for expected in [1, 0, 0] {
        append(&log, 0, &[1; 3900]);
        assert_eq!(log.remain_transient_store_buffer_count(), expected);
    }
    assert!(log.commit(100).unwrap(), "a full file is committed whatever the pages");
    assert_eq!(log.remain_transient_store_buffer_count(), 2, "the third file is written without a buffer");
    for number in 0..3 {
        let bytes = log.get_message(number * LOG_FILE_SIZE, 3992).unwrap().unwrap();
        assert!(bytes[100..3980].iter().all(|&byte| byte == 1), "file {number}");
    }
}

#[test]
fn old_bytes_of_a_buffer_do_not_come_into_the_next_file() {
    let root = tempfile::tempdir().unwrap();
    let log = pooled(root.path(), 1, false);
    append(&log, 0, &[0xee; 3900]);
    log.end_file(Wait::Block).unwrap(); // the second file has no buffer
    append(&log, 0, b"second");
    log.commit(0).unwrap();
    log.end_file(Wait::Block).unwrap(); // the third has the first one's
    append(&log, 0, b"third");
    log.commit(0).unwrap();
    let third = std::fs::read(log_file(root.path(), 2 * LOG_FILE_SIZE)).unwrap();
    assert!(!third.contains(&0xee));
    assert_eq!(third.iter().rposition(|&byte| byte != 0), Some(usize::try_from(SIZE).unwrap() + 4 - 2));
}

#[test]
fn without_a_buffer_left_a_put_fails_at_once_where_that_is_asked_for() {
    let root = tempfile::tempdir().unwrap();
    let log = pooled(root.path(), 1, true);
    append(&log, 0, &[1; 3900]);
    let refusal = log.append(&new_record("t", 0, &[1; 3900]), Wait::Block).unwrap_err();
    assert!(matches!(&refusal, AppendRefusal::NoSpace(_)), "{refusal:?}");
    assert!(refusal.to_string().contains("transientStorePoolSize=1"), "{refusal}");
    assert!(!log_file(root.path(), LOG_FILE_SIZE).exists());
    let refused_again = log.append(&new_record("t", 0, &[1; 3900]), Wait::Block);
    assert!(refused_again.is_err(), "its buffer is in use until all of the file is committed");
    log.commit(0).unwrap();
    // As in 4.9.3 the file was ended before the next one was asked for: no put would ever fill it.
    append(&log, 0, &[1; 3900]);
}

#[test]
fn without_a_pool_there_is_nothing_to_commit() {
    let root = tempfile::tempdir().unwrap();
    let log = log(root.path());
    append(&log, 0, b"");
    assert!(!log.commit(0).unwrap());
    assert_eq!(log.remain_transient_store_buffer_count(), i32::MAX as usize);
}
