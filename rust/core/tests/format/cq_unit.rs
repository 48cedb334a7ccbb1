//! Units of a queue.

use mqstore_core::format::cq_unit::{CQ_STORE_UNIT_SIZE, CqUnit};
use proptest::prelude::*;

use crate::{flips, hex};

#[test]
fn a_unit_has_the_bytes_of_the_table() {
    let unit = CqUnit { physical_offset: 0x0102_0304, size: 0x0a0b, tags_code: -1 };
    let bytes = hex("0000000001020304 00000a0b ffffffffffffffff");
    assert_eq!(unit.to_bytes().to_vec(), bytes);
    assert_eq!(CqUnit::read(&bytes), Some(unit));
    for (bit, flipped) in flips(&bytes) {
        assert_ne!(CqUnit::read(&flipped), Some(unit), "bit {bit}");
    }
}

#[test]
fn a_short_unit_is_none() {
    for len in 0..CQ_STORE_UNIT_SIZE {
        assert_eq!(CqUnit::read(&CqUnit::PRE_BLANK.to_bytes()[..len]), None);
    }
}

#[test]
fn a_unit_is_written_where_it_has_a_size_and_no_negative_offset() {
    let unit = |physical_offset, size| CqUnit { physical_offset, size, tags_code: 0 };
    assert!(unit(0, 1).is_written());
    for unwritten in [unit(0, 0), unit(5, 0), unit(5, -1), unit(-1, 5), unit(i64::MIN, i32::MIN)] {
        assert!(!unwritten.is_written());
        assert_eq!(unwritten.place(), None);
    }
    assert_eq!(unit(7, 9).place(), Some((7, 9)));
    assert_eq!(unit(0, i32::MAX - 1).place(), Some((0, i32::MAX.unsigned_abs() - 1)));
}

#[test]
fn the_unit_that_fills_a_file_is_written_and_has_no_place() {
    let blank = CqUnit::PRE_BLANK;
    assert_eq!(blank.to_bytes().to_vec(), hex("0000000000000000 7fffffff 0000000000000000"));
    assert!(blank.is_blank() && blank.is_written());
    assert_eq!(blank.place(), None);
    assert!(!CqUnit { tags_code: 1, ..blank }.is_blank());
}

#[test]
fn the_end_never_overflows() {
    let unit = |physical_offset, size| CqUnit { physical_offset, size, tags_code: 0 };
    assert_eq!(unit(10, 5).end(), 15);
    assert_eq!(unit(i64::MAX, 5).end(), i64::MAX);
    assert_eq!(unit(i64::MIN, -5).end(), i64::MIN);
}

proptest! {
    #[test]
    fn any_twenty_bytes_are_a_unit_with_just_these_bytes(bytes in any::<[u8; CQ_STORE_UNIT_SIZE]>()) {
        let unit = CqUnit::read(&bytes).unwrap();
        prop_assert_eq!(unit.to_bytes(), bytes);
        if let Some((offset, size)) = unit.place() {
            prop_assert_eq!(i128::from(unit.end()), i128::from(i64::MAX).min(i128::from(offset) + i128::from(size)));
        }
    }
}
