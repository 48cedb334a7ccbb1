//! Messages of many keys at once.

use mqstore_core::config::StoreConfig;
use mqstore_core::format::index::IndexShape;
use mqstore_core::index::KeyQuery;
use mqstore_core::mmap::slice::Slice;
use mqstore_core::store::Store;

use crate::stores::{config, fill, open, open_with, put};

/// What many keys give at once, after it was held against what each gives alone.
fn look_up(store: &Store, keys: &[String], max_num: usize) -> Vec<Vec<Vec<u8>>> {
    let query = KeyQuery { topic: b"t", key: b"", max_num, begin: 0, end: i64::MAX };
    let bytes = |records: Vec<Slice>| records.iter().map(|record| record.to_vec()).collect::<Vec<_>>();
    let found = store.query_messages(&query, keys).unwrap();
    assert_eq!((found.len(), found.is_empty()), (keys.len(), keys.is_empty()));
    assert!(found.get(keys.len()).is_none());
    let together: Vec<_> = (0..keys.len()).map(|at| bytes(found.get(at).unwrap())).collect();
    for (key, found) in keys.iter().zip(&together) {
        let alone = store.query_message(&KeyQuery { key: key.as_bytes(), ..query }).unwrap();
        assert_eq!(&bytes(alone), found, "{key}");
    }
    together
}

#[test]
fn more_keys_than_one_thread_takes_at_a_time_give_what_each_gives_alone() {
    let root = tempfile::tempdir().unwrap();
    let index_shape = IndexShape { hash_slot_num: 97, index_num: 2000 };
    // Files of 4 KiB: keys next to each other lead to many of them.
    let store = open_with(StoreConfig { index_shape, ..config(root.path()) });
    fill(&store, 0..2500);
    put(&store, "t", 0, b"later", "KEYS\x01k7 k7 k2100");
    store.reput().unwrap();
    let keys: Vec<String> = (0..2700).map(|number| format!("k{}", number * 7 % 2700)).collect();
    let found = look_up(&store, &keys, 9);
    for (at, messages) in found.iter().enumerate() {
        let expected = match at * 7 % 2700 {
            7 | 2100 => 2,
            number => usize::from(number < 2500),
        };
        assert_eq!(messages.len(), expected, "{}", keys[at]);
    }
    let newest = look_up(&store, &["k7".to_owned()], 1);
    assert!(newest[0][0].windows(5).any(|bytes| bytes == b"later"));
}

#[test]
fn no_key_and_no_index_give_nothing() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    assert_eq!(look_up(&store, &[], 9), Vec::<Vec<Vec<u8>>>::new());
    let root = tempfile::tempdir().unwrap();
    let store = open_with(StoreConfig { message_index_enable: false, ..config(root.path()) });
    fill(&store, 0..3);
    assert_eq!(look_up(&store, &["k1".to_owned(), "k2".to_owned()], 9), vec![Vec::<Vec<u8>>::new(); 2]);
}
