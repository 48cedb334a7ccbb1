//! `mqstore/positions`.

use mqstore_core::format::positions::{DurablePositions, POSITIONS_FILE_SIZE};
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
    fn any_bytes_are_positions_or_none(bytes in proptest::collection::vec(any::<u8>(), 0..50)) {
        prop_assert_eq!(DurablePositions::read(&bytes), None);
    }
}
