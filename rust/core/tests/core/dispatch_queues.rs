//! Where dispatch puts units and keys, by one record after the other and where several threads derive them.

use mqstore_core::config::{StoreConfig, WalkedParts};

use crate::stores::{Opened, bodies, config, fill, open, open_with, put, walked_parts};

fn by_threads(root: &std::path::Path, thread_count: usize) -> Opened {
    let walked_parts = WalkedParts { thread_count, ..walked_parts(512) };
    open_with(StoreConfig { walked_parts, enable_multi_dispatch: true, enable_lmq: true, ..config(root) })
}

/// The last ones are remembered by their lowest bits.
#[test]
fn queues_whose_numbers_are_alike_are_told_from_each_other() {
    for thread_count in [1, 3] {
        let root = tempfile::tempdir().unwrap();
        let store = by_threads(root.path(), thread_count);
        let queues = [("t", 0), ("t", 8), ("u", 0), ("u", 8), ("t", 1)];
        for round in ["0", "1", "2"] {
            for (topic, queue_id) in queues.into_iter().chain(queues) {
                put(&store, topic, queue_id, format!("{topic} {queue_id} {round}").as_bytes(), "");
            }
        }
        store.reput().unwrap();
        for (topic, queue_id) in queues {
            let body = |number| format!("{topic} {queue_id} {}", number / 2);
            assert_eq!(bodies(&store, topic, queue_id), (0..6).map(body).collect::<Vec<_>>());
        }
    }
}

#[test]
fn a_further_queue_has_arrivals_and_its_units_in_its_files() {
    for thread_count in [1, 3] {
        let root = tempfile::tempdir().unwrap();
        let store = by_threads(root.path(), thread_count);
        store.dispatcher().set_listening(true);
        put(&store, "t", 0, b"0", "INNER_MULTI_DISPATCH\x01%LMQ%a");
        put(&store, "t", 0, b"1", "INNER_MULTI_DISPATCH\x01%LMQ%a");
        store.reput().unwrap();
        let arrivals = store.dispatcher().take_arrivals();
        let told: Vec<_> = arrivals.iter().map(|it| (&*it.topic, it.queue_id, it.max_offset)).collect();
        assert_eq!(told, [("t", 0, 1), ("%LMQ%a", 0, 1), ("t", 0, 2), ("%LMQ%a", 0, 2)]);
        let unit = |index| store.find_consume_queue("%LMQ%a", 0).unwrap().unit(index).unwrap().unwrap();
        let expected = [0, 1].map(|index| unit(index).to_bytes()).concat();
        store.close().unwrap();
        let file = root.path().join("consumequeue/%LMQ%a/0").join(format!("{:020}", 0));
        assert_eq!(std::fs::read(file).unwrap()[..40], expected);
    }
}

/// Who reads the file beside the store goes by it.
#[test]
fn a_pass_leaves_the_index_s_newest_header_in_its_file() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    for (numbers, count) in [(0..5, 6), (5..9, 10)] {
        fill(&store, numbers);
        store.reput().unwrap();
        let files = store.index().unwrap().files();
        let header = files[0].header();
        assert_eq!(header.index_count, count);
        assert_eq!(std::fs::read(files[0].path()).unwrap()[..40], header.to_bytes());
    }
}
