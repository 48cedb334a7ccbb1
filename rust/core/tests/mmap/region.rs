//! Mapped memory.

use std::sync::atomic::Ordering;

use mqstore_core::fs::{FileSystem, OpenMode, OsFileSystem};
use mqstore_core::mmap::region::Region;

pub(crate) fn region(len: usize, writable: bool) -> (tempfile::TempDir, Region) {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("file");
    std::fs::write(&path, vec![1; len]).unwrap();
    let mode = if writable { OpenMode::Write } else { OpenMode::Read };
    let region = OsFileSystem.open(&path, mode).unwrap().map(len, writable).unwrap();
    (root, region)
}

#[test]
fn nothing_outside_is_read_or_written() {
    let (_root, region) = region(100, true);
    assert_eq!(region.bytes(90, 10), Some(&[1; 10][..]));
    assert_eq!(region.bytes(100, 0), Some(&[][..]));
    for (at, len) in [(91, 10), (101, 0), (usize::MAX, 1), (1, usize::MAX)] {
        assert_eq!(region.bytes(at, len), None);
        assert!(!region.zero(at, len));
    }
    assert!(region.write(98, b"ab") && !region.write(99, b"ab"));
    assert!(region.zero(0, 2));
    assert_eq!((region.bytes(0, 3), region.bytes(98, 2)), (Some(&[0, 0, 1][..]), Some(&b"ab"[..])));
}

#[test]
fn what_is_written_in_order_is_all_there_or_refused() {
    let (_root, region) = region(300, true);
    let bytes: Vec<u8> = (0..200).collect();
    assert!(region.write_in_order(100, &bytes) && !region.write_in_order(101, &bytes));
    assert_eq!((region.bytes(100, 200), region.bytes(99, 1)), (Some(&bytes[..]), Some(&[1][..])));
}

#[test]
fn a_region_to_read_is_not_written() {
    let (_root, region) = region(8, false);
    assert!(!region.write(0, b"a") && !region.zero(0, 1));
    assert_eq!(region.bytes(0, 8), Some(&[1; 8][..]));
}

#[test]
fn words_that_change_in_place_are_aligned_and_inside() {
    let (_root, region) = region(16, true);
    region.atomic_u32(4).unwrap().store(7_u32.to_be(), Ordering::Relaxed);
    assert_eq!(region.bytes(4, 4), Some(&[0, 0, 0, 7][..]));
    assert!(region.atomic_u64(8).is_some());
    for at in [1, 2, 14, 16, usize::MAX] {
        assert!(region.atomic_u32(at).is_none(), "{at}");
    }
    for at in [4, 12, 16] {
        assert!(region.atomic_u64(at).is_none(), "{at}");
    }
}

#[test]
fn what_is_written_stands_in_the_file() {
    let (root, region) = region(10, true);
    assert!(region.write(3, b"here"));
    assert_eq!(std::fs::read(root.path().join("file")).unwrap(), b"\x01\x01\x01here\x01\x01\x01");
}

#[test]
fn no_more_is_mapped_than_the_file_has() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("file");
    std::fs::write(&path, [0; 10]).unwrap();
    let handle = OsFileSystem.open(&path, OpenMode::Read).unwrap();
    assert_eq!(handle.map(11, false).unwrap_err().kind(), std::io::ErrorKind::UnexpectedEof);
    assert_eq!(handle.map(10, false).unwrap().len(), 10);
    assert!(handle.map(0, false).unwrap().is_empty());
}
