//! One index file.

use mqstore_core::error::Error;
use mqstore_core::format::index::{IndexEntry, IndexHeader, IndexShape};
use mqstore_core::index::file::{IndexFile, PutKey};
use mqstore_core::mmap::mapped_file::Access;

use crate::SHAPE;
use crate::stores::{fs, patch};

fn file(root: &std::path::Path) -> IndexFile {
    IndexFile::create(&fs(), &root.join("20260101000000000"), SHAPE, None, None).unwrap()
}

#[test]
fn keys_chain_from_the_newest_to_the_oldest() {
    let root = tempfile::tempdir().unwrap();
    let file = file(root.path());
    for (number, (hash, time)) in [(3, 5000), (10, 5999), (4, 6000), (17, 9000)].into_iter().enumerate() {
        assert_eq!(file.put_key(hash, number as u64 * 100, time).unwrap(), PutKey::Put);
    }
    assert_eq!((file.slot(3).unwrap(), file.slot(4).unwrap(), file.slot(0).unwrap()), (4, 3, 0));
    let entry = |key_hash, phy_offset, time_diff, prev_index| {
        Some(IndexEntry { key_hash, phy_offset, time_diff, prev_index })
    };
    let entries = [1, 2, 3, 4].map(|number| file.entry(number).unwrap());
    assert_eq!(entries, [entry(3, 0, 0, 0), entry(10, 100, 0, 1), entry(4, 200, 1, 0), entry(17, 300, 4, 2)]);
    assert_eq!([0, 5, u32::MAX].map(|number| file.entry(number).unwrap()), [None; 3]);
    let header = IndexHeader {
        begin_timestamp: 5000,
        end_timestamp: 9000,
        begin_phy_offset: 0,
        end_phy_offset: 300,
        hash_slot_count: 2,
        index_count: 5,
    };
    assert_eq!(file.header(), header);
    file.flush().unwrap();
    let bytes = std::fs::read(file.path()).unwrap();
    assert_eq!((bytes.len(), IndexHeader::read(&bytes)), (SHAPE.file_size(), Some(header)));
    assert_eq!(bytes[SHAPE.slot_at(3)..SHAPE.slot_at(4)], [0, 0, 0, 4]);
}

#[test]
fn a_full_file_takes_no_more() {
    let root = tempfile::tempdir().unwrap();
    let file = file(root.path());
    for number in 1..20 {
        assert!(!file.is_write_full());
        assert_eq!(file.put_key(number, 0, 1).unwrap(), PutKey::Put);
    }
    assert!(file.is_write_full());
    assert_eq!(file.put_key(1, 0, 1).unwrap(), PutKey::Full);
    assert_eq!(file.index_count(), 20, "entry 0 stays empty");
}

#[test]
fn a_file_takes_over_the_end_of_the_one_before() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("20260101000000000");
    let file = IndexFile::create(&fs(), &path, SHAPE, Some((500, 7000)), None).unwrap();
    let header = file.header();
    assert_eq!((header.begin_phy_offset, header.end_phy_offset), (500, 500));
    assert_eq!((header.begin_timestamp, header.end_timestamp, header.index_count), (7000, 7000, 1));
    file.put_key(1, 600, 9000).unwrap();
    assert_eq!(file.entry(1).unwrap().unwrap().time_diff, 2, "the first key counts from the end before it");
    assert_eq!((file.header().begin_phy_offset, file.header().begin_timestamp), (600, 9000));
    assert!(IndexFile::create(&fs(), &path, SHAPE, None, None).is_err(), "it is there already");
}

#[test]
fn a_file_is_found_again_as_it_was() {
    let root = tempfile::tempdir().unwrap();
    let made = file(root.path());
    (1..6).for_each(|number| _ = made.put_key(number, number.into(), 1000).unwrap());
    made.flush().unwrap();
    let path = made.path().to_path_buf();
    for access in [Access::Read, Access::MapRead, Access::MapWrite] {
        let again = IndexFile::open(&fs(), &path, SHAPE, access, false, None).unwrap();
        assert_eq!((again.header(), again.shape()), (made.header(), SHAPE));
        assert_eq!(again.entry(5).unwrap(), made.entry(5).unwrap());
    }
    let again = IndexFile::open(&fs(), &path, SHAPE, Access::MapWrite, false, None).unwrap();
    assert_eq!(again.put_key(9, 99, 2000).unwrap(), PutKey::Put);
    assert_eq!(again.index_count(), 7);
}

#[test]
fn garbage_in_slots_counts_and_chains_leads_nowhere() {
    let root = tempfile::tempdir().unwrap();
    let made = file(root.path());
    (1..6).for_each(|number| _ = made.put_key(number, number.into(), 1000).unwrap());
    made.flush().unwrap();
    let path = made.path().to_path_buf();
    drop(made);
    patch(&path, SHAPE.slot_at(1) as u64, |at| at[..4].fill(0xff));
    patch(&path, SHAPE.slot_at(2) as u64, |at| at[..4].copy_from_slice(&[0, 0, 1, 0]));
    let damaged = IndexFile::open(&fs(), &path, SHAPE, Access::MapRead, false, None).unwrap();
    assert_eq!((damaged.slot(1).unwrap(), damaged.slot(2).unwrap(), damaged.slot(3).unwrap()), (0, 0, 3));
    for count in [i32::MAX, i32::MIN, -1, 0] {
        patch(&path, 36, |at| at[..4].copy_from_slice(&count.to_be_bytes()));
        let damaged = IndexFile::open(&fs(), &path, SHAPE, Access::MapWrite, false, None).unwrap();
        assert!(damaged.entry(20).unwrap().is_none() && damaged.entry(u32::MAX).unwrap().is_none());
        assert_eq!(damaged.is_write_full(), count == i32::MAX);
        assert_eq!(damaged.keys_of_last_message().unwrap(), 0);
    }
}

#[test]
fn a_file_of_another_size_that_says_nothing_is_refused_with_its_size() {
    let root = tempfile::tempdir().unwrap();
    for len in [0, 1, 39, 40, 41, 500] {
        let path = root.path().join("20260101000000000");
        std::fs::write(&path, vec![0; len]).unwrap();
        for access in [Access::Read, Access::MapRead, Access::MapWrite] {
            let error = IndexFile::open(&fs(), &path, SHAPE, access, false, None).unwrap_err();
            assert!(matches!(&error, Error::Layout { .. }), "{error}");
            let text = error.to_string();
            assert!(text.contains(&format!("{len} bytes")) && text.contains("maxHashSlotNum=7"), "{text}");
        }
    }
}

#[test]
fn a_file_in_memory_is_as_one_on_the_disk() {
    let file = IndexFile::in_memory(IndexShape { hash_slot_num: 3, index_num: 5 }, Some((1, 2000))).unwrap();
    assert_eq!(file.put_key(4, 10, 3000).unwrap(), PutKey::Put);
    assert_eq!((file.slot(1).unwrap(), file.entry(1).unwrap().unwrap().phy_offset), (1, 10));
    assert!(file.path().as_os_str().is_empty());
    file.flush().unwrap();
}

#[test]
fn the_keys_of_the_last_message_are_counted() {
    let root = tempfile::tempdir().unwrap();
    let file = file(root.path());
    assert_eq!(file.keys_of_last_message().unwrap(), 0);
    for (offset, count) in [(0, 2), (100, 1), (200, 3)] {
        for hash in 0..count {
            file.put_key(hash, offset, 1).unwrap();
        }
        assert_eq!(file.keys_of_last_message().unwrap(), count as usize);
    }
}

/// Without a mapping keys that another process puts are found as with one.
#[test]
fn a_live_file_is_read_as_it_is_now() {
    for access in [Access::Read, Access::MapRead] {
        let root = tempfile::tempdir().unwrap();
        let made = file(root.path());
        made.write_header();
        let read = IndexFile::open(&fs(), made.path(), SHAPE, access, true, None).unwrap();
        for number in 1..6 {
            made.put_key(number, number.into(), 1000 * i64::from(number)).unwrap();
            made.write_header();
            assert_eq!(read.header(), made.header());
            assert_eq!(read.entry(number).unwrap(), made.entry(number).unwrap());
            assert_eq!(read.slot(number % 7).unwrap(), made.slot(number % 7).unwrap());
        }
    }
}
