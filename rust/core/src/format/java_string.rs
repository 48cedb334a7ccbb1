//! What Java computes over strings: `String.hashCode` runs over UTF-16 units, while a store holds
//! UTF-8. Bytes that are no UTF-8 become U+FFFD, as in `new String(bytes, UTF_8)`.

use std::borrow::Cow;

/// Continues Java's `String.hashCode` over more text: `hash_more(hash(a), b) == hash(a + b)`.
#[must_use]
pub fn hash_more(hash: i32, text: &[u8]) -> i32 {
    if !text.is_ascii() {
        return decode(text).encode_utf16().fold(hash, step);
    }
    let (chunks, rest) = text.as_chunks();
    let hash = chunks.iter().fold(hash, eight_steps);
    rest.iter().fold(hash, |hash, &byte| step(hash, u16::from(byte)))
}

/// The steps over eight bytes of ASCII, of which none waits for the one before.
#[inline]
fn eight_steps(hash: i32, bytes: &[u8; 8]) -> i32 {
    const fn factor(steps: u32) -> i32 {
        31_i32.wrapping_pow(steps)
    }
    const FACTORS: [i32; 8] =
        [factor(7), factor(6), factor(5), factor(4), factor(3), factor(2), factor(1), factor(0)];
    let own = bytes.iter().zip(FACTORS).map(|(&byte, factor)| i32::from(byte).wrapping_mul(factor));
    own.fold(hash.wrapping_mul(factor(8)), i32::wrapping_add)
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
