//! What a writer leaves when it closes a store.

use mqstore_core::format::closed::{ClosedFile, ClosedHeader, ClosedQueue, to_bytes};

const HEADER: ClosedHeader = ClosedHeader { opening_count: 7, log_begin: 4096, log_end: 1 << 40 };
const QUEUES: [ClosedQueue<'_>; 3] = [
    ClosedQueue { topic: b"orders", queue_id: 3, next_offset: 1 << 33, reached: 1 << 39 },
    ClosedQueue { topic: b"", queue_id: -1, next_offset: 0, reached: 0 },
    ClosedQueue { topic: "\u{4e3b}\u{984c}".as_bytes(), queue_id: i32::MAX, next_offset: 5, reached: 4097 },
];

fn bytes(queues: &[ClosedQueue<'_>]) -> Vec<u8> {
    to_bytes(HEADER, queues.iter().copied())
}

#[test]
fn what_is_written_is_read() {
    for queues in [&[][..], &QUEUES] {
        let file = ClosedFile::read(bytes(queues)).unwrap();
        assert_eq!(file.header(), HEADER);
        assert_eq!(file.queues().collect::<Vec<_>>(), queues);
    }
    let first = &bytes(&QUEUES[..1]);
    assert_eq!(first[..8], *b"mqstclo1");
    assert_eq!(first[8..12], crc32fast::hash(&first[12..]).to_be_bytes());
    let expected = [
        &1_i32.to_be_bytes()[..],
        &7_i64.to_be_bytes(),
        &4096_i64.to_be_bytes(),
        &(1_i64 << 40).to_be_bytes(),
        &(1_i64 << 33).to_be_bytes(),
        &(1_i64 << 39).to_be_bytes(),
        &3_i32.to_be_bytes(),
        &6_i32.to_be_bytes(),
        b"orders",
    ]
    .concat();
    assert_eq!(first[12..], expected);
}

#[test]
fn only_a_whole_one_is_read() {
    let whole = bytes(&QUEUES);
    for len in 0..whole.len() {
        assert_eq!(ClosedFile::read(whole[..len].to_vec()), None, "{len} bytes");
    }
    for bit in 0..whole.len() * 8 {
        let mut flipped = whole.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(ClosedFile::read(flipped), None, "bit {bit}");
    }
    assert_eq!(ClosedFile::read([&whole[..], b"\0"].concat()), None);
}

#[test]
fn one_that_lies_about_itself_is_not_read() {
    let with_crc = |rest: &[u8]| {
        ClosedFile::read([b"mqstclo1", &crc32fast::hash(rest).to_be_bytes()[..], rest].concat())
    };
    let rest = bytes(&QUEUES)[12..].to_vec();
    assert!(with_crc(&rest).is_some());
    assert_eq!(with_crc(&[&rest[..], b"\0"].concat()), None, "something follows");
    assert_eq!(with_crc(&[&4_i32.to_be_bytes(), &rest[4..]].concat()), None, "more queues than there are");
    assert_eq!(with_crc(&[&i32::MAX.to_be_bytes()[..], &[0; 24]].concat()), None, "more queues than bytes");
    assert_eq!(with_crc(&[&(-1_i32).to_be_bytes()[..], &[0; 24]].concat()), None);
    for at in [4, 12, 20, 28, 36] {
        let mut negative = rest.clone();
        negative[at] = 0x80;
        assert_eq!(with_crc(&negative), None, "byte {at}");
    }
    let topic_of_2_gib = [&1_i32.to_be_bytes()[..], &[0; 44], &i32::MAX.to_be_bytes()].concat();
    assert_eq!(with_crc(&topic_of_2_gib), None);
}
