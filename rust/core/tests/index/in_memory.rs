//! What a store that is only read puts into memory, beside a writer.

use std::sync::Arc;

use mqstore_core::index::IndexService;
use mqstore_core::mmap::mapped_file::Access;

use crate::service;

/// Keys that a file in memory takes.
const IN_MEMORY: u32 = (1 << 20) - 1;

fn put(index: &IndexService, hashes: std::ops::Range<u32>, offset: u64) {
    index.build_index(hashes, offset, 1000 + offset.cast_signed()).unwrap();
}

fn ends(index: &IndexService) -> Vec<i64> {
    index.files().iter().map(|file| file.header().end_phy_offset).collect()
}

fn are_in_memory(index: &IndexService) -> Vec<bool> {
    index.files().iter().map(|file| file.path().as_os_str().is_empty()).collect()
}

#[test]
fn a_file_in_memory_goes_once_another_follows_and_the_writer_has_what_it_holds() {
    let root = tempfile::tempdir().unwrap();
    let (writer, clock) = service(root.path(), Access::MapWrite);
    put(&writer, 0..19, 100);
    let (reader, _) = service(root.path(), Access::MapRead);
    reader.follow();
    put(&reader, 0..IN_MEMORY, 200);
    clock.set(2_000_000);
    put(&writer, 0..2, 200);
    let first = Arc::clone(&reader.files()[0]);
    reader.adopt_files().unwrap();
    assert_eq!((are_in_memory(&reader), ends(&reader)), (vec![false, true], vec![100, 200]));
    put(&reader, 0..2, 300);
    assert_eq!(are_in_memory(&reader), [false, true, true]);
    reader.adopt_files().unwrap();
    assert_eq!((are_in_memory(&reader), ends(&reader)), (vec![false, false, true], vec![100, 200, 300]));
    assert!(Arc::ptr_eq(&reader.files()[0], &first), "one that is open stays open");
    // The writer goes on with the file that was adopted.
    put(&writer, 2..4, 250);
    writer.write_header();
    assert_eq!(ends(&reader), [100, 250, 300]);
    put(&reader, 0..IN_MEMORY, 400);
    put(&writer, 4..6, 400);
    writer.write_header();
    reader.adopt_files().unwrap();
    assert_eq!((are_in_memory(&reader), ends(&reader)), (vec![false, false], vec![100, 400]));
}

#[test]
fn a_file_is_followed_from_when_another_process_may_write_it() {
    let root = tempfile::tempdir().unwrap();
    let (writer, _) = service(root.path(), Access::MapWrite);
    put(&writer, 0..1, 100);
    let (reader, _) = service(root.path(), Access::MapRead);
    let put_and_seen = |offset| {
        put(&writer, 0..1, offset);
        writer.write_header();
        reader.end_phy_offset()
    };
    assert_eq!(put_and_seen(200), Some(100));
    reader.follow();
    assert_eq!(put_and_seen(300), Some(300));
}

#[test]
fn keys_of_what_changed_are_put_again_from_where_the_kept_files_end() {
    let root = tempfile::tempdir().unwrap();
    let (writer, _) = service(root.path(), Access::MapWrite);
    (0..40).for_each(|number| put(&writer, number..number + 1, u64::from(number) * 10));
    writer.flush().unwrap();
    let before = crate::stores::tree(root.path());
    for (changed, kept, from) in [
        (500, 3, 500),
        (391, 3, 391),
        (390, 2, 370),
        (371, 2, 370),
        (370, 1, 180),
        (181, 1, 180),
        (180, 0, 0),
        (0, 0, 0),
    ] {
        let (reader, _) = service(root.path(), Access::MapRead);
        assert_eq!(ends(&reader), [180, 370, 390]);
        assert_eq!(
            (reader.forget_behind(changed, 0), reader.files().len()),
            (from, kept),
            "from {changed} on"
        );
    }
    assert_eq!(crate::stores::tree(root.path()), before);
}

/// Only files on the disk can be removed there.
#[test]
fn a_file_in_memory_is_deleted_as_any_other() {
    let root = tempfile::tempdir().unwrap();
    let (index, _) = service(root.path(), Access::MapRead);
    put(&index, 0..1, 100);
    let files = index.files();
    index.delete(&files).unwrap();
    assert!(index.files().is_empty());
}
