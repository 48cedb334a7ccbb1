//! Compressed bodies: the first byte says how, the rest is the body.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mqstore_core::format::body::inflate;

fuzz_target!(|bytes: &[u8]| {
    let Some((kind, body)) = bytes.split_first() else { return };
    if let Ok(inflated) = inflate(body, i32::from(kind % 8) << 8) {
        assert!(inflated.len() <= 64 << 20);
    }
});
