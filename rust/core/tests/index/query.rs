//! Looking up over many files.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use mqstore_core::error::Error;
use mqstore_core::format::index::key_hash;
use mqstore_core::index::{IndexService, KeyFinder, KeyQuery};
use mqstore_core::interrupt;
use mqstore_core::mmap::mapped_file::Access;
use proptest::prelude::*;

use crate::service;

fn query<'a>(key: &'a str, max_num: usize, begin: i64, end: i64) -> KeyQuery<'a> {
    KeyQuery { topic: b"t", key: key.as_bytes(), max_num, begin, end }
}

fn put(index: &IndexService, keys: &[&str], offset: u64, time: i64) {
    let hashes = keys.iter().map(|key| key_hash(b"t", key.as_bytes()));
    index.build_index(hashes, offset, time).unwrap();
}

/// The offsets that a look-up gives where this says what matches.
fn found(index: &IndexService, query: &KeyQuery<'_>, matches: impl Fn(u64) -> bool) -> Vec<u64> {
    let taken = index.query(query, |offset| Ok(matches(offset).then_some(()))).unwrap();
    taken.into_iter().map(|(offset, ())| offset).collect()
}

#[test]
fn the_newest_messages_come_first_over_all_files() {
    let root = tempfile::tempdir().unwrap();
    let (index, _) = service(root.path(), Access::MapWrite);
    for number in 0..50 {
        put(&index, &["k", "other"], number * 100, 1000);
    }
    let all = query("k", usize::MAX, 0, i64::MAX);
    let expected: Vec<u64> = (0..50).rev().map(|number| number * 100).collect();
    assert_eq!(found(&index, &all, |_| true), expected);
    assert_eq!(found(&index, &query("k", 3, 0, i64::MAX), |_| true), [4900, 4800, 4700]);
    assert_eq!(found(&index, &all, |offset| offset < 200), [100, 0], "hints are checked");
    assert_eq!(found(&index, &query("none", 9, 0, i64::MAX), |_| panic!("no such hash")), []);
    assert_eq!(found(&index, &query("k", 0, 0, i64::MAX), |_| true), []);
}

#[test]
fn a_message_with_a_key_twice_is_given_once() {
    let root = tempfile::tempdir().unwrap();
    let (index, _) = service(root.path(), Access::MapWrite);
    put(&index, &["k", "k"], 100, 1000);
    assert_eq!(found(&index, &query("k", 9, 0, i64::MAX), |_| true), [100]);
}

#[test]
fn of_many_messages_with_one_key_each_is_given_once() {
    let root = tempfile::tempdir().unwrap();
    let (index, _) = service(root.path(), Access::MapWrite);
    for number in 0..200 {
        put(&index, &["k", "k", "k"], number * 100, 1000);
    }
    let expected: Vec<u64> = (0..200).rev().map(|number| number * 100).collect();
    for max_num in [16, 17, 18, 150, 200, 500] {
        let expected = &expected[..max_num.min(200)];
        assert_eq!(found(&index, &query("k", max_num, 0, i64::MAX), |_| true), expected);
    }
}

#[test]
fn a_look_up_through_many_entries_can_be_broken_off() {
    let root = tempfile::tempdir().unwrap();
    let (index, _) = service(root.path(), Access::MapWrite);
    for number in 0..1100 {
        put(&index, &["k"], number * 100, 1000);
    }
    let all = query("k", usize::MAX, 0, i64::MAX);
    let broken_off = interrupt::until(|| true, || index.query(&all, |_| Ok(Some(()))));
    assert!(matches!(broken_off, Err(Error::Interrupted)));
    let broken_off = interrupt::until(|| true, || index.query_offset_compat(&all, usize::MAX));
    assert!(matches!(broken_off, Err(Error::Interrupted)));
    assert_eq!(interrupt::until(|| false, || found(&index, &all, |_| true)).len(), 1100);
}

#[test]
fn as_4_9_3_does_it_times_are_whole_seconds() {
    let root = tempfile::tempdir().unwrap();
    let (index, _) = service(root.path(), Access::MapWrite);
    for (offset, time) in [(0, 10_000), (100, 10_900), (200, 12_500)] {
        put(&index, &["k"], offset, time);
    }
    let offsets = |begin, end| index.query_offset_compat(&query("k", 9, begin, end), 64).unwrap().phy_offsets;
    assert_eq!(offsets(0, i64::MAX), [200, 100, 0]);
    assert_eq!(offsets(10_500, 11_000), Vec::<u64>::new(), "the message in the begin's second is missed");
    assert_eq!(offsets(10_000, 11_000), [100, 0]);
    assert_eq!(offsets(20_000, 30_000), Vec::<u64>::new());
    let result = index.query_offset_compat(&query("k", 9, 0, i64::MAX), 2).unwrap();
    assert_eq!(result.phy_offsets, [200, 100], "no more than a batch has");
    assert_eq!((result.index_last_update_timestamp, result.index_last_update_phyoffset), (12_500, 200));
}

#[test]
fn without_files_there_is_nothing() {
    let root = tempfile::tempdir().unwrap();
    let (index, _) = service(root.path(), Access::MapWrite);
    assert_eq!(found(&index, &query("k", 9, 0, i64::MAX), |_| true), []);
    assert_eq!(index.query_offset_compat(&query("k", 9, 0, i64::MAX), 64).unwrap().phy_offsets, []);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Messages with keys of a few letters and times that may stand still, against a map.
    #[test]
    fn look_ups_agree_with_a_look_at_every_message(
        messages in proptest::collection::vec((proptest::collection::vec("[a-d]", 0..3), 0..2500_i64), 1..90),
        ranges in proptest::collection::vec((0..200_000_i64, 0..60_000_i64, 1..20_usize), 8)
    ) {
        let root = tempfile::tempdir().unwrap();
        let (index, _) = service(root.path(), Access::MapWrite);
        let mut stored: BTreeMap<u64, (Vec<String>, i64)> = BTreeMap::new();
        let mut time = 1000;
        for (offset, (keys, step)) in (0..).step_by(100).zip(messages) {
            time += step;
            let names: Vec<&str> = keys.iter().map(String::as_str).collect();
            put(&index, &names, offset, time);
            stored.insert(offset, (keys, time));
        }
        for (begin, len, max_num) in ranges {
            for key in ["a", "b", "c", "d"] {
                let query = query(key, max_num, begin, begin + len);
                let matches = |offset| {
                    let (keys, time) = &stored[&offset];
                    keys.iter().any(|found| found == key) && (begin..=begin + len).contains(time)
                };
                let expected: Vec<u64> = stored.keys().rev().copied().filter(|at| matches(*at)).take(max_num).collect();
                prop_assert_eq!(found(&index, &query, matches), expected);
            }
        }
    }
}

/// A look-up that waited for the disk has the next ones ask for their pages first.
#[test]
fn look_ups_are_slow_until_some_were_quick() {
    let root = tempfile::tempdir().unwrap();
    let (index, _) = service(root.path(), Access::MapWrite);
    let finder = KeyFinder::new(&index, b"topic");
    // Whatever the time is, these took none and very long.
    let now = Instant::now();
    let (quick, slow) = (now + Duration::from_secs(3600), now.checked_sub(Duration::from_secs(1)).unwrap());
    assert!(finder.is_slow(), "nothing is known yet");
    finder.took(quick, 63);
    assert!(finder.is_slow() && (0..10).all(|_| finder.begin().is_some()));
    finder.took(quick, 1);
    assert!(!finder.is_slow());
    assert_eq!((0..80).filter(|_| finder.begin().is_some()).count(), 10, "a clock costs something");
    finder.took(slow, 1);
    assert!(KeyFinder::new(&index, b"other topic").is_slow(), "of all finders");
    finder.took(slow, 1_000_000);
    finder.took(quick, 64);
    assert!(!finder.is_slow());
}
