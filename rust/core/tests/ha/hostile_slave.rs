//! A slave that reports anything: a master sends its log and nothing else, and believes nothing that
//! cannot be.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use mqstore_core::ha::MasterOptions;
use mqstore_core::ha::wire::{HEADER_SIZE, Header, encode_report};
use mqstore_core::store::Store;
use proptest::prelude::*;

use crate::stores::{fill, open};

const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(1);
const TRANSFER_BATCH_SIZE: usize = 700;

fn options() -> MasterOptions {
    MasterOptions {
        listen: ("127.0.0.1".into(), 0),
        transfer_batch_size: TRANSFER_BATCH_SIZE,
        send_heartbeat_interval: LONG,
        housekeeping_interval: LONG,
        slave_fallbehind_max: u64::MAX,
        is_sync: false,
        slave_timeout: LONG,
    }
}

/// What has come, without waiting.
fn read_what_is_there(slave: &mut TcpStream, found: &mut Vec<u8>) {
    let mut buffer = [0; 1 << 16];
    loop {
        match slave.read(&mut buffer) {
            Ok(0) => return,
            Ok(count) => found.extend_from_slice(&buffer[..count]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return,
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return,
            Err(error) => panic!("{error}"),
        }
    }
}

/// What a master sent is its log, one frame behind the other.
fn check_frames(store: &Store, mut bytes: &[u8]) {
    let mut end = None;
    while let Some(Header { phy_offset, body_size }) = Header::decode(bytes).unwrap() {
        assert!(end.is_none_or(|end| end == phy_offset));
        assert!(body_size <= TRANSFER_BATCH_SIZE);
        let body = &bytes[HEADER_SIZE..];
        let body = &body[..body_size.min(body.len())];
        let log = store.log().get_bytes(phy_offset, body_size as u64).unwrap().unwrap();
        assert!(log.starts_with(body), "other bytes than the log has at {phy_offset}");
        end = Some(phy_offset + body_size as u64);
        bytes = &bytes[(HEADER_SIZE + body_size).min(bytes.len())..];
    }
}

fn attack(bytes: &[u8], piece_size: usize) {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    fill(&store, 0..40);
    store.listen_for_slaves(options()).unwrap();
    let master = store.ha_master().unwrap();
    let mut slave = TcpStream::connect(master.address()).unwrap();
    slave.set_nonblocking(true).unwrap();
    let (mut found, mut count) = (Vec::new(), 40);
    store.serve_slaves(LONG).unwrap();
    for piece in bytes.chunks(piece_size) {
        if slave.write_all(piece).is_err() {
            break;
        }
        store.serve_slaves(SHORT).unwrap();
        read_what_is_there(&mut slave, &mut found);
        fill(&store, count..count + 1);
        count += 1;
        for connection in master.connections() {
            assert!(connection.ack_offset <= connection.transferred_offset);
            assert!(connection.transferred_offset <= store.max_phy_offset());
        }
        assert!(master.push2_slave_max_offset() <= store.max_phy_offset());
    }
    drop(slave);
    while !master.connections().is_empty() {
        store.serve_slaves(LONG).unwrap();
    }
    check_frames(&store, &found);
    store.close().unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn a_master_sends_its_log_and_nothing_else(
        reports in proptest::collection::vec(prop_oneof![
            4 => (0i64..12_000).prop_map(|offset| offset.to_be_bytes().to_vec()),
            1 => any::<i64>().prop_map(|offset| offset.to_be_bytes().to_vec()),
            1 => proptest::collection::vec(any::<u8>(), 0..20),
        ], 0..12),
        piece_size in 1usize..40,
    ) {
        attack(&reports.concat(), piece_size);
    }
}

/// A slave that has confirmed has it, however soon it goes.
#[test]
fn what_a_slave_confirms_last_counts() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    fill(&store, 0..3);
    store.listen_for_slaves(options()).unwrap();
    let master = store.ha_master().unwrap();
    let mut slave = TcpStream::connect(master.address()).unwrap();
    slave.write_all(&encode_report(0)).unwrap();
    while master.connections().iter().all(|it| it.transferred_offset < store.max_phy_offset()) {
        store.serve_slaves(LONG).unwrap();
    }
    slave.write_all(&encode_report(store.max_phy_offset())).unwrap();
    drop(slave);
    while !master.connections().is_empty() {
        store.serve_slaves(LONG).unwrap();
    }
    assert_eq!(master.push2_slave_max_offset(), store.max_phy_offset());
    store.close().unwrap();
}
