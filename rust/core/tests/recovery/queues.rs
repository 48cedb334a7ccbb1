//! How far the queues go, light ones among them.

use mqstore_core::store::Mode;

use crate::stores::{bodies, config, crash, open_with, put, try_open};

fn config_of_light(root: &std::path::Path) -> mqstore_core::config::StoreConfig {
    let mut config = config(root);
    config.enable_lmq = true;
    config.enable_multi_dispatch = true;
    config
}

const TO_TWO: &str = "INNER_MULTI_DISPATCH\x01%LMQ%a,other";

#[test]
fn light_queues_go_on_where_they_ended() {
    for clean in [true, false] {
        let root = tempfile::tempdir().unwrap();
        let store = open_with(config_of_light(root.path()));
        for number in 0..15 {
            put(&store, "t", 3, format!("{number}").as_bytes(), TO_TWO);
        }
        if clean {
            store.close().unwrap();
        } else {
            crash(store);
        }
        let store = open_with(config_of_light(root.path()));
        for number in 15..20 {
            put(&store, "t", 3, format!("{number}").as_bytes(), TO_TWO);
        }
        let expected: Vec<_> = (0..20).map(|number| number.to_string()).collect();
        for (topic, queue_id) in [("t", 3), ("%LMQ%a", 0), ("other", 3)] {
            assert_eq!(bodies(&store, topic, queue_id), expected, "{topic}");
        }
        assert_eq!(store.queues().lmq_count(), 1);
    }
}

#[test]
fn a_message_without_properties_has_some_while_multi_dispatch_is_on() {
    let root = tempfile::tempdir().unwrap();
    let store = open_with(config_of_light(root.path()));
    put(&store, "t", 0, b"body", "");
    let got = store.get_message("t", 0, 0, 1, None).unwrap();
    let record = mqstore_core::store::query::decode_record(got.messages.get(0).unwrap().bytes()).unwrap();
    assert_eq!(record.properties, b"WAIT\x01true");
}

#[test]
fn a_unit_of_another_message_is_not_served() {
    let root = tempfile::tempdir().unwrap();
    let store = open_with(config(root.path()));
    for number in 0..5 {
        put(&store, "t", 0, format!("{number}").as_bytes(), "");
    }
    store.close().unwrap();
    let file = root.path().join("consumequeue/t/0/00000000000000000000");
    crate::stores::patch(&file, 20, |at| at.copy_within(20..40, 0)); // unit 1 says what unit 2 says
    for compat in [false, true] {
        let mut config = config(root.path());
        config.compat = compat;
        let store = try_open(config, Mode::Read).unwrap();
        let expected: &[&str] = if compat { &["0", "2", "2", "3", "4"] } else { &["0", "2", "3", "4"] };
        assert_eq!(bodies(&store, "t", 0), expected);
        assert_eq!(store.rejected_count() > 0, !compat);
        assert!(store.rejected().iter().all(|rejected| rejected.queue_offset == 1));
    }
}
