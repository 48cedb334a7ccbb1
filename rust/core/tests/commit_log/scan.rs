//! Walking the log, and finding it again behind a damaged place.

use std::ops::ControlFlow;

use mqstore_core::commit_log::CommitLog;
use mqstore_core::commit_log::read::Bodies;
use mqstore_core::commit_log::scan::{
    ScanEnd, check_topic, is_zero, next_record, next_valid, scan, scan_windows, size_at,
};
use mqstore_core::format::message::{Check, RecordFault};
use mqstore_core::mmap::mapped_file::Access;
use proptest::prelude::*;

use crate::stores::{LOG_FILE_SIZE, config, fields, log_file, patch, record_bytes};
use crate::{SIZE, append, log, log_with};

fn walk(log: &CommitLog, from: u64, to: u64, check: Check) -> (Vec<u64>, ScanEnd) {
    let mut found = Vec::new();
    let end = scan(log.files(), from, to, check, |offset, _, _| {
        found.push(offset);
        Ok(ControlFlow::Continue(()))
    });
    (found, end.unwrap())
}

/// A log of five records in two files, read again after a change.
fn five(change: impl FnOnce(&std::path::Path, &[u64])) -> (tempfile::TempDir, crate::Log, Vec<u64>) {
    let root = tempfile::tempdir().unwrap();
    let writer = log(root.path());
    let offsets: Vec<_> = (0..5).map(|number| append(&writer, 0, &vec![number; 1200]).wrote_offset).collect();
    let end = writer.max_offset();
    drop(writer);
    change(root.path(), &offsets);
    let log = log_with(config(root.path()), Access::MapRead);
    log.set_end(end, 0);
    (root, log, offsets)
}

#[test]
fn a_walk_goes_from_a_boundary_to_an_offset_and_over_blanks() {
    let (_root, log, offsets) = five(|_, _| {});
    let end = log.max_offset();
    assert_eq!(offsets, [0, 1292, 2584, 4096, 5388]);
    assert_eq!(walk(&log, 0, end, Check::BodyCrc), (offsets.clone(), ScanEnd::Reached(end)));
    assert_eq!(walk(&log, 2584, 4096, Check::BodyCrc), (vec![2584], ScanEnd::Reached(4096)));
    assert_eq!(walk(&log, end, end, Check::BodyCrc), (vec![], ScanEnd::Reached(end)));
    let behind = RecordFault::MagicCode { found: 0 };
    assert_eq!(walk(&log, 0, u64::MAX, Check::BodyCrc).1, ScanEnd::Fault { offset: end, fault: behind });
    let stopped = scan(log.files(), 0, end, Check::BodyCrc, |offset, record, bytes| {
        assert_eq!(bytes.len(), record.total_size as usize);
        Ok(if offset == 1292 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    });
    assert_eq!(stopped.unwrap(), ScanEnd::Stopped(1292));
}

#[test]
fn slices_of_a_walk_are_the_records_and_outlive_it() {
    for access in [Access::MapRead, Access::Read] {
        let (root, log, offsets) = five(|_, _| {});
        let reader = log_with(config(root.path()), access);
        let mut slices = Vec::new();
        scan_windows(
            reader.files(),
            0,
            log.max_offset(),
            Check::BodyCrc,
            Bodies::Wanted,
            |_, record, window, at| {
                slices.push(window.sub(at, record.total_size as usize).unwrap());
                Ok(ControlFlow::Continue(()))
            },
        )
        .unwrap();
        for (offset, slice) in offsets.iter().zip(&slices) {
            assert_eq!(slice[..], log.get_message(*offset, 1292).unwrap().unwrap()[..]);
        }
        assert_eq!(slices.len(), 5);
    }
}

#[test]
fn a_walk_stops_at_damage_and_goes_on_at_the_next_record() {
    let (_root, log, _) = five(|root, offsets| patch(&log_file(root, 0), offsets[1] + 300, |at| at[0] ^= 1));
    let end = log.max_offset();
    let (found, stop) = walk(&log, 0, end, Check::BodyCrc);
    assert!(matches!(stop, ScanEnd::Fault { offset: 1292, fault: RecordFault::BodyCrc { .. } }), "{stop:?}");
    assert_eq!(found, [0]);
    assert_eq!(next_record(log.files(), 1293, end).unwrap(), Some(2584));
    assert_eq!(walk(&log, 0, end, Check::Structure).0.len(), 5, "dispatch does not look at bodies");
    assert_eq!(size_at(log.files(), 1292).unwrap(), None);
    assert_eq!(size_at(log.files(), 2584).unwrap(), Some(1292));
    assert_eq!(next_record(log.files(), 5389, u64::MAX).unwrap(), None);
}

#[test]
fn a_missing_file_is_told_and_the_log_found_again_behind_it() {
    let (_root, log, _) = five(|root, _| std::fs::rename(log_file(root, 0), log_file(root, 8192)).unwrap());
    assert_eq!(walk(&log, 0, u64::MAX, Check::BodyCrc), (vec![], ScanEnd::Missing(0)));
    assert_eq!(next_record(log.files(), 0, u64::MAX).unwrap(), Some(4096));
}

#[test]
fn a_record_that_stands_elsewhere_is_none() {
    let (_root, log, _) = five(|root, offsets| {
        let first = std::fs::read(log_file(root, 0)).unwrap();
        patch(&log_file(root, 0), offsets[1], |at| at[..1292].copy_from_slice(&first[..1292]));
    });
    let fault = RecordFault::PhysicalOffset { expected: 1292, found: 0 };
    assert_eq!(walk(&log, 0, 4096, Check::BodyCrc).1, ScanEnd::Fault { offset: 1292, fault });
    assert_eq!(next_record(log.files(), 1292, u64::MAX).unwrap(), Some(2584));
}

/// A body that holds a record of just the place at which the body stands, in a record of which some byte is
/// another than it was.
#[test]
fn a_record_in_the_body_of_a_damaged_one_does_not_count() {
    const BODY_AT: u64 = SIZE - 4;
    let (size, magic_code, own_offset, body_length) = (3, 4, 35, BODY_AT - 1);
    for at in [BODY_AT + 3, 8, own_offset, size, size - 1, magic_code, body_length, body_length - 1] {
        let root = tempfile::tempdir().unwrap();
        let writer = log(root.path());
        append(&writer, 0, b"before");
        let inside_at = writer.max_offset() + BODY_AT + 20;
        let forged = record_bytes(&fields("t", 0, b"forged", ""), 9, inside_at);
        let outer = append(&writer, 0, &[&[b'x'; 20][..], &forged, &[b'y'; 20]].concat());
        let behind = append(&writer, 0, b"behind");
        let end = writer.max_offset();
        drop(writer);
        patch(&log_file(root.path(), 0), outer.wrote_offset + at, |at| at[0] ^= 1);
        let log = log_with(config(root.path()), Access::MapRead);
        log.set_end(end, 0);
        let ScanEnd::Fault { offset, fault } = walk(&log, 0, end, Check::BodyCrc).1 else { panic!("damage") };
        assert_eq!(offset, outer.wrote_offset);
        assert_eq!(next_record(log.files(), offset + 1, end).unwrap(), Some(inside_at), "it looks like one");
        let next = next_valid(log.files(), offset, Some(fault), end).unwrap();
        assert_eq!(next, Some(behind.wrote_offset), "byte {at}");
    }
}

#[test]
fn a_record_that_begins_in_a_hole_is_found() {
    // Its size's first bytes are zeros: a sparse copy makes a hole of the block in which it begins
    // when everything else in that block is zero too.
    const SIZE_IN_HOLE: u64 = 2;
    let root = tempfile::tempdir().unwrap();
    let mut config = config(root.path());
    config.mapped_file_size_commit_log = 64 << 10;
    let offset = (32 << 10) - SIZE_IN_HOLE;
    let bytes = record_bytes(&fields("t", 0, b"body", ""), 0, offset);
    std::fs::create_dir(root.path().join("commitlog")).unwrap();
    let file = std::fs::File::create(log_file(root.path(), 0)).unwrap();
    file.set_len(64 << 10).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &bytes[2..], 32 << 10).unwrap();
    let log = log_with(config, Access::MapRead);
    assert_eq!(next_record(log.files(), 0, u64::MAX).unwrap(), Some(offset));
}

#[test]
fn zeros_are_told_from_data() {
    let (_root, log, _) = five(|_, _| {});
    let file = log.files().last().unwrap();
    let end = log.max_offset();
    assert!(is_zero(&file, end, file.end_offset()).unwrap());
    assert!(!is_zero(&file, end - 3, file.end_offset()).unwrap(), "the topic stands there");
    assert!(is_zero(&file, end, end).unwrap());
}

#[test]
fn records_that_pass_the_window_of_a_read_are_read_whole() {
    let root = tempfile::tempdir().unwrap();
    let mut config = config(root.path());
    config.mapped_file_size_commit_log = 40 << 20;
    let writer = log_with(config.clone(), Access::MapWrite);
    // Windows have 8 MiB: one record ends behind the first, one is larger than any.
    let sizes = [5 << 20, 5 << 20, 12 << 20, 100];
    let offsets: Vec<_> = sizes.iter().map(|size| append(&writer, 0, &vec![1; *size]).wrote_offset).collect();
    let end = writer.max_offset();
    let reader = log_with(config, Access::Read);
    assert_eq!(walk(&reader, 0, end, Check::BodyCrc), (offsets.clone(), ScanEnd::Reached(end)));
    assert_eq!(next_record(reader.files(), 1, end).unwrap(), Some(offsets[1]));
    assert_eq!(next_record(reader.files(), offsets[2] + 1, end).unwrap(), Some(offsets[3]));
}

#[test]
fn a_topic_can_name_a_folder() {
    for topic in ["t", "...", "a b", "主题", "%LMQ%x", "a\\b"] {
        assert_eq!(check_topic(topic.as_bytes()), Ok(()), "{topic}");
    }
    for topic in ["", ".", "..", "a/b", "/", "a\0b"] {
        let fault = RecordFault::Topic { len: u32::try_from(topic.len()).unwrap() };
        assert_eq!(check_topic(topic.as_bytes()), Err(fault), "{topic:?}");
    }
    // The folder's name has three bytes for each that is no UTF-8.
    for (longest, one_more) in [(vec![b'x'; 255], vec![b'x'; 256]), (vec![0xFF; 85], vec![0xFF; 86])] {
        assert_eq!(check_topic(&longest), Ok(()));
        let fault = RecordFault::Topic { len: u32::try_from(one_more.len()).unwrap() };
        assert_eq!(check_topic(&one_more), Err(fault));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    /// Whatever is damaged, a walk that resyncs gives only records that were appended, and all of
    /// those that were not touched.
    #[test]
    fn damage_costs_the_records_it_touches(
        damage in proptest::collection::vec((0..6680_u64, 1..=255_u8), 1..4)
    ) {
        let (_root, log, offsets) = five(|root, _| {
            for (at, with) in &damage {
                patch(&log_file(root, at / LOG_FILE_SIZE * LOG_FILE_SIZE), at % LOG_FILE_SIZE, |at| at[0] ^= with);
            }
        });
        let end = log.max_offset();
        let (mut found, mut from) = (Vec::new(), 0);
        loop {
            let (some, stop) = walk(&log, from, end, Check::BodyCrc);
            found.extend(some);
            let (bad, fault) = match stop {
                ScanEnd::Fault { offset, fault } => (offset, Some(fault)),
                ScanEnd::Missing(offset) => (offset, None),
                _ => break,
            };
            match next_valid(log.files(), bad, fault, u64::MAX).unwrap() {
                Some(next) => from = next,
                None => break,
            }
        }
        let touched = |offset: u64| damage.iter().any(|(at, _)| (offset..offset + 1292).contains(at));
        prop_assert!(found.iter().all(|offset| offsets.contains(offset)));
        for offset in &offsets {
            prop_assert!(found.contains(offset) || touched(*offset), "{} is lost", offset);
        }
    }
}
