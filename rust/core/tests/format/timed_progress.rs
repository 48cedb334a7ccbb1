use mqstore_core::format::timed_progress::TimedProgress;

fn progress() -> TimedProgress {
    TimedProgress { first: 3, last_physical_offset: 4096, marks: vec![(7, 1000, 5), (9, 900, 8)] }
}

#[test]
fn bytes_give_what_was_written() {
    let bytes = progress().to_bytes();
    assert_eq!(bytes.len(), 32 + 2 * 24);
    assert_eq!(bytes[..16], *b"mqsttim1\0\0\0\0\0\0\0\x03");
    assert_eq!(bytes[32..40], 7u64.to_be_bytes());
    assert_eq!(TimedProgress::read(&bytes), Some(progress()));
}

#[test]
fn what_is_none_is_not_believed() {
    let bytes = progress().to_bytes();
    for len in 0..bytes.len() {
        assert_eq!(TimedProgress::read(&bytes[..len]), None, "{len} bytes");
    }
    for at in [0, 8, 16, 24, 27, 28, 32, 48] {
        let mut bad = bytes.clone();
        bad[at] ^= 0x80;
        assert_eq!(TimedProgress::read(&bad), None, "byte {at}");
    }
    for (first, marks) in [
        (0, vec![]),
        (0, vec![(0, 5, 0)]),
        (0, vec![(7, 1000, 5), (7, 900, 8)]),
        (0, vec![(7, 1000, 5), (9, 1000, 5)]),
        (10, vec![(9, 1000, 5)]),
    ] {
        let bad = TimedProgress { first, marks, ..progress() };
        assert_eq!(TimedProgress::read(&bad.to_bytes()), None, "{bad:?}");
    }
}
