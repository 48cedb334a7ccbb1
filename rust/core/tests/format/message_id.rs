//! Ids of stored messages.

use std::net::IpAddr;

use mqstore_core::format::host::Host;
use mqstore_core::format::message_id::{
    MessageId, MessageIdFault, V4_DIGITS, V6_DIGITS, hex_digits, push_hex,
};
use proptest::prelude::*;

fn id(ip: &str, port: i32, physical_offset: u64) -> MessageId {
    MessageId { store_host: Host { ip: ip.parse().unwrap(), port }, physical_offset }
}

#[test]
fn an_id_is_host_and_offset_in_upper_case_hex() {
    let v4 = id("10.0.0.1", 10_911, 0xabc);
    assert_eq!(v4.to_hex(), "0A00000100002A9F0000000000000ABC");
    assert_eq!(v4.to_hex().len(), V4_DIGITS);
    let v6 = id("2001:db8::1", 1, 2);
    assert_eq!(v6.to_hex(), "20010DB8000000000000000000000001000000010000000000000002");
    assert_eq!(v6.to_hex().len(), V6_DIGITS);
    for id in [v4, v6] {
        assert_eq!(MessageId::from_hex(&id.to_hex()), Ok(id));
        assert_eq!(MessageId::from_hex(&id.to_hex().to_lowercase()), Ok(id));
    }
}

#[test]
fn a_text_that_is_no_id_is_told_what_is_wrong() {
    let text = id("10.0.0.1", 10_911, 1).to_hex();
    for len in (0..text.len()).chain([33, 55, 57]) {
        let cut: String = text.chars().cycle().take(len).collect();
        assert_eq!(MessageId::from_hex(&cut), Err(MessageIdFault::Length { found: len }));
    }
    let at = 5;
    for found in ['g', ' ', '主', '+'] {
        let bad: String =
            text.chars().enumerate().map(|(index, c)| if index == at { found } else { c }).collect();
        assert_eq!(MessageId::from_hex(&bad), Err(MessageIdFault::Digit { found, at }));
    }
    let negative = format!("{}FFFFFFFFFFFFFFFE", text.split_at(16).0);
    assert_eq!(MessageId::from_hex(&negative), Err(MessageIdFault::Offset { found: -2 }));
}

#[test]
fn hex_has_two_digits_a_byte() {
    let mut text = String::from("x");
    push_hex(&mut text, &[0, 0x0f, 0xf0, 0xff]);
    assert_eq!(text, "x000FF0FF");
}

proptest! {
    #[test]
    fn a_number_has_eight_digits(number in any::<u32>()) {
        prop_assert_eq!(hex_digits(number).to_vec(), format!("{number:08X}").into_bytes());
    }

    #[test]
    fn an_id_stands_for_its_place(ip in any::<IpAddr>(), port in any::<i32>(), offset in 0..=i64::MAX.unsigned_abs()) {
        let id = MessageId { store_host: Host { ip, port }, physical_offset: offset };
        prop_assert_eq!(MessageId::from_hex(&id.to_hex()), Ok(id));
    }

    #[test]
    fn any_text_is_an_id_or_a_fault(text in "[0-9A-Fa-f]{32}|[0-9A-F]{56}|.{0,60}") {
        if let Ok(id) = MessageId::from_hex(&text) {
            prop_assert_eq!(id.to_hex(), text.to_uppercase());
        }
    }
}
