//! Whether bytes are all zeros.

use mqstore_core::zeros::is_zero;

#[test]
fn one_byte_anywhere_is_found() {
    for len in [0, 1, 7, 1023, 1024, 1025, 4096, 5000] {
        let mut bytes = vec![0; len];
        assert!(is_zero(&bytes), "{len} zeros");
        for at in 0..len {
            bytes[at] = 1 << (at % 8);
            assert!(!is_zero(&bytes), "a byte at {at} of {len}");
            bytes[at] = 0;
        }
    }
}
