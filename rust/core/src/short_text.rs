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

/// Where the bytes of a text stand that are less than `limit`, which is at most 128.
#[inline]
#[must_use]
pub const fn below(text: &[u8], limit: u8) -> Below<'_> {
    Below { text, limit, word_at: 0, behind: 0, marks: 0 }
}

/// Whether a byte of a text is less than `limit`, which is at most 128.
#[inline]
#[must_use]
pub fn has_below(text: &[u8], limit: u8) -> bool {
    below(text, limit).next().is_some()
}

/// See [`below`].
#[derive(Debug, Clone)]
pub struct Below<'a> {
    text: &'a [u8],
    limit: u8,
    /// Where the eight bytes begin that were looked at last, and what was looked at ends.
    word_at: usize,
    behind: usize,
    /// Of those bytes, the lowest of which is the first, the ones that are yet to be given.
    marks: u64,
}

impl Below<'_> {
    /// Looks at the next bytes. Gives whether there are any.
    #[inline(always)]
    fn look_on(&mut self) -> bool {
        let rest = self.text.get(self.behind..).unwrap_or_default();
        if rest.is_empty() {
            return false;
        }
        let (word, looked_at_before) = match (rest.first_chunk(), self.text.last_chunk()) {
            (Some(next), _) => (u64::from_be_bytes(*next).swap_bytes(), 0),
            // Some of them were looked at before.
            (None, Some(last)) => (u64::from_be_bytes(*last).swap_bytes(), 8 - rest.len()),
            (None, None) => (rest.iter().rev().fold(u64::MAX, |word, &byte| word << 8 | u64::from(byte)), 0),
        };
        self.word_at = self.behind - looked_at_before;
        self.behind = self.text.len().min(self.word_at + 8);
        self.marks = marks_below(word, self.limit) >> (8 * looked_at_before) << (8 * looked_at_before);
        true
    }
}

impl Iterator for Below<'_> {
    type Item = usize;

    #[inline(always)] // its state is in registers then, in loops over few bytes
    fn next(&mut self) -> Option<usize> {
        while self.marks == 0 {
            if !self.look_on() {
                return None;
            }
        }
        let at = self.word_at + self.marks.trailing_zeros() as usize / 8;
        self.marks &= self.marks - 1;
        Some(at)
    }
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
    use super::{below, has_either};

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
    fn bytes_below_are_found_wherever_they_stand() {
        for limit in [1, 3, 128] {
            for len in 0..40 {
                let around = [limit, 0x7F, 0x80, 0xFF].map(|byte: u8| byte.max(limit));
                for at in 0..len {
                    for byte in 0..=0xFF {
                        let mut text: Vec<u8> = around.into_iter().cycle().take(len).collect();
                        text.splice(at..=at, [byte]);
                        for another in [at, len - 1] {
                            let mut text = text.clone();
                            if another > at {
                                text.splice(another.., [0]);
                            }
                            let is_below = |(at, byte): (usize, &u8)| (*byte < limit).then_some(at);
                            let expected: Vec<_> = text.iter().enumerate().filter_map(is_below).collect();
                            let found: Vec<_> = below(&text, limit).collect();
                            assert_eq!(found, expected, "{byte} at {at} of {len}, {limit}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn each_of_many_bytes_below_is_found_once() {
        let mut random = fastrand::Rng::with_seed(1);
        for _ in 0..5000 {
            let text: Vec<u8> = (0..random.usize(..40)).map(|_| random.u8(..6)).collect();
            let expected: Vec<_> =
                text.iter().enumerate().filter(|(_, byte)| **byte < 3).map(|(at, _)| at).collect();
            assert_eq!(below(&text, 3).collect::<Vec<_>>(), expected, "{text:?}");
        }
    }
}
