//! A master that sends anything: a slave appends what follows its end, and ends the connection at what
//! cannot be.

use std::io::Write;
use std::net::{Shutdown, TcpListener};
use std::time::Duration;

use mqstore_core::error::Error;
use mqstore_core::ha::wire::{HEADER_SIZE, Header, MAX_BODY_SIZE};
use mqstore_core::ha::{ClientOptions, Event};
use mqstore_core::store::Mode;
use proptest::prelude::*;

use crate::stores::{LOG_FILE_SIZE, config, fields, open_with, record_bytes, try_open};

const LONG: Duration = Duration::from_secs(60);

/// What a master sends.
#[derive(Debug, Clone)]
enum Sent {
    /// A frame that follows what was sent, with any bytes.
    Frame(Vec<u8>),
    /// A frame that follows what was sent, with a record of its place.
    Record(Vec<u8>),
    /// A header with these fields, and bytes behind it.
    Header(i64, i32, Vec<u8>),
    /// No frame at all.
    Raw(Vec<u8>),
}

fn sent() -> impl Strategy<Value = Sent> {
    let bytes = || proptest::collection::vec(any::<u8>(), 0..300);
    let offset = prop_oneof![Just(0), Just(LOG_FILE_SIZE as i64), -2i64..5000, any::<i64>()];
    let size =
        prop_oneof![0i32..300, any::<i32>(), Just(MAX_BODY_SIZE as i32), Just(MAX_BODY_SIZE as i32 + 1)];
    prop_oneof![
        4 => bytes().prop_map(Sent::Frame),
        4 => bytes().prop_map(Sent::Record),
        1 => (offset, size, bytes()).prop_map(|(offset, size, body)| Sent::Header(offset, size, body)),
        1 => bytes().prop_map(Sent::Raw),
    ]
}

/// The bytes of all that is sent.
fn encode(sent: &[Sent]) -> Vec<u8> {
    let (mut out, mut end) = (Vec::new(), 0);
    let mut frame = |end: &mut u64, body: &[u8]| {
        out.extend_from_slice(&Header { phy_offset: *end, body_size: body.len() }.encode());
        out.extend_from_slice(body);
        *end += body.len() as u64;
    };
    let mut others = Vec::new();
    for one in sent {
        match one {
            Sent::Frame(body) => frame(&mut end, body),
            Sent::Record(body) => {
                let record = record_bytes(&fields("t", 0, body, ""), 0, end);
                frame(&mut end, &record);
            }
            Sent::Header(offset, size, body) => {
                others.extend_from_slice(&offset.to_be_bytes());
                others.extend_from_slice(&size.to_be_bytes());
                others.extend_from_slice(body);
                break;
            }
            Sent::Raw(bytes) => {
                others.extend_from_slice(bytes);
                break;
            }
        }
    }
    out.extend(others);
    out
}

/// What a slave has to have of it: frames follow each other from a file's begin, and end with a file.
fn expected(mut bytes: &[u8]) -> (u64, Vec<u8>) {
    let (mut first, mut log) = (0, Vec::new());
    while bytes.len() >= HEADER_SIZE {
        let offset = i64::from_be_bytes(bytes[..8].try_into().unwrap());
        let size = i32::from_be_bytes(bytes[8..12].try_into().unwrap());
        if offset < 0 || size < 0 || size as usize > MAX_BODY_SIZE {
            break;
        }
        let (offset, size) = (offset as u64, size as usize);
        let Some(body) = bytes.get(HEADER_SIZE..HEADER_SIZE + size) else { break };
        let begins = log.is_empty() && offset % LOG_FILE_SIZE == 0;
        let follows = !log.is_empty() && offset == first + log.len() as u64;
        if !body.is_empty() {
            let file_end = offset - offset % LOG_FILE_SIZE + LOG_FILE_SIZE;
            if !(begins || follows) || offset + size as u64 > file_end {
                break;
            }
            first = if begins { offset } else { first };
            log.extend_from_slice(body);
        } else if !log.is_empty() && !follows {
            break;
        }
        bytes = &bytes[HEADER_SIZE + size..];
    }
    (first, log)
}

/// The bytes of a slave's log.
fn log_of(store: &mqstore_core::store::Store) -> (u64, Vec<u8>) {
    let first = store.log().min_offset().unwrap_or(0);
    let mut log = Vec::new();
    while first + (log.len() as u64) < store.max_phy_offset() {
        let from = first + log.len() as u64;
        log.extend_from_slice(&store.log().get_bytes(from, store.max_phy_offset() - from).unwrap().unwrap());
    }
    (first, log)
}

fn attack(bytes: &[u8], piece_size: usize) {
    let root = tempfile::tempdir().unwrap();
    let mut of_slave = config(root.path());
    of_slave.is_slave = true;
    let slave = open_with(of_slave.clone());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let options = ClientOptions { send_heartbeat_interval: LONG, housekeeping_interval: LONG };
    slave.follow_master(options, Some(listener.local_addr().unwrap().to_string())).unwrap();
    let connected = slave.receive_log(LONG).unwrap();
    assert!(matches!(connected[..], [Event::MasterConnected { .. }]), "{connected:?}");
    let (mut master, _) = listener.accept().unwrap();
    let mut ended = false;
    for piece in bytes.chunks(piece_size) {
        // The slave may have ended the connection at an earlier one.
        if ended || master.write_all(piece).is_err() {
            break;
        }
        ended = slave.receive_log(Duration::from_millis(1)).unwrap().iter().any(Event::is_failure);
    }
    let _it_may_have_ended = master.shutdown(Shutdown::Write);
    while !ended {
        ended = slave.receive_log(LONG).unwrap().iter().any(Event::is_failure);
    }
    let (first, log) = expected(bytes);
    assert_eq!(log_of(&slave), (first, log.clone()));
    slave.reput().unwrap();
    slave.close().unwrap();
    drop(slave);
    match try_open(of_slave, Mode::ReadWrite) {
        Ok(again) => {
            let (_, left) = log_of(&again);
            assert!(log.starts_with(&left), "what is not whole is cut, and nothing else changes");
        }
        Err(Error::Damaged { .. }) => {}
        Err(error) => panic!("{error}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn a_slave_takes_what_follows_and_nothing_else(
        sent in proptest::collection::vec(sent(), 0..12),
        piece_size in 1usize..2000,
    ) {
        attack(&encode(&sent), piece_size);
    }
}
