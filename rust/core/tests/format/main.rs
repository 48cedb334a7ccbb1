//! The codecs: each against the bytes of its table, against every cut and flip of them, against
//! whatever bytes there may be.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)] // a test stops at what is wrong

mod batch;
mod be;
mod body;
mod checkpoint;
mod closed;
mod cq_ext_unit;
mod cq_unit;
mod file_name;
mod host;
mod index;
mod java_hash_map;
mod java_string;
mod message;
mod message_id;
mod positions;
mod properties;
mod record_crc;
mod removed_queues;
mod sys_flag;
mod timed_progress;

/// Bytes from hex digits; spaces do not count.
fn hex(digits: &str) -> Vec<u8> {
    let digits: Vec<u32> =
        digits.chars().filter(|c| !c.is_whitespace()).map(|c| c.to_digit(16).unwrap()).collect();
    digits.chunks(2).map(|pair| u8::try_from(pair[0] * 16 + pair[1]).unwrap()).collect()
}

/// The bytes with each single bit flipped in turn, and which bit it was.
fn flips(bytes: &[u8]) -> impl Iterator<Item = (usize, Vec<u8>)> + '_ {
    (0..bytes.len() * 8).map(|bit| {
        let mut flipped = bytes.to_vec();
        flipped[bit / 8] ^= 1 << (bit % 8);
        (bit, flipped)
    })
}
