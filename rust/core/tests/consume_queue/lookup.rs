//! Looking up by time, against a model that looks at every message.

use std::path::Path;

use mqstore_core::consume_queue::Boundary;
use mqstore_core::store::Store;
use proptest::prelude::*;

use crate::stores::{Opened, config, log_file, open, patch, put, read};

fn at(store: &Store, timestamp: i64, boundary: Boundary) -> u64 {
    store.get_offset_in_queue_by_time("t", 0, timestamp, boundary).unwrap()
}

fn store_at(root: &Path, times: &[i64]) -> Opened {
    let opened = open(root);
    for time in times {
        opened.clock.set(*time);
        put(&opened, "t", 0, &[0; 300], "");
    }
    opened
}

#[test]
fn a_queue_without_messages_has_offset_0() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    for boundary in [Boundary::Nearest, Boundary::Lower, Boundary::Upper] {
        assert_eq!(at(&store, 5, boundary), 0);
    }
}

#[test]
fn bounds_and_the_nearest_of_a_few() {
    let root = tempfile::tempdir().unwrap();
    let store = store_at(root.path(), &[100, 200, 200, 300]);
    for (time, lower, upper, nearest) in [
        (i64::MIN, 0, 0, 0),
        (99, 0, 0, 0),
        (100, 0, 0, 0),
        (101, 1, 0, 0),
        (150, 1, 0, 0),
        (151, 1, 0, 1),
        (200, 1, 2, 1),
        (250, 3, 2, 1),
        (251, 3, 2, 3),
        (300, 3, 3, 3),
        (301, 4, 3, 3),
        (i64::MAX, 4, 3, 3),
    ] {
        assert_eq!(at(&store, time, Boundary::Lower), lower, "lower {time}");
        assert_eq!(at(&store, time, Boundary::Upper), upper, "upper {time}");
        assert_eq!(at(&store, time, Boundary::Nearest), nearest, "nearest {time}");
    }
}

#[test]
fn units_are_found_by_their_place_in_the_log() {
    let root = tempfile::tempdir().unwrap();
    let store = store_at(root.path(), &[1; 25]);
    store.reput().unwrap();
    let queue = store.find_consume_queue("t", 0).unwrap();
    for index in 0..25 {
        let offset = queue.unit(index).unwrap().unwrap().physical_offset.cast_unsigned();
        assert_eq!(queue.first_unit_at(offset).unwrap(), index);
        assert_eq!(queue.first_unit_at(offset + 1).unwrap(), index + 1);
    }
    assert_eq!(queue.first_unit_at(u64::MAX).unwrap(), 25);
}

/// Times that were read are remembered: of a queue that is not what it was they say nothing.
#[test]
fn times_are_right_in_a_queue_that_was_destroyed_and_filled_again() {
    let root = tempfile::tempdir().unwrap();
    let store = store_at(root.path(), &(0..100).map(|number| 1000 + number).collect::<Vec<_>>());
    let lower = |timestamp| at(&store, timestamp, Boundary::Lower);
    for number in 0..100 {
        assert_eq!(lower(1000 + number), number.unsigned_abs());
    }
    store.destroy_queue(&store.find_consume_queue("t", 0).unwrap()).unwrap();
    for number in 0..100 {
        store.clock.set(2000 + 5 * number);
        put(&store, "t", 0, &[0; 300], "");
    }
    for number in 0..100 {
        assert_eq!(lower(2000 + 5 * number), number.unsigned_abs());
        assert_eq!(lower(2001 + 5 * number), number.unsigned_abs() + 1);
    }
}

/// Damaged, it hides itself at most.
#[test]
fn one_store_time_that_is_far_off_leads_no_further_astray_than_to_itself() {
    const COUNT: u64 = 70;
    let time_of = |index: u64| 1000 + 10 * index.cast_signed();
    let root = tempfile::tempdir().unwrap();
    let store = store_at(root.path(), &(0..COUNT).map(time_of).collect::<Vec<_>>());
    store.reput().unwrap();
    let queue = store.find_consume_queue("t", 0).unwrap();
    let places: Vec<_> =
        (0..COUNT).map(|index| queue.unit(index).unwrap().unwrap().place().unwrap().0).collect();
    drop(queue);
    store.close().unwrap();
    for damaged in 0..COUNT {
        let offset = places[usize::try_from(damaged).unwrap()];
        let file_size = config(root.path()).mapped_file_size_commit_log;
        let log = log_file(root.path(), offset - offset % file_size);
        let set = |time: i64| {
            patch(&log, offset % file_size + 56, |bytes| bytes[..8].copy_from_slice(&time.to_be_bytes()));
        };
        for time in [0, 5, i64::MAX] {
            set(time);
            let store = read(root.path());
            for wanted in 0..COUNT {
                let found = at(&store, time_of(wanted), Boundary::Lower);
                let is_beside_it = wanted.abs_diff(damaged) <= 1 && found.abs_diff(damaged) <= 1;
                assert!(found == wanted || is_beside_it, "{wanted} with {damaged} at {time}: {found}");
            }
        }
        set(time_of(damaged));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(30))]

    #[test]
    fn look_ups_agree_with_a_look_at_every_message(
        steps in proptest::collection::vec(0..4_i64, 1..60), expired in 0..3_usize, wanted in proptest::collection::vec(90..250_i64, 20)
    ) {
        let root = tempfile::tempdir().unwrap();
        let mut time = 100;
        let times: Vec<i64> = steps.iter().map(|step| { time += step; time }).collect();
        let store = store_at(root.path(), &times);
        store.reput().unwrap();
        let files = store.log().files().files();
        let gone = expired.min(files.len() - 1);
        store.log().files().delete(&files[..gone]).unwrap();
        let queue = store.find_consume_queue("t", 0).unwrap();
        queue.correct_min_offset(store.log().min_offset().unwrap()).unwrap();
        let min = queue.min_offset_in_queue();
        let kept: Vec<(u64, i64)> = (0..).zip(times.iter().copied()).skip(usize::try_from(min).unwrap()).collect();
        prop_assume!(!kept.is_empty());
        let end = times.len() as u64;
        for wanted in wanted {
            let lower = kept.iter().find(|(_, time)| *time >= wanted).map_or(end, |(index, _)| *index);
            let upper = kept.iter().rev().find(|(_, time)| *time <= wanted).map_or(min, |(index, _)| *index);
            let nearest = kept.iter().min_by_key(|(index, time)| ((time - wanted).abs(), *index)).unwrap().0;
            prop_assert_eq!(at(&store, wanted, Boundary::Lower), lower);
            prop_assert_eq!(at(&store, wanted, Boundary::Upper), upper);
            prop_assert_eq!(at(&store, wanted, Boundary::Nearest), nearest);
        }
    }

    /// Of some messages the times are too far from each other to be remembered.
    #[test]
    fn what_was_looked_up_is_found_again_while_the_queue_grows(
        steps in proptest::collection::vec(prop_oneof![8 => 0..3_i64, 1 => 50_000..80_000_i64], 1..150), at_once in 1..60_usize
    ) {
        let root = tempfile::tempdir().unwrap();
        let store = store_at(root.path(), &[]);
        let mut times: Vec<i64> = vec![];
        for steps in steps.chunks(at_once) {
            for step in steps {
                let time = times.last().unwrap_or(&100) + step;
                times.push(time);
                store.clock.set(time);
                put(&store, "t", 0, b"", "");
            }
            store.reput().unwrap();
            for wanted in times.iter().flat_map(|time| [time - 1, *time, time + 1]) {
                let lower = times.partition_point(|time| *time < wanted) as u64;
                prop_assert_eq!(at(&store, wanted, Boundary::Lower), lower);
            }
        }
    }
}
