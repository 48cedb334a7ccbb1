//! The checksum of a whole record, as RocketMQ 5 writes it.

use std::net::{IpAddr, Ipv4Addr};

use mqstore_core::format::host::Host;
use mqstore_core::format::message::{Check, Decoded, Place, RecordFault, RecordFields, body_crc, decode};
use mqstore_core::format::record_crc::{RECORD_CRC_SIZE, RecordCrc, to_bytes, without};
use proptest::prelude::*;

use crate::flips;

fn record(properties: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let host = Host { ip: IpAddr::V4(Ipv4Addr::LOCALHOST), port: 10_911 };
    let fields = RecordFields {
        body_crc: body_crc(b"body"),
        queue_id: 1,
        flag: 0,
        sys_flag: 0,
        born_timestamp: 5,
        born_host: host,
        store_host: host,
        reconsume_times: 0,
        prepared_transaction_offset: 0,
        body: b"body",
        topic: b"topic",
        properties: properties.as_bytes(),
        append_crc: true,
    };
    let place = Place { queue_offset: 7, physical_offset: 4096, store_timestamp: 9 };
    fields.write(place, |part| bytes.extend_from_slice(part));
    assert_eq!(bytes.len(), fields.record_size());
    bytes
}

/// What 5.3's `createCrc32` gives.
#[test]
fn its_digits_stand_the_lowest_first() {
    assert_eq!(&to_bytes(1_234_567_890), b"__CRC32#\x010987654321\x02");
    assert_eq!(&to_bytes(0), b"__CRC32#\x010000000000\x02");
    assert_eq!(&to_bytes(i32::MAX), b"__CRC32#\x017463847412\x02");
    assert_eq!(&to_bytes(42), b"__CRC32#\x012400000000\x02");
}

#[test]
fn it_covers_all_before_it_the_separator_too() {
    for (given, stored) in [("", ""), ("a\x01b", "a\x01b\x02"), ("a\x01b\x02", "a\x01b\x02")] {
        let bytes = record(given);
        let Ok(Decoded::Message(decoded)) = decode(&bytes, Check::BodyCrc) else { panic!("{given:?}") };
        let (before, last) = bytes.split_at(bytes.len() - RECORD_CRC_SIZE);
        assert_eq!(last, to_bytes(body_crc(before)));
        assert_eq!(decoded.properties, [stored.as_bytes(), last].concat());
        assert_eq!(without(decoded.properties), (stored.as_bytes(), true));
    }
    assert_eq!(without(b"a\x01b"), (&b"a\x01b"[..], false));
}

#[test]
fn each_flipped_bit_is_found() {
    for (bit, bytes) in flips(&record("KEYS\x01k")) {
        assert!(!matches!(decode(&bytes, Check::BodyCrc), Ok(Decoded::Message(_))), "bit {bit}");
    }
}

#[test]
fn one_that_cannot_be_read_is_damage() {
    let mut bytes = record("");
    let digit = bytes.len() - 2;
    bytes[digit] = b'x';
    let fault = decode(&bytes, Check::BodyCrc).unwrap_err();
    assert!(matches!(fault, RecordFault::RecordCrc { expected: -1, .. }), "{fault}");
    assert!(decode(&bytes, Check::Structure).is_ok());
}

/// A record that little damage could make one without a checksum would pass unchecked.
#[test]
fn it_is_there_with_two_damaged_bytes_and_with_three_it_is_something_else() {
    let fixed: Vec<_> = (0..9).chain([RECORD_CRC_SIZE - 1]).collect();
    for first in 0..fixed.len() {
        for (count, expected) in [(1, RecordCrc::Damaged), (2, RecordCrc::Damaged), (3, RecordCrc::None)] {
            let mut bytes = to_bytes(42);
            fixed.iter().cycle().skip(first).take(count).for_each(|&at| bytes[at] ^= 0x80);
            assert_eq!(RecordCrc::of(&bytes), expected, "{count} from {first} on");
        }
    }
}

/// A property of that name elsewhere is one that a message brought along.
#[test]
fn it_counts_at_the_end_alone() {
    for properties in ["__CRC32#\x010000000000\x02a\x01b", "__CRC32#\x010000000000", "__CRC32#\x011\x02"] {
        assert_eq!(RecordCrc::of(properties.as_bytes()), RecordCrc::None, "{properties:?}");
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read(crc in 0..=i32::MAX, before in "[a-z\x01\x02]{0,40}") {
        let properties = [before.as_bytes(), &to_bytes(crc)].concat();
        prop_assert_eq!(RecordCrc::of(&properties), RecordCrc::Is(crc));
    }
}
