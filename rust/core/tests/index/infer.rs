//! The shape of a file that does not say it.

use mqstore_core::format::index::{IndexEntry, IndexShape};
use mqstore_core::index::file::{IndexFile, PutKey};
use mqstore_core::index::infer::infer_shape;
use mqstore_core::mmap::mapped_file::Access;
use proptest::prelude::*;

use crate::SHAPE;
use crate::stores::fs;

fn file_of(shape: IndexShape, hashes: impl IntoIterator<Item = u32>) -> (tempfile::TempDir, IndexFile) {
    let (root, file) = unflushed(shape, hashes);
    file.flush().unwrap();
    (root, file)
}

/// Its header has the first key and no more, as while a writer puts the others, or where it is killed then.
fn unflushed(shape: IndexShape, hashes: impl IntoIterator<Item = u32>) -> (tempfile::TempDir, IndexFile) {
    let root = tempfile::tempdir().unwrap();
    let file = IndexFile::create(&fs(), &root.path().join("20260101000000000"), shape, None, None).unwrap();
    for (offset, hash) in (0..).zip(hashes) {
        assert_eq!(file.put_key(hash, offset * 100, 1000).unwrap(), PutKey::Put);
    }
    (root, file)
}

#[test]
fn files_of_other_options_are_read_and_take_no_keys() {
    let shape = IndexShape { hash_slot_num: 101, index_num: 300 };
    let (_root, file) = file_of(shape, (0..200_u32).map(|number| number.wrapping_mul(2_654_435_761) >> 1));
    let found = IndexFile::open(&fs(), file.path(), SHAPE, Access::MapWrite, false, None).unwrap();
    assert_eq!(found.shape(), shape);
    assert!(found.is_write_full());
    assert_eq!(found.put_key(1, 1, 1).unwrap(), PutKey::Full);
    assert_eq!(found.entry(200).unwrap(), file.entry(200).unwrap());
}

#[test]
fn a_file_without_entries_has_any_shape_of_its_size() {
    let shape = IndexShape { hash_slot_num: 11, index_num: 30 };
    let (root, first) = file_of(shape, []);
    let path = root.path().join("20260101000000001");
    let second = IndexFile::create(&fs(), &path, shape, Some((100, 1000)), None).unwrap();
    for file in [&first, &second] {
        let found = IndexFile::open(&fs(), file.path(), SHAPE, Access::MapWrite, false, None).unwrap();
        assert_eq!(found.shape().file_size(), shape.file_size());
        assert!(found.is_write_full(), "it takes no keys by numbers that may be others");
    }
    let mut written = std::fs::read(second.path()).unwrap();
    written[36..40].fill(0);
    assert!(infer_shape(&written).is_some(), "4.9.3 writes no number of entries before there is one");
    assert_eq!(infer_shape(&vec![0; written.len()]), None, "it says nothing at all");
    assert_eq!(infer_shape(&written[..written.len() - 1]), None);
    for len in 0..60 {
        assert_eq!(infer_shape(&vec![0xff; len]), None);
        assert_eq!(infer_shape(&vec![0; len]), None);
    }
}

/// Slots lead past the last entry that the header knows: their chains come back to it.
#[test]
fn a_header_may_be_behind_its_entries() {
    let shape = IndexShape { hash_slot_num: 101, index_num: 3000 };
    for keys in [20, 70, 2000_u32] {
        let (_root, file) =
            unflushed(shape, (1..=keys).map(|number| number.wrapping_mul(2_654_435_761) >> 1));
        let mut bytes = std::fs::read(file.path()).unwrap();
        assert_eq!(bytes[36..40], 2_u32.to_be_bytes(), "one key");
        assert_eq!(infer_shape(&bytes), Some(shape), "{keys} keys");
        bytes[36..40].copy_from_slice(&(keys / 2 + 1).to_be_bytes());
        assert_eq!(infer_shape(&bytes), Some(shape), "{keys} keys, half of them in the header");
        let last = IndexEntry { key_hash: 77, phy_offset: 1, time_diff: 1, prev_index: 0 };
        let at = shape.entry_at(keys + 1);
        bytes[at..at + 20].copy_from_slice(&last.to_bytes());
        assert_eq!(infer_shape(&bytes), Some(shape), "{keys} keys, and one that no slot leads to yet");
    }
}

/// Few entries agree with fewer slots as well by accident, as that of each first key here, but not as many of them.
#[test]
fn of_shapes_with_which_few_entries_agree_the_one_with_the_most_counts() {
    let shape = IndexShape { hash_slot_num: 101, index_num: 300 };
    for first in [35, 101, 122, 124, 188, 223, 229, 293_u32] {
        for keys in [3, 5, 7_u32] {
            let hashes = (1..=keys).map(|number| (number * 7919 + first).wrapping_mul(2_654_435_761) >> 1);
            let (_root, file) = unflushed(shape, hashes);
            assert_eq!(
                infer_shape(&std::fs::read(file.path()).unwrap()),
                Some(shape),
                "{first}, {keys} keys"
            );
        }
    }
}

/// One chain leads through all entries, by as many steps for each of those that are looked at.
#[test]
fn a_file_in_which_chains_are_long_takes_no_longer_for_it() {
    let shape = IndexShape { hash_slot_num: 1, index_num: 1_000_000 };
    let mut bytes = vec![0; shape.file_size()];
    bytes[36..40].copy_from_slice(&65_u32.to_be_bytes());
    bytes[40..44].copy_from_slice(&999_999_u32.to_be_bytes());
    for number in 1..1_000_000_u32 {
        let entry =
            IndexEntry { key_hash: 0, phy_offset: 1, time_diff: 0, prev_index: number.cast_signed() - 1 };
        let at = shape.entry_at(number);
        bytes[at..at + 20].copy_from_slice(&entry.to_bytes());
    }
    assert_eq!(infer_shape(&bytes), None, "the header is too far behind");
    bytes[36..40].copy_from_slice(&1_000_000_u32.to_be_bytes());
    assert_eq!(infer_shape(&bytes), Some(shape));
}

/// With six slots, or one, the newest entry's slot names it too, but the other's chain does not lead to it.
#[test]
fn a_shape_counts_where_every_chain_holds() {
    let shape = IndexShape { hash_slot_num: 11, index_num: 30 };
    let (_root, file) = file_of(shape, [6, 11]);
    assert_eq!(infer_shape(&std::fs::read(file.path()).unwrap()), Some(shape));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn the_shape_follows_from_the_entries(
        slots in 1..400_u32, entries in 60..200_u32,
        hashes in proptest::collection::vec(0..=i32::MAX.unsigned_abs(), 20..59)
    ) {
        let shape = IndexShape { hash_slot_num: slots, index_num: entries };
        let (_root, file) = file_of(shape, hashes);
        prop_assert_eq!(infer_shape(&std::fs::read(file.path()).unwrap()), Some(shape));
    }

    #[test]
    fn any_bytes_have_a_shape_that_fits_or_none(mut bytes in proptest::collection::vec(0..3_u8, 0..3000)) {
        if bytes.len() >= 40 {
            bytes[36..40].copy_from_slice(&[0, 0, 0, 3]);
        }
        if let Some(shape) = infer_shape(&bytes) {
            prop_assert_eq!(shape.file_size(), bytes.len());
        }
    }
}
