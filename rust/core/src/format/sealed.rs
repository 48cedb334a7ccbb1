//! Files of mqstore's own that are written as a whole.
//!
//! | bytes | field |
//! |-------|-------|
//! | 8     | magic |
//! | 4     | CRC-32 of all that follows |
//! |       | content |

use super::be::FieldReader;
use crate::num;

/// The content of a file; `None` where the bytes are not those of a whole one.
pub(super) fn open<'a>(bytes: &'a [u8], magic: &[u8; 8]) -> Option<&'a [u8]> {
    let mut reader = FieldReader::new(bytes);
    let found: [u8; 8] = reader.array()?;
    let crc = reader.i32()?;
    let content = bytes.get(12..)?;
    (found == *magic && num::int_as_bits(crc) == crc32fast::hash(content)).then_some(content)
}

/// The bytes of a file.
pub(super) fn seal(magic: &[u8; 8], content: &[u8]) -> Vec<u8> {
    [&magic[..], &crc32fast::hash(content).to_be_bytes(), content].concat()
}
