//! Records of the log that the queues say are another message's are given by no way that comes by them.

use std::path::Path;
use std::sync::Arc;

use mqstore_core::config::StoreConfig;
use mqstore_core::format::message::decode_record;
use mqstore_core::format::sys_flag::TRANSACTION_PREPARED_TYPE;
use mqstore_core::selection::Selection;
use mqstore_core::store::{Mode, Store};

use crate::stores::{LOG_FILE_SIZE, config, log_file, message, open, patch, put, read, try_open, try_put};

/// Behind the head, a body of three bytes and the topic's length.
const TOPIC_AT: u64 = 88 + 3 + 1;

/// A closed store that gave up topic `u` with its two messages `u00` and `u01`, and has `t00`, `t01`, … and one
/// that is in no queue, `p00`. Gives where those of `t` stand.
fn closed(root: &Path, count: usize) -> Vec<u64> {
    let store = open(root);
    for number in 0..2 {
        put(&store, "u", 0, format!("u{number:02}").as_bytes(), "");
    }
    store.reput().unwrap();
    store.destroy_queue(&store.find_consume_queue("u", 0).unwrap()).unwrap();
    let mut prepared = message("t", 0, b"p00", "");
    prepared.sys_flag = TRANSACTION_PREPARED_TYPE;
    try_put(&store, &prepared).unwrap();
    let put = |number| put(&store, "t", 0, format!("t{number:02}").as_bytes(), "").wrote_offset;
    let places = (0..count).map(put).collect();
    store.close().unwrap();
    places
}

/// What a walk over the whole log gives.
fn walked(store: &Arc<Store>) -> Vec<String> {
    let mut cursor = Selection::default().cursor(Arc::clone(store)).unwrap();
    let found = cursor.next_messages(1000, u64::MAX).unwrap();
    let body = |record: &[u8]| String::from_utf8(decode_record(record).unwrap().body.to_vec()).unwrap();
    found.iter().map(|message| body(message.bytes())).collect()
}

fn expected(count: usize, is_given: impl Fn(usize) -> bool) -> Vec<String> {
    let of_others = ["u00", "u01", "p00"].map(str::to_owned);
    let of_t = (0..count).filter(|&number| is_given(number)).map(|number| format!("t{number:02}"));
    of_others.into_iter().chain(of_t).collect()
}

#[test]
fn messages_of_a_topic_that_is_gone_are_given_and_one_that_says_so_by_damage_is_not() {
    let root = tempfile::tempdir().unwrap();
    let places = closed(root.path(), 30);
    let store = read(root.path());
    assert_eq!(walked(&store), expected(30, |_| true));
    assert!(store.record_at(0).unwrap().is_some(), "of the topic that is gone");
    patch(&log_file(root.path(), 0), places[7] + TOPIC_AT, |at| at[0] = b'u');
    let store = read(root.path());
    assert_eq!(walked(&store), expected(30, |number| number != 7));
    assert!(store.record_at(0).unwrap().is_some());
    assert!(store.record_at(places[6]).unwrap().is_some());
    assert!(store.record_at(places[7]).unwrap().is_none());
    // 4.9.3 gives what stands there.
    let compat = StoreConfig { compat: true, ..config(root.path()) };
    let store = try_open(compat, Mode::Read).unwrap();
    assert_eq!(walked(&store), expected(30, |_| true));
    assert!(store.record_at(places[7]).unwrap().is_some());
}

#[test]
fn many_that_changed_alike_are_each_looked_for() {
    let root = tempfile::tempdir().unwrap();
    let places = closed(root.path(), 30);
    for place in &places[..25] {
        patch(&log_file(root.path(), 0), place + TOPIC_AT, |at| at[0] = b'v');
    }
    assert_eq!(walked(&read(root.path())), expected(30, |number| number >= 25));
}

/// Some of a queue's units are known at a time: what a message says is held against the unit of that number, not against
/// the one that is as far behind the first that is known.
#[test]
fn a_message_that_says_a_lower_number_by_damage_is_not_given() {
    /// The last byte of its number in the queue, which is the message's own.
    const NUMBER_AT: u64 = 27;
    for lower in [1, 6] {
        let root = tempfile::tempdir().unwrap();
        let place = closed(root.path(), 100)[66];
        let file = log_file(root.path(), place / LOG_FILE_SIZE * LOG_FILE_SIZE);
        patch(&file, place % LOG_FILE_SIZE + NUMBER_AT, |at| {
            assert_eq!(std::mem::replace(&mut at[0], lower), 66);
        });
        assert_eq!(walked(&read(root.path())), expected(100, |number| number != 66), "{lower} for 66");
    }
}
