//! A slave that has a log already: it holds what its master sends again against that, and says nothing more until all of it
//! is the same.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use mqstore_core::commit_log::Wait;
use mqstore_core::config::StoreConfig;
use mqstore_core::format::message;
use mqstore_core::ha::wire::{Header, REPORT_SIZE};
use mqstore_core::ha::{ClientOptions, Event};
use mqstore_core::store::Store;

use crate::stores::{LOG_FILE_SIZE, Opened, config, fields, fill, open_with, put, record_bytes};

/// Where a record has the time at which it was stored.
const STORE_TIMESTAMP_AT: usize = 56;
const LONG: Duration = Duration::from_secs(60);

/// A slave, and its master in the test's hand.
struct Following {
    slave: Opened,
    listener: TcpListener,
    master: TcpStream,
    /// The begin of a report whose rest is under way.
    partial: Vec<u8>,
    /// From where the slave asked for the log.
    asked: u64,
    own_end: u64,
    own_log: Vec<u8>,
    _root: tempfile::TempDir,
}

/// A slave with the log of some messages, which reports in each pass that it may.
fn follow() -> Following {
    follow_with(LOG_FILE_SIZE, |store| fill(store, 0..8))
}

/// As that, with files of a size and what is put into them.
fn follow_with(file_size: u64, put: impl FnOnce(&Store)) -> Following {
    let root = tempfile::tempdir().unwrap();
    let config = || StoreConfig { mapped_file_size_commit_log: file_size, ..config(root.path()) };
    let store = open_with(config());
    put(&store);
    let own_end = store.max_phy_offset();
    let own_log = log_of(&store);
    assert_eq!(own_log.len() as u64, own_end);
    store.close().unwrap();
    drop(store);
    let slave = open_with(StoreConfig { is_slave: true, ..config() });
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let options = ClientOptions { send_heartbeat_interval: Duration::ZERO, housekeeping_interval: LONG };
    slave.follow_master(options, Some(listener.local_addr().unwrap().to_string())).unwrap();
    slave.receive_log(LONG).unwrap();
    let master = accepted(&listener);
    let mut following =
        Following { slave, listener, master, partial: Vec::new(), asked: 0, own_end, own_log, _root: root };
    following.take_request();
    following
}

fn log_of(store: &Store) -> Vec<u8> {
    let (mut log, end) = (Vec::new(), store.max_phy_offset());
    while (log.len() as u64) < end {
        let from = log.len() as u64;
        let file_end = from - from % store.log().files().file_size() + store.log().files().file_size();
        log.extend_from_slice(&store.log().get_bytes(from, end.min(file_end) - from).unwrap().unwrap());
    }
    log
}

fn accepted(listener: &TcpListener) -> TcpStream {
    let (master, _) = listener.accept().unwrap();
    master.set_nonblocking(true).unwrap();
    master
}

impl Following {
    /// Lets the slave connect once more.
    fn reconnect(&mut self) {
        while !self.slave.ha_client().unwrap().status().is_connected {
            self.slave.receive_log(LONG).unwrap();
        }
        self.master = accepted(&self.listener);
        self.partial.clear();
        self.take_request();
    }

    fn take_request(&mut self) {
        let mut reports = Vec::new();
        while reports.is_empty() {
            assert_eq!(self.pass(), None);
            reports = self.reports();
        }
        self.asked = reports.remove(0);
    }

    /// A pass of the slave; gives why its connection ended.
    fn pass(&self) -> Option<String> {
        let events = self.slave.receive_log(Duration::ZERO).unwrap();
        events.into_iter().find(Event::is_failure).map(|event| event.to_string())
    }

    /// Waits until the slave has ended its connection; gives why.
    fn ended(&self) -> String {
        loop {
            if let Some(reason) = self.pass() {
                return reason;
            }
        }
    }

    /// What the slave has reported since this was last asked.
    fn reports(&mut self) -> Vec<u64> {
        let (mut found, mut buffer) = (std::mem::take(&mut self.partial), [0; 1 << 12]);
        loop {
            match self.master.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => found.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => panic!("{error}"),
            }
        }
        let reports = found.chunks_exact(REPORT_SIZE);
        self.partial = reports.remainder().to_vec();
        reports.map(|report| u64::from_be_bytes(report.try_into().unwrap())).collect()
    }

    /// Sends a frame with bytes of the slave's own log; of none it is a heartbeat.
    fn send_own(&mut self, from: u64, to: u64) {
        let body = self.own_log[from as usize..to as usize].to_vec();
        self.send(from, &body);
    }

    fn send(&mut self, phy_offset: u64, body: &[u8]) {
        self.master.write_all(&Header { phy_offset, body_size: body.len() }.encode()).unwrap();
        self.master.write_all(body).unwrap();
    }
}

#[test]
fn nothing_is_reported_before_all_is_compared() {
    let mut following = follow();
    let (from, end) = (following.asked, following.own_end);
    assert!(from < end);
    // Not as a heartbeat either.
    assert_eq!(following.pass(), None);
    assert_eq!(following.reports().len(), 0);
    following.send_own(from, end - 1);
    assert_eq!(following.pass(), None);
    assert_eq!(following.reports().len(), 0);
    following.send_own(end - 1, end);
    // From then on it is heard of.
    for _ in 0..2 {
        let mut reports = Vec::new();
        while reports.is_empty() {
            assert_eq!(following.pass(), None);
            reports = following.reports();
        }
        assert_eq!(reports.iter().find(|&&report| report != end), None);
    }
}

/// It connects again and again, and each time there is a connection.
#[test]
fn why_a_master_is_not_followed_is_told_until_all_is_compared() {
    let mut following = follow();
    let failure = |following: &Following| following.slave.ha_client().unwrap().status().failure;
    let (from, end) = (following.asked, following.own_end);
    assert_eq!(failure(&following), None);
    let right = following.own_log.clone();
    following.own_log[end as usize - 1] ^= 1;
    following.send_own(from, end);
    let ended = following.ended();
    assert_eq!(failure(&following), Some(ended.clone()));
    following.own_log = right;
    following.reconnect();
    assert_eq!(failure(&following), Some(ended.clone()));
    following.send_own(from, end - 1);
    assert_eq!((following.pass(), failure(&following)), (None, Some(ended)));
    following.send_own(end - 1, end);
    while failure(&following).is_some() {
        assert_eq!(following.pass(), None);
    }
}

/// What was put twice, by a producer that tried again, is the same behind the head, which alone has when it was stored.
#[test]
fn the_head_of_a_large_record_is_compared_too() {
    let mut last = 0;
    let mut following = follow_with(1 << 20, |store| {
        fill(store, 0..3);
        last = put(store, "t", 0, &[b'x'; 100_000], "").wrote_offset;
    });
    assert_eq!(following.asked, last);
    let (from, end) = (following.asked, following.own_end);
    following.own_log[last as usize + STORE_TIMESTAMP_AT + 7] ^= 1;
    following.send_own(from, end);
    let ended = following.ended();
    assert!(ended.contains("it is another log"), "{ended}");
}

/// Behind a roll a kill can leave nothing of the next file's first record.
#[test]
fn a_log_that_ends_with_a_file_is_compared_there() {
    let mut following = follow_with(LOG_FILE_SIZE, |store| {
        put(store, "t", 0, &[b'x'; 3000], "");
        store.log().end_file(Wait::Block).unwrap();
    });
    let (from, end) = (following.asked, following.own_end);
    assert_eq!((from, end), (1, LOG_FILE_SIZE));
    following.own_log[200] ^= 1;
    following.send_own(from, end);
    let ended = following.ended();
    assert!(ended.contains("it is another log"), "{ended}");
}

#[test]
fn another_size_of_files_ends_the_connection() {
    let mut following = follow();
    let (from, end) = (following.asked, following.own_end);
    following.send_own(from, end);
    // A file that ends here is shorter than the slave's.
    let rest = LOG_FILE_SIZE / 2 - end % (LOG_FILE_SIZE / 2);
    let mut blank = message::blank(rest as usize).to_vec();
    blank.resize(rest as usize, 0);
    following.send(end, &blank);
    let next = end + rest;
    assert!(!next.is_multiple_of(LOG_FILE_SIZE));
    following.send(next, &record_bytes(&fields("t", 0, b"hidden", ""), 8, next));
    let ended = following.ended();
    assert!(ended.contains("mappedFileSizeCommitLog"), "{ended}");
    assert_eq!(following.slave.max_phy_offset(), next);
    // Nor does it go on behind the blank when it has connected again.
    following.reconnect();
    following.send(following.asked, &[]);
    let again = following.slave.log().get_bytes(following.asked, next).unwrap().unwrap();
    following.send(following.asked, &again);
    following.send(next, &record_bytes(&fields("t", 0, b"hidden", ""), 8, next));
    let ended = following.ended();
    assert!(ended.contains("mappedFileSizeCommitLog"), "{ended}");
}

#[test]
fn a_slave_that_is_ahead_of_its_master_ends_the_connection() {
    let mut following = follow();
    let (from, end) = (following.asked, following.own_end);
    let masters_end = from + 100;
    // Where more follows the heartbeat there was more when it was sent.
    following.send_own(from, from);
    following.send_own(from, masters_end);
    following.send_own(masters_end, masters_end);
    following.send_own(masters_end, masters_end);
    let ended = following.ended();
    let expected = format!("the slave's log ends at {end}, behind the master's end {masters_end}");
    assert!(ended.contains(&expected), "{ended}");
    assert_eq!(following.reports().len(), 0);
}

/// One of 4.9.3 that no longer has the file, or ends right there.
#[test]
fn a_master_that_sends_nothing_ends_the_connection() {
    let mut following = follow();
    let (from, end) = (following.asked, following.own_end);
    following.send_own(from, from);
    following.send_own(from, from);
    let ended = following.ended();
    let expected = format!("sends nothing from {from} on, where the slave's log goes on to {end}");
    assert!(ended.contains(&expected), "{ended}");
}

#[test]
fn a_heartbeat_right_before_what_follows_says_nothing_of_the_end() {
    let mut following = follow();
    let (from, end) = (following.asked, following.own_end);
    for at in from..end {
        following.send_own(at, at);
        following.send_own(at, at + 1);
    }
    for _ in 0..3 {
        following.send_own(end, end);
    }
    let mut reports = Vec::new();
    while reports.is_empty() {
        assert_eq!(following.pass(), None);
        reports = following.reports();
    }
    assert_eq!(reports.iter().find(|&&report| report != end), None);
}
