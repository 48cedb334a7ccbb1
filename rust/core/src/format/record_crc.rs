//! The checksum of a whole record: the last property of a RocketMQ 5 record with `enabledAppendPropCRC`.
//!
//! | bytes | field | |
//! |-------|-------|-|
//! | 8     | `__CRC32#` | the property's name |
//! | 1     | 0x01 | |
//! | 10    | digits | CRC-32 of all of the record before this property, its top bit cleared; lowest digit first |
//! | 1     | 0x02 | |
//!
//! A separator stands before it where the properties have none at their end. 4.9.3 reads it as a property like
//! any other. Source: RocketMQ 5's `MessageDecoder.createCrc32` and `CommitLog.checkMessageAndReturnSize`.

use super::properties::{CRC32, NAME_VALUE_SEPARATOR, PROPERTY_SEPARATOR};

/// Bytes of it.
pub const RECORD_CRC_SIZE: usize = CRC32.len() + 1 + DIGIT_COUNT + 1;
const DIGIT_COUNT: usize = 10;
/// Fixed bytes that may be others than they have to be: a record has it still, and it is damaged.
const MAX_DAMAGED_BYTES: usize = 2;
const _: () = assert!(RECORD_CRC_SIZE == 20);

/// What properties have of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordCrc {
    /// Nothing.
    None,
    /// It stands there, and not as it was written.
    Damaged,
    /// The checksum.
    Is(i32),
}

impl RecordCrc {
    /// Whether a record with these properties has it: where its check passed, they are as they were written too.
    #[must_use]
    pub fn is_in(properties: &[u8]) -> bool {
        matches!(Self::of(properties), Self::Is(_))
    }

    /// Reads it from the end of a property string.
    #[must_use]
    pub fn of(properties: &[u8]) -> Self {
        let Some((_, last)) = properties.split_last_chunk::<RECORD_CRC_SIZE>() else { return Self::None };
        let Some((name, &[separator, ref digits @ .., end])) = last.split_first_chunk() else {
            return Self::None;
        };
        // Nearly all records have others there, which is seen at once: eight bytes are compared as one number.
        let damaged = differing_count(*name, *CRC32)
            + usize::from(separator != NAME_VALUE_SEPARATOR)
            + usize::from(end != PROPERTY_SEPARATOR);
        match damaged {
            0 => number(digits).map_or(Self::Damaged, Self::Is),
            1..=MAX_DAMAGED_BYTES => Self::Damaged,
            _ => Self::None,
        }
    }
}

/// How many bytes of two names differ.
fn differing_count(one: [u8; CRC32.len()], other: [u8; CRC32.len()]) -> usize {
    let difference = u64::from_be_bytes(one) ^ u64::from_be_bytes(other);
    difference.to_be_bytes().iter().filter(|&&byte| byte != 0).count()
}

fn number(digits: &[u8]) -> Option<i32> {
    let number = digits.iter().rev().try_fold(0_i64, |number, digit| {
        digit.is_ascii_digit().then(|| number * 10 + i64::from(digit - b'0'))
    });
    i32::try_from(number?).ok()
}

/// Properties without it, and whether they had it.
#[must_use]
pub fn without(properties: &[u8]) -> (&[u8], bool) {
    match RecordCrc::of(properties) {
        RecordCrc::None => (properties, false),
        _ => {
            (properties.split_last_chunk::<RECORD_CRC_SIZE>().map_or(properties, |(before, _)| before), true)
        }
    }
}

/// Its bytes.
#[must_use]
pub fn to_bytes(crc: i32) -> [u8; RECORD_CRC_SIZE] {
    let mut bytes = [PROPERTY_SEPARATOR; RECORD_CRC_SIZE];
    let mut rest = crc.unsigned_abs();
    let digits = std::iter::repeat_with(|| {
        let digit = b"0123456789".get((rest % 10) as usize).copied().unwrap_or(b'0');
        rest /= 10;
        digit
    });
    let all = CRC32.iter().copied().chain([NAME_VALUE_SEPARATOR]).chain(digits.take(DIGIT_COUNT));
    bytes.iter_mut().zip(all).for_each(|(to, from)| *to = from);
    bytes
}
