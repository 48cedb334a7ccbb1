//! Finished records of another log.

use std::sync::atomic::{AtomicBool, Ordering};

use mqstore_core::commit_log::topic_queue::QueueRef;
use mqstore_core::format::host::Host;
use mqstore_core::format::message::{blank, decode_record};
use mqstore_core::status::PutMessageStatus;
use mqstore_core::store::Finishing;

use crate::stores::{
    LOG_FILE_SIZE, bodies, config, crash, fields, fill, log_file, numbers, open, open_with, put,
    record_bytes, tree,
};

const KEEPING: Finishing<'static> = Finishing {
    store_host: None,
    keep_times: true,
    keep_offsets: false,
    topic: None,
    leaves_out_places: false,
};

#[test]
fn the_records_of_a_log_give_that_log_again() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let source = open(from.path());
    fill(&source, 0..60);
    source.reput().unwrap();
    let queue = source.find_consume_queue("t", 0).unwrap();
    let records: Vec<_> = (0..60)
        .map(|index| {
            let (offset, size) = queue.unit(index).unwrap().unwrap().place().unwrap();
            source.log().get_message(offset, size).unwrap().unwrap()
        })
        .collect();
    let target = open(to.path());
    let bytes: Vec<&[u8]> = records.iter().map(|record| &record[..]).collect();
    let mut done = Vec::new();
    target.append_records(&bytes, &KEEPING, &mut done).unwrap();
    assert_eq!((done.len(), numbers(&target).len()), (60, 60));
    source.close().unwrap();
    target.close().unwrap();
    let logs = [from, to].map(|root| tree(&root.path().join("commitlog")).into_values().collect::<Vec<_>>());
    assert_eq!(logs[0], logs[1]);
}

#[test]
fn hosts_and_times_are_given_anew_and_blanks_end_files() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    put(&store, "t", 0, b"first", "");
    let record = store.record_at(0).unwrap().unwrap();
    store.clock.set(2_000_000);
    let host = Host { ip: "::9".parse().unwrap(), port: 5 };
    let anew = Finishing { store_host: Some(host), ..Finishing::default() };
    let mut done = Vec::new();
    store.append_records(&[&record, &blank(300), &record], &anew, &mut done).unwrap();
    assert_eq!(done[1].wrote_offset, 4096);
    let copy = store.record_at(4096).unwrap().unwrap();
    let copy = decode_record(&copy).unwrap();
    assert_eq!((copy.store_host, copy.store_timestamp, copy.queue_offset), (host, 2_000_000, 2));
    assert_eq!(bodies(&store, "t", 0), ["first"; 3]);
}

/// Its length would not fit into the record, which nobody could read then.
#[test]
fn properties_without_room_for_the_checksum_are_refused() {
    let root = tempfile::tempdir().unwrap();
    let mut config = config(root.path());
    config.enabled_append_prop_crc = true;
    config.mapped_file_size_commit_log = 64 << 10;
    let store = open_with(config);
    let mut done = Vec::new();
    // The checksum takes twenty bytes, and a separator before them.
    for (size, has_room) in [(32_746, true), (32_747, false), (32_767, false)] {
        let properties = format!("a\x01{}", "v".repeat(size - 2));
        let record = record_bytes(&fields("t", 0, b"", &properties), 0, 0);
        let outcome = store.append_records(&[&record], &KEEPING, &mut done);
        assert_eq!(outcome.is_ok(), has_room, "{size} bytes");
        assert!(outcome.err().is_none_or(|refusal| format!("{refusal:?}").contains("properties")));
    }
    store.close().unwrap();
    assert_eq!(bodies(&open(root.path()), "t", 0).len(), 1);
}

#[test]
fn a_damaged_record_is_refused_before_anything_is_appended() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    put(&store, "t", 0, b"first", "");
    let record = store.record_at(0).unwrap().unwrap().to_vec();
    let end = store.max_phy_offset();
    for (bit, damaged) in (0..record.len() * 8).step_by(13).map(|bit| {
        let mut damaged = record.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        (bit, damaged)
    }) {
        let mut done = Vec::new();
        match store.append_records(&[&record, &damaged], &KEEPING, &mut done) {
            Ok(_) => assert_eq!(done.len(), 2, "bit {bit}"),
            Err(refusal) => {
                assert_eq!(refusal.status, PutMessageStatus::MessageIllegal);
                assert!(done.is_empty(), "bit {bit}");
            }
        }
    }
    assert!(store.max_phy_offset() > end);
    assert!(store.append_records(&[b"", &record[..50]], &KEEPING, &mut Vec::new()).is_err());
}

#[test]
fn an_import_that_fails_leaves_its_queue_where_it_was() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    put(&store, "t", 0, &[b'a'; 3000], "");
    let far = record_bytes(&fields("t", 0, &[b'b'; 2000], ""), 100, 0);
    let keep = Finishing { keep_offsets: true, ..Finishing::default() };
    // No file can be made for what does not fit the first one.
    let in_the_way = log_file(root.path(), LOG_FILE_SIZE);
    std::fs::create_dir(&in_the_way).unwrap();
    let mut done = Vec::new();
    assert!(store.append_records(&[&far], &keep, &mut done).is_err());
    assert!(done.is_empty());
    std::fs::remove_dir(in_the_way).unwrap();
    assert_eq!(put(&store, "t", 0, b"next", "").logics_offset, 1);
    store.append_records(&[&far], &keep, &mut done).unwrap();
    assert_eq!(put(&store, "t", 0, b"last", "").logics_offset, 101);
    assert_eq!(done[0].logics_offset, 100);
}

#[test]
fn an_offset_that_no_queue_can_reach_is_refused() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    put(&store, "t", 0, b"first", "");
    let keep = Finishing { keep_offsets: true, ..Finishing::default() };
    let of = |queue_id, offset| record_bytes(&fields("t", queue_id, b"b", ""), offset, 0);
    // Sixteen files of ten units, and 1,024 units.
    let (last, beyond) = (of(0, 1 + 1184), of(0, 1 + 1184 + 1 + 1185));
    let mut done = Vec::new();
    let refusal = store.append_records(&[&last, &beyond], &keep, &mut done).unwrap_err();
    let reason = refusal.reason.to_string();
    assert!(reason.contains("goes on at 1186, and cannot pass over so many"), "{reason}");
    assert_eq!(done.len(), 1);
    for offset in [-1, 0, i64::MIN, i64::MAX, 1 << 58] {
        assert!(store.append_records(&[&of(0, offset)], &keep, &mut done).is_err(), "{offset}");
    }
    let far = (1 << 58) - 1;
    assert!(store.append_records(&[&of(1, far + 1)], &keep, &mut done).is_err());
    store.append_records(&[&of(1, far)], &keep, &mut done).unwrap();
    store.reput().unwrap();
    assert_eq!((store.rejected_count(), done.last().unwrap().logics_offset), (0, far));
    let queue = store.find_consume_queue("t", 0).unwrap();
    assert_eq!(queue.max_offset_in_queue(), 1186);
    assert!(queue.unit(1185).unwrap().unwrap().place().is_some());
}

#[test]
fn offsets_are_kept_or_refused_beside_somebody_who_puts() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    put(&store, "t", 0, b"first", "");
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !ended.load(Ordering::Relaxed) {
                put(&store, "t", 0, b"put", "");
            }
        });
        let keep = Finishing { keep_offsets: true, ..Finishing::default() };
        let mut kept = 0;
        for ahead in (0..4).cycle().take(2000) {
            let next = store.log().next_queue_offset(QueueRef { topic: b"t", queue_id: 0 });
            let record = record_bytes(&fields("t", 0, b"import", ""), next + ahead, 0);
            let mut done = Vec::new();
            if store.append_records(&[&record, &record], &keep, &mut done).is_err() {
                kept += done.len();
            }
            assert!(done.iter().all(|appended| appended.logics_offset == next + ahead));
        }
        ended.store(true, Ordering::Relaxed);
        assert!(kept > 0);
    });
}

#[test]
fn a_kept_offset_stays_ahead_beside_further_queues() {
    let root = tempfile::tempdir().unwrap();
    let mut with = config(root.path());
    with.enable_multi_dispatch = true;
    let store = open_with(with);
    let how = Finishing { keep_offsets: true, ..Finishing::default() };
    // Its own queue is among the further ones.
    let properties = "INNER_MULTI_DISPATCH\x01t\x02INNER_MULTI_QUEUE_OFFSET\x010";
    let first = record_bytes(&fields("t", 0, b"0", ""), 5, 0);
    let second = record_bytes(&fields("t", 0, b"1", properties), 9, 0);
    store.append_records(&[&first, &second], &how, &mut Vec::new()).unwrap();
    for (body, offset) in [("x", 10), ("y", 11)] {
        assert_eq!(put(&store, "t", 0, body.as_bytes(), "").logics_offset, offset);
    }
    assert_eq!(bodies(&store, "t", 0), ["0", "1", "x", "y"]);
}

/// 4.9.3 writes such a record without a checksum, by which alone recovery tells its zeros from what a power cut left.
#[test]
fn a_kill_keeps_finished_records_whose_properties_hold_zeros() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    let record = record_bytes(&fields("t", 0, b"first", "K\x01v\0"), 0, 0);
    let mut done = Vec::new();
    store.append_records(&[&record], &KEEPING, &mut done).unwrap();
    put(&store, "t", 0, b"second", "");
    crash(store);
    assert_eq!(bodies(&open(root.path()), "t", 0), ["first", "second"]);
}

#[test]
fn what_speaks_of_places_of_another_log_is_refused_or_left_out() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    put(&store, "t", 0, b"first", "");
    let end = store.log().max_offset();
    let (op, timed) = ("RMQ_SYS_TRANS_OP_HALF_TOPIC", "MQSTORE_TIMED_TOPIC");
    let of = |topic, queue_id, place| record_bytes(&fields(topic, queue_id, b"0", "TAGS\u{1}d"), 0, place);
    let leave_out = Finishing { leaves_out_places: true, ..KEEPING };
    for (topic, queue_id) in [(op, 0), (timed, 1)] {
        let elsewhere = of(topic, queue_id, end + 1);
        let refusal = store.append_records(&[&elsewhere], &KEEPING, &mut Vec::new()).unwrap_err();
        assert_eq!(refusal.status, PutMessageStatus::MessageIllegal);
        assert!(refusal.reason.to_string().contains(topic), "{}", refusal.reason);
        let mut done = Vec::new();
        store.append_records(&[&elsewhere], &leave_out, &mut done).unwrap();
        assert_eq!((done.len(), store.log().max_offset()), (0, end));
    }
    // Its place, another topic, and its queue's offsets: it speaks of what is here then, or of nothing.
    let renamed = Finishing { topic: Some(b"t"), ..KEEPING };
    let kept = Finishing { keep_offsets: true, ..KEEPING };
    store.append_records(&[&of(op, 0, end)], &KEEPING, &mut Vec::new()).unwrap();
    store.append_records(&[&of(op, 0, 7)], &renamed, &mut Vec::new()).unwrap();
    store.append_records(&[&of(op, 1, 7)], &kept, &mut Vec::new()).unwrap();
    assert!(store.append_records(&[&of(timed, 1, 7)], &kept, &mut Vec::new()).is_err());
    // What waits is a message as any.
    store.append_records(&[&of(timed, 0, 7)], &KEEPING, &mut Vec::new()).unwrap();
}
