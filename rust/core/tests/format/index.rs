//! Header, slots and entries of an index file.

use mqstore_core::format::index::{
    INDEX_HEADER_SIZE, INDEX_SIZE, IndexEntry, IndexHeader, IndexShape, TopicHash, key_hash,
};
use proptest::prelude::*;

use crate::{flips, hex};

fn header() -> IndexHeader {
    IndexHeader {
        begin_timestamp: 1,
        end_timestamp: 2,
        begin_phy_offset: 3,
        end_phy_offset: 4,
        hash_slot_count: 5,
        index_count: 6,
    }
}

#[test]
fn a_header_has_the_bytes_of_the_table() {
    let bytes = hex("0000000000000001 0000000000000002 0000000000000003 0000000000000004 00000005 00000006");
    assert_eq!(header().to_bytes().to_vec(), bytes);
    assert_eq!(IndexHeader::read(&bytes), Some(header()));
    for (bit, flipped) in flips(&bytes) {
        assert_ne!(IndexHeader::read(&flipped), Some(header()), "bit {bit}");
    }
    for len in 0..INDEX_HEADER_SIZE {
        assert_eq!(IndexHeader::read(&bytes[..len]), None);
    }
}

#[test]
fn an_index_count_below_one_is_one() {
    for count in [0, -1, i32::MIN] {
        let bytes = IndexHeader { index_count: count, ..header() }.to_bytes();
        assert_eq!(IndexHeader::read(&bytes).unwrap().index_count, 1);
    }
}

#[test]
fn an_entry_has_the_bytes_of_the_table() {
    let entry = IndexEntry { key_hash: 1, phy_offset: 2, time_diff: 3, prev_index: 4 };
    let bytes = hex("00000001 0000000000000002 00000003 00000004");
    assert_eq!(entry.to_bytes().to_vec(), bytes);
    assert_eq!(IndexEntry::read(&bytes), Some(entry));
    for len in 0..INDEX_SIZE {
        assert_eq!(IndexEntry::read(&bytes[..len]), None);
    }
}

#[test]
fn a_file_of_the_default_options_has_the_size_of_java() {
    let shape = IndexShape { hash_slot_num: 5_000_000, index_num: 20_000_000 };
    assert_eq!(shape.file_size(), 420_000_040);
    assert_eq!((shape.slot_at(0), shape.slot_at(1)), (40, 44));
    assert_eq!((shape.entry_at(0), shape.entry_at(1)), (20_000_040, 20_000_060));
    assert_eq!([0, 4_999_999, 5_000_001].map(|hash| shape.slot_of(hash)), [0, 4_999_999, 1]);
}

#[test]
fn a_keys_hash_is_that_of_topic_and_key() {
    // `Math.abs("TopicTest#key0".hashCode())`, as Java gives it.
    assert_eq!(key_hash(b"TopicTest", b"key0"), 1_655_984_461);
    assert_eq!(TopicHash::of(b"TopicTest").key(b"key0"), 1_655_984_461);
    assert_eq!(key_hash("主题".as_bytes(), "键".as_bytes()), java_abs("主题#键"));
}

#[test]
fn the_hash_whose_absolute_value_is_negative_is_zero() {
    // `"t#qolygtg".hashCode()` is `Integer.MIN_VALUE`.
    assert_eq!(key_hash(b"t", b"qolygtg"), 0);
    assert_ne!(key_hash(b"t", b"qolygth"), 0);
}

fn java_abs(text: &str) -> u32 {
    let hash =
        text.encode_utf16().fold(0_i32, |hash, unit| hash.wrapping_mul(31).wrapping_add(i32::from(unit)));
    hash.unsigned_abs()
}

#[test]
fn time_differences_are_whole_seconds_within_an_int() {
    let header = IndexHeader { begin_timestamp: 10_000, ..IndexHeader::default() };
    for (time, diff) in [
        (10_000, 0),
        (10_999, 0),
        (11_000, 1),
        (9_000, 0),
        (i64::MIN, 0),
        (10_000 + i64::from(i32::MAX) * 1000, i32::MAX),
        (i64::MAX, i32::MAX),
    ] {
        assert_eq!(header.time_diff(time), diff, "{time}");
    }
    for begin_timestamp in [0, -5] {
        assert_eq!(IndexHeader { begin_timestamp, ..header }.time_diff(99_999), 0);
    }
}

proptest! {
    #[test]
    fn any_forty_bytes_are_a_header(bytes in any::<[u8; INDEX_HEADER_SIZE]>()) {
        let header = IndexHeader::read(&bytes).unwrap();
        prop_assert_eq!(&header.to_bytes()[..36], &bytes[..36]);
        prop_assert!(header.index_count >= 1);
        prop_assert!(header.time_diff(header.end_timestamp) >= 0);
    }

    #[test]
    fn any_twenty_bytes_are_an_entry(bytes in any::<[u8; INDEX_SIZE]>()) {
        prop_assert_eq!(IndexEntry::read(&bytes).unwrap().to_bytes(), bytes);
    }

    #[test]
    fn slots_and_entries_lie_in_the_file(slots in 1..1000_u32, entries in 2..1000_u32, hash in any::<u32>()) {
        let shape = IndexShape { hash_slot_num: slots, index_num: entries };
        prop_assert!(shape.slot_of(hash) < slots);
        prop_assert_eq!(shape.slot_at(slots), shape.entry_at(0));
        prop_assert_eq!(shape.entry_at(entries), shape.file_size());
    }

    #[test]
    fn a_topics_part_of_the_hash_is_the_same_for_all_its_keys(topic in ".{0,20}", key in ".{0,20}") {
        let expected = java_abs(&format!("{topic}#{key}"));
        let expected = if expected == 1 << 31 { 0 } else { expected };
        prop_assert_eq!(key_hash(topic.as_bytes(), key.as_bytes()), expected);
    }
}
