//! Replication: any bytes from a master to a slave, and from a slave to a master.
#![no_main]

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use mqstore_core::clock::ManualClock;
use mqstore_core::config::StoreConfig;
use mqstore_core::format::index::IndexShape;
use mqstore_core::fs::OsFileSystem;
use mqstore_core::ha::{ClientOptions, MasterOptions};
use mqstore_core::store::{Mode, Store};

const LONG: Duration = Duration::from_secs(60);

fn open(root: &Path, is_slave: bool) -> Arc<Store> {
    let config = StoreConfig {
        mapped_file_size_commit_log: 1024,
        mapped_file_size_consume_queue: 100,
        index_shape: IndexShape { hash_slot_num: 3, index_num: 8 },
        is_slave,
        ..StoreConfig::new(root)
    };
    let clock = Arc::new(ManualClock::at(1_000_000));
    Store::open(config, Arc::new(OsFileSystem), clock, Mode::ReadWrite).expect("a new store")
}

/// A master sends these bytes to a slave.
fn to_slave(bytes: &[u8]) {
    let root = tempfile::tempdir().expect("a folder");
    let slave = open(root.path(), true);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let options = ClientOptions { send_heartbeat_interval: LONG, housekeeping_interval: LONG };
    let address = listener.local_addr().expect("an address").to_string();
    slave.follow_master(options, Some(address)).expect("it follows none");
    slave.receive_log(LONG).expect("a connection");
    let (mut master, _) = listener.accept().expect("the slave");
    let _it_may_end = master.write_all(bytes).and_then(|()| master.shutdown(Shutdown::Write));
    while !slave.receive_log(LONG).expect("sockets").iter().any(mqstore_core::ha::Event::is_failure) {}
    assert!(slave.max_phy_offset().saturating_sub(slave.log().min_offset().unwrap_or(0)) <= bytes.len() as u64);
    slave.reput().expect("any log is dispatched as far as it goes");
    slave.close().expect("a disk");
}

/// A slave sends these bytes to a master.
fn to_master(bytes: &[u8]) {
    let root = tempfile::tempdir().expect("a folder");
    let store = open(root.path(), false);
    let options = MasterOptions {
        listen: ("127.0.0.1".into(), 0),
        transfer_batch_size: 100,
        send_heartbeat_interval: LONG,
        housekeeping_interval: LONG,
        slave_fallbehind_max: u64::MAX,
        is_sync: false,
        slave_timeout: LONG,
    };
    store.listen_for_slaves(options).expect("a port");
    let master = store.ha_master().expect("it listens");
    let mut slave = TcpStream::connect(master.address()).expect("the master");
    store.serve_slaves(LONG).expect("sockets");
    let _it_may_end = slave.write_all(bytes).and_then(|()| slave.shutdown(Shutdown::Write));
    while !master.connections().is_empty() {
        store.serve_slaves(LONG).expect("sockets");
        assert_eq!(master.push2_slave_max_offset(), 0, "there is no log that it could have");
    }
    let mut sent = Vec::new();
    let _it_may_be_reset = slave.read_to_end(&mut sent);
    assert!(sent.is_empty(), "there is nothing to send");
    store.close().expect("a disk");
}

fuzz_target!(|bytes: &[u8]| match bytes.split_first() {
    Some((0..=127, bytes)) => to_slave(bytes),
    Some((_, bytes)) => to_master(bytes),
    None => {}
});
