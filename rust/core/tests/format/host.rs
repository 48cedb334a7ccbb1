//! Hosts of a record.

use std::net::IpAddr;

use mqstore_core::format::be::FieldReader;
use mqstore_core::format::host::{Host, V4_SIZE, V6_SIZE, size};
use proptest::prelude::*;

use crate::hex;

fn host(ip: &str, port: i32) -> Host {
    Host { ip: ip.parse().unwrap(), port }
}

fn bytes(host: Host) -> Vec<u8> {
    let mut out = Vec::new();
    host.write(|bytes| out.extend_from_slice(bytes));
    out
}

#[test]
fn hosts_have_the_bytes_of_the_table() {
    assert_eq!(bytes(host("10.0.0.1", 10_911)), hex("0a000001 00002a9f"));
    assert_eq!(bytes(host("2001:db8::1", -1)), hex("20010db8000000000000000000000001 ffffffff"));
    assert_eq!((size(false), size(true)), (V4_SIZE, V6_SIZE));
    assert_eq!((host("::1", 0).size(), host("1.2.3.4", 0).size()), (20, 8));
}

#[test]
fn a_host_cut_off_anywhere_is_none() {
    for (full, v6) in [(bytes(host("1.2.3.4", 5)), false), (bytes(host("::1", 5)), true)] {
        for len in 0..full.len() {
            assert_eq!(Host::read(&mut FieldReader::new(&full[..len]), v6), None);
        }
    }
}

#[test]
fn a_host_is_shown_as_java_shows_it() {
    assert_eq!(host("10.0.0.1", 10_911).to_string(), "10.0.0.1:10911");
    assert_eq!(host("2001:db8::ff:1", 1).to_string(), "2001:db8:0:0:0:0:ff:1:1");
    assert_eq!(host("::ffff:1.2.3.4", 9).to_string(), "1.2.3.4:9");
}

proptest! {
    #[test]
    fn what_was_written_is_read(ip in any::<IpAddr>(), port in any::<i32>()) {
        let host = Host { ip, port };
        let bytes = bytes(host);
        prop_assert_eq!(bytes.len(), host.size());
        prop_assert_eq!(Host::read(&mut FieldReader::new(&bytes), host.is_v6()), Some(host));
    }
}

#[test]
fn what_is_displayed_is_parsed() {
    for text in ["1.2.3.4:5", "10.0.0.1:-7", "0:0:0:0:0:0:0:1:9876"] {
        assert_eq!(text.parse::<Host>().unwrap().to_string(), text);
    }
    assert_eq!("[::1]:9876".parse::<Host>(), "0:0:0:0:0:0:0:1:9876".parse());
    for text in ["", "1.2.3.4", "1.2.3:4", "host:5", "1.2.3.4:99999999999"] {
        assert!(text.parse::<Host>().is_err(), "{text}");
    }
}
