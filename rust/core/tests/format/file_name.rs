//! Names of files.

use mqstore_core::format::file_name::{from_offset, is_index_name, to_offset};
use proptest::prelude::*;

#[test]
fn an_offset_is_twenty_digits() {
    assert_eq!(from_offset(0), "00000000000000000000");
    assert_eq!(from_offset(1 << 30), "00000000001073741824");
    assert_eq!(to_offset("00000000001073741824"), Some(1 << 30));
    assert_eq!(to_offset("09223372036854775807"), Some(i64::MAX.unsigned_abs()));
}

#[test]
fn other_names_are_none() {
    for name in [
        "",
        "0",
        "0000000000000000000",
        "000000000000000000000",
        "0000000000000000000a",
        "+0000000000000000000",
        "-0000000000000000000",
        " 0000000000000000000",
        "09223372036854775808",
        "99999999999999999999",
        "0000000000000000000\u{ff10}",
        "00000000000000000\u{0660}0",
    ] {
        assert_eq!(to_offset(name), None, "{name:?}");
    }
}

#[test]
fn an_index_name_is_seventeen_digits() {
    assert!(is_index_name("20261121094149481"));
    for name in ["", "2026112109414948", "202611210941494811", "2026112109414948x"] {
        assert!(!is_index_name(name), "{name:?}");
    }
}

proptest! {
    #[test]
    fn a_name_stands_for_its_offset(offset in 0..=i64::MAX.unsigned_abs()) {
        prop_assert_eq!(to_offset(&from_offset(offset)), Some(offset));
    }

    #[test]
    fn names_are_in_the_order_of_their_offsets(a in 0..=i64::MAX.unsigned_abs(), b in 0..=i64::MAX.unsigned_abs()) {
        prop_assert_eq!(from_offset(a).cmp(&from_offset(b)), a.cmp(&b));
    }

    #[test]
    fn any_name_is_an_offset_or_none(name in ".{0,24}") {
        if let Some(offset) = to_offset(&name) {
            prop_assert_eq!(from_offset(offset), name);
        }
    }
}
