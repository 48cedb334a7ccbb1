//! Records of the log.

use std::convert::Infallible;
use std::net::IpAddr;

use mqstore_core::format::host::Host;
use mqstore_core::format::message::{
    BLANK_MAGIC_CODE, Check, Decoded, FIXED_SIZE, Identity, MAX_HEAD_SIZE, MAX_PROPERTIES_LENGTH,
    MAX_TOPIC_LENGTH, MESSAGE_MAGIC_CODE, MESSAGE_MAGIC_CODE_V2, Place, Record, RecordFault, RecordFields,
    SYS_FLAG_AT, blank, body_behind_head, body_crc, decode, is_whole_record_of, record_size, size_by_lengths,
    store_timestamp_at,
};
use mqstore_core::format::sys_flag::{BORNHOST_V6, STOREHOST_V6};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::{flips, hex};

const PLACE: Place = Place { queue_offset: 9, physical_offset: 0x1000, store_timestamp: 0x2222 };

fn fields<'a>(
    born: &str,
    store: &str,
    body: &'a [u8],
    topic: &'a [u8],
    properties: &'a [u8],
) -> RecordFields<'a> {
    RecordFields {
        body_crc: body_crc(body),
        queue_id: 3,
        flag: 4,
        sys_flag: 0,
        born_timestamp: 0x1111,
        born_host: Host { ip: born.parse().unwrap(), port: 1 },
        store_host: Host { ip: store.parse().unwrap(), port: 2 },
        reconsume_times: 5,
        prepared_transaction_offset: 6,
        body,
        topic,
        properties,
        append_crc: false,
    }
    .with_host_flags()
}

fn written(fields: &RecordFields<'_>, place: Place) -> Vec<u8> {
    let mut out = Vec::new();
    fields.write(place, |bytes| out.extend_from_slice(bytes));
    out
}

fn record(bytes: &[u8]) -> Record<'_> {
    match decode(bytes, Check::BodyCrc).unwrap() {
        Decoded::Message(record) => record,
        Decoded::Blank { .. } => panic!("a blank"),
    }
}

/// A record as RocketMQ 5 writes it where the topic is long: its length takes two bytes.
fn as_version_2(bytes: &[u8]) -> Vec<u8> {
    let v1 = record(bytes);
    let topic_at = v1.body_at() + v1.body.len();
    let mut out = bytes[..topic_at].to_vec();
    out.push(0);
    out.extend_from_slice(&bytes[topic_at..]);
    let size = u32::try_from(out.len()).unwrap();
    out[..4].copy_from_slice(&size.to_be_bytes());
    out[4..8].copy_from_slice(&hex("daa320ab"));
    assert_eq!(out[4..8], MESSAGE_MAGIC_CODE_V2.to_be_bytes());
    out
}

fn by_lengths(bytes: &[u8]) -> Option<u64> {
    let read = |at: usize, len: usize| -> Result<Vec<u8>, Infallible> {
        assert!(len <= 2, "lengths are all that is read");
        Ok(bytes.iter().skip(at).take(len).copied().collect())
    };
    size_by_lengths(&bytes[..bytes.len().min(MAX_HEAD_SIZE)], read).unwrap()
}

#[test]
fn a_record_tells_its_size_by_its_lengths_too() {
    assert_eq!(record_size(0, 3, 20, 100), FIXED_SIZE + 123);
    for (born, store) in [("1.2.3.4", "5.6.7.8"), ("::1", "5.6.7.8"), ("::1", "::2")] {
        let of_version_1 = written(&fields(born, store, b"body", b"T", &[b'p'; 300]), PLACE);
        for bytes in [as_version_2(&of_version_1), of_version_1] {
            let mut found = [&bytes[..], b"next"].concat();
            found[..4].fill(0xff);
            assert_eq!(by_lengths(&found), Some(bytes.len() as u64));
            for len in 0..bytes.len() {
                assert_eq!(by_lengths(&found[..len]), None, "{len} bytes");
            }
            found[4] ^= 1;
            assert_eq!(by_lengths(&found), None);
        }
    }
}

#[test]
fn a_head_tells_where_the_body_is() {
    for (born, store) in [("1.2.3.4", "5.6.7.8"), ("::1", "5.6.7.8"), ("::1", "::2")] {
        let of_version_1 = written(&fields(born, store, &[7; 100], b"T", b""), PLACE);
        for mut bytes in [as_version_2(&of_version_1), of_version_1] {
            let at = record(&bytes).body_at();
            assert_eq!(body_behind_head(&bytes[..MAX_HEAD_SIZE]), Some(at..at + 100));
            assert_eq!(body_behind_head(&bytes[..at - 1]), None);
            bytes[4] ^= 1;
            assert_eq!(body_behind_head(&bytes), None);
        }
    }
}

#[test]
fn a_record_has_the_bytes_of_the_table() {
    let bytes = written(&fields("1.2.3.4", "5.6.7.8", b"body", b"T", b"a\x01b"), PLACE);
    let expected =
        hex("00000063 daa320a7 57ab6c2b 00000003 00000004 0000000000000009 0000000000001000 00000000
         0000000000001111 01020304 00000001 0000000000002222 05060708 00000002 00000005 0000000000000006
         00000004 626f6479 01 54 0003 610162");
    let crc = crc32fast::hash(b"body") & 0x7fff_ffff;
    let mut expected = expected;
    expected[8..12].copy_from_slice(&crc.to_be_bytes());
    assert_eq!(bytes, expected);
    assert_eq!(bytes.len(), FIXED_SIZE + 4 + 1 + 3);
}

#[test]
fn the_quick_look_says_what_decoding_says() {
    for (born, store) in [("1.2.3.4", "5.6.7.8"), ("::1", "5.6.7.8"), ("1.2.3.4", "::2"), ("::1", "::2")] {
        let bytes = written(&fields(born, store, b"body", b"Topic", b"a\x01b"), PLACE);
        let identity = Identity { topic: b"Topic", queue_id: 3, queue_offset: 9, physical_offset: 0x1000 };
        assert!(is_whole_record_of(&bytes, &identity));
        assert!(!is_whole_record_of(&as_version_2(&bytes), &identity), "decoding has to tell");
        assert!((0..bytes.len()).all(|len| !is_whole_record_of(&bytes[..len], &identity)));
        assert!(!is_whole_record_of(&[&bytes[..], b"x"].concat(), &identity));
        for (bit, flipped) in flips(&bytes) {
            let decoded = match decode(&flipped, Check::Structure) {
                Ok(Decoded::Message(found)) => Some(found),
                _ => None,
            };
            let is_it = decoded.is_some_and(|found| {
                let place = (found.queue_id, found.queue_offset, found.physical_offset);
                found.topic == b"Topic" && place == (3, 9, 0x1000) && found.magic_code == MESSAGE_MAGIC_CODE
            });
            assert_eq!(is_whole_record_of(&flipped, &identity), is_it, "bit {bit}");
        }
    }
}

#[test]
fn the_body_crc_has_no_top_bit() {
    assert_eq!(body_crc(b""), 0);
    // The CRC-32 of these digits is 0xCBF43926, the check value of its definition.
    assert_eq!(body_crc(b"123456789"), 0x4BF4_3926);
}

#[test]
fn hosts_of_both_kinds_in_every_combination() {
    for born in ["1.2.3.4", "2001:db8::1"] {
        for store in ["5.6.7.8", "2001:db8::2"] {
            let fields = fields(born, store, b"body", b"topic", b"");
            let bytes = written(&fields, PLACE);
            assert_eq!(bytes.len(), fields.record_size());
            assert_eq!(bytes.len(), record_size(fields.sys_flag, 4, 5, 0));
            let found = record(&bytes);
            assert_eq!((found.born_host, found.store_host), (fields.born_host, fields.store_host));
            assert_eq!(found.sys_flag & BORNHOST_V6 != 0, born.contains(':'));
            assert_eq!(found.sys_flag & STOREHOST_V6 != 0, store.contains(':'));
            assert_eq!(&bytes[found.body_at()..found.body_at() + 4], b"body");
            let time_at = store_timestamp_at(found.sys_flag);
            assert_eq!(bytes[time_at..time_at + 8], PLACE.store_timestamp.to_be_bytes());
        }
    }
}

#[test]
fn host_flags_follow_from_the_hosts() {
    let mut wrong = fields("1.2.3.4", "::2", b"", b"t", b"");
    wrong.sys_flag = BORNHOST_V6 | 1;
    assert_eq!(wrong.with_host_flags().sys_flag, STOREHOST_V6 | 1);
}

#[test]
fn a_record_cut_off_anywhere_is_too_short() {
    for hosts in [("1.2.3.4", "5.6.7.8"), ("::1", "::2")] {
        let bytes = written(&fields(hosts.0, hosts.1, b"body", b"topic", b"p\x01v"), PLACE);
        for len in 0..bytes.len() {
            let needed = if len < 8 { 8 } else { bytes.len() as u64 };
            let fault = RecordFault::TooShort { needed, found: len as u64 };
            assert_eq!(decode(&bytes[..len], Check::BodyCrc), Err(fault), "{len} bytes");
        }
        let followed = [&bytes[..], b"what follows"].concat();
        assert_eq!(decode(&followed, Check::BodyCrc), decode(&bytes, Check::BodyCrc));
    }
}

/// Which bytes of a record nothing in the format covers: the flips in them that go undetected.
fn is_uncovered(at: usize, bit: u8, record: &Record<'_>) -> bool {
    let body_at = record.body_at();
    let topic_at = body_at + record.body.len() + 1;
    let properties_at = topic_at + record.topic.len() + 2;
    match at {
        0..12 | 28..36 => false, // total size, magic code, body CRC; physical offset
        SYS_FLAG_AT..40 => !(at == 39 && (bit == 4 || bit == 5)), // what kind of hosts follow
        12..28 => true,          // queue id, flag, queue offset
        _ if at < body_at - 4 => true, // times, hosts, reconsume times, prepared offset
        _ if at < topic_at => false, // body length, body, topic length
        _ if at < topic_at + record.topic.len() => true,
        _ if at < properties_at => false, // properties length
        _ => true,
    }
}

#[test]
fn every_flipped_bit_is_detected_where_the_format_covers_it() {
    for hosts in [("1.2.3.4", "5.6.7.8"), ("::1", "5.6.7.8"), ("1.2.3.4", "::2"), ("::1", "::2")] {
        let bytes = written(&fields(hosts.0, hosts.1, b"some body", b"topic", b"p\x01v"), PLACE);
        let whole = record(&bytes);
        for (bit, flipped) in flips(&bytes) {
            let outcome = match decode(&flipped, Check::BodyCrc) {
                Ok(Decoded::Message(found)) => found.check_offset(PLACE.physical_offset).map(|()| found),
                Ok(Decoded::Blank { .. }) => panic!("bit {bit} makes a blank"),
                Err(fault) => Err(fault),
            };
            let (at, bit) = (bit / 8, u8::try_from(bit % 8).unwrap());
            assert_eq!(outcome.is_ok(), is_uncovered(at, bit, &whole), "byte {at}, bit {bit}: {outcome:?}");
            if let Ok(found) = outcome {
                assert_eq!((found.body, found.total_size), (whole.body, whole.total_size));
            }
        }
    }
}

#[test]
fn without_the_body_check_a_body_may_be_any() {
    let mut bytes = written(&fields("1.2.3.4", "5.6.7.8", b"body", b"topic", b""), PLACE);
    bytes[FIXED_SIZE - 3] ^= 1; // 'b' becomes 'c'
    assert!(decode(&bytes, Check::Structure).is_ok());
    let fault = RecordFault::BodyCrc { expected: body_crc(b"body"), found: body_crc(b"cody") };
    assert_eq!(decode(&bytes, Check::BodyCrc), Err(fault));
}

#[test]
fn total_sizes_that_no_record_has() {
    let bytes = written(&fields("1.2.3.4", "5.6.7.8", b"", b"t", b""), PLACE);
    for size in [i32::MIN, -1, 0, 1, 90] {
        let mut bytes = bytes.clone();
        bytes[..4].copy_from_slice(&size.to_be_bytes());
        assert_eq!(decode(&bytes, Check::Structure), Err(RecordFault::TotalSize { found: size }));
    }
    let mut longer = bytes.clone();
    longer.push(0);
    longer[3] += 1;
    let fault = RecordFault::Lengths { total_size: 93, computed: 92 };
    assert_eq!(decode(&longer, Check::Structure), Err(fault));
}

#[test]
fn lengths_inside_that_do_not_fit() {
    let bytes = written(&fields("1.2.3.4", "5.6.7.8", b"", b"t", b""), PLACE);
    let with = |at: usize, with: &[u8]| {
        let mut bytes = bytes.clone();
        bytes[at..at + with.len()].copy_from_slice(with);
        decode(&bytes, Check::Structure).unwrap_err()
    };
    let body_len_at = FIXED_SIZE - 3 - 4;
    for found in [-1, i32::MIN, 5, i32::MAX] {
        assert_eq!(
            with(body_len_at, &found.to_be_bytes()),
            RecordFault::FieldLength { field: "body", found }
        );
    }
    for (byte, found) in [(0xff_u8, -1), (0x80, -128), (0x7f, 127)] {
        assert_eq!(with(body_len_at + 4, &[byte]), RecordFault::FieldLength { field: "topic", found });
    }
    assert_eq!(with(body_len_at + 6, &[0, 1]), RecordFault::FieldLength { field: "properties", found: 1 });
    // As in 4.9.3 a negative length of the properties says that there are none.
    let mut negative = bytes.clone();
    negative[body_len_at + 6] = 0xff;
    assert_eq!(record(&negative).properties, b"");
}

#[test]
fn other_magic_codes_are_named() {
    let mut bytes = written(&fields("1.2.3.4", "5.6.7.8", b"", b"t", b""), PLACE);
    for code in [0, -1, MESSAGE_MAGIC_CODE + 1, BLANK_MAGIC_CODE - 1] {
        bytes[4..8].copy_from_slice(&code.to_be_bytes());
        let fault = decode(&bytes, Check::Structure).unwrap_err();
        assert_eq!(fault.to_string(), format!("expected magic code 0xdaa320a7, found {code:#010x}"));
    }
}

#[test]
fn records_of_rocketmq_5_have_two_bytes_of_topic_length() {
    let long_topic = vec![b't'; 300];
    let v1 = fields("1.2.3.4", "::2", b"body", b"topic", b"p\x01v");
    let bytes = as_version_2(&written(&v1, PLACE));
    let found = record(&bytes);
    assert_eq!((found.magic_code, found.topic, found.body), (MESSAGE_MAGIC_CODE_V2, v1.topic, v1.body));
    assert_eq!((found.properties, found.total_size as usize), (v1.properties, bytes.len()));
    for len in 0..bytes.len() {
        assert!(matches!(decode(&bytes[..len], Check::BodyCrc), Err(RecordFault::TooShort { .. })));
    }
    let topic_len_at = found.body_at() + 4;
    let mut longer = bytes[..topic_len_at].to_vec();
    longer.extend_from_slice(&[1, 44]);
    longer.extend_from_slice(&long_topic);
    longer.extend_from_slice(&[0, 0]);
    let size = u32::try_from(longer.len()).unwrap();
    longer[..4].copy_from_slice(&size.to_be_bytes());
    assert_eq!(record(&longer).topic, long_topic);
}

#[test]
fn a_record_says_where_it_stands() {
    let bytes = written(&fields("1.2.3.4", "5.6.7.8", b"", b"t", b""), PLACE);
    let found = record(&bytes);
    assert_eq!(found.check_offset(0x1000), Ok(()));
    assert_eq!(
        found.check_offset(0x1001),
        Err(RecordFault::PhysicalOffset { expected: 0x1001, found: 0x1000 })
    );
    assert_eq!(found.next_offset(0x1000), 0x1000 + bytes.len() as u64);
    let negative = Record { physical_offset: -1, ..found };
    assert_eq!(
        negative.check_offset(u64::MAX),
        Err(RecordFault::PhysicalOffset { expected: u64::MAX, found: -1 })
    );
}

#[test]
fn the_blank_at_a_files_end() {
    assert_eq!(blank(300).to_vec(), hex("0000012c cbd43194"));
    assert_eq!(decode(&blank(300), Check::BodyCrc), Ok(Decoded::Blank { size: 300 }));
    for len in 0..8 {
        let fault = RecordFault::TooShort { needed: 8, found: len as u64 };
        assert_eq!(decode(&blank(8)[..len], Check::BodyCrc), Err(fault));
    }
}

#[test]
fn the_longest_topic_and_properties_are_read_back() {
    let (topic, properties) = (vec![b't'; MAX_TOPIC_LENGTH], vec![b'p'; MAX_PROPERTIES_LENGTH]);
    let bytes = written(&fields("1.2.3.4", "5.6.7.8", b"", &topic, &properties), PLACE);
    let found = record(&bytes);
    assert_eq!((found.topic, found.properties), (&topic[..], &properties[..]));
}

prop_compose! {
    fn any_record()(
        numbers in any::<(i32, i32, i32, i64, i32, i64)>(),
        hosts in any::<(IpAddr, i32, IpAddr, i32)>(),
        place in (any::<i64>(), 0..=i64::MAX.unsigned_abs(), any::<i64>()),
        body in vec(any::<u8>(), 0..300),
        topic in vec(any::<u8>(), 0..=MAX_TOPIC_LENGTH),
        properties in vec(any::<u8>(), 0..100),
    ) -> (Vec<u8>, Place, Vec<u8>, Vec<u8>, Vec<u8>, [i64; 6]) {
        let (queue_id, flag, sys_flag, born_timestamp, reconsume_times, prepared) = numbers;
        let (born, born_port, store, store_port) = hosts;
        let (queue_offset, physical_offset, store_timestamp) = place;
        let place = Place { queue_offset, physical_offset, store_timestamp };
        let fields = RecordFields {
            body_crc: body_crc(&body),
            queue_id,
            flag,
            sys_flag,
            born_timestamp,
            born_host: Host { ip: born, port: born_port },
            store_host: Host { ip: store, port: store_port },
            reconsume_times,
            prepared_transaction_offset: prepared,
            body: &body,
            topic: &topic,
            properties: &properties,
            append_crc: false,
        }
        .with_host_flags();
        let numbers = [
            queue_id.into(), flag.into(), fields.sys_flag.into(), born_timestamp, reconsume_times.into(), prepared,
        ];
        (written(&fields, place), place, body, topic, properties, numbers)
    }
}

proptest! {
    #[test]
    fn what_was_written_is_read((bytes, place, body, topic, properties, numbers) in any_record()) {
        let found = record(&bytes);
        prop_assert_eq!((found.body, found.topic, found.properties), (&body[..], &topic[..], &properties[..]));
        prop_assert_eq!(found.total_size as usize, bytes.len());
        prop_assert_eq!(found.queue_offset, place.queue_offset);
        prop_assert_eq!(found.store_timestamp, place.store_timestamp);
        prop_assert_eq!(found.check_offset(place.physical_offset), Ok(()));
        let read = [
            found.queue_id.into(), found.flag.into(), found.sys_flag.into(), found.born_timestamp,
            found.reconsume_times.into(), found.prepared_transaction_offset,
        ];
        prop_assert_eq!(read, numbers);
    }

    #[test]
    fn a_damaged_record_is_a_fault_or_keeps_its_body(
        (mut bytes, place, body, ..) in any_record(), at in any::<prop::sample::Index>(), with in 1..=255_u8
    ) {
        let at = at.index(bytes.len());
        bytes[at] ^= with;
        let found = decode(&bytes, Check::BodyCrc);
        if let Ok(Decoded::Message(found)) = found && found.check_offset(place.physical_offset).is_ok() {
            // A flip between kinds of hosts moves the body; the lengths then agree by accident only.
            prop_assert!(found.body == body || at == SYS_FLAG_AT + 3);
        }
    }

    #[test]
    fn any_bytes_are_a_record_or_a_fault(
        mut bytes in vec(any::<u8>(), 0..400), size in 0..400_i32, magic in 0..4_usize
    ) {
        let codes = [MESSAGE_MAGIC_CODE, MESSAGE_MAGIC_CODE_V2, BLANK_MAGIC_CODE, 0];
        if bytes.len() >= 8 {
            bytes[..4].copy_from_slice(&size.to_be_bytes());
            bytes[4..8].copy_from_slice(&codes[magic].to_be_bytes());
        }
        if let Ok(Decoded::Message(found)) = decode(&bytes, Check::Structure) {
            prop_assert!(found.total_size as usize <= bytes.len());
        }
    }
}
