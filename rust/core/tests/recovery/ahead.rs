//! What recovery's walk gives to dispatch, which then does not go over the same bytes again.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use mqstore_core::clock::SystemClock;
use mqstore_core::config::{StoreConfig, WalkedParts};
use mqstore_core::dispatch::{DerivedAhead, DispatchTargets, Dispatcher};
use mqstore_core::index::IndexService;
use mqstore_core::mmap::mapped_file::Access;
use mqstore_core::recovery::{Recovery, StoreState, recover};

use crate::parts::{Parts, set_positions, set_times};
use crate::stores::{
    LOG_FILE_SIZE, Opened, config, crash, cutting, fill, found, fs, log_file, numbers, open, open_with,
    patch, read, walked_parts,
};

const COUNT: usize = 100;

/// A store of a hundred messages of one queue in several log files, as it was left by `end`.
fn left(root: &Path, end: impl FnOnce(Opened)) {
    let store = open(root);
    fill(&store, 0..COUNT);
    store.reput().unwrap();
    end(store);
}

fn closed(opened: Opened) {
    opened.store.close().unwrap();
    drop(opened);
}

fn forget_derived(root: &Path) {
    for folder in ["consumequeue", "index"] {
        std::fs::remove_dir_all(root.join(folder)).unwrap();
    }
}

fn with_room(root: &Path, derived_size: usize) -> StoreConfig {
    StoreConfig { walked_parts: WalkedParts { derived_size, ..walked_parts(512) }, ..config(root) }
}

/// What is derived, and up to where the log goes.
fn derived(root: &Path, derived_size: usize, state: StoreState) -> (Option<Range<u64>>, u64) {
    let parts = Parts::with(with_room(root, derived_size));
    let recovery = recover(parts.recovered(state)).unwrap();
    (recovery.derived.range(), recovery.log_end)
}

#[test]
fn all_that_is_dispatched_again_is_derived_in_the_walk() {
    let root = tempfile::tempdir().unwrap();
    left(root.path(), crash);
    let (range, log_end) = derived(root.path(), 1 << 20, StoreState::Crashed);
    assert!(log_end > 4 * 4096, "the walk for the log's end begins behind the first file");
    assert_eq!(range, Some(0..log_end));
    let root = tempfile::tempdir().unwrap();
    left(root.path(), closed);
    assert_eq!(derived(root.path(), 1 << 20, StoreState::Closed).0, None, "nothing is dispatched again");
    forget_derived(root.path());
    assert_eq!(derived(root.path(), 1 << 20, StoreState::Closed).0, Some(0..log_end));
}

/// Which groups' filters a message passes is known only when the store is open.
#[test]
fn nothing_is_derived_in_the_walk_where_dispatch_asks_filters() {
    for state in [StoreState::Crashed, StoreState::Closed] {
        let root = tempfile::tempdir().unwrap();
        left(root.path(), if state == StoreState::Crashed { crash } else { closed });
        forget_derived(root.path());
        let range = |enable_calc_filter_bit_map| {
            let parts =
                Parts::with(StoreConfig { enable_calc_filter_bit_map, ..with_room(root.path(), 1 << 20) });
            recover(parts.recovered(state)).unwrap().derived.range()
        };
        assert!(range(false).is_some());
        assert_eq!(range(true), None);
    }
}

#[test]
fn no_more_is_derived_than_there_is_room_for() {
    let root = tempfile::tempdir().unwrap();
    left(root.path(), crash);
    assert_eq!(derived(root.path(), 0, StoreState::Crashed).0, None);
    let (all, log_end) = derived(root.path(), 1 << 20, StoreState::Crashed);
    let (some, _) = derived(root.path(), 500, StoreState::Crashed);
    let (some, all) = (some.unwrap(), all.unwrap());
    assert_eq!(some.start, all.start);
    assert!(some.end < log_end, "{some:?} of {all:?}");
}

#[test]
fn a_store_is_the_same_however_much_of_it_was_derived_in_the_walk() {
    for is_crashed in [true, false] {
        for room in [0, 300, 1000, 1 << 20] {
            let root = tempfile::tempdir().unwrap();
            left(root.path(), if is_crashed { crash } else { closed });
            if !is_crashed {
                forget_derived(root.path());
            }
            let store = open_with(with_room(root.path(), room));
            assert_eq!(numbers(&store), (0..COUNT).collect::<Vec<_>>(), "room for {room}");
            assert!((0..COUNT).all(|number| found(&store, &format!("k{number}")) == 1), "room for {room}");
            assert_eq!(store.dispatcher().message_count(), COUNT as u64, "room for {room}");
            assert_eq!(store.dispatch_behind_bytes(), 0);
        }
    }
}

/// The walk for the log's end begins at a later file than dispatch has to, and 4.9.3 looks for no strangers before it.
#[test]
fn what_stands_before_all_that_was_derived_is_dispatched_too() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    fill(&store, 0..COUNT / 2);
    store.clock.set(1_010_000);
    fill(&store, COUNT / 2..COUNT);
    crash(store);
    set_positions(root.path(), 2 * LOG_FILE_SIZE, 0, 0);
    set_times(root.path(), [1_005_000; 3]);
    let compat = || StoreConfig { compat: true, ..with_room(root.path(), 1 << 20) };
    let parts = Parts::with(compat());
    let recovery = recover(parts.recovered(StoreState::Crashed)).unwrap();
    assert_eq!(recovery.dispatch_from, 0);
    assert_eq!(recovery.derived.range(), Some(2 * LOG_FILE_SIZE..recovery.log_end));
    assert_eq!(numbers(&open_with(compat())), (0..COUNT).collect::<Vec<_>>());
}

/// Nothing is confirmed yet when the store is opened.
#[test]
fn what_was_derived_behind_the_confirm_offset_is_not_dispatched() {
    let root = tempfile::tempdir().unwrap();
    left(root.path(), crash);
    forget_derived(root.path());
    let store = open_with(StoreConfig { duplication_enable: true, ..with_room(root.path(), 1 << 20) });
    assert_eq!((store.dispatcher().message_count(), store.dispatcher().reput_from_offset()), (0, 0));
}

/// Which records are strangers is only known behind the walk.
#[test]
fn nothing_derived_is_kept_of_a_log_with_a_stranger() {
    const QUEUE_OFFSET_AT: u64 = 20;
    let root = tempfile::tempdir().unwrap();
    left(root.path(), crash);
    let queue = read(root.path()).find_consume_queue("t", 0).unwrap();
    let stranger = queue.unit(7).unwrap().unwrap().physical_offset.cast_unsigned();
    patch(&log_file(root.path(), 0), stranger + QUEUE_OFFSET_AT + 6, |at| at[0] ^= 1);
    let reader = read(root.path());
    let expected: Vec<_> = (0..COUNT).filter(|&number| number != 7).collect();
    assert_eq!(numbers(&reader), expected);
    assert_eq!(reader.dispatcher().message_count(), COUNT as u64);
}

/// The walk left out what a removal says, whose last record is cut off with the damage before it.
#[test]
fn nothing_derived_is_kept_where_a_removal_no_longer_counts() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    fill(&store, 0..COUNT);
    store.reput().unwrap();
    let queue = store.find_consume_queue("t", 0).unwrap();
    let bad = queue.unit(COUNT as u64 / 2).unwrap().unwrap().physical_offset.cast_unsigned();
    store.destroy_queue(&queue).unwrap();
    drop(queue);
    crash(store);
    assert_eq!(numbers(&read(root.path())), []);
    patch(&log_file(root.path(), bad / 4096 * 4096), bad % 4096 + 100, |at| at[0] ^= 1);
    let store = open_with(cutting(root.path()));
    assert_eq!(numbers(&store), (0..COUNT / 2).collect::<Vec<_>>());
}

/// With keys in a thread of their own, or behind the units.
fn with_keys_aside(root: &Path, are_aside: bool) -> StoreConfig {
    let keys_aside_size = if are_aside { 0 } else { usize::MAX };
    StoreConfig {
        walked_parts: WalkedParts { derived_size: 1 << 20, keys_aside_size, ..walked_parts(512) },
        ..config(root)
    }
}

#[test]
fn what_was_derived_is_put_without_another_look_at_the_log() {
    for are_aside in [true, false] {
        let root = tempfile::tempdir().unwrap();
        let (parts, recovery) = log_alone(root.path(), with_keys_aside(root.path(), are_aside));
        assert_eq!(recovery.derived.range(), Some(0..recovery.log_end));
        for file in parts.log.files().files().iter() {
            patch(&log_file(root.path(), file.file_from_offset()), 0, |at| at.fill(0xFF));
        }
        let dispatcher = Dispatcher::new(false);
        assert_eq!(dispatcher.pass_with(parts.targets(), recovery.derived).unwrap(), COUNT as u64);
        assert_eq!((dispatcher.reput_from_offset(), dispatcher.gaps()), (recovery.log_end, Vec::new()));
        let queues = parts.queues.all();
        assert_eq!(
            queues.iter().map(|queue| queue.max_offset_in_queue()).collect::<Vec<_>>(),
            [COUNT as u64]
        );
        assert_eq!(key_count(&parts.index), COUNT);
    }
}

fn key_count(index: &IndexService) -> usize {
    index.files().iter().map(|file| file.index_count() as usize - 1).sum()
}

/// What recovery finds of a store that was killed and has its log alone.
fn log_alone(root: &Path, config: StoreConfig) -> (Parts, Recovery) {
    left(root, crash);
    forget_derived(root);
    let parts = Parts::with(config);
    let recovery = recover(parts.recovered(StoreState::Crashed)).unwrap();
    (parts, recovery)
}

/// Nothing of what was derived counts where a file stands in the way of some of it, and all is dispatched once that is gone.
fn is_dispatched_again(targets: DispatchTargets<'_>, derived: DerivedAhead, in_the_way: &Path) {
    std::fs::write(in_the_way, "in the way").unwrap();
    let dispatcher = Dispatcher::new(false);
    dispatcher.pass_with(targets, derived).unwrap_err();
    assert_eq!(dispatcher.reput_from_offset(), 0);
    std::fs::remove_file(in_the_way).unwrap();
    assert_eq!(dispatcher.pass(targets).unwrap(), COUNT as u64);
    assert_eq!(key_count(targets.index.unwrap()), COUNT);
    assert_eq!(targets.queues.all()[0].max_offset_in_queue(), COUNT as u64);
}

/// Units are there by then, and those of one part are told as dispatched before the next one's.
#[test]
fn what_was_derived_is_dispatched_again_where_a_key_could_not_be_put() {
    for are_aside in [true, false] {
        let root = tempfile::tempdir().unwrap();
        let (parts, recovery) = log_alone(root.path(), with_keys_aside(root.path(), are_aside));
        let folder = root.path().join("elsewhere");
        let shape = config(root.path()).index_shape;
        let index = IndexService::new(fs(), Arc::new(SystemClock), folder.clone(), shape, Access::MapWrite);
        let targets = DispatchTargets { index: Some(&index), ..parts.targets() };
        is_dispatched_again(targets, recovery.derived, &folder);
    }
}

/// However well its keys were put.
#[test]
fn what_was_derived_is_dispatched_again_where_a_unit_could_not_be_put() {
    for are_aside in [true, false] {
        let root = tempfile::tempdir().unwrap();
        let with_ext =
            StoreConfig { enable_consume_queue_ext: true, ..with_keys_aside(root.path(), are_aside) };
        let (parts, recovery) = log_alone(root.path(), with_ext);
        is_dispatched_again(parts.targets(), recovery.derived, &root.path().join("consumequeue_ext"));
    }
}
