//! Units of a queue's extension, and the addresses that name them.

use mqstore_core::format::cq_ext_unit::{
    CqExtUnit, END_OF_FILE, MAX_ADDR, MAX_EXT_UNIT_SIZE, MIN_EXT_UNIT_SIZE, decorate, is_ext_addr, undecorate,
};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::{flips, hex};

#[test]
fn a_unit_has_the_bytes_of_the_table() {
    let unit = CqExtUnit { tags_code: -2, msg_store_time: 3, filter_bit_map: vec![0xab, 0xcd] };
    let bytes = hex("0016 fffffffffffffffe 0000000000000003 0002 abcd");
    assert_eq!(unit.to_bytes().as_deref(), Some(&bytes[..]));
    assert_eq!(unit.size(), bytes.len());
    assert_eq!(CqExtUnit::read(&bytes), Some(unit.clone()));
    assert_eq!(CqExtUnit::read(&[&bytes[..], b"next"].concat()), Some(unit));
}

#[test]
fn a_short_unit_is_none() {
    let bytes = CqExtUnit { filter_bit_map: vec![1, 2, 3], ..CqExtUnit::default() }.to_bytes().unwrap();
    for len in 0..bytes.len() {
        assert_eq!(CqExtUnit::read(&bytes[..len]), None, "{len} bytes");
    }
}

#[test]
fn what_is_no_unit_is_none() {
    assert_eq!(END_OF_FILE.to_be_bytes(), hex("ffff")[..]);
    for size in ["0000", "ffff", "8000", "0013"] {
        assert_eq!(CqExtUnit::read(&hex(&format!("{size} 0000000000000000 0000000000000000 0000"))), None);
    }
}

#[test]
fn a_flip_in_a_size_is_found() {
    let unit = CqExtUnit { tags_code: 5, msg_store_time: 6, filter_bit_map: vec![7; 4] };
    for (bit, flipped) in flips(&unit.to_bytes().unwrap()) {
        let is_size = [0, 1, 18, 19].contains(&(bit / 8));
        let read = CqExtUnit::read(&flipped);
        assert_eq!(read.is_none(), is_size, "bit {bit}");
        assert_ne!(read, Some(unit.clone()), "bit {bit}");
    }
}

#[test]
fn a_bit_map_that_no_size_can_say_is_not_written() {
    let unit = |len| CqExtUnit { filter_bit_map: vec![0; len], ..CqExtUnit::default() };
    assert!(unit(MAX_EXT_UNIT_SIZE - MIN_EXT_UNIT_SIZE).to_bytes().is_some());
    assert!(unit(MAX_EXT_UNIT_SIZE - MIN_EXT_UNIT_SIZE + 1).to_bytes().is_none());
}

#[test]
fn tags_codes_are_told_from_addresses() {
    assert_eq!(MAX_ADDR, i64::from(i32::MIN) - 1);
    for code in [0, 1, -1, i64::from(i32::MIN), i64::from(i32::MAX), i64::MAX] {
        assert!(!is_ext_addr(code));
        assert_eq!(undecorate(code), None);
    }
    assert!(is_ext_addr(MAX_ADDR));
    assert_eq!(decorate(0), i64::MIN);
    assert_eq!(undecorate(i64::MIN + 20), Some(20));
}

proptest! {
    #[test]
    fn what_was_written_is_read(code in any::<i64>(), time in any::<i64>(), bits in vec(any::<u8>(), 0..100)) {
        let unit = CqExtUnit { tags_code: code, msg_store_time: time, filter_bit_map: bits };
        prop_assert_eq!(CqExtUnit::read(&unit.to_bytes().unwrap()), Some(unit));
    }

    #[test]
    fn an_address_stands_for_its_offset(offset in 0..(1_u64 << 40)) {
        prop_assert!(is_ext_addr(decorate(offset)));
        prop_assert_eq!(undecorate(decorate(offset)), Some(offset));
    }

    #[test]
    fn any_bytes_are_a_unit_or_none(bytes in vec(any::<u8>(), 0..100), address in any::<i64>()) {
        if let Some(unit) = CqExtUnit::read(&bytes) {
            prop_assert_eq!(unit.to_bytes().unwrap(), &bytes[..unit.size()]);
        }
        prop_assert_eq!(undecorate(address).is_some(), is_ext_addr(address));
    }
}
