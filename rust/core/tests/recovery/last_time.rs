//! The time that no later message's is before: the last record's, but where that alone is ahead of the clock.

use std::path::Path;

use mqstore_core::config::StoreConfig;
use mqstore_core::format::message::store_timestamp_at;
use mqstore_core::store::Mode;

use crate::stores::{config, log_file, open, open_with, patch, put, try_open};

/// What the clock of [`open`] says.
const NOW_MS: i64 = 1_000_000;
const FAR_AHEAD_MS: i64 = 5_000_000;

/// A store of messages with these times, of which nothing in the log's file but the records tells.
fn left(root: &Path, times: &[i64]) {
    let store = open(root);
    let offsets: Vec<u64> = times.iter().map(|_| put(&store, "t", 0, b"body", "").wrote_offset).collect();
    store.close().unwrap();
    drop(store);
    for (offset, time) in offsets.into_iter().zip(times) {
        let at = offset + store_timestamp_at(0) as u64;
        patch(&log_file(root, 0), at, |bytes| bytes[..8].copy_from_slice(&time.to_be_bytes()));
    }
}

/// The time of the last message as an opening takes it, and that of the next one.
fn last_and_next(config: StoreConfig) -> (i64, i64) {
    let store = open_with(config);
    let last = store.log().last_store_timestamp();
    (last, put(&store, "t", 0, b"next", "").store_timestamp)
}

#[test]
fn the_last_time_counts_as_long_as_it_is_not_ahead() {
    for last in [NOW_MS - 1, NOW_MS] {
        let root = tempfile::tempdir().unwrap();
        left(root.path(), &[NOW_MS - 500, NOW_MS - 400, last]);
        assert_eq!(last_and_next(config(root.path())), (last, NOW_MS));
    }
}

/// No checksum covers a time: a flipped bit must not give its time to all that is put from then on.
#[test]
fn one_time_alone_that_is_ahead_of_the_clock_does_not_count() {
    for before in [NOW_MS - 400, NOW_MS] {
        let root = tempfile::tempdir().unwrap();
        left(root.path(), &[NOW_MS - 500, before, FAR_AHEAD_MS]);
        assert_eq!(last_and_next(config(root.path())), (before, NOW_MS));
    }
}

/// As those of messages that were imported with their times, or put before the clock was set back.
#[test]
fn times_ahead_of_the_clock_that_others_bear_out_count() {
    for times in [&[FAR_AHEAD_MS][..], &[NOW_MS - 500, FAR_AHEAD_MS - 1, FAR_AHEAD_MS]] {
        let root = tempfile::tempdir().unwrap();
        left(root.path(), times);
        assert_eq!(last_and_next(config(root.path())), (FAR_AHEAD_MS, FAR_AHEAD_MS), "{times:?}");
    }
}

#[test]
fn who_puts_nothing_and_4_9_3_take_the_last_time_as_it_is() {
    let root = tempfile::tempdir().unwrap();
    left(root.path(), &[NOW_MS - 500, NOW_MS - 400, FAR_AHEAD_MS]);
    let reader = try_open(config(root.path()), Mode::Read).unwrap();
    assert_eq!(reader.log().last_store_timestamp(), FAR_AHEAD_MS);
    drop(reader);
    let compat = StoreConfig { compat: true, ..config(root.path()) };
    assert_eq!(last_and_next(compat), (FAR_AHEAD_MS, NOW_MS));
}
