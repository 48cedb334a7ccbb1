//! How far a queue's files are believed.

use std::path::{Path, PathBuf};

use mqstore_core::commit_log::topic_queue::QueueRef;
use mqstore_core::config::{OnDamage, StoreConfig};
use mqstore_core::format::cq_unit::CqUnit;
use mqstore_core::recovery::ahead::Told;
use mqstore_core::recovery::log_end::{Behind, LogEnd};
use mqstore_core::recovery::{StoreState, queues};
use mqstore_core::store::Store;

use crate::parts::{Parts, set_positions};
use crate::stores::{
    bodies, config, crash, crash_files_later, fill, forget_own_files, log_file, numbers, open, open_with,
    patch, put, read, tree,
};

/// A store of 35 messages whose units are all in files of ten, and three of another topic among the first.
/// Gives where each of the 35 stands, and where the log ends.
fn killed(config: StoreConfig) -> Vec<u64> {
    let store = open_with(config);
    for number in 0..35 {
        if number < 3 {
            put(&store, "u", 0, b"u", "");
        }
        fill(&store, number..number + 1);
    }
    spill(&store);
    let queue = store.find_consume_queue("t", 0).unwrap();
    let place = |index| queue.unit(index).unwrap().unwrap().physical_offset.cast_unsigned();
    let places = (0..35).map(place).chain([store.max_phy_offset()]).collect();
    crash(store);
    places
}

fn spill(store: &Store) {
    store.reput().unwrap();
    store.queues().spill_all().unwrap();
}

fn queue_file(root: &Path, number: u64) -> PathBuf {
    root.join(format!("consumequeue/t/0/{:020}", number * 200))
}

/// What is found after a crash where queues are known to be on the disk up to an offset: where dispatch begins,
/// and how many units are left of both queues.
fn found(config: StoreConfig, known: u64) -> (u64, [u64; 2]) {
    set_positions(&config.store_path_root_dir, known, known, known);
    found_with_walk_from(config, known)
}

/// As [`found`], by whatever positions there are, where the walk over the log began at an offset.
fn found_with_walk_from(config: StoreConfig, walked_from: u64) -> (u64, [u64; 2]) {
    let parts = Parts::with(config);
    let log_end = parts.log.files().last().unwrap().end_offset();
    parts.log.set_end(log_end, 0);
    let (gaps, behind) = (Vec::new(), Behind::Unknown);
    let told = Told::default();
    let end = LogEnd { log_end, last_store_timestamp: 0, walked_from, gaps, behind, told };
    let ends = queues::recover(parts.recovered(StoreState::Crashed), &end).unwrap();
    let count = |topic: &str| {
        let queue = parts.queues.get_decoded(QueueRef { topic: topic.as_bytes(), queue_id: 0 });
        queue.map_or(0, |queue| queue.max_offset_in_queue())
    };
    (ends.dispatch_from, [count("t"), count("u")])
}

#[test]
fn units_of_records_that_were_known_to_be_on_the_disk_stay_and_no_others() {
    let root = tempfile::tempdir().unwrap();
    let places = killed(config(root.path()));
    for (count, &known) in (0_u64..).zip(&places) {
        // Where this queue's message has no unit any more, those of the other topic before it have theirs.
        let others = count.min(3) + u64::from(count < 3 && places[0] > 0);
        assert_eq!(found(config(root.path()), known), (known, [count, others.min(3)]), "{count} known");
    }
}

/// Positions that were lost could have said anything. Of a store that never had any, as of 4.9.3's, the walk's begin says it.
#[test]
fn no_unit_is_believed_where_the_positions_are_lost() {
    let root = tempfile::tempdir().unwrap();
    let places = killed(config(root.path()));
    std::fs::write(root.path().join("mqstore/positions"), "torn").unwrap();
    assert_eq!(found_with_walk_from(config(root.path()), places[20]), (0, [0, 0]));
    forget_own_files(root.path());
    assert_eq!(found_with_walk_from(config(root.path()), places[20]), (places[20], [20, 3]));
}

/// A queue's units are read in parts that grow.
#[test]
fn a_long_queue_stays_as_far_as_it_was_known() {
    let root = tempfile::tempdir().unwrap();
    let long = || StoreConfig { mapped_file_size_consume_queue: 1000 * 20, ..config(root.path()) };
    let store = open_with(long());
    fill(&store, 0..460);
    spill(&store);
    let queue = store.find_consume_queue("t", 0).unwrap();
    let place = |index| queue.unit(index).unwrap().unwrap().physical_offset.cast_unsigned();
    let places: Vec<_> = (0..460).map(place).collect();
    crash(store);
    for count in [0_u64, 1, 63, 64, 65, 191, 192, 193, 447, 448, 449, 459] {
        let known = places[usize::try_from(count).unwrap()];
        assert_eq!(found(long(), known), (known, [count, 0]));
    }
}

#[test]
fn what_is_no_unit_ends_a_queue_which_is_dispatched_again_from_there() {
    let garbage = [(1, -1, 0), (0, -1, 7), (i64::MAX, 0, 7), (-1, 100, 0), (0, 100, 0)];
    for at in [0_u64, 5, 10, 12, 20, 34] {
        for (physical_offset, size, tags_code) in garbage {
            if (physical_offset, size) == (0, 100) && at <= 10 {
                continue; // it is a unit, and none is read before it that it could be out of order with
            }
            let root = tempfile::tempdir().unwrap();
            let places = killed(config(root.path()));
            let unit = CqUnit { physical_offset, size, tags_code };
            patch(&queue_file(root.path(), at / 10), at % 10 * 20, |at| {
                at[..20].copy_from_slice(&unit.to_bytes());
            });
            let before =
                if at == 0 { 0 } else { places[usize::try_from(at).unwrap() - 1] + size_of_record(at - 1) };
            let what = format!("{unit:?} at {at}");
            if at < 10 {
                // The newest three files are read, and those before as far as not even a first unit is known.
                assert_eq!(found(config(root.path()), places[35]), (places[35], [35, 3]), "{what}");
                assert_eq!(found(config(root.path()), places[11]), (places[11], [11, 3]), "{what}");
                assert_eq!(found(config(root.path()), places[10]), (before, [at, 3]), "{what}");
            } else {
                assert_eq!(found(config(root.path()), places[35]), (before, [at, 3]), "{what}");
            }
        }
    }
}

fn size_of_record(number: u64) -> u64 {
    if number < 10 { 179 } else { 180 }
}

/// Behind the last unit a file holds zeros, as where a power cut lost them: that is no reason to go back.
#[test]
fn zeros_end_a_queue_as_its_end_does() {
    let root = tempfile::tempdir().unwrap();
    let places = killed(config(root.path()));
    patch(&queue_file(root.path(), 3), 40, |at| at.fill(0));
    assert_eq!(found(config(root.path()), places[35]), (places[35], [32, 3]));
}

/// What was known to be on the disk no power cut takes.
#[test]
fn zeros_before_a_unit_that_was_known_are_damage() {
    let root = tempfile::tempdir().unwrap();
    let places = killed(config(root.path()));
    patch(&queue_file(root.path(), 3), 40, |at| at[..20].fill(0));
    assert_eq!(
        found(config(root.path()), places[33]),
        (places[33], [32, 3]),
        "the ones behind were not known"
    );
    let lost = places[31] + size_of_record(31);
    assert_eq!(found(config(root.path()), places[34]), (lost, [32, 3]));
    // A page of zeros, as a disk that lost one gives it.
    let root = tempfile::tempdir().unwrap();
    let long = || StoreConfig { mapped_file_size_consume_queue: 1000 * 20, ..config(root.path()) };
    let store = open_with(long());
    fill(&store, 0..600);
    spill(&store);
    let end = store.max_phy_offset();
    crash(store);
    patch(&queue_file(root.path(), 0), 4096, |at| at[..4096].fill(0));
    assert!(found(long(), end).0 < end);
    let store = open_with(long());
    assert_eq!(numbers(&store), (0..600).collect::<Vec<_>>());
}

/// A flipped bit in a unit that was known to be on the disk. One that leaves the units in order is not looked for but at
/// the queue's end: the message is not served, and `verify` tells.
#[test]
fn a_damaged_unit_loses_no_other_message_of_its_queue_after_a_crash() {
    for index in [10_u64, 25, 34] {
        for bit in 0..96_u32 {
            let root = tempfile::tempdir().unwrap();
            let store = open(root.path());
            fill(&store, 0..35);
            crash_files_later(store);
            let at = index % 10 * 20 + u64::from(bit / 8);
            patch(&queue_file(root.path(), index / 10), at, |at| at[0] ^= 1 << (bit % 8));
            let store = open(root.path());
            fill(&store, 35..37);
            let damaged = usize::try_from(index).unwrap();
            let mut found = numbers(&store);
            if index < 34 && !found.contains(&damaged) {
                found.insert(damaged, damaged);
            }
            assert_eq!(found, (0..37).collect::<Vec<_>>(), "bit {bit} of unit {index}");
        }
    }
}

#[test]
fn a_queue_that_begins_late_has_blank_units_before_its_first() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    let queue = QueueRef { topic: b"t", queue_id: 0 };
    store.log().set_next_queue_offset(queue, 13);
    fill(&store, 0..3);
    spill(&store);
    let end = store.max_phy_offset();
    crash(store);
    assert_eq!(found(config(root.path()), end), (end, [16, 0]));
    let store = open(root.path());
    assert_eq!(numbers(&store), [0, 1, 2]);
    assert_eq!(store.find_consume_queue("t", 0).unwrap().max_offset_in_queue(), 16);
    store.close().unwrap();
    let reader = read(root.path());
    assert_eq!(reader.notes().dispatched_from, reader.max_phy_offset());
}

fn config_with_ext(root: &Path) -> StoreConfig {
    StoreConfig { enable_consume_queue_ext: true, ..config(root) }
}

fn ext_files(root: &Path) -> Vec<PathBuf> {
    let files = std::fs::read_dir(root.join("consumequeue_ext/t/0")).unwrap();
    let mut files: Vec<_> = files.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

#[test]
fn units_whose_part_in_the_extension_is_missing_are_made_again() {
    for clean in [true, false] {
        let root = tempfile::tempdir().unwrap();
        let places = killed(config_with_ext(root.path()));
        open_with(config_with_ext(root.path())).close().unwrap();
        // Files of the extension hold four of its units.
        let files = ext_files(root.path());
        assert_eq!(files.len(), 9);
        std::fs::remove_file(&files[8]).unwrap();
        if !clean {
            let (dispatch_from, units) = found(config_with_ext(root.path()), places[35]);
            assert_eq!((dispatch_from, units), (places[32], [32, 3]));
            std::fs::write(root.path().join("abort"), "").unwrap();
        }
        let store = open_with(config_with_ext(root.path()));
        let queue = store.find_consume_queue("t", 0).unwrap();
        assert_eq!(queue.max_offset_in_queue(), 35);
        for index in 0..35 {
            let unit = queue.unit(index).unwrap().unwrap();
            assert_eq!(queue.ext(unit.tags_code).unwrap().unwrap().msg_store_time, 1_000_000, "unit {index}");
        }
        store.close().unwrap();
        assert_eq!(ext_files(root.path()).len(), 9);
    }
}

/// What is in the extension is put behind the last unit that a unit of the queue leads to.
#[test]
fn the_extension_ends_with_its_queue() {
    let root = tempfile::tempdir().unwrap();
    let store = open_with(config_with_ext(root.path()));
    fill(&store, 0..20);
    store.close().unwrap();
    let before = ext_files(root.path()).iter().map(|path| std::fs::read(path).unwrap()).collect::<Vec<_>>();
    // The last two messages are torn off the log; their units and those units' parts go with them.
    let first_of_two = 10 * 179 + 8 * 180;
    patch(&log_file(root.path(), 0), first_of_two, |at| at.fill(0));
    let store = open_with(StoreConfig { on_damage: OnDamage::Truncate, ..config_with_ext(root.path()) });
    assert_eq!(numbers(&store), (0..18).collect::<Vec<_>>());
    fill(&store, 18..20);
    store.close().unwrap();
    let after = ext_files(root.path()).iter().map(|path| std::fs::read(path).unwrap()).collect::<Vec<_>>();
    assert_eq!(after, before, "the same messages at the same places");
}

/// Nothing else tells that a queue of a closed store lost its files.
#[test]
fn a_queue_of_which_only_the_extension_is_left_is_made_again() {
    let root = tempfile::tempdir().unwrap();
    let store = open_with(config_with_ext(root.path()));
    fill(&store, 0..20);
    put(&store, "u", 0, b"u", "");
    store.close().unwrap();
    let whole = tree(&root.path().join("consumequeue_ext"));
    for file in [0, 1] {
        std::fs::remove_file(queue_file(root.path(), file)).unwrap();
    }
    let store = open_with(config_with_ext(root.path()));
    assert_eq!(numbers(&store), (0..20).collect::<Vec<_>>());
    store.close().unwrap();
    assert_eq!(tree(&root.path().join("consumequeue_ext")), whole);
}

#[test]
fn a_queue_and_its_extension_go_on_after_a_close_as_if_there_had_been_none() {
    let files_of = |lives: &[(bool, std::ops::Range<usize>)]| {
        let root = tempfile::tempdir().unwrap();
        for (enable_consume_queue_ext, numbers) in lives {
            let store = open_with(StoreConfig {
                enable_consume_queue_ext: *enable_consume_queue_ext,
                ..config(root.path())
            });
            fill(&store, numbers.clone());
            store.close().unwrap();
        }
        let files =
            ["consumequeue/t/0", "consumequeue_ext/t/0"].map(|folder| tree(&root.path().join(folder)));
        files.map(|files| files.into_values().collect::<Vec<_>>())
    };
    let [units, ext] = files_of(&[(true, 0..25)]);
    assert_eq!(files_of(&[(true, 0..9), (true, 9..10), (true, 10..25)]), [units, ext.clone()]);
    // A message that was dispatched while it was off has no part in it.
    assert_eq!(files_of(&[(true, 0..9), (false, 9..10), (true, 10..26)])[1], ext);
}

/// Units have a part in the extension where it was on when their messages were dispatched, and others none.
#[test]
fn turning_the_extension_on_or_off_leaves_units_as_they_are() {
    for has_ext in [false, true] {
        let root = tempfile::tempdir().unwrap();
        let of = |enable_consume_queue_ext| StoreConfig { enable_consume_queue_ext, ..config(root.path()) };
        let store = open_with(of(has_ext));
        put(&store, "u", 0, b"u", "");
        fill(&store, 0..12);
        store.close().unwrap();
        let units = tree(&root.path().join("consumequeue"));
        for has_ext in [has_ext, !has_ext] {
            let store = open_with(of(has_ext));
            assert_eq!(store.notes().dispatched_from, store.max_phy_offset(), "extension {has_ext}");
            assert_eq!(numbers(&store), (0..12).collect::<Vec<_>>());
            store.close().unwrap();
            assert_eq!(tree(&root.path().join("consumequeue")), units);
        }
    }
}

#[test]
fn a_queue_without_files_tells_nothing() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    fill(&store, 0..12);
    store.close().unwrap();
    std::fs::create_dir_all(root.path().join("consumequeue/empty/0")).unwrap();
    let store = open(root.path());
    assert_eq!(store.notes().dispatched_from, store.max_phy_offset());
    assert_eq!(numbers(&store), (0..12).collect::<Vec<_>>());
}

#[test]
fn a_queue_all_of_whose_units_lead_behind_the_log_is_empty() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    fill(&store, 0..12);
    store.close().unwrap();
    let file = root.path().join("consumequeue/behind/0/00000000000000000000");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    let unit = CqUnit { physical_offset: 1 << 30, size: 100, tags_code: 0 };
    let mut content = [unit.to_bytes(), CqUnit::PRE_BLANK.to_bytes()].concat();
    content.resize(200, 0);
    std::fs::write(&file, content).unwrap();
    let store = open(root.path());
    assert_eq!(store.find_consume_queue("behind", 0).unwrap().max_offset_in_queue(), 0);
    put(&store, "behind", 0, b"first", "");
    assert_eq!(bodies(&store, "behind", 0), ["first"]);
}

/// Retention took the first files of queue and log: offsets count from where they counted before.
#[test]
fn a_queue_without_its_first_files_ends_where_it_ended() {
    for clean in [true, false] {
        let root = tempfile::tempdir().unwrap();
        killed(config(root.path()));
        let store = open(root.path());
        if clean {
            store.close().unwrap();
        } else {
            store.reput().unwrap();
            store.flush_everything().unwrap();
            crash(store);
        }
        std::fs::remove_file(log_file(root.path(), 0)).unwrap();
        std::fs::remove_file(queue_file(root.path(), 0)).unwrap();
        std::fs::remove_file(queue_file(root.path(), 1)).unwrap();
        let store = open(root.path());
        let queue = store.find_consume_queue("t", 0).unwrap();
        assert_eq!(queue.max_offset_in_queue(), 35, "clean: {clean}");
        let left = numbers(&store);
        assert_eq!(left, (left[0]..35).collect::<Vec<_>>());
        assert_eq!(queue.min_offset_in_queue(), left[0] as u64);
        fill(&store, 35..36);
        assert_eq!(numbers(&store).last(), Some(&35));
    }
}
