//! A unit of a consume queue's extension: what does not fit into twenty bytes.
//!
//! | bytes | field |
//! |-------|-------|
//! | 2     | size of the unit |
//! | 8     | tags code |
//! | 8     | store timestamp |
//! | 2     | bytes of the filter bit map |
//! | n     | filter bit map |
//!
//! A file ends with a size of -1 where the next unit did not fit, four bytes being kept free for it.
//! A queue's unit names an extension unit by its offset plus `Long.MIN_VALUE` in place of the tags
//! code. Source: `ConsumeQueueExt`.

use super::be::FieldReader;
use crate::num;

/// Bytes of a unit without its bit map.
pub const MIN_EXT_UNIT_SIZE: usize = 2 + 8 + 8 + 2;
const _: () = assert!(MIN_EXT_UNIT_SIZE == 20);
/// Most bytes of a unit: its size is a Java `short`.
pub const MAX_EXT_UNIT_SIZE: usize = 32_767;
/// What a file keeps free at its end.
pub const END_BLANK_DATA_LENGTH: usize = 4;
/// Tags codes up to this one are addresses in the extension.
pub const MAX_ADDR: i64 = -2_147_483_649;
/// The size that says that the rest of the file is empty.
pub const END_OF_FILE: i16 = -1;

/// Whether a unit's tags code is an address in the extension.
#[must_use]
pub const fn is_ext_addr(tags_code: i64) -> bool {
    tags_code <= MAX_ADDR
}

/// The address of an offset in the extension.
#[must_use]
pub const fn decorate(offset: u64) -> i64 {
    num::java_long(offset).wrapping_add(i64::MIN)
}

/// The offset in the extension that an address stands for; `None` where it is no address.
#[must_use]
pub const fn undecorate(address: i64) -> Option<u64> {
    if is_ext_addr(address) { num::from_java_long(address.wrapping_sub(i64::MIN)) } else { None }
}

/// A unit.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CqExtUnit {
    /// The tag's hash.
    pub tags_code: i64,
    /// When the message was stored, in milliseconds.
    pub msg_store_time: i64,
    /// Which consumers' filters match, as a Bloom filter.
    pub filter_bit_map: Vec<u8>,
}

impl CqExtUnit {
    /// Bytes that it takes.
    #[must_use]
    pub fn size(&self) -> usize {
        MIN_EXT_UNIT_SIZE + self.filter_bit_map.len()
    }

    /// Reads one; `None` where the bytes hold none (4.9.3: a size below 1) or end before it does.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let mut reader = FieldReader::new(bytes);
        let size = usize::try_from(reader.i16()?).ok()?;
        let tags_code = reader.i64()?;
        let msg_store_time = reader.i64()?;
        let bit_map_len = usize::try_from(reader.i16()?).ok()?;
        if bit_map_len + MIN_EXT_UNIT_SIZE != size {
            return None;
        }
        Some(Self { tags_code, msg_store_time, filter_bit_map: reader.bytes(bit_map_len)?.to_vec() })
    }

    /// Its bytes, or `None` where its bit map is too long for a unit.
    #[must_use]
    pub fn to_bytes(&self) -> Option<Vec<u8>> {
        let size = i16::try_from(self.size()).ok()?;
        let bit_map_len = i16::try_from(self.filter_bit_map.len()).ok()?;
        let mut out = Vec::with_capacity(self.size());
        out.extend_from_slice(&size.to_be_bytes());
        out.extend_from_slice(&self.tags_code.to_be_bytes());
        out.extend_from_slice(&self.msg_store_time.to_be_bytes());
        out.extend_from_slice(&bit_map_len.to_be_bytes());
        out.extend_from_slice(&self.filter_bit_map);
        Some(out)
    }
}
