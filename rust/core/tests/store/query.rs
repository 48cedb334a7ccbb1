//! Messages by key, by time, by place.

use mqstore_core::format::message::decode_record;
use mqstore_core::index::KeyQuery;

use crate::stores::{fill, log_file, open, patch, put, read};

#[test]
fn topic_key_and_time_are_compared_whole() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    // `Aa` and `BB` have one hash, and so have the topics made of them.
    for (time, topic, key) in
        [(10_000, "t", "Aa"), (10_001, "t", "BB"), (10_002, "t", "Aa"), (10_003, "Aa", "x")]
    {
        store.clock.set(1_000_000 + time);
        put(&store, topic, 0, key.as_bytes(), &format!("KEYS\x01{key}\x02UNIQ_KEY\x01u{time}"));
    }
    let found = |topic: &'static str, key: &'static str, begin: i64, end: i64| {
        let (begin, end) = (1_000_000 + begin, 1_000_000 + end);
        let query = KeyQuery { topic: topic.as_bytes(), key: key.as_bytes(), max_num: 9, begin, end };
        let records = store.query_message(&query).unwrap();
        records
            .iter()
            .map(|record| decode_record(record).unwrap().store_timestamp - 1_000_000)
            .collect::<Vec<_>>()
    };
    assert_eq!(found("t", "Aa", 0, 99_999), [10_000, 10_002]);
    assert_eq!(found("t", "BB", 0, 99_999), [10_001]);
    assert_eq!(found("t", "Aa", 10_001, 10_002), [10_002]);
    assert_eq!(found("BB", "x", 0, 99_999), Vec::<i64>::new());
    assert_eq!(found("t", "u10001", 0, 99_999), [10_001], "the unique key is a key");
}

#[test]
fn a_record_that_has_a_key_and_is_damaged_is_told() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    let [body, size] = ["body", "size"].map(|key| {
        fill(&store, 0..20);
        put(&store, "t", 0, &[b'x'; 200], &format!("KEYS\u{1}{key}\u{2}")).wrote_offset
    });
    // Opening goes over the last three files alone.
    fill(&store, 0..100);
    store.close().unwrap();
    drop(store);
    patch(&log_file(root.path(), body / 4096 * 4096), body % 4096 + 100, |at| at[0] ^= 1);
    patch(&log_file(root.path(), size / 4096 * 4096), size % 4096, |at| at[1] ^= 1);
    let store = read(root.path());
    assert_eq!(store.gaps(), Vec::new());
    for key in ["body", "size", "body"] {
        let query = KeyQuery { topic: b"t", key: key.as_bytes(), max_num: 9, begin: 0, end: i64::MAX };
        assert_eq!(store.query_message(&query).unwrap().len(), 0);
    }
    let told: Vec<_> = store.gaps().iter().map(|gap| (gap.from, gap.fault.unwrap().to_string())).collect();
    assert_eq!(told.iter().map(|(from, _)| *from).collect::<Vec<_>>(), [body, size]);
    assert!(told[0].1.contains("body CRC"), "{told:?}");
}

#[test]
fn a_record_is_given_where_one_begins() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    fill(&store, 0..3);
    let second = put(&store, "t", 0, b"here", "").wrote_offset;
    for offset in 0..store.max_phy_offset() + 10 {
        let found = store.record_at(offset).unwrap().is_some();
        assert_eq!(
            found,
            offset == second || [0, 1, 2].contains(&(offset / 179)) && offset % 179 == 0,
            "{offset}"
        );
    }
    assert!(store.record_at(u64::MAX).unwrap().is_none());
}

#[test]
fn times_and_places_of_a_queue() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    assert_eq!(store.get_earliest_message_time().unwrap(), -1);
    assert_eq!(store.get_earliest_message_time_in_queue("t", 0).unwrap(), -1);
    fill(&store, 0..2);
    store.reput().unwrap();
    assert_eq!(store.get_earliest_message_time().unwrap(), 1_000_000);
    assert_eq!(store.get_earliest_message_time_in_queue("t", 0).unwrap(), 1_000_000);
    assert_eq!(store.get_message_store_timestamp("t", 0, 9).unwrap(), -1);
    assert_eq!(store.get_commit_log_offset_in_queue("t", 0, 0).unwrap(), 0);
    assert!(store.get_commit_log_offset_in_queue("t", 0, 1).unwrap() > 0);
    assert!(!store.check_in_disk_by_consume_offset("t", 0, 0).unwrap());
    assert!(store.get_commit_log_data(store.max_phy_offset()).is_err());
}
