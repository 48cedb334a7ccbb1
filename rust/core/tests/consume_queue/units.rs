//! Appending units, and reading them.

use mqstore_core::config::StoreConfig;
use mqstore_core::consume_queue::{PutUnit, RejectReason};
use mqstore_core::format::cq_unit::CqUnit;
use mqstore_core::mmap::mapped_file::Access;
use proptest::prelude::*;

use crate::stores::{UNITS_IN_FILE, config};
use crate::{all_units, new_unit, queue_of, table, table_with, unit};

#[test]
fn units_follow_each_other_in_memory_and_in_files() {
    let root = tempfile::tempdir().unwrap();
    let table = table(root.path());
    let queue = queue_of(&table);
    assert_eq!((queue.max_offset_in_queue(), queue.max_physic_offset()), (0, -1));
    for number in 0..25 {
        assert!(matches!(queue.put(new_unit(number, number)).unwrap(), PutUnit::Appended));
    }
    let expected: Vec<_> = (0..25).map(unit).collect();
    for _ in 0..2 {
        assert_eq!(all_units(&queue), expected);
        assert_eq!((queue.max_offset_in_queue(), queue.max_physic_offset()), (25, 2500));
        assert_eq!(queue.units(8, 5).unwrap(), expected[8..10], "to the end of the file at the most");
        assert_eq!(queue.unit(24).unwrap(), Some(unit(24)));
        queue.spill().unwrap();
        assert_eq!(queue.tail_len(), 0);
    }
    assert!(!queue.spill().unwrap(), "there is nothing left to write");
    let files = queue.files();
    assert_eq!(files.len(), 3);
    let written = std::fs::read(files[2].path()).unwrap();
    assert_eq!(written[..20], unit(20).to_bytes());
    assert!(written[100..].iter().all(|&byte| byte == 0) && written.len() == 200);
    assert_eq!([0, 9, 10, 24].map(|index| queue.roll_next_file(index)), [10, 10, 20, 30]);
}

#[test]
fn behind_what_is_missing_units_go_on_where_the_next_ones_are() {
    let root = tempfile::tempdir().unwrap();
    let table = table(root.path());
    let queue = queue_of(&table);
    for number in 0..30 {
        queue.put(new_unit(number, number)).unwrap();
    }
    queue.spill().unwrap();
    assert_eq!([0, 9, 10].map(|index| queue.next_behind_missing(index)), [10, 10, 20]);
    // The log begins in the middle of a queue file from now on: 4.9.3 would go on with the next one.
    assert_eq!(queue.delete_expired_file(2200).unwrap(), 2);
    assert_eq!([0, 20, 21].map(|index| queue.units(index, 1).unwrap().len()), [0, 0, 0]);
    assert_eq!([0, 20, 21, 22].map(|index| queue.next_behind_missing(index)), [22, 22, 22, 30]);
    assert_eq!(queue.units(22, 1).unwrap(), [unit(22)]);
}

#[test]
fn places_outside_hold_nothing() {
    let root = tempfile::tempdir().unwrap();
    let table = table(root.path());
    let queue = queue_of(&table);
    for number in 0..3 {
        queue.put(new_unit(number, number)).unwrap();
    }
    for from in [3, 4, 1 << 40, u64::MAX / 20, u64::MAX / 20 + 1, u64::MAX] {
        assert_eq!(queue.units(from, 1).unwrap(), [], "{from}");
        assert_eq!(queue.unit(from).unwrap(), None);
    }
    assert_eq!(queue.units(1, usize::MAX).unwrap().len(), 2);
    assert_eq!(queue.units(1, 0).unwrap(), []);
}

#[test]
fn a_unit_that_is_there_is_not_put_again() {
    let root = tempfile::tempdir().unwrap();
    let table = table(root.path());
    let queue = queue_of(&table);
    for number in 0..5 {
        queue.put(new_unit(number, number)).unwrap();
    }
    for number in 0..5 {
        assert_eq!(queue.put(new_unit(number, number)).unwrap(), PutUnit::Repeated);
    }
    for number in [3, 4] {
        assert_eq!(queue.put(new_unit(9, number)).unwrap(), PutUnit::OutOfPlace, "its place is taken");
    }
    assert_eq!(all_units(&queue), (0..5).map(unit).collect::<Vec<_>>());
    assert_eq!(queue.put(new_unit(10, 0)).unwrap(), PutUnit::OutOfPlace, "it is at 5");
    assert_eq!((queue.max_offset_in_queue(), table.rejected().count()), (6, 0), "the table was not asked");
}

/// With other messages between both, the last one is not what stands where the queue should go on.
#[test]
fn a_unit_behind_blank_ones_stays_where_others_lie_before_it() {
    let root = tempfile::tempdir().unwrap();
    let queue = queue_of(&table(root.path()));
    for number in [0, 1, 2, 6, 8] {
        queue.put(new_unit(number, number)).unwrap();
    }
    assert_eq!(queue.put(new_unit(9, 3)).unwrap(), PutUnit::OutOfPlace);
    let found: Vec<_> = all_units(&queue).into_iter().map(|unit| unit.place().is_some()).collect();
    assert_eq!(found, [true, true, true, false, false, false, true, false, true]);
}

#[test]
fn a_message_that_is_not_at_its_offset_is_told_however_it_is_put() {
    for compat in [false, true] {
        let root = tempfile::tempdir().unwrap();
        let table = table_with(StoreConfig { compat, ..config(root.path()) }, Access::MapWrite);
        let queue = queue_of(&table);
        table.put_all(&queue, [0, 1, 2].map(|number| new_unit(number, number)).into_iter(), false).unwrap();
        table.put(&queue, new_unit(3, 1)).unwrap();
        table.put_light(&queue, new_unit(4, 2)).unwrap();
        table.put_all(&queue, [new_unit(5, 3), new_unit(6, 0)].into_iter(), false).unwrap();
        let told: Vec<_> = table
            .rejected()
            .first()
            .iter()
            .map(|rejected| (rejected.queue_offset, rejected.physical_offset, rejected.reason))
            .collect();
        let expected =
            [(1, 300), (2, 400), (0, 600)].map(|(at, place)| (at, place, RejectReason::OffsetTaken));
        assert_eq!(told, if compat { &[][..] } else { &expected });
        assert_eq!(table.rejected().count(), told.len() as u64);
    }
}

#[test]
fn a_queue_whose_first_message_is_not_its_number_0_begins_with_blanks() {
    let root = tempfile::tempdir().unwrap();
    let table = table(root.path());
    let queue = queue_of(&table);
    queue.put(new_unit(900, 33)).unwrap();
    assert_eq!((queue.min_offset_in_queue(), queue.max_offset_in_queue()), (33, 34));
    assert_eq!(queue.unit(33).unwrap(), Some(unit(900)));
    assert_eq!(queue.unit(32).unwrap(), Some(CqUnit::PRE_BLANK));
    assert_eq!(queue.unit(29).unwrap(), None, "its file begins at 30");
    assert_eq!(queue.units(32, 1).unwrap(), [], "blanks are before the queue's first");
    queue.spill().unwrap();
    let files = queue.files();
    assert_eq!(files.len(), 1);
    assert_eq!(files[0].file_from_offset(), 30 * 20);
    let expected = [&CqUnit::PRE_BLANK.to_bytes().repeat(3)[..], &unit(900).to_bytes()].concat();
    assert_eq!(std::fs::read(files[0].path()).unwrap()[..80], expected);
}

#[test]
fn a_gap_is_filled_with_blanks_unless_as_4_9_3_does_it() {
    for compat in [false, true] {
        let root = tempfile::tempdir().unwrap();
        let mut config = config(root.path());
        config.compat = compat;
        let table = table_with(config, Access::MapWrite);
        let queue = queue_of(&table);
        queue.put(new_unit(0, 0)).unwrap();
        queue.put(new_unit(50, 3)).unwrap();
        let blank = CqUnit::PRE_BLANK;
        let expected = if compat { vec![unit(0), unit(50)] } else { vec![unit(0), blank, blank, unit(50)] };
        assert_eq!(all_units(&queue), expected);
    }
}

/// A record's queue offset is covered by no checksum.
#[test]
fn an_offset_that_no_queue_can_have_reached_does_not_fill_the_memory() {
    for cq_offset in [1_u64 << 25, 1 << 40, i64::MAX.cast_unsigned()] {
        let root = tempfile::tempdir().unwrap();
        let table = table(root.path());
        let queue = queue_of(&table);
        queue.put(new_unit(0, 0)).unwrap();
        queue.put(new_unit(50, cq_offset)).unwrap();
        assert_eq!(all_units(&queue), [unit(0), unit(50)], "it stands at the queue's end");
        queue.put(new_unit(51, 2)).unwrap();
        assert_eq!(queue.max_offset_in_queue(), 3, "and the queue goes on behind it");
        let empty = table
            .get_or_make(mqstore_core::commit_log::topic_queue::QueueRef { topic: b"empty", queue_id: 0 })
            .unwrap();
        empty.put(new_unit(50, cq_offset)).unwrap();
        let begin = if cq_offset < 1 << 58 { cq_offset } else { 0 };
        assert_eq!((empty.min_offset_in_queue(), empty.max_offset_in_queue()), (begin, begin + 1));
        assert!(empty.tail_len() <= 200, "only its file is filled up with blanks");
    }
}

#[test]
fn a_store_that_is_only_read_keeps_units_in_memory() {
    let root = tempfile::tempdir().unwrap();
    {
        let table = table(root.path());
        let queue = queue_of(&table);
        (0..12).for_each(|number| _ = queue.put(new_unit(number, number)).unwrap());
        queue.spill().unwrap();
    }
    let before = crate::stores::tree(root.path());
    for access in [Access::MapRead, Access::Read] {
        let table = table_with(config(root.path()), access);
        let queue = queue_of(&table);
        for number in 20..1500 {
            table.put(&queue, new_unit(number, number)).unwrap();
        }
        assert!(!queue.spill().unwrap() && table.spill_all().is_ok() && table.flush(0).is_ok());
        assert_eq!(queue.unit(5).unwrap(), Some(unit(5)));
        assert_eq!(queue.unit(1499).unwrap(), Some(unit(1499)));
        assert_eq!(crate::stores::tree(root.path()), before);
    }
}

#[test]
fn much_in_memory_goes_to_the_files() {
    let root = tempfile::tempdir().unwrap();
    let table = table(root.path());
    let queue = queue_of(&table);
    for number in 0..2000 {
        queue.put(new_unit(number, number)).unwrap();
        assert!(queue.tail_len() < 16 << 10);
    }
    assert!(!queue.files().is_empty());
    assert_eq!(all_units(&queue).len(), 2000);
}

#[test]
fn expired_files_go_and_the_first_offset_moves() {
    let root = tempfile::tempdir().unwrap();
    let table = table(root.path());
    let queue = queue_of(&table);
    (0..35).for_each(|number| _ = queue.put(new_unit(number, number)).unwrap());
    queue.spill().unwrap();
    let kept = queue.files()[0].slice(0, 20).unwrap();
    assert_eq!(queue.delete_expired_file(900).unwrap(), 0, "the tenth message is still there");
    assert_eq!(queue.min_offset_in_queue(), 9);
    assert_eq!(queue.delete_expired_file(2100).unwrap(), 2);
    assert_eq!((queue.min_offset_in_queue(), queue.files()[0].file_from_offset()), (21, 400));
    assert_eq!(queue.units(20, 1).unwrap(), []);
    assert_eq!(queue.message_total_in_queue(), 14);
    assert_eq!(kept[..], unit(0).to_bytes());
    assert_eq!(queue.delete_expired_file(99_999).unwrap(), 1, "the newest file stays");
    assert_eq!((queue.min_offset_in_queue(), queue.max_offset_in_queue()), (35, 35));
    queue.put(new_unit(1000, 35)).unwrap();
    assert_eq!(all_units(&queue), [unit(1000)]);
}

#[test]
fn a_destroyed_queue_begins_again() {
    let root = tempfile::tempdir().unwrap();
    let table = table(root.path());
    let queue = queue_of(&table);
    (0..35).for_each(|number| _ = table.put(&queue, new_unit(number, number)).unwrap());
    table.spill_all().unwrap();
    table.flush(0).unwrap();
    assert!(root.path().join("consumequeue/t/0").is_dir());
    table.destroy(&queue).unwrap();
    assert!(!root.path().join("consumequeue/t").exists());
    assert_eq!((table.queue_count(), queue.max_offset_in_queue()), (0, 0));
    let again = queue_of(&table);
    again.put(new_unit(77, 0)).unwrap();
    again.spill().unwrap();
    again.warm_up().unwrap();
    assert_eq!(all_units(&again), [unit(77)]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Puts, spills and expiry in any order, against a map from offset to unit.
    #[test]
    fn a_queue_is_a_map_of_its_units(
        steps in proptest::collection::vec((0..10_u8, 0..3_u64, 1..40_u64), 1..120)
    ) {
        let root = tempfile::tempdir().unwrap();
        let table = table(root.path());
        let queue = queue_of(&table);
        let mut model = std::collections::BTreeMap::new();
        let (mut record, mut next) = (0, 0);
        for (what, skip, by) in steps {
            match what {
                0 => { queue.spill().unwrap(); }
                1 => {
                    let min = record.min(by) * 100;
                    queue.delete_expired_file(min).unwrap();
                    model.retain(|_, unit: &mut CqUnit| unit.physical_offset >= min.cast_signed());
                }
                _ => {
                    // Records are lost with damage: as many as the bytes between can have held.
                    let skip = if next == 0 { 0 } else { skip };
                    record += skip * 2;
                    next += skip;
                    queue.put(new_unit(record, next)).unwrap();
                    model.insert(next, unit(record));
                    record += 1;
                    next += 1;
                }
            }
            prop_assert_eq!(queue.max_offset_in_queue(), next);
            let min = model.keys().next().copied().unwrap_or(next);
            prop_assert_eq!(queue.first_unit_at(model.values().next().map_or(u64::MAX, |unit| {
                unit.physical_offset.cast_unsigned()
            })).unwrap(), min);
            for index in min..next {
                let expected = model.get(&index).copied().unwrap_or(CqUnit::PRE_BLANK);
                prop_assert_eq!(queue.unit(index).unwrap(), Some(expected));
            }
        }
        prop_assert!(queue.files().iter().all(|file| file.file_size() == UNITS_IN_FILE * 20));
    }
}
