//! Compressed bodies.

use std::io::Write;

use mqstore_core::format::body::{BodyFault, inflate, is_compressed};
use mqstore_core::format::sys_flag::{
    COMPRESSED, COMPRESSION_LZ4, COMPRESSION_TYPE, COMPRESSION_ZLIB, COMPRESSION_ZSTD, MULTI_TAGS,
};
use proptest::collection::vec;
use proptest::prelude::*;

const KINDS: [i32; 4] = [0, COMPRESSION_ZLIB, COMPRESSION_LZ4, COMPRESSION_ZSTD];
const BOUND: usize = 64 << 20;

fn deflate(body: &[u8], kind: i32) -> Vec<u8> {
    match kind {
        COMPRESSION_LZ4 => {
            let mut encoder = lz4_flex::frame::FrameEncoder::new(Vec::new());
            encoder.write_all(body).unwrap();
            encoder.finish().unwrap()
        }
        COMPRESSION_ZSTD => {
            ruzstd::encoding::compress_to_vec(body, ruzstd::encoding::CompressionLevel::Fastest)
        }
        _ => {
            let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
            encoder.write_all(body).unwrap();
            encoder.finish().unwrap()
        }
    }
}

#[test]
fn the_flag_says_whether_a_body_is_compressed() {
    assert!(is_compressed(COMPRESSED | COMPRESSION_LZ4));
    assert!(!is_compressed(MULTI_TAGS | COMPRESSION_TYPE));
}

#[test]
fn a_body_cut_off_anywhere_is_a_fault() {
    let body: Vec<u8> = (0..=255).cycle().take(3000).collect();
    for kind in KINDS {
        let deflated = deflate(&body, kind);
        assert_eq!(inflate(&deflated, kind).unwrap(), body);
        for len in 0..deflated.len() {
            let found = inflate(&deflated[..len], kind);
            assert!(
                matches!(found, Err(BodyFault::Corrupt { .. })),
                "kind {kind:#x}, {len} bytes: {found:?}"
            );
        }
    }
}

#[test]
fn a_small_body_that_would_fill_the_memory_is_refused() {
    let zeros = vec![0; BOUND + 1];
    for kind in KINDS {
        let too_large = deflate(&zeros, kind);
        assert!(too_large.len() < BOUND / 100);
        assert!(matches!(inflate(&too_large, kind), Err(BodyFault::TooLarge)), "kind {kind:#x}");
        let just_fits = deflate(&zeros[1..], kind);
        assert_eq!(inflate(&just_fits, kind).unwrap().len(), BOUND, "kind {kind:#x}");
    }
}

#[test]
fn a_kind_that_there_is_not_is_named() {
    for kind in 4..8 {
        let fault = inflate(b"", kind << 8).unwrap_err();
        assert_eq!(fault.to_string(), format!("expected a compression type of 0 to 3, found {kind}"));
    }
}

#[test]
fn bytes_that_are_not_what_the_flag_says_are_a_fault_that_says_so() {
    for (kind, name) in KINDS.into_iter().zip(["zlib", "zlib", "LZ4", "Zstandard"]) {
        for bytes in [&b""[..], b"plain text that nobody compressed"] {
            let fault = inflate(bytes, kind).unwrap_err();
            assert!(matches!(fault, BodyFault::Corrupt { .. }));
            assert!(fault.to_string().contains(name), "{fault}");
        }
    }
}

proptest! {
    #[test]
    fn what_was_compressed_inflates(body in vec(any::<u8>(), 0..5000), kind in 0..4_usize) {
        let kind = KINDS[kind];
        prop_assert_eq!(inflate(&deflate(&body, kind), kind | COMPRESSED).unwrap(), body);
    }

    #[test]
    fn a_damaged_body_is_another_or_a_fault(
        body in vec(any::<u8>(), 1..600), kind in 0..4_usize, at in any::<prop::sample::Index>(), with in 1..=255_u8
    ) {
        let mut deflated = deflate(&body, KINDS[kind]);
        let at = at.index(deflated.len());
        deflated[at] ^= with;
        if let Ok(found) = inflate(&deflated, KINDS[kind]) {
            prop_assert!(found.len() <= BOUND);
        }
    }

    #[test]
    fn any_bytes_of_any_kind_are_no_more_than_a_fault(bytes in vec(any::<u8>(), 0..400), flag in any::<i32>()) {
        if let Ok(found) = inflate(&bytes, flag) {
            prop_assert!(found.len() <= BOUND);
        }
    }
}
