//! A search in names, topics and keys, which are short as a rule: the call of one that is made for long texts takes longer than
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

#[cfg(test)]
mod tests {
    use super::has_either;

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
}
