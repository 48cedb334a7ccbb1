//! Records that say another place in the queues than they have.

use std::path::Path;

use mqstore_core::commit_log::Wait;
use mqstore_core::commit_log::topic_queue::QueueRef;
use mqstore_core::config::{OnDamage, StoreConfig};
use mqstore_core::error::Error;
use mqstore_core::format::message::RecordFault;
use mqstore_core::store::{Mode, Store};

use crate::parts::{set_positions, set_times};
use crate::stores::{
    LOG_FILE_SIZE, bodies, config, crash, found_of, log_file, open, open_with, patch, put, read, tree,
    try_open, walked_parts,
};

const MAGIC_AT: u64 = 4;
const QUEUE_ID_AT: u64 = 12;
const QUEUE_OFFSET_AT: u64 = 20;
/// Behind the head, a body of three bytes and the topic's length.
const TOPIC_AT: u64 = 88 + 3 + 1;

/// Ten messages each of two queues, by turns, of a store that was killed. Gives where they stand.
fn killed(root: &Path, with_units: bool) -> Vec<u64> {
    let store = open(root);
    let offsets = (0..20).map(|number| {
        let topic = ["orders", "payments"][number % 2];
        put(&store, topic, 0, format!("{number:03}").as_bytes(), &format!("KEYS\u{1}k{number}")).wrote_offset
    });
    let offsets: Vec<_> = offsets.collect();
    if with_units {
        store.reput().unwrap();
        for queue in store.queues().all() {
            queue.spill().unwrap();
        }
    }
    crash(store);
    offsets
}

fn expected_without(number: usize, topic: &str) -> Vec<String> {
    let of_topic = (0..20).filter(|other| ["orders", "payments"][other % 2] == topic && *other != number);
    of_topic.map(|number| format!("{number:03}")).collect()
}

#[test]
fn a_record_that_says_another_place_is_dispatched_nowhere() {
    // Units tell of any record, and the order of offsets of all but the last of a queue.
    for (with_units, number) in [(true, 0), (true, 8), (true, 18), (false, 8), (false, 16)] {
        for (at, mask) in
            [(TOPIC_AT, 1), (QUEUE_ID_AT + 3, 1), (QUEUE_OFFSET_AT + 7, 0x20), (QUEUE_OFFSET_AT + 2, 1)]
        {
            let root = tempfile::tempdir().unwrap();
            let offsets = killed(root.path(), with_units);
            let bad = offsets[number];
            patch(&log_file(root.path(), 0), bad + at, |at| at[0] ^= mask);
            let what = format!("units {with_units}, message {number}, byte {at}");

            let reader = read(root.path());
            for queue in reader.queues().all() {
                let found = bodies(&reader, queue.topic(), queue.queue_id());
                assert_eq!(found, expected_without(number, queue.topic()), "{what}: {queue:?}");
            }
            assert_eq!(reader.record_at(bad).unwrap().map(|bytes| bytes.to_vec()), None, "{what}");
            let gaps = reader.gaps();
            let next = offsets[number + 1];
            assert!(matches!(gaps[..], [gap] if (gap.from, gap.to) == (bad, next)), "{what}: {gaps:?}");

            let before = tree(root.path());
            let refused = try_open(config(root.path()), Mode::ReadWrite).map(drop).unwrap_err();
            let is_it = matches!(refused, Error::Damaged { offset, fault: RecordFault::Misplaced { .. }, .. } if offset == bad);
            assert!(is_it, "{what}: {refused}");
            assert_eq!(before, tree(root.path()));

            let mut config = config(root.path());
            config.on_damage = OnDamage::Truncate;
            let cut = open_with(config);
            assert_eq!(cut.max_phy_offset(), bad, "{what}");
            assert_eq!(bodies(&cut, "orders", 0).len(), number.div_ceil(2), "{what}");
        }
    }
}

/// Five messages each of two queues of a topic, by turns, of a store that was killed with its units in the files, where
/// one message says that it is the other queue's. Gives what a reader finds of both queues.
fn read_with_one_in_the_other_queue(number: usize) -> [Vec<String>; 2] {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    let mut offsets = Vec::new();
    for number in 0..5 {
        for queue_id in 0..2 {
            let body = format!("{queue_id}.{number}");
            offsets.push(put(&store, "orders", queue_id, body.as_bytes(), "").wrote_offset);
        }
    }
    store.reput().unwrap();
    for queue in store.queues().all() {
        queue.spill().unwrap();
    }
    crash(store);
    let bad = offsets[number];
    patch(&log_file(root.path(), 0), bad + QUEUE_ID_AT + 3, |at| at[0] ^= 1);
    let reader = read(root.path());
    let gaps = reader.gaps();
    assert!(matches!(gaps[..], [gap] if gap.from == bad), "{gaps:?}");
    [0, 1].map(|queue_id| bodies(&reader, "orders", queue_id))
}

/// It has the other queue's next place, whose own record follows: units tell which of the two is right.
#[test]
fn a_record_that_says_it_is_what_comes_next_in_another_queue_does_not_take_its_place() {
    let [first, second] = read_with_one_in_the_other_queue(4);
    assert_eq!(first, ["0.0", "0.1", "0.3", "0.4"]);
    assert_eq!(second, ["1.0", "1.1", "1.2", "1.3", "1.4"]);
}

/// It has the place that the other queue's last record has: units tell here too.
#[test]
fn a_record_that_says_it_is_what_another_queue_has_already_is_told() {
    let [first, second] = read_with_one_in_the_other_queue(5);
    assert_eq!(first, ["0.0", "0.1", "0.2", "0.3", "0.4"]);
    assert_eq!(second, ["1.0", "1.1", "1.3", "1.4"]);
}

/// A Java store does not say which queues it removed: the first message of such a queue is nobody's rival.
#[test]
fn a_queue_that_begins_anew_behind_its_first_message_has_no_strangers() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    put_at(&store, "orders", 0);
    store.reput().unwrap();
    store.destroy_queue(&store.find_consume_queue("orders", 0).unwrap()).unwrap();
    for queue_offset in 0..3 {
        put_at(&store, "orders", queue_offset);
    }
    spill(&store);
    crash(store);
    std::fs::remove_file(root.path().join("mqstore/removed_queues")).unwrap();
    assert_eq!(open(root.path()).gaps(), []);
}

/// The other queue goes on with it as with a record of its own, and nothing follows that could tell.
#[test]
fn a_last_record_that_says_it_is_the_next_of_another_queue_is_told_by_its_unit() {
    for is_closed in [true, false] {
        let root = tempfile::tempdir().unwrap();
        let store = open(root.path());
        let put = |queue_id, body: &[u8]| put(&store, "orders", queue_id, body, "").wrote_offset;
        for number in 0..3 {
            put(0, b"of the other");
            put(1, format!("{number}").as_bytes());
        }
        let bad = put(1, b"last");
        store.reput().unwrap();
        for queue in store.queues().all() {
            queue.spill().unwrap();
        }
        if is_closed {
            store.close().unwrap();
        }
        crash(store);
        patch(&log_file(root.path(), 0), bad + QUEUE_ID_AT + 3, |at| at[0] ^= 1);
        let reader = read(root.path());
        let gaps = reader.gaps();
        assert!(matches!(gaps[..], [gap] if gap.from == bad), "closed {is_closed}: {gaps:?}");
        assert_eq!(bodies(&reader, "orders", 0), ["of the other"; 3]);
        assert_eq!(bodies(&reader, "orders", 1), ["0", "1", "2"]);
        let refused = try_open(config(root.path()), Mode::ReadWrite).map(drop);
        assert!(matches!(refused, Err(Error::Damaged { offset, .. }) if offset == bad), "{refused:?}");
    }
}

#[test]
fn the_first_record_of_a_queue_is_told_by_those_behind_it() {
    let root = tempfile::tempdir().unwrap();
    let offsets = killed(root.path(), false);
    patch(&log_file(root.path(), 0), offsets[0] + QUEUE_OFFSET_AT + 7, |at| at[0] ^= 18);
    let reader = read(root.path());
    assert_eq!(bodies(&reader, "orders", 0), expected_without(0, "orders"));
    assert_eq!(reader.find_consume_queue("orders", 0).unwrap().max_offset_in_queue(), 10);
}

#[test]
fn a_queue_that_goes_on_at_a_later_offset_is_as_it_was() {
    for jump_at in [0_u64, 5, 9] {
        let root = tempfile::tempdir().unwrap();
        let store = open(root.path());
        let mut expected = Vec::new();
        for number in 0..10_u64 {
            if number == jump_at {
                store.log().set_next_queue_offset(QueueRef { topic: b"orders", queue_id: 0 }, 40);
            }
            put(&store, "payments", 0, b"of another queue", "");
            put(&store, "orders", 0, format!("{number}").as_bytes(), "");
            expected.push(number.to_string());
        }
        crash(store);
        let store = open(root.path());
        assert_eq!(bodies(&store, "orders", 0), expected, "the jump is at {jump_at}");
        assert_eq!(store.find_consume_queue("orders", 0).unwrap().max_offset_in_queue(), 50 - jump_at);
    }
}

/// Puts a message whose queue goes on at an offset.
fn put_at(store: &Store, topic: &str, queue_offset: i64) -> u64 {
    store.log().set_next_queue_offset(QueueRef { topic: topic.as_bytes(), queue_id: 0 }, queue_offset);
    put(store, topic, 0, queue_offset.to_string().as_bytes(), "").wrote_offset
}

fn queue_offsets(store: &Store, topic: &str) -> Vec<i64> {
    bodies(store, topic, 0).iter().map(|body| body.parse().unwrap()).collect()
}

fn spill(store: &Store) {
    store.reput().unwrap();
    store.queues().spill_all().unwrap();
}

#[test]
fn a_queue_that_goes_on_at_later_offsets_again_and_again_is_as_it_was() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    let offsets = [0, 1, 2, 40, 80, 81, 82, 90, 100, 120];
    for queue_offset in offsets {
        put_at(&store, "orders", queue_offset);
    }
    crash(store);
    let store = open(root.path());
    assert_eq!((store.gaps(), queue_offsets(&store, "orders")), (vec![], offsets.to_vec()));
}

/// An offset that is missing in a queue is looked for where it is missing, and only what has just that offset.
#[test]
fn records_of_other_queues_do_not_fill_a_queue_s_hole() {
    // The other queue's one message: its offset, and before which of the first queue's it stands.
    for (other, before) in [(7, 6), (5, 2), (5, 9)] {
        let root = tempfile::tempdir().unwrap();
        let store = open(root.path());
        for queue_offset in [0, 1, 2, 3, 4, 6, 7, 8, 9] {
            if queue_offset == before {
                put_at(&store, "payments", other);
            }
            put_at(&store, "orders", queue_offset);
        }
        crash(store);
        let store = open(root.path());
        assert_eq!(store.gaps(), []);
        assert_eq!(queue_offsets(&store, "payments"), [other], "before {before}");
        assert_eq!(queue_offsets(&store, "orders"), [0, 1, 2, 3, 4, 6, 7, 8, 9]);
    }
}

/// Where the other queue's files have the record's unit, or end where it follows, it is that queue's.
#[test]
fn a_record_that_its_queue_s_files_bear_witness_of_fills_no_hole() {
    for unit_is_in_files in [true, false] {
        let root = tempfile::tempdir().unwrap();
        let store = open(root.path());
        put_at(&store, "payments", 4);
        if !unit_is_in_files {
            spill(&store);
        }
        store.log().end_file(Wait::Block).unwrap();
        for queue_offset in 0..5 {
            put_at(&store, "orders", queue_offset);
        }
        store.clock.set(1_010_000);
        put_at(&store, "payments", 5);
        for queue_offset in 6..9 {
            put_at(&store, "orders", queue_offset);
        }
        if unit_is_in_files {
            spill(&store);
        }
        crash(store);
        // The first file is not walked over.
        set_positions(root.path(), LOG_FILE_SIZE, LOG_FILE_SIZE, LOG_FILE_SIZE);
        set_times(root.path(), [1_005_000; 3]);
        let without_index = || StoreConfig { message_index_enable: false, ..config(root.path()) };
        let store = try_open(without_index(), Mode::Read).unwrap();
        assert_eq!(store.notes().dispatched_from, LOG_FILE_SIZE);
        assert_eq!(store.gaps(), [], "unit in the files: {unit_is_in_files}");
        assert_eq!(queue_offsets(&store, "payments"), [4, 5]);
        assert_eq!(queue_offsets(&store, "orders"), [0, 1, 2, 3, 4, 6, 7, 8]);
    }
}

/// Dispatch would put it at its queue's end, where the next opening would see that it does not belong.
#[test]
fn a_last_record_whose_offset_no_queue_reaches_is_told_at_the_first_opening() {
    for (count, dispatched) in [(1, 0), (3, 0), (3, 2), (3, 1)] {
        for (at, mask) in [(QUEUE_OFFSET_AT, 1), (QUEUE_OFFSET_AT + 4, 1), (QUEUE_OFFSET_AT, 0x80)] {
            let root = tempfile::tempdir().unwrap();
            let store = open(root.path());
            for queue_offset in 0..count {
                put_at(&store, "orders", queue_offset);
                if queue_offset + 1 == dispatched {
                    spill(&store);
                    store.flush_everything().unwrap();
                }
            }
            let last = store.max_phy_offset() - (store.max_phy_offset() / count.cast_unsigned());
            crash(store);
            patch(&log_file(root.path(), 0), last + at, |at| at[0] ^= mask);
            let what = format!("{count} messages, {dispatched} of them dispatched, byte {at}");
            let refused = try_open(config(root.path()), Mode::ReadWrite).map(drop);
            let is_alone = count == 1 && (at, mask) != (QUEUE_OFFSET_AT, 0x80);
            if is_alone {
                refused.unwrap(); // a queue can begin anywhere
                open(root.path()).close().unwrap();
                open(root.path());
                continue;
            }
            let is_it = matches!(refused, Err(Error::Damaged { offset, fault: RecordFault::Misplaced { .. }, .. }) if offset == last);
            assert!(is_it, "{what}: {refused:?}");
            let reader = read(root.path());
            assert_eq!(queue_offsets(&reader, "orders"), (0..count - 1).collect::<Vec<_>>(), "{what}");
        }
    }
}

/// That its queue's files end long before is told where the walk comes by no other record of the queue.
#[test]
fn a_record_out_of_its_queue_s_files_reach_is_told() {
    for (queue_offset, is_stranger) in [(1, false), (20, false), (100_000, true)] {
        let root = tempfile::tempdir().unwrap();
        let store = open(root.path());
        put_at(&store, "orders", 0);
        spill(&store);
        store.log().end_file(Wait::Block).unwrap();
        put_at(&store, "payments", 0);
        store.clock.set(1_010_000);
        put_at(&store, "orders", queue_offset);
        crash(store);
        set_positions(root.path(), LOG_FILE_SIZE, LOG_FILE_SIZE, LOG_FILE_SIZE);
        set_times(root.path(), [1_005_000; 3]);
        let without_index = StoreConfig { message_index_enable: false, ..config(root.path()) };
        let store = try_open(without_index, Mode::Read).unwrap();
        assert_eq!(store.gaps().len(), usize::from(is_stranger), "{queue_offset}");
        let expected = if is_stranger { vec![0] } else { vec![0, queue_offset] };
        assert_eq!(queue_offsets(&store, "orders"), expected);
    }
}

#[test]
fn a_queue_without_units_begins_anywhere() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    put_at(&store, "orders", 100_000);
    crash(store);
    std::fs::create_dir_all(root.path().join("consumequeue/orders/0")).unwrap();
    let store = open(root.path());
    assert_eq!((store.gaps(), queue_offsets(&store, "orders")), (vec![], vec![100_000]));
}

/// Of several units for a record the first counts.
#[test]
fn a_last_record_behind_a_jump_is_as_it_was_where_a_unit_agrees_with_it() {
    for has_copy in [false, true] {
        let root = tempfile::tempdir().unwrap();
        let store = open(root.path());
        for queue_offset in [0, 1, 2, 13] {
            put_at(&store, "orders", queue_offset);
        }
        spill(&store);
        crash(store);
        if has_copy {
            let file = root.path().join("consumequeue/orders/0/00000000000000000200");
            patch(&file, 60, |at| at.copy_within(..20, 20));
        }
        let store = open(root.path());
        assert_eq!((store.gaps(), queue_offsets(&store, "orders")), (vec![], vec![0, 1, 2, 13]));
    }
}

/// 4.9.3 puts the unit behind a gap to its queue's end, and those behind it after it: of the first of them only the next one
/// tells so, where no unit stands at the place that it says.
#[test]
fn units_of_a_queue_whose_gap_was_closed_are_no_evidence() {
    for behind_gap in [8, 100] {
        let root = tempfile::tempdir().unwrap();
        let compat = || StoreConfig { compat: true, ..config(root.path()) };
        let store = open_with(compat());
        let places: Vec<_> = (0..10_u64)
            .map(|number| {
                if number == 5 {
                    let queue = QueueRef { topic: b"orders", queue_id: 0 };
                    store.log().set_next_queue_offset(queue, behind_gap);
                }
                put(&store, "orders", 0, number.to_string().as_bytes(), "").wrote_offset
            })
            .collect();
        store.close().unwrap();
        let store = read(root.path());
        for place in places {
            assert!(store.record_at(place).unwrap().is_some(), "{behind_gap}: {place}");
        }
    }
}

/// Both queues' files, swapped: what they say of every record tells of none.
#[test]
fn units_of_another_queue_s_file_are_no_evidence() {
    let root = tempfile::tempdir().unwrap();
    let offsets = killed(root.path(), true);
    open(root.path()).close().unwrap();
    let queues = root.path().join("consumequeue");
    for (from, to) in [("orders", "other"), ("payments", "orders"), ("other", "payments")] {
        std::fs::rename(queues.join(from), queues.join(to)).unwrap();
    }
    let store = read(root.path());
    for place in offsets {
        assert!(store.record_at(place).unwrap().is_some(), "{place}");
    }
}

/// Alike they are another queue's that has no files: the units behind them tell that they stand in their own.
#[test]
fn a_queue_s_first_records_that_changed_alike_are_given_by_no_way() {
    let root = tempfile::tempdir().unwrap();
    let offsets = killed(root.path(), true);
    open(root.path()).close().unwrap();
    for number in [0, 2] {
        patch(&log_file(root.path(), 0), offsets[number] + TOPIC_AT, |at| at[0] ^= 1);
    }
    let store = read(root.path());
    assert!(store.record_at(offsets[0]).unwrap().is_none());
    assert!(store.record_at(offsets[2]).unwrap().is_none());
    assert_eq!(bodies(&store, "nrders", 0), Vec::<String>::new());
}

#[test]
fn a_record_that_changed_in_a_closed_store_is_given_by_no_way() {
    for (at, mask) in [(TOPIC_AT, 1), (QUEUE_ID_AT + 3, 1), (QUEUE_OFFSET_AT + 7, 0x20)] {
        let root = tempfile::tempdir().unwrap();
        let offsets = killed(root.path(), true);
        open(root.path()).close().unwrap();
        let bad = offsets[8];
        patch(&log_file(root.path(), 0), bad + at, |at| at[0] ^= mask);
        for mode in [Mode::Read, Mode::ReadWrite] {
            let store = try_open(config(root.path()), mode).unwrap();
            assert_eq!(bodies(&store, "orders", 0), expected_without(8, "orders"));
            assert_eq!(store.record_at(bad).unwrap().map(|bytes| bytes.to_vec()), None, "byte {at}");
        }
    }
}

/// That the other queue has its own record there tells that its files are in their place: the record is what changed.
#[test]
fn a_record_that_says_a_place_that_another_has_is_given_by_no_way_in_a_closed_store() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    let places: Vec<_> = (0..10)
        .map(|number| {
            put(&store, "orders", number % 2, number.to_string().as_bytes(), &format!("KEYS\u{1}k{number}"))
                .wrote_offset
        })
        .collect();
    store.close().unwrap();
    patch(&log_file(root.path(), 0), places[4] + QUEUE_ID_AT + 3, |at| at[0] ^= 1);
    let store = read(root.path());
    assert_eq!(bodies(&store, "orders", 0), ["0", "2", "6", "8"]);
    assert_eq!(bodies(&store, "orders", 1), ["1", "3", "5", "7", "9"]);
    assert_eq!(found_of(&store, "orders", "k4"), 0);
    for (number, &place) in places.iter().enumerate() {
        assert_eq!(store.record_at(place).unwrap().is_some(), number != 4, "{number}");
    }
}

/// Damage told the same, however many threads look for it, and what it leaves alone found.
#[test]
fn strangers_are_found_in_parts_as_in_one_walk() {
    for seed in 0..120 {
        let mut random = fastrand::Rng::with_seed(seed);
        let root = tempfile::tempdir().unwrap();
        let offsets = killed(root.path(), random.bool());
        let mut damaged = Vec::new();
        for _ in 0..random.usize(1..4) {
            let at = [TOPIC_AT, QUEUE_ID_AT + 3, QUEUE_OFFSET_AT + 7][random.usize(..3)];
            let mask = 1 << random.u8(..6);
            damaged.push(random.usize(..20));
            patch(&log_file(root.path(), 0), offsets[damaged[damaged.len() - 1]] + at, |at| at[0] ^= mask);
        }
        // Nothing tells that a queue's first record is right where the two behind it are not.
        let is_doubted = |first: &usize| [first + 2, first + 4].iter().all(|behind| damaged.contains(behind));
        let costs = 3 + (0..2).filter(is_doubted).count();
        let found = |part_size| {
            let config = StoreConfig { walked_parts: walked_parts(part_size), ..config(root.path()) };
            let reader = try_open(config, Mode::Read).unwrap();
            let mut bodies_of = Vec::new();
            for queue in reader.queues().all() {
                let name = (queue.topic().to_owned(), queue.queue_id());
                bodies_of.push((bodies(&reader, &name.0, name.1), name));
            }
            let by_key =
                |number: usize| found_of(&reader, ["orders", "payments"][number % 2], &format!("k{number}"));
            (bodies_of, (0..20).map(by_key).collect::<Vec<_>>(), reader.gaps())
        };
        let expected = found(u64::MAX);
        assert!(
            expected.1.iter().sum::<usize>() >= 20 - costs,
            "seed {seed}: a record that is damaged costs its own key"
        );
        for part_size in [100, 250, 700] {
            assert_eq!(found(part_size), expected, "seed {seed}, parts of {part_size}");
        }
    }
}

/// What is missing where the log is damaged was lost there; damage before or behind tells nothing of it.
#[test]
fn no_other_record_fills_a_hole_that_damage_made() {
    for damaged in ["before it", "in it", "behind it"] {
        let root = tempfile::tempdir().unwrap();
        let store = open(root.path());
        put_at(&store, "others", 0);
        let before = put_at(&store, "others", 1);
        for queue_offset in 0..5 {
            put_at(&store, "orders", queue_offset);
        }
        let lost = (damaged == "in it").then(|| put_at(&store, "orders", 5));
        let fitting = put_at(&store, "payments", 5);
        for queue_offset in 6..9 {
            put_at(&store, "orders", queue_offset);
        }
        let behind = put_at(&store, "others", 2);
        put_at(&store, "orders", 9);
        let end = store.max_phy_offset();
        crash(store);
        set_positions(root.path(), end, 0, 0);
        let (bad, told) = match (damaged, lost) {
            (_, Some(lost)) => (lost, vec![lost]),
            ("before it", None) => (before, vec![before, fitting]),
            _ => (behind, vec![fitting, behind]),
        };
        let file = bad / LOG_FILE_SIZE * LOG_FILE_SIZE;
        patch(&log_file(root.path(), file), bad - file + MAGIC_AT, |at| at[0] ^= 1);
        let reader = read(root.path());
        let gaps: Vec<_> = reader.gaps().iter().map(|gap| gap.from).collect();
        assert_eq!(gaps, told, "{damaged}");
    }
}
