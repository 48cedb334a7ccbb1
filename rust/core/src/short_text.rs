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

/// Whether a byte of a text is less than `limit`, which is at most 128.
#[inline]
#[must_use]
pub fn has_below(text: &[u8], limit: u8) -> bool {
    const LOWEST_BITS: u64 = u64::MAX / 0xFF;
    const HIGHEST_BITS: u64 = LOWEST_BITS << 7;
    let (words, rest) = text.as_chunks();
    let limits = LOWEST_BITS * u64::from(limit);
    // The last byte that is less borrows and has its highest bit set by that, where it had none.
    let in_word = |word: &[u8; 8]| {
        let word = u64::from_be_bytes(*word);
        word.wrapping_sub(limits) & !word & HIGHEST_BITS != 0
    };
    words.iter().any(in_word) || rest.iter().any(|&byte| byte < limit)
}

#[cfg(test)]
mod tests {
    use super::{has_below, has_either};

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
    fn a_byte_below_is_found_wherever_it_stands() {
        for len in 0..40 {
            assert!(!has_below(&vec![3; len], 3) && !has_below(&vec![0xFF; len], 3), "{len}");
            for at in 0..len {
                for byte in 0..=0xFF {
                    for around in [3, 0x7F, 0x80, 0xFF] {
                        let mut text = vec![around; len];
                        text.splice(at..=at, [byte]);
                        assert_eq!(has_below(&text, 3), byte < 3, "{byte} among {around} at {at} of {len}");
                    }
                }
            }
        }
    }
}
