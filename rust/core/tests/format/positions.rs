//! `mqstore/positions`.

use mqstore_core::format::positions::{
    DurablePositions, LOG_MARKS_SIZE, LastRecord, LogMarks, Owed, POSITIONS_FILE_SIZE,
};
use proptest::prelude::*;

use crate::{flips, hex};

const POSITIONS: DurablePositions = DurablePositions { log: 1, queues: 2, index: 3 };

#[test]
fn positions_have_the_bytes_of_the_table() {
    let fields = hex("0000000000000001 0000000000000002 0000000000000003");
    let crc = crc32fast::hash(&fields).to_be_bytes();
    let expected = [b"mqstpos1", &crc[..], &[0; 4], &fields].concat();
    assert_eq!(POSITIONS.to_bytes().to_vec(), expected);
}

#[test]
fn every_flip_and_every_cut_makes_them_none() {
    let bytes = POSITIONS.to_bytes();
    for (bit, flipped) in flips(&bytes) {
        assert_eq!(DurablePositions::read(&flipped), None, "bit {bit}");
    }
    for len in 0..POSITIONS_FILE_SIZE {
        assert_eq!(DurablePositions::read(&bytes[..len]), None, "{len} bytes");
    }
}

const MARKS: LogMarks = LogMarks {
    owed: Some(Owed { from: 1, to: 2 }),
    last: Some(LastRecord { offset: 3, store_timestamp: 4, body_crc: 5 }),
};

#[test]
fn marks_have_the_bytes_of_the_table() {
    let fields = |fields: &str| {
        let fields = hex(fields);
        [&fields[..], &crc32fast::hash(&fields).to_be_bytes()].concat()
    };
    let expected = fields("0000000000000001 0000000000000002 0000000000000003 0000000000000004 00000005");
    assert_eq!(MARKS.to_bytes().to_vec(), expected);
    let expected = fields("0000000000000000 0000000000000000 ffffffffffffffff 0000000000000000 00000000");
    assert_eq!(LogMarks::default().to_bytes().to_vec(), expected);
    assert_eq!(LogMarks::read(&expected), LogMarks::default());
}

#[test]
fn every_flip_and_every_cut_makes_marks_nothing() {
    let bytes = MARKS.to_bytes();
    assert_eq!(LogMarks::read(&bytes), MARKS);
    for (bit, flipped) in flips(&bytes) {
        assert_eq!(LogMarks::read(&flipped), LogMarks::default(), "bit {bit}");
    }
    for len in 0..LOG_MARKS_SIZE {
        assert_eq!(LogMarks::read(&bytes[..len]), LogMarks::default(), "{len} bytes");
    }
}

#[test]
fn what_is_owed_is_missing_until_the_log_has_all_of_it() {
    let owed = Owed { from: 100, to: 200 };
    let missing =
        |log_begin, log_end| owed.missing_in(log_begin, log_end).map(|Owed { from, to }| (from, to));
    for (log_begin, log_end, expected) in [
        (0, 50, Some((100, 200))),
        (0, 100, Some((100, 200))),
        (100, 150, Some((150, 200))),
        (100, 199, Some((199, 200))),
        (100, 200, None),
        (0, 300, None),
        // It began anew further on.
        (101, 300, Some((100, 101))),
        (150, 160, Some((100, 200))),
        (250, 300, Some((100, 200))),
    ] {
        assert_eq!(missing(log_begin, log_end), expected, "{log_begin} to {log_end}");
    }
    assert_eq!(owed.with(None), owed);
    assert_eq!(owed.with(Some(Owed { from: 50, to: 150 })), Owed { from: 50, to: 200 });
    assert_eq!(owed.with(Some(Owed { from: 150, to: 250 })), Owed { from: 100, to: 250 });
}

#[test]
fn negative_positions_are_none_whatever_their_crc() {
    let fields = [&(-1_i64).to_be_bytes()[..], &[0; 16]].concat();
    let bytes = [b"mqstpos1", &crc32fast::hash(&fields).to_be_bytes()[..], &[0; 4], &fields].concat();
    assert_eq!(DurablePositions::read(&bytes), None);
}

proptest! {
    #[test]
    fn what_was_written_is_read(log in 0..1_u64 << 63, queues in 0..1_u64 << 63, index in 0..1_u64 << 63) {
        let positions = DurablePositions { log, queues, index };
        prop_assert_eq!(DurablePositions::read(&positions.to_bytes()), Some(positions));
    }

    #[test]
    fn marks_that_were_written_are_read(
        from in 0..1_u64 << 62,
        owed_size in 0..1_u64 << 62,
        offset in 0..1_u64 << 63,
        store_timestamp: i64,
        body_crc: i32,
        is_known: bool,
    ) {
        let last = is_known.then_some(LastRecord { offset, store_timestamp, body_crc });
        let owed = Some(Owed { from, to: from + owed_size }).filter(|_| owed_size > 0);
        let marks = LogMarks { owed, last };
        prop_assert_eq!(LogMarks::read(&marks.to_bytes()), marks);
    }

    #[test]
    fn any_bytes_are_positions_or_none(bytes in proptest::collection::vec(any::<u8>(), 0..50)) {
        prop_assert_eq!(DurablePositions::read(&bytes), None);
    }
}
