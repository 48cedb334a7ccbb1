//! The list of removed queues.

use mqstore_core::format::removed_queues::{LastMessage, RemovedQueue, read, to_bytes};

fn some() -> Vec<RemovedQueue> {
    let queue = |topic: &str, queue_id, physical_offset| RemovedQueue {
        topic: topic.into(),
        queue_id,
        last: LastMessage { physical_offset, size: 123, store_timestamp: -5 },
    };
    vec![queue("orders", 3, 1 << 40), queue("", -1, 0), queue("主題", i32::MAX, 7)]
}

#[test]
fn what_is_written_is_read() {
    for queues in [vec![], some()] {
        assert_eq!(read(&to_bytes(&queues)), Some(queues));
    }
    assert_eq!(&to_bytes(&[])[..], b"mqstrmq1\x21\x44\xdf\x1c\0\0\0\0");
}

#[test]
fn only_a_whole_list_is_read() {
    let bytes = to_bytes(&some());
    for len in 0..bytes.len() {
        assert_eq!(read(&bytes[..len]), None, "{len} bytes");
    }
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(read(&flipped), None, "bit {bit}");
    }
    assert_eq!(read(&[&bytes[..], b"\0"].concat()), None);
}

#[test]
fn a_list_that_lies_about_itself_is_not_read() {
    let with_crc = |rest: &[u8]| [b"mqstrmq1", &crc32fast::hash(rest).to_be_bytes()[..], rest].concat();
    let mut rest = to_bytes(&some())[12..].to_vec();
    assert!(read(&with_crc(&rest)).is_some());
    rest.push(0);
    assert_eq!(read(&with_crc(&rest)), None, "something follows");
    assert_eq!(read(&with_crc(&i32::MAX.to_be_bytes())), None, "more queues than bytes");
    let topic_of_2_gib = [&1_i32.to_be_bytes()[..], &[0; 24], &i32::MAX.to_be_bytes()].concat();
    assert_eq!(read(&with_crc(&topic_of_2_gib)), None);
    let negative = [&1_i32.to_be_bytes()[..], &[0xff; 8], &[0; 20]].concat();
    assert_eq!(read(&with_crc(&negative)), None);
}
