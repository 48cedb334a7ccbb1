//! How far the queues go, light ones among them.

use mqstore_core::config::StoreConfig;
use mqstore_core::format::cq_unit::CqUnit;
use mqstore_core::format::sys_flag::TRANSACTION_PREPARED_TYPE;
use mqstore_core::retention::Expiry;
use mqstore_core::store::{Mode, NewMessage};

use crate::stores::{
    bodies, config, crash, crash_files_later, fill, log_file, message, numbers, open, open_with, patch, put,
    read, tree, try_open, try_put,
};

fn config_of_light(root: &std::path::Path) -> StoreConfig {
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

/// Who opens a store may not know that its broker has light queues; what they have is not made again then.
#[test]
fn light_queues_of_a_store_that_is_opened_without_their_options_keep_what_they_have() {
    for clean in [true, false] {
        let root = tempfile::tempdir().unwrap();
        let store = open_with(config_of_light(root.path()));
        for number in 0..15 {
            put(&store, "t", 3, format!("{number}").as_bytes(), TO_TWO);
        }
        let expected: Vec<_> = (0..15).map(|number| number.to_string()).collect();
        assert_eq!(bodies(&store, "%LMQ%a", 0), expected);
        store.flush_everything().unwrap();
        if clean {
            store.close().unwrap();
        } else {
            crash(store);
        }
        let reader = read(root.path());
        assert_eq!(bodies(&reader, "%LMQ%a", 0), expected, "read, {clean}");
        assert!(reader.rejected().is_empty());
        let store = open(root.path());
        assert_eq!(bodies(&store, "%LMQ%a", 0), expected, "{clean}");
        assert_eq!(bodies(&store, "t", 3), expected, "{clean}");
        store.close().unwrap();
        let store = open_with(config_of_light(root.path()));
        put(&store, "t", 3, b"15", TO_TWO);
        let expected: Vec<_> = (0..16).map(|number| number.to_string()).collect();
        assert_eq!(bodies(&store, "%LMQ%a", 0), expected, "{clean}");
    }
}

/// One of the two options makes a light queue's units nowhere, or in another queue: what it has is kept as without both,
/// the units too that are in its files and were not known to be on the disk.
#[test]
fn a_light_queue_keeps_its_units_where_one_of_its_options_is_missing() {
    for (enable_lmq, enable_multi_dispatch) in [(false, false), (true, false), (false, true)] {
        let root = tempfile::tempdir().unwrap();
        let store = open_with(config_of_light(root.path()));
        let put_to_two = |numbers: std::ops::Range<u32>| {
            numbers.for_each(|number| _ = put(&store, "t", 3, number.to_string().as_bytes(), TO_TWO));
            store.reput().unwrap();
        };
        put_to_two(0..10);
        store.flush_everything().unwrap();
        put_to_two(10..15);
        store.queues().spill_all().unwrap();
        crash(store);
        let store = open_with(StoreConfig { enable_lmq, enable_multi_dispatch, ..config(root.path()) });
        let expected: Vec<_> = (0..15).map(|number| number.to_string()).collect();
        assert_eq!(bodies(&store, "%LMQ%a", 0), expected, "{enable_lmq}, {enable_multi_dispatch}");
    }
}

/// With the further queues' option alone a light queue has the number of the message's own queue.
#[test]
fn a_light_queue_with_the_number_of_its_messages_goes_on_where_it_ended() {
    for clean in [true, false] {
        let root = tempfile::tempdir().unwrap();
        let config = || StoreConfig { enable_multi_dispatch: true, ..config(root.path()) };
        let store = open_with(config());
        (0..15).for_each(|number| _ = put(&store, "t", 3, number.to_string().as_bytes(), TO_TWO));
        if clean {
            store.close().unwrap();
        } else {
            store.reput().unwrap();
            store.flush_everything().unwrap();
            crash(store);
        }
        let store = open_with(config());
        assert_eq!(store.find_consume_queue("%LMQ%a", 3).unwrap().max_offset_in_queue(), 15);
        put(&store, "t", 3, b"15", TO_TWO);
        let expected: Vec<_> = (0..16).map(|number| number.to_string()).collect();
        assert_eq!(bodies(&store, "%LMQ%a", 3), expected, "{clean}");
    }
}

/// Damage in what was known to be on the disk: a light queue that dispatch makes again gets its messages from there on,
/// as any other does.
#[test]
fn a_damaged_light_queue_is_made_again_from_the_damage_on() {
    let root = tempfile::tempdir().unwrap();
    // An index would have dispatch begin earlier.
    let config = || StoreConfig { message_index_enable: false, ..config_of_light(root.path()) };
    let store = open_with(config());
    (0..15).for_each(|number| _ = put(&store, "t", 3, number.to_string().as_bytes(), TO_TWO));
    crash_files_later(store);
    let file = root.path().join("consumequeue/%LMQ%a/0/00000000000000000000");
    patch(&file, 7 * 20, |at| at[..20].fill(0xee));
    let store = open_with(config());
    let expected: Vec<_> = (0..15).map(|number| number.to_string()).collect();
    assert_eq!(bodies(&store, "%LMQ%a", 0), expected);
}

/// A unit that leads to a message of the log, and not to the one that stands for it.
#[test]
fn units_at_a_closed_queue_s_end_that_the_log_disagrees_with_are_cut_off() {
    let unit = |number: u64| CqUnit { physical_offset: number.cast_signed() * 179, size: 179, tags_code: 0 };
    let damages = [
        ("a copy of an earlier unit", 100, unit(3)),
        ("a copy of the first unit", 100, unit(0)),
        ("the last unit says a larger size", 80, CqUnit { size: 181, ..unit(4) }),
    ];
    for (what, at, bad) in damages {
        let root = tempfile::tempdir().unwrap();
        let store = open(root.path());
        fill(&store, 0..5);
        // What is in no queue stands behind them.
        let mut prepared = message("t", 0, b"prepared", "");
        prepared.sys_flag = TRANSACTION_PREPARED_TYPE;
        try_put(&store, &prepared).unwrap();
        store.close().unwrap();
        let file = root.path().join("consumequeue/t/0/00000000000000000000");
        assert_eq!(std::fs::read(&file).unwrap()[80..100], unit(4).to_bytes());
        patch(&file, at, |at| at[..20].copy_from_slice(&bad.to_bytes()));
        let store = open(root.path());
        let queue = store.find_consume_queue("t", 0).unwrap();
        assert_eq!(queue.max_offset_in_queue(), 5, "{what}");
        assert_eq!(queue.unit(4).unwrap(), Some(unit(4)), "{what}");
        fill(&store, 5..7);
        assert_eq!(numbers(&store), (0..7).collect::<Vec<_>>());
    }
}

#[test]
fn a_further_queue_s_unit_for_another_offset_is_cut_off() {
    for queue in ["%LMQ%a/0", "other/3"] {
        let root = tempfile::tempdir().unwrap();
        let store = open_with(config_of_light(root.path()));
        for number in 0..3 {
            put(&store, "t", 3, format!("{number}").as_bytes(), TO_TWO);
        }
        store.close().unwrap();
        let file = root.path().join("consumequeue").join(queue).join("00000000000000000000");
        patch(&file, 40, |at| at.copy_within(..20, 20));
        let store = open_with(config_of_light(root.path()));
        let (topic, queue_id) = queue.split_once('/').unwrap();
        let queue = store.find_consume_queue(topic, queue_id.parse().unwrap()).unwrap();
        assert_eq!(queue.max_offset_in_queue(), 3, "{queue:?}");
    }
}

/// The files of a queue that are not its own: their units lead to messages that do not name it.
#[test]
fn units_of_another_further_queue_are_cut_off() {
    let copies = [
        ("other/3", "third/3"),
        ("other/3", "other/2"),
        ("other/3", "other/0"),
        ("%LMQ%a/0", "%LMQ%b/0"),
        ("%LMQ%a/0", "%LMQ%a/2"),
    ];
    for (from, to) in copies {
        let root = tempfile::tempdir().unwrap();
        let store = open_with(config_of_light(root.path()));
        for number in 0..3 {
            put(&store, "t", 3, format!("{number}").as_bytes(), TO_TWO);
        }
        store.close().unwrap();
        let file = |queue| root.path().join("consumequeue").join(queue).join("00000000000000000000");
        std::fs::create_dir_all(file(to).parent().unwrap()).unwrap();
        std::fs::copy(file(from), file(to)).unwrap();
        let store = open_with(config_of_light(root.path()));
        let (topic, queue_id) = to.split_once('/').unwrap();
        let queue = store.find_consume_queue(topic, queue_id.parse().unwrap()).unwrap();
        assert_eq!(queue.max_offset_in_queue(), 0, "{queue:?}");
    }
}

/// What retention removed from the log says nothing against the units that led to it: the next message goes
/// on behind them.
#[test]
fn a_queue_whose_messages_expired_keeps_its_end() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    put(&store, "old", 0, b"0", "");
    fill(&store, 0..40);
    put(&store, "t", 1, b"0", "");
    store.close().unwrap();
    std::fs::remove_file(log_file(root.path(), 0)).unwrap();
    let store = open(root.path());
    assert_eq!(store.find_consume_queue("old", 0).unwrap().max_offset_in_queue(), 1);
    assert_eq!(put(&store, "old", 0, b"1", "").logics_offset, 1);
    assert_eq!(bodies(&store, "old", 0), ["1"]);
}

/// Of a topic that is no text the queue's name has other bytes.
#[test]
fn a_topic_that_is_no_text_has_its_units_after_a_close() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    let bad = NewMessage { topic: b"t\xff", ..message("", 0, b"body", "") };
    try_put(&store, &bad).unwrap();
    store.close().unwrap();
    let store = read(root.path());
    assert_eq!(store.notes().dispatched_from, store.max_phy_offset(), "its unit is believed");
    assert_eq!(bodies(&store, "t\u{fffd}", 0), ["body"]);
}

#[test]
fn a_message_without_properties_has_some_while_multi_dispatch_is_on() {
    let root = tempfile::tempdir().unwrap();
    let store = open_with(config_of_light(root.path()));
    put(&store, "t", 0, b"body", "");
    let got = store.get_message("t", 0, 0, 1, None).unwrap();
    let record = mqstore_core::format::message::decode_record(got.messages.get(0).unwrap().bytes()).unwrap();
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
    patch(&file, 20, |at| at.copy_within(20..40, 0)); // unit 1 says what unit 2 says
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

/// Nothing says that an emptied queue was removed: a power cut may take the removal back, and a reader not see it.
#[test]
fn an_emptied_queue_that_was_removed_begins_anew() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    for number in 0..12 {
        put(&store, "once", 0, format!("old {number}").as_bytes(), "");
    }
    fill(&store, 0..60);
    store.reput().unwrap();
    store.flush_commit_log(0).unwrap();
    let at_once = Expiry { reserved_ms: 0, at_once: true, keep_from: u64::MAX };
    assert!(store.delete_expired_log_file(at_once).unwrap().is_some());
    let readers = [read(root.path()), read(root.path())];
    readers[0].refresh().unwrap();
    let files = tree(&root.path().join("consumequeue/once/0"));
    assert_eq!(store.clean_expired_consume_queue().unwrap(), 1);
    let mut new = vec!["new 0", "new 1", "new 2"];
    for body in &new {
        put(&store, "once", 0, body.as_bytes(), "");
    }
    store.reput().unwrap();
    for reader in &readers {
        reader.refresh().unwrap();
        assert_eq!(bodies(reader, "once", 0), new);
    }
    crash(store);
    for was_back in [false, true] {
        if was_back {
            std::fs::create_dir_all(root.path().join("consumequeue/once/0")).unwrap();
            for (path, content) in &files {
                std::fs::write(root.path().join("consumequeue/once/0").join(path), content.as_ref().unwrap())
                    .unwrap();
            }
        }
        let store = open(root.path());
        assert_eq!(bodies(&store, "once", 0), new, "was back: {was_back}");
        assert_eq!(put(&store, "once", 0, b"next", "").logics_offset, i64::try_from(new.len()).unwrap());
        new.push("next");
        store.reput().unwrap();
        assert_eq!(bodies(&store, "once", 0), new);
        crash(store);
    }
    open(root.path()).close().unwrap();
    assert_eq!(bodies(&read(root.path()), "once", 0), new);
}

#[test]
fn a_queue_keeps_its_end_though_retention_has_taken_its_messages() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    put(&store, "once", 0, b"a", "");
    fill(&store, 0..60);
    store.reput().unwrap();
    store.flush_commit_log(0).unwrap();
    let at_once = Expiry { reserved_ms: 0, at_once: true, keep_from: u64::MAX };
    assert!(store.delete_expired_log_file(at_once).unwrap().is_some());
    crash(store);
    let store = open(root.path());
    assert_eq!(put(&store, "once", 0, b"b", "").logics_offset, 1);
    store.reput().unwrap();
    assert_eq!(bodies(&store, "once", 0), ["b"]);
}
