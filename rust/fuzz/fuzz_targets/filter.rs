//! SQL92 filters: any text, compiled and matched against any properties.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mqstore_core::filter::SqlFilter;

fuzz_target!(|bytes: &[u8]| {
    let (text, properties) = match bytes.iter().position(|&byte| byte == b'\n') {
        Some(at) => (&bytes[..at], &bytes[at + 1..]),
        None => (bytes, &b""[..]),
    };
    let Ok(text) = std::str::from_utf8(text) else { return };
    let compat = SqlFilter::compile(text, true);
    if let Ok(filter) = SqlFilter::compile(text, false) {
        let compat = compat.expect("what 4.9.3 passes over is not there");
        assert_eq!(filter.matches(properties), compat.matches(properties));
    } else if let Ok(compat) = compat {
        compat.matches(properties);
    }
});
