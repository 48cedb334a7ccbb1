//! What Java computes over strings: `String.hashCode` runs over UTF-16 units, while a store holds
//! UTF-8. Bytes that are no UTF-8 become U+FFFD, as in `new String(bytes, UTF_8)`.

use std::borrow::Cow;

/// Continues Java's `String.hashCode` over more text: `hash_more(hash(a), b) == hash(a + b)`.
#[must_use]
pub fn hash_more(hash: i32, text: &[u8]) -> i32 {
    if text.is_ascii() {
        return text.iter().fold(hash, |h, &byte| step(h, u16::from(byte)));
    }
    match std::str::from_utf8(text) {
        Ok(text) => text.encode_utf16().fold(hash, step),
        Err(_) => String::from_utf8_lossy(text).encode_utf16().fold(hash, step),
    }
}

/// Java's `new String(text, UTF_8).hashCode()`.
#[must_use]
pub fn hash_code(text: &[u8]) -> i32 {
    hash_more(0, text)
}

#[inline]
fn step(hash: i32, unit: u16) -> i32 {
    hash.wrapping_mul(31).wrapping_add(i32::from(unit))
}

/// The text as Java decodes it.
#[must_use]
pub fn decode(text: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(text)
}

/// Java's `String.length()` of valid UTF-8: UTF-16 units.
#[must_use]
pub fn utf16_len(text: &str) -> usize {
    text.encode_utf16().count()
}

/// How Java's `String.compareTo` orders two strings: by UTF-16 units, not by code points.
#[must_use]
pub fn compare(a: &str, b: &str) -> std::cmp::Ordering {
    a.encode_utf16().cmp(b.encode_utf16())
}
