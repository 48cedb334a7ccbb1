//! Bytes that nobody has written: reserved blocks read as zeros, and can be long.

/// Bytes that are looked at before it is asked whether one of them is something else.
const STEP: usize = 1 << 10;

/// Whether all bytes are zeros.
#[must_use]
pub fn is_zero(bytes: &[u8]) -> bool {
    // Without a way out of each step the compiler looks at many bytes at once.
    bytes.chunks(STEP).all(|step| step.iter().fold(0, |found, &byte| found | byte) == 0)
}
