//! What Java computes over strings: `String.hashCode` runs over UTF-16 units, while a store holds
//! UTF-8. Bytes that are no UTF-8 become U+FFFD, as in `new String(bytes, UTF_8)`.

use std::borrow::Cow;

/// Continues Java's `String.hashCode` over more text: `hash_more(hash(a), b) == hash(a + b)`.
#[must_use]
pub fn hash_more(hash: i32, text: &[u8]) -> i32 {
    let (words, rest) = text.as_chunks();
    let (mut of_ascii, mut all) = (hash, 0);
    for word in words {
        let word = u64::from_be_bytes(*word);
        all |= word;
        of_ascii = eight_steps(of_ascii, word);
    }
    for &byte in rest {
        all |= u64::from(byte);
        of_ascii = step(of_ascii, u16::from(byte));
    }
    if all & NOT_ASCII == 0 { of_ascii } else { decode(text).encode_utf16().fold(hash, step) }
}

/// The highest bit of each byte.
const NOT_ASCII: u64 = u64::MAX / 0xFF * 0x80;

/// The steps over eight bytes of ASCII, of which the highest is the first: over two each, then over four each, side by
/// side in one number, in which no part comes to reach into the next.
#[inline]
fn eight_steps(hash: i32, word: u64) -> i32 {
    const LOWER_BYTES: u64 = u64::MAX / 0xFFFF * 0xFF;
    const LOWER_TWOS: u64 = u64::MAX / 0xFFFF_FFFF * 0xFFFF;
    let twos = (word >> 8 & LOWER_BYTES) * 31 + (word & LOWER_BYTES);
    let fours = (twos >> 16 & LOWER_TWOS) * 31_u64.pow(2) + (twos & LOWER_TWOS);
    let [a, b, c, d, e, f, g, h] = fours.to_be_bytes();
    let (first, second) = (i32::from_be_bytes([a, b, c, d]), i32::from_be_bytes([e, f, g, h]));
    let of_hash = hash.wrapping_mul(31_i32.wrapping_pow(8));
    of_hash.wrapping_add(first.wrapping_mul(31_i32.pow(4))).wrapping_add(second)
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
    match std::str::from_utf8(text) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => Cow::Owned(decode_lossy(text)),
    }
}

/// As Rust does it, but for half a surrogate pair in three bytes: one bad character to Java, three
/// to Rust. The name of a topic's folder depends on how many there are.
fn decode_lossy(text: &[u8]) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(chunk) = rest.utf8_chunks().next() {
        out.push_str(chunk.valid());
        let bad = rest.get(chunk.valid().len()..).unwrap_or_default();
        if bad.is_empty() {
            break;
        }
        out.push(char::REPLACEMENT_CHARACTER);
        let len = match bad {
            [0xED, 0xA0..=0xBF, 0x80..=0xBF, ..] => 3,
            [0xED, 0xA0..=0xBF, ..] => 2,
            _ => chunk.invalid().len(),
        };
        rest = bad.get(len..).unwrap_or_default();
    }
    out
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
