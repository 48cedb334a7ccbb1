//! Reading by offset.

use mqstore_core::mmap::mapped_file::Access;

use crate::stores::{LOG_FILE_SIZE, config};
use crate::{SIZE, append, log, log_with};

#[test]
fn only_what_is_published_and_in_one_file_is_read() {
    let root = tempfile::tempdir().unwrap();
    let writer = log(root.path());
    assert!(writer.get_message(0, 4).unwrap().is_none() && writer.get_data(0).unwrap().is_none());
    let first = append(&writer, 0, &[1; 3000]);
    let second = append(&writer, 0, &[2; 3000]);
    assert_eq!(second.wrote_offset, LOG_FILE_SIZE);
    let end = writer.max_offset();
    for access in [None, Some(Access::MapRead), Some(Access::Read)] {
        let log = match access {
            None => log(root.path()),
            Some(access) => log_with(config(root.path()), access),
        };
        log.set_end(end, 0);
        let size = first.wrote_bytes;
        assert_eq!(log.get_message(0, size).unwrap().unwrap().len(), size as usize);
        for (offset, size) in [
            (end - 10, 11),
            (end, 1),
            (4000, 200), // over the end of a file
            (u64::MAX, 1),
            (u64::MAX - 5, u32::MAX),
        ] {
            assert!(log.get_message(offset, size).unwrap().is_none(), "{offset} {size}");
        }
        assert_eq!(log.get_data(4000).unwrap().unwrap().len(), 96, "to the end of the file");
        assert_eq!(log.get_data(LOG_FILE_SIZE).unwrap().unwrap().len(), second.wrote_bytes as usize);
        assert_eq!(log.get_bytes(10, 5).unwrap().unwrap().len(), 5);
        assert!(
            log.get_bytes(end, 5).unwrap().is_none() && log.get_bytes(u64::MAX, u64::MAX).unwrap().is_none()
        );
        let one = log.select_one_message_by_offset(LOG_FILE_SIZE).unwrap().unwrap();
        assert_eq!(one.len(), second.wrote_bytes as usize);
        assert_eq!(log.pickup_store_timestamp(LOG_FILE_SIZE, second.wrote_bytes).unwrap(), 1000);
        assert_eq!(log.pickup_store_timestamp(end, 100).unwrap(), -1);
    }
}

#[test]
fn a_size_field_of_any_kind_gives_no_bytes_outside() {
    let root = tempfile::tempdir().unwrap();
    let log = log(root.path());
    append(&log, 0, &[0xff; 300]);
    for at in 0..log.max_offset() {
        if let Some(found) = log.select_one_message_by_offset(at).unwrap() {
            assert!(found.len() as u64 <= log.max_offset() - at);
        }
    }
}

#[test]
fn a_reader_goes_on_with_the_log() {
    let root = tempfile::tempdir().unwrap();
    let log = log(root.path());
    let mut records = log.records();
    let first = append(&log, 0, &[1; 100]);
    // A unit that was dispatched since the reader was made leads to what it did not see.
    assert!(records.find(first.wrote_offset, first.wrote_bytes).unwrap().is_some());
    assert_eq!(records.log_end(), log.max_offset());
    assert!(records.find(log.max_offset(), 1).unwrap().is_none());
    assert!(records.find(first.wrote_offset, first.wrote_bytes + 1).unwrap().is_none());
}

#[test]
fn the_next_file_begins_behind() {
    let root = tempfile::tempdir().unwrap();
    let log = log(root.path());
    assert_eq!([0, 1, 4095, 4096].map(|offset| log.roll_next_file(offset)), [4096, 4096, 4096, 8192]);
    assert_eq!(log.lock_time_ms(), 0);
    append(&log, 0, b"");
    assert_eq!((log.lock_time_ms(), log.max_offset()), (0, SIZE));
}
