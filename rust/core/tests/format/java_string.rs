//! What Java computes over strings; expected numbers were printed by a JDK.

use mqstore_core::format::java_string::{compare, decode, hash_code, hash_more, utf16_len};
use proptest::prelude::*;

use crate::hex;

#[test]
fn hashes_are_javas() {
    for (text, hash) in [
        ("", 0),
        ("a", 97),
        ("Aa", 2112),
        ("BB", 2112),
        ("TAG_A", 79_583_420),
        ("TopicTest#key0", -1_655_984_461),
        ("polygenelubricants", i32::MIN),
        ("主题", 659_901),
        ("😀", 1_772_899),
        ("\u{ffff}", 65_535),
    ] {
        assert_eq!(hash_code(text.as_bytes()), hash, "{text:?}");
    }
}

#[test]
fn bytes_that_are_no_text_are_decoded_as_java_does() {
    // Bytes, and the hash and length of `new String(bytes, UTF_8)`.
    for (bytes, hash, len) in [("61ff62e4b8", 65_935_511, 4), ("eda080f4908080c080f09f98", -186_675_584, 8)] {
        let bytes = hex(bytes);
        assert_eq!(hash_code(&bytes), hash, "{bytes:x?}");
        assert_eq!(utf16_len(&decode(&bytes)), len, "{bytes:x?}");
    }
}

#[test]
fn half_a_surrogate_pair_is_one_bad_character() {
    for (bytes, text) in [
        ("eda080", "\u{fffd}"),
        ("edbfbf41", "\u{fffd}A"),
        ("eda041", "\u{fffd}A"),
        ("edbf", "\u{fffd}"),
        ("eda080edb880", "\u{fffd}\u{fffd}"),
        ("edc0", "\u{fffd}\u{fffd}"),
        ("ed9f", "\u{fffd}"),
        ("41ed9fbf42", "A\u{d7ff}B"),
        ("eda08080", "\u{fffd}\u{fffd}"),
    ] {
        assert_eq!(decode(&hex(bytes)), text, "{bytes}");
    }
}

#[test]
fn strings_are_ordered_by_utf_16_units() {
    use std::cmp::Ordering::{Equal, Greater, Less};
    // By code points the emoji would come last.
    assert_eq!(compare("\u{ff5e}", "😀"), Greater);
    assert_eq!((compare("a", "b"), compare("a", "aa"), compare("主", "主")), (Less, Less, Equal));
    assert_eq!(utf16_len("a主😀"), 4);
}

proptest! {
    #[test]
    fn a_hash_goes_on_over_more_text(a in ".{0,20}", b in ".{0,20}") {
        let both = format!("{a}{b}");
        prop_assert_eq!(hash_more(hash_code(a.as_bytes()), b.as_bytes()), hash_code(both.as_bytes()));
    }

    #[test]
    fn a_hash_is_that_of_the_documentation(hash in any::<i32>(), text in ".{0,40}|[ -~]{0,60}") {
        let by_rule = text.encode_utf16().fold(hash, |hash, unit| {
            hash.wrapping_mul(31).wrapping_add(i32::from(unit))
        });
        prop_assert_eq!(hash_more(hash, text.as_bytes()), by_rule);
    }

    #[test]
    fn text_is_decoded_as_it_is(text in ".{0,40}") {
        prop_assert_eq!(decode(text.as_bytes()), text.as_str());
    }

    #[test]
    fn any_bytes_are_decoded(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
        let text = decode(&bytes);
        prop_assert_eq!(hash_code(&bytes), hash_code(text.as_bytes()));
        prop_assert!(utf16_len(&text) <= bytes.len());
    }
}
