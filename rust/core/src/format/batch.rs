//! The body of a batch as a client sends it: messages of one topic and queue, end to end.
//!
//! | bytes | field |
//! |-------|-------|
//! | 4     | size of the message |
//! | 4     | magic code, unused: 0 |
//! | 4     | body CRC, unused: 0 |
//! | 4     | flag |
//! | 4     | body length |
//! | n     | body |
//! | 2     | properties length |
//! | n     | properties |
//!
//! Source: `MessageDecoder.encodeMessage` and `MessageExtEncoder.encode(MessageExtBatch)`.

use super::be::FieldReader;
use crate::num;

/// Bytes of a message beside its body and properties.
pub const FIXED_SIZE: usize = 4 + 4 + 4 + 4 + 4 + 2;

/// Why bytes are no batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected a whole message at byte {at} of the batch, found {found} bytes that hold none")]
pub struct BatchFault {
    /// Where the message that is not whole begins.
    pub at: usize,
    /// Bytes from there to the end.
    pub found: usize,
}

/// A message of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchItem<'a> {
    /// The user's flag.
    pub flag: i32,
    /// The body.
    pub body: &'a [u8],
    /// The property string.
    pub properties: &'a [u8],
}

impl BatchItem<'_> {
    /// Appends its bytes, or gives `false` and appends nothing where a length does not fit.
    pub fn write(&self, out: &mut Vec<u8>) -> bool {
        let size = i32::try_from(FIXED_SIZE + self.body.len() + self.properties.len());
        let body_len = i32::try_from(self.body.len());
        let properties_len = i16::try_from(self.properties.len());
        let (Ok(size), Ok(body_len), Ok(properties_len)) = (size, body_len, properties_len) else {
            return false;
        };
        out.extend_from_slice(&size.to_be_bytes());
        out.extend_from_slice(&[0; 8]);
        out.extend_from_slice(&self.flag.to_be_bytes());
        out.extend_from_slice(&body_len.to_be_bytes());
        out.extend_from_slice(self.body);
        out.extend_from_slice(&properties_len.to_be_bytes());
        out.extend_from_slice(self.properties);
        true
    }
}

/// The messages of a batch.
///
/// # Errors
/// A [`BatchFault`] where the bytes do not divide into messages.
pub fn decode(batch: &[u8]) -> Result<Vec<BatchItem<'_>>, BatchFault> {
    let mut items = Vec::new();
    let mut rest = batch;
    while !rest.is_empty() {
        let fault = BatchFault { at: batch.len() - rest.len(), found: rest.len() };
        let (item, size) = read(rest).ok_or(fault)?;
        items.push(item);
        rest = rest.get(size..).ok_or(fault)?;
    }
    Ok(items)
}

fn read(bytes: &[u8]) -> Option<(BatchItem<'_>, usize)> {
    let mut reader = FieldReader::new(bytes);
    let _total_size = reader.i32()?;
    let _unused: [u8; 8] = reader.array()?;
    let flag = reader.i32()?;
    let body_len = num::from_java_int(reader.i32()?)?;
    let body = reader.bytes(body_len as usize)?;
    let properties_len = usize::try_from(reader.i16()?).ok()?;
    let properties = reader.bytes(properties_len)?;
    Some((BatchItem { flag, body, properties }, FIXED_SIZE + body.len() + properties.len()))
}
