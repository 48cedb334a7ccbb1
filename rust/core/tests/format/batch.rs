//! Batches as clients send them.

use mqstore_core::format::batch::{BatchFault, BatchItem, FIXED_SIZE, decode};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::hex;

fn encoded(items: &[BatchItem<'_>]) -> Vec<u8> {
    let mut out = Vec::new();
    assert!(items.iter().all(|item| item.write(&mut out)));
    out
}

#[test]
fn a_message_of_a_batch_has_the_bytes_of_the_table() {
    let item = BatchItem { flag: 7, body: b"hi", properties: b"a\x01b" };
    let bytes = hex("00000 01b 00000000 00000000 00000007 00000002 6869 0003 610162");
    assert_eq!(encoded(&[item]), bytes);
    assert_eq!(bytes.len(), FIXED_SIZE + 2 + 3);
    assert_eq!(decode(&bytes), Ok(vec![item]));
}

#[test]
fn an_empty_batch_has_no_messages() {
    assert_eq!(decode(b""), Ok(Vec::new()));
}

#[test]
fn a_cut_batch_names_the_message_that_is_not_whole() {
    let item = BatchItem { flag: 0, body: b"body", properties: b"" };
    let bytes = encoded(&[item, item]);
    let one = FIXED_SIZE + 4;
    for len in 0..bytes.len() {
        let expected = match len {
            0 => Ok(Vec::new()),
            len if len == one => Ok(vec![item]),
            len if len < one => Err(BatchFault { at: 0, found: len }),
            len => Err(BatchFault { at: one, found: len - one }),
        };
        assert_eq!(decode(&bytes[..len]), expected, "{len} bytes");
    }
}

#[test]
fn negative_lengths_are_faults() {
    let negative_body = hex("00000016 00000000 00000000 00000000 ffffffff 0000");
    let negative_properties = hex("00000016 00000000 00000000 00000000 00000000 8000");
    for bytes in [negative_body, negative_properties] {
        assert_eq!(decode(&bytes), Err(BatchFault { at: 0, found: 22 }));
    }
}

#[test]
fn properties_that_no_length_can_say_are_not_written() {
    let mut out = b"before".to_vec();
    let properties = vec![b'p'; 32_768];
    assert!(!BatchItem { flag: 0, body: b"", properties: &properties }.write(&mut out));
    assert_eq!(out, b"before");
    assert!(BatchItem { flag: 0, body: b"", properties: &properties[1..] }.write(&mut out));
}

proptest! {
    #[test]
    fn what_was_written_is_read(
        items in vec((any::<i32>(), vec(any::<u8>(), 0..50), vec(any::<u8>(), 0..50)), 0..8)
    ) {
        let items: Vec<_> = items
            .iter()
            .map(|(flag, body, properties)| BatchItem { flag: *flag, body, properties })
            .collect();
        let bytes = encoded(&items);
        prop_assert_eq!(decode(&bytes), Ok(items));
    }

    #[test]
    fn any_bytes_are_messages_or_a_fault(bytes in vec(any::<u8>(), 0..200)) {
        if let Ok(items) = decode(&bytes) {
            let size: usize = items.iter().map(|item| FIXED_SIZE + item.body.len() + item.properties.len()).sum();
            prop_assert_eq!(size, bytes.len());
        }
    }
}
