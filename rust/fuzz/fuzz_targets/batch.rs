//! Batches as clients send them.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mqstore_core::format::batch::decode;

fuzz_target!(|bytes: &[u8]| {
    let Ok(items) = decode(bytes) else { return };
    let mut again = Vec::new();
    assert!(items.iter().all(|item| item.write(&mut again)));
    assert_eq!((again.len(), decode(&again)), (bytes.len(), Ok(items)));
});
