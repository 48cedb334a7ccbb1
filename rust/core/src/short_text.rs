//! Searches in names, topics and keys, which are short as a rule: the call of one that is made for long texts takes longer than
//! it does to look at each byte.

/// Up to here a text is looked through byte by byte.
const SHORT_TEXT_LEN: usize = 16;

/// Whether one of two bytes stands in a text.
#[inline]
#[must_use]
pub fn has_either(text: &[u8], one: u8, other: u8) -> bool {
    if text.len() > SHORT_TEXT_LEN {
        return memchr::memchr2(one, other, text).is_some();
    }
    text.iter().any(|&byte| byte == one || byte == other)
}

/// Where the first byte of a text stands that is less than `limit`, which is at most 128.
#[inline]
#[must_use]
pub fn find_below(text: &[u8], limit: u8) -> Option<usize> {
    let (words, rest) = text.as_chunks();
    for (number, word) in words.iter().enumerate() {
        let marks = marks_below(u64::from_be_bytes(*word), limit);
        if marks != 0 {
            return Some(number * 8 + marks.leading_zeros() as usize / 8);
        }
    }
    rest.iter().position(|&byte| byte < limit).map(|at| words.len() * 8 + at)
}

/// Whether a byte of a text is less than `limit`, which is at most 128.
#[inline]
#[must_use]
pub fn has_below(text: &[u8], limit: u8) -> bool {
    find_below(text, limit).is_some()
}

/// The highest bit of each byte that is less than `limit`.
#[inline]
const fn marks_below(word: u64, limit: u8) -> u64 {
    const LOWEST_BITS: u64 = u64::MAX / 0xFF;
    const HIGHEST_BITS: u64 = LOWEST_BITS << 7;
    // No byte's sum reaches into the next byte, and its highest bit is set where the seven others are not less.
    let sums = (word & !HIGHEST_BITS) + LOWEST_BITS * (128 - limit as u64);
    !(sums | word) & HIGHEST_BITS
}

#[cfg(test)]
mod tests {
    use super::{find_below, has_either};

    #[test]
    fn either_is_found_wherever_it_stands() {
        for len in 0..40 {
            let text = vec![b'a'; len];
            assert!(!has_either(&text, 1, 2), "{len}");
            for at in 0..len {
                for byte in [1, 2] {
                    let mut text = text.clone();
                    text.splice(at..=at, [byte]);
                    assert!(has_either(&text, 1, 2) && has_either(&text, 2, 1), "{byte} at {at} of {len}");
                    assert!(!has_either(&text, 3, 4), "{byte} at {at} of {len}");
                }
            }
        }
    }

    #[test]
    fn the_first_byte_below_is_found_wherever_it_stands() {
        for limit in [1, 3, 128] {
            for len in 0..40 {
                let around = [limit, 0x7F, 0x80, 0xFF].map(|byte: u8| byte.max(limit));
                for at in 0..len {
                    for byte in 0..=0xFF {
                        let mut text: Vec<u8> = around.into_iter().cycle().take(len).collect();
                        text.splice(at..=at, [byte]);
                        let expected = (byte < limit).then_some(at);
                        assert_eq!(find_below(&text, limit), expected, "{byte} at {at} of {len}, {limit}");
                        // What stands behind it does not matter.
                        text.splice(at + 1.., [0]);
                        assert_eq!(find_below(&text, limit), expected.or(Some(at + 1)), "{byte} at {at}");
                    }
                }
            }
        }
    }
}
