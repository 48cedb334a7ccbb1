//! Property strings and the text in them.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mqstore_core::format::java_string::{decode, hash_code, utf16_len};
use mqstore_core::format::properties::{DispatchProperties, encode, find, pairs, replace, to_map};

fuzz_target!(|bytes: &[u8]| {
    for (name, value) in pairs(bytes) {
        assert!(!name.is_empty() && !value.is_empty());
        assert!(find(bytes, name).is_some());
    }
    let map = to_map(bytes);
    let again = encode(&map);
    assert!(again.len() <= bytes.len());
    for (name, value) in pairs(&again) {
        assert_eq!(find(bytes, name), Some(value));
    }
    let replaced = replace(bytes, b"KEYS", b"k");
    let others = |properties| pairs(properties).filter(|(name, _)| *name != b"KEYS").count();
    assert_eq!(others(&replaced), others(bytes));
    assert!(find(&replaced, b"KEYS").is_none_or(|value| value == b"k"));
    assert!(DispatchProperties::of(bytes).index_keys().all(|key| !key.is_empty()));
    let text = decode(bytes);
    assert!(utf16_len(&text) <= bytes.len());
    assert_eq!(hash_code(text.as_bytes()), hash_code(bytes));
});
