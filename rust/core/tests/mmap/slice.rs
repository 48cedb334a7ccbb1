//! Slices own what they point into.

use std::sync::Arc;

use mqstore_core::mmap::mapped_file::Access;
use mqstore_core::mmap::slice::Slice;

use crate::{queue, write_files};

#[test]
fn parts_of_a_slice_share_its_mapping() {
    let root = tempfile::tempdir().unwrap();
    write_files(&root.path().join("files"), [700]);
    let file = queue(root.path(), Access::MapRead).first().unwrap();
    let slice = file.slice(10, 50).unwrap();
    let part = slice.sub(20, 30).unwrap();
    assert_eq!(&part[..], [7; 30]);
    let (Some((whole, at)), Some((part, part_at))) = (slice.region(), part.region()) else {
        panic!("mapped")
    };
    assert!(Arc::ptr_eq(whole, part));
    assert_eq!((at, part_at), (10, 30));
    for (at, len) in [(21, 30), (51, 0), (usize::MAX, 1), (1, usize::MAX)] {
        assert!(slice.sub(at, len).is_none());
    }
    assert!(Slice::mapped(Arc::clone(whole), 99, 2).is_none());
}

#[test]
fn bytes_that_were_read_have_no_mapping() {
    let slice = Slice::read(*b"abcdef");
    let part = slice.sub(1, 4).and_then(|part| part.sub(1, 2)).unwrap();
    assert_eq!((&part[..], part.as_ref(), part.region().is_none()), (&b"cd"[..], &b"cd"[..], true));
    assert!(Slice::read([]).is_empty());
}
