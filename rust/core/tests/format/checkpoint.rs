//! The checkpoint's three times.

use mqstore_core::format::checkpoint::{CHECKPOINT_FIELDS_SIZE, CheckpointTimes};
use proptest::prelude::*;

use crate::hex;

fn times(physic: i64, logics: i64, index: i64) -> CheckpointTimes {
    CheckpointTimes { physic_msg_timestamp: physic, logics_msg_timestamp: logics, index_msg_timestamp: index }
}

#[test]
fn the_times_have_the_bytes_of_the_table() {
    let bytes = hex("0000000000000001 0000000000000002 ffffffffffffffff");
    assert_eq!(times(1, 2, -1).to_bytes().to_vec(), bytes);
    assert_eq!(CheckpointTimes::read(&bytes), Some(times(1, 2, -1)));
}

#[test]
fn a_short_checkpoint_is_none() {
    let bytes = times(1, 2, 3).to_bytes();
    for len in 0..CHECKPOINT_FIELDS_SIZE {
        assert_eq!(CheckpointTimes::read(&bytes[..len]), None);
    }
}

#[test]
fn recovery_looks_three_seconds_before_the_earlier_of_log_and_queues() {
    assert_eq!(times(10_000, 20_000, 0).min_timestamp(), 7_000);
    assert_eq!(times(20_000, 10_000, 0).min_timestamp(), 7_000);
    assert_eq!(times(2_999, 9_000, 0).min_timestamp(), 0);
    assert_eq!(times(i64::MIN, 9_000, 0).min_timestamp(), 0);
    assert_eq!(times(10_000, 10_000, 6_000).min_timestamp_index(), 6_000);
    assert_eq!(times(10_000, 10_000, 8_000).min_timestamp_index(), 7_000);
}

proptest! {
    #[test]
    fn what_was_written_is_read(physic in any::<i64>(), logics in any::<i64>(), index in any::<i64>()) {
        let times = times(physic, logics, index);
        prop_assert_eq!(CheckpointTimes::read(&times.to_bytes()), Some(times));
        prop_assert!(times.min_timestamp() >= 0);
    }
}
