//! A body that a client compressed.
//!
//! Java clients compress bodies above 4 KiB: bit 0 of the sys flag says so. 4.9.3 knows zlib alone;
//! RocketMQ 5 says which of LZ4, Zstandard and zlib in bits 8 to 10, and 0 means zlib there too.
//! Source: `UtilAll.uncompress`, and `CompressionType` of RocketMQ 5.

use std::io::Read;

use super::sys_flag;

/// No body inflates to more than this many times what a store takes, or an attacker's few bytes
/// would fill the memory.
const MAX_INFLATED_SIZE: u64 = 64 << 20;

/// Why a body cannot be inflated.
#[derive(Debug, thiserror::Error)]
pub enum BodyFault {
    /// It is not what the flag says.
    #[error("expected a body compressed with {kind}, found bytes that are not: {reason}")]
    Corrupt {
        /// What the flag says.
        kind: &'static str,
        /// What the decoder says.
        reason: String,
    },
    /// It would become too large.
    #[error("expected a body of at most {MAX_INFLATED_SIZE} bytes when inflated, found a larger one")]
    TooLarge,
    /// The flag names no compression that there is.
    #[error("expected a compression type of 0 to 3, found {found}")]
    UnknownType {
        /// The three bits.
        found: i32,
    },
}

/// Whether a body is compressed.
#[must_use]
pub const fn is_compressed(flag: i32) -> bool {
    flag & sys_flag::COMPRESSED != 0
}

/// The body as it was before the client compressed it.
///
/// # Errors
/// A [`BodyFault`]; nothing larger than 64 MiB is ever made.
pub fn inflate(body: &[u8], flag: i32) -> Result<Vec<u8>, BodyFault> {
    match flag & sys_flag::COMPRESSION_TYPE {
        0 | sys_flag::COMPRESSION_ZLIB => read("zlib", flate2::read::ZlibDecoder::new(body)),
        sys_flag::COMPRESSION_LZ4 => {
            let mut source = Source { rest: body, is_short: false };
            let inflated = read("LZ4", lz4_flex::frame::FrameDecoder::new(&mut source))?;
            if source.is_short {
                let reason = "it ends before its frame does".into();
                return Err(BodyFault::Corrupt { kind: "LZ4", reason });
            }
            Ok(inflated)
        }
        sys_flag::COMPRESSION_ZSTD => match ruzstd::decoding::StreamingDecoder::new(body) {
            Ok(decoder) => read("Zstandard", decoder),
            Err(error) => Err(BodyFault::Corrupt { kind: "Zstandard", reason: error.to_string() }),
        },
        found => Err(BodyFault::UnknownType { found: found >> 8 }),
    }
}

/// Bytes that know whether more was asked for than there is: to the LZ4 decoder a frame that is cut
/// off between two blocks is at its end.
struct Source<'a> {
    rest: &'a [u8],
    is_short: bool,
}

impl Read for Source<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.is_short |= self.rest.is_empty() && !buffer.is_empty();
        self.rest.read(buffer)
    }
}

fn read(kind: &'static str, decoder: impl Read) -> Result<Vec<u8>, BodyFault> {
    let mut inflated = Vec::new();
    decoder
        .take(MAX_INFLATED_SIZE + 1)
        .read_to_end(&mut inflated)
        .map_err(|error| BodyFault::Corrupt { kind, reason: error.to_string() })?;
    if crate::num::offset(inflated.len()) > MAX_INFLATED_SIZE {
        Err(BodyFault::TooLarge)
    } else {
        Ok(inflated)
    }
}
