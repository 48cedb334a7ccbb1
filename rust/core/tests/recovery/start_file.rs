//! In which file of the log the walk to its end begins.

use std::path::Path;

use mqstore_core::config::StoreConfig;
use mqstore_core::format::message::{MAGIC_CODE_AT, MESSAGE_MAGIC_CODE_V2};
use mqstore_core::recovery::{StoreState, log_end};

use crate::parts::{Parts, set_positions, set_times};
use crate::stores::{LOG_FILE_SIZE, config, crash, fill, forget_own_files, log_file, open, patch};

const FILE_COUNT: u64 = 5;

/// A store of five log files that was killed. The first message of each was stored ten seconds behind that of
/// the file before: at 1,000,000, 1,010,000, … ms.
fn killed(root: &Path) {
    let store = open(root);
    for number in 0..FILE_COUNT {
        store.clock.set(1_000_000 + 10_000 * number.cast_signed());
        fill(&store, 0..22);
    }
    assert_eq!(store.max_phy_offset() / LOG_FILE_SIZE, FILE_COUNT - 1);
    crash(store);
}

/// The number of the file in which the walk begins.
fn start_of(config: StoreConfig, state: StoreState) -> u64 {
    log_end::find(Parts::with(config).recovered(state)).unwrap().walked_from / LOG_FILE_SIZE
}

fn start(root: &Path) -> u64 {
    start_of(config(root), StoreState::Crashed)
}

#[test]
fn after_a_clean_stop_it_is_the_third_but_last() {
    let root = tempfile::tempdir().unwrap();
    killed(root.path());
    forget_own_files(root.path());
    set_times(root.path(), [1_040_000; 3]);
    assert_eq!(start_of(config(root.path()), StoreState::Closed), FILE_COUNT - 3);
}

/// Three seconds before the time of log and queues, as in 4.9.3.
#[test]
fn where_rocketmq_wrote_last_the_checkpoint_tells() {
    let root = tempfile::tempdir().unwrap();
    killed(root.path());
    forget_own_files(root.path());
    for (times, expected) in [
        ([0, 0, 0], 0),
        ([1_040_000, 1_040_000, 1_040_000], 3),
        ([1_023_000, 1_040_000, 1_040_000], 2),
        ([1_022_999, 1_040_000, 1_040_000], 1),
        ([1_040_000, 1_013_000, 1_040_000], 1),
        ([1_040_000, 1_012_999, 1_040_000], 0),
        ([1_040_000, 1_040_000, 1_010_000], 3),
    ] {
        set_times(root.path(), times);
        assert_eq!(start(root.path()), expected, "{times:?}");
    }
    set_times(root.path(), [1_040_000, 1_040_000, 1_010_000]);
    let safe = StoreConfig { message_index_safe: true, ..config(root.path()) };
    assert_eq!(start_of(safe.clone(), StoreState::Crashed), 1, "the index counts where it is to be safe");
    let without = StoreConfig { message_index_enable: false, ..safe };
    assert_eq!(start_of(without, StoreState::Crashed), 3, "not where there is none");
}

#[test]
fn a_checkpoint_that_covers_more_than_the_log_has_tells_nothing() {
    let root = tempfile::tempdir().unwrap();
    killed(root.path());
    forget_own_files(root.path());
    for (times, expected) in [
        ([1_040_001, 1_040_001, 0], 0),
        ([i64::MAX; 3], 0),
        ([1_040_000, i64::MAX, 0], 3),
        ([i64::MAX, 1_040_000, 0], 3),
    ] {
        set_times(root.path(), times);
        assert_eq!(start(root.path()), expected, "{times:?}");
    }
}

#[test]
fn where_mqstore_wrote_last_its_position_tells_too_and_the_earlier_counts() {
    let root = tempfile::tempdir().unwrap();
    killed(root.path());
    for (log, covered, expected) in [
        (5 * LOG_FILE_SIZE, 1_040_000, 3),
        (4 * LOG_FILE_SIZE, 1_040_000, 3),
        (2 * LOG_FILE_SIZE + 500, 1_040_000, 2),
        (2 * LOG_FILE_SIZE, 1_040_000, 2),
        (2 * LOG_FILE_SIZE - 1, 1_040_000, 1),
        (2 * LOG_FILE_SIZE, 1_013_000, 1),
        (0, 1_040_000, 0),
    ] {
        set_positions(root.path(), log, log, log);
        set_times(root.path(), [covered; 3]);
        assert_eq!(start(root.path()), expected, "position {log}, time {covered}");
    }
    std::fs::write(root.path().join("mqstore/positions"), "torn").unwrap();
    assert_eq!(start(root.path()), 0, "of lost positions times are not believed either");
}

#[test]
fn a_file_that_begins_with_no_message_is_not_begun_with() {
    let magic_at = MAGIC_CODE_AT as u64;
    type Damage = fn(&mut [u8]);
    let damages: [(Damage, u64); 4] = [
        (|_| {}, 3),
        (|magic| magic[..4].copy_from_slice(&MESSAGE_MAGIC_CODE_V2.to_be_bytes()), 3),
        (|magic| magic[..4].fill(7), 2),
        // A store time of 0.
        (|magic| magic[52..60].fill(0), 2),
    ];
    for (damage, expected) in damages {
        let root = tempfile::tempdir().unwrap();
        killed(root.path());
        forget_own_files(root.path());
        set_times(root.path(), [1_033_000; 3]);
        patch(&log_file(root.path(), 3 * LOG_FILE_SIZE), magic_at, damage);
        let parts = Parts::of(root.path());
        let mut of = parts.recovered(StoreState::Crashed);
        of.writable = false;
        assert_eq!(log_end::find(of).unwrap().walked_from / LOG_FILE_SIZE, expected);
    }
}

/// What is not walked over is not complained of: `verify` reads it.
#[test]
fn damage_before_it_stops_no_opening() {
    let root = tempfile::tempdir().unwrap();
    killed(root.path());
    set_positions(root.path(), 4 * LOG_FILE_SIZE, 4 * LOG_FILE_SIZE, 4 * LOG_FILE_SIZE);
    set_times(root.path(), [1_040_000; 3]);
    patch(&log_file(root.path(), 0), 100, |at| at[0] ^= 1);
    let found = log_end::find(Parts::of(root.path()).recovered(StoreState::Crashed)).unwrap();
    assert_eq!((found.walked_from, found.gaps), (3 * LOG_FILE_SIZE, Vec::new()));
}
