//! The id of a stored message: where it is stored.
//!
//! | bytes   | field |
//! |---------|-------|
//! | 8 or 20 | store host |
//! | 8       | physical offset |
//!
//! As text it is upper-case hex: 32 digits with an IPv4 host, 56 with an IPv6 one.
//! Source: `MessageDecoder.createMessageId` and `decodeMessageId`.

use super::be::FieldReader;
use super::host::{self, Host};
use crate::num;

/// Hex digits of an id with an IPv4 host.
pub const V4_DIGITS: usize = 2 * (host::V4_SIZE + 8);
/// Hex digits of an id with an IPv6 host.
pub const V6_DIGITS: usize = 2 * (host::V6_SIZE + 8);

/// Why a text is no message id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MessageIdFault {
    /// Its length fits neither kind of host.
    #[error("expected {V4_DIGITS} or {V6_DIGITS} hex digits, found {found} characters")]
    Length {
        /// Characters.
        found: usize,
    },
    /// A character is no hex digit.
    #[error("expected hex digits, found {found:?} at position {at}")]
    Digit {
        /// The character.
        found: char,
        /// Its position.
        at: usize,
    },
    /// The offset in it is negative.
    #[error("expected a physical offset of at least 0, found {found}")]
    Offset {
        /// The offset.
        found: i64,
    },
}

/// The id of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessageId {
    /// Where it was stored.
    pub store_host: Host,
    /// Where it stands in that host's log.
    pub physical_offset: u64,
}

impl MessageId {
    /// The id as text.
    #[must_use]
    pub fn to_hex(&self) -> String {
        let mut text = String::with_capacity(V6_DIGITS);
        self.push_hex(&mut text);
        text
    }

    /// Appends the id to a text.
    pub fn push_hex(&self, text: &mut String) {
        let mut push = |bytes: &[u8]| push_hex(text, bytes);
        self.store_host.write(&mut push);
        push(&self.physical_offset.to_be_bytes());
    }

    /// The id from its text; hex digits of either case.
    ///
    /// # Errors
    /// A [`MessageIdFault`] that says what is wrong with the text.
    pub fn from_hex(text: &str) -> Result<Self, MessageIdFault> {
        if let Some((at, found)) = text.char_indices().find(|(_, c)| !c.is_ascii_hexdigit()) {
            return Err(MessageIdFault::Digit { found, at });
        }
        let length = MessageIdFault::Length { found: text.len() };
        if text.len() != V4_DIGITS && text.len() != V6_DIGITS {
            return Err(length);
        }
        let bytes: Vec<u8> = text
            .as_bytes()
            .chunks_exact(2)
            .filter_map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
            .collect();
        let mut reader = FieldReader::new(&bytes);
        let (Some(store_host), Some(offset)) =
            (Host::read(&mut reader, text.len() == V6_DIGITS), reader.i64())
        else {
            return Err(length);
        };
        let physical_offset = num::from_java_long(offset).ok_or(MessageIdFault::Offset { found: offset })?;
        Ok(Self { store_host, physical_offset })
    }
}

/// Appends bytes as upper-case hex, as Java's `UtilAll.bytes2string` does.
pub fn push_hex(text: &mut String, bytes: &[u8]) {
    for byte in bytes {
        let [.., high, low] = hex_digits(u32::from(*byte));
        text.push(char::from(high));
        text.push(char::from(low));
    }
}

/// The eight upper-case hex digits of a number, all at once.
#[must_use]
pub fn hex_digits(number: u32) -> [u8; 8] {
    const ONES: u64 = u64::MAX / 0xFF;
    // Each half of what a lane holds goes to a lane of its own, the higher one to the higher lane, until a lane holds a digit.
    let spread = |number: u64, shift: u32, mask: u64| (number | number << shift) & mask;
    let digits = spread(u64::from(number), 16, 0x0000_FFFF_0000_FFFF);
    let digits = spread(digits, 8, 0x00FF_00FF_00FF_00FF);
    let digits = spread(digits, 4, 0x0F0F_0F0F_0F0F_0F0F);
    let is_letter = (digits + 6 * ONES) >> 4 & ONES;
    (digits + u64::from(b'0') * ONES + is_letter * u64::from(b'A' - b'0' - 10)).to_be_bytes()
}
