//! From records to units and keys.

use mqstore_core::commit_log::Wait;
use mqstore_core::config::{StoreConfig, WalkedParts};
use mqstore_core::dispatch::{Gap, multi_queues, split_java, tags_code, tags_code_fits};
use mqstore_core::format::cq_ext_unit::is_ext_addr;
use mqstore_core::format::message::{RecordFault, decode_record};
use mqstore_core::format::properties::DispatchProperties;
use mqstore_core::format::sys_flag::{
    TRANSACTION_COMMIT_TYPE, TRANSACTION_PREPARED_TYPE, TRANSACTION_ROLLBACK_TYPE,
};
use mqstore_core::store::{Finishing, Mode, PutStep, Store};

use crate::stores::{
    LOG_FILE_SIZE, bodies, config, fields, fill, found, log_file, message, numbers, open, open_with, patch,
    put, read, record_bytes, try_open, try_put, walked_parts,
};

#[test]
fn parts_of_a_transaction_go_where_4_9_3_sends_them() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    let kinds = [
        ("prepared", TRANSACTION_PREPARED_TYPE),
        ("committed", TRANSACTION_COMMIT_TYPE),
        ("back", TRANSACTION_ROLLBACK_TYPE),
    ];
    for (name, sys_flag) in kinds {
        let properties = format!("KEYS\x01{name}");
        let mut message = message("t", 0, name.as_bytes(), &properties);
        message.sys_flag = sys_flag;
        try_put(&store, &message).unwrap();
    }
    assert_eq!(bodies(&store, "t", 0), ["committed"]);
    assert_eq!(["prepared", "committed", "back"].map(|key| found(&store, key)), [1, 1, 0]);
    assert_eq!(store.dispatcher().message_count(), 3);
}

/// One thread does it alone, or puts what several derive.
#[test]
fn a_pass_goes_on_where_the_last_one_stopped() {
    for thread_count in [1, 3] {
        let root = tempfile::tempdir().unwrap();
        let walked_parts = WalkedParts { thread_count, ..walked_parts(512) };
        check_passes(&open_with(StoreConfig { walked_parts, ..config(root.path()) }));
    }
}

fn check_passes(store: &Store) {
    assert_eq!(store.reput().unwrap(), 0);
    fill(store, 0..50);
    assert!(store.dispatch_behind_bytes() > 0);
    assert_eq!((store.reput().unwrap(), store.reput().unwrap()), (50, 0));
    assert_eq!((store.dispatch_behind_bytes(), store.dispatch_behind_ms()), (0, 0));
    assert_eq!(store.dispatcher().reput_from_offset(), store.max_phy_offset());
    assert_eq!(store.dispatcher().store_timestamp(), 1_000_000);
    // Behind a blank nothing is left over.
    assert!(matches!(store.log().end_file(Wait::Block), Ok(())));
    assert_eq!(store.reput().unwrap(), 0);
    assert_eq!(store.dispatch_behind_bytes(), 0);
    fill(store, 50..51);
    assert_eq!(numbers(store).len(), 51);
}

#[test]
fn dispatch_is_repeated_without_effect() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    fill(&store, 0..50);
    store.reput().unwrap();
    store.dispatcher().set_reput_from_offset(0);
    assert_eq!(store.reput().unwrap(), 50);
    assert_eq!(numbers(&store), (0..50).collect::<Vec<_>>());
    assert!((0..50).all(|number| found(&store, &format!("k{number}")) == 1));
}

#[test]
fn dispatch_begins_at_the_first_file_that_there_is() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    fill(&store, 0..50);
    let files = store.log().files().files();
    store.log().files().delete(&files[..1]).unwrap();
    assert!(store.reput().unwrap() < 50);
    assert_eq!(numbers(&store).last(), Some(&49));
    assert_eq!(store.dispatcher().gaps(), [], "what retention removed is no gap");
}

#[test]
fn a_file_that_is_missing_between_others_is_a_gap() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    fill(&store, 0..50);
    store.log().files().delete(&store.log().files().files()[1..2]).unwrap();
    assert!((20..50).contains(&store.reput().unwrap()));
    let missing = Gap { from: LOG_FILE_SIZE, to: 2 * LOG_FILE_SIZE, fault: None };
    assert_eq!(store.dispatcher().gaps(), [missing]);
    assert_eq!(numbers(&store).last(), Some(&49));
    assert_eq!(store.dispatch_behind_bytes(), 0);
}

#[test]
fn what_a_master_sends_ends_anywhere() {
    let (master_root, slave_root) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let master = open(master_root.path());
    fill(&master, 0..25);
    let end = usize::try_from(master.max_phy_offset()).unwrap();
    let file_size = usize::try_from(LOG_FILE_SIZE).unwrap();
    let log = [0, LOG_FILE_SIZE].map(|at| std::fs::read(log_file(master_root.path(), at)).unwrap()).concat();
    let slave = open_with(StoreConfig { is_slave: true, ..config(slave_root.path()) });
    let mut at = 0;
    while at < end {
        // In records, in the blank that ends the first file, and at its end.
        let to = (at + 37).min(end).min(at - at % file_size + file_size);
        slave.append_to_commit_log(at as u64, &log[at..to]).unwrap();
        slave.reput().unwrap();
        assert!(slave.dispatcher().reput_from_offset() <= to as u64);
        at = to;
    }
    assert_eq!(numbers(&slave), (0..25).collect::<Vec<_>>());
    assert_eq!((slave.dispatcher().message_count(), slave.dispatcher().gaps()), (25, Vec::new()));
    assert_eq!(slave.dispatcher().reput_from_offset(), end as u64);
}

/// Of the blank that ends a file a slave has what came by now, from its first byte to all but its last.
#[test]
fn nothing_is_dispatched_behind_the_part_of_a_blank_that_there_is() {
    let master_root = tempfile::tempdir().unwrap();
    let master = open(master_root.path());
    fill(&master, 0..25);
    let log = [0, LOG_FILE_SIZE].map(|at| std::fs::read(log_file(master_root.path(), at)).unwrap()).concat();
    let (file_end, end) =
        (usize::try_from(LOG_FILE_SIZE).unwrap(), usize::try_from(master.max_phy_offset()).unwrap());
    let sizes = std::iter::successors(Some(0), |&at| {
        let size = usize::try_from(u32::from_be_bytes(log[at..at + 4].try_into().unwrap())).unwrap();
        (at + size < file_end).then_some(at + size)
    });
    let blank = sizes.last().unwrap();
    assert!(file_end - blank > 9, "the file ends with a blank that says more than its head");
    for thread_count in [1, 3] {
        for to in [blank + 1, blank + 7, blank + 8, blank + 9, file_end - 1] {
            let root = tempfile::tempdir().unwrap();
            let walked_parts = WalkedParts { thread_count, ..walked_parts(512) };
            let slave = open_with(StoreConfig { is_slave: true, walked_parts, ..config(root.path()) });
            slave.append_to_commit_log(0, &log[..to]).unwrap();
            slave.reput().unwrap();
            let reached = usize::try_from(slave.dispatcher().reput_from_offset()).unwrap();
            assert!((blank..=to).contains(&reached), "{reached} of {to}, {thread_count} threads");
            assert_eq!(slave.dispatch_behind_bytes(), (to - reached) as u64);
            slave.append_to_commit_log(to as u64, &log[to..file_end]).unwrap();
            slave.append_to_commit_log(LOG_FILE_SIZE, &log[file_end..end]).unwrap();
            assert_eq!(numbers(&slave), (0..25).collect::<Vec<_>>());
            assert_eq!(slave.dispatcher().gaps(), []);
        }
    }
}

#[test]
fn a_bad_record_is_passed_over_and_reported() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    fill(&store, 0..40);
    store.reput().unwrap();
    let queue = store.find_consume_queue("t", 0).unwrap();
    let place = |index| queue.unit(index).unwrap().unwrap().physical_offset.cast_unsigned();
    let (bad, next) = (place(5), place(6));
    store.close().unwrap();
    patch(&log_file(root.path(), 0), bad + 4, |at| at[0] ^= 1);
    std::fs::remove_dir_all(root.path().join("consumequeue")).unwrap();
    let mut config = config(root.path());
    config.message_index_enable = false;
    let store = try_open(config, Mode::Read).unwrap();
    let expected: Vec<_> = (0..40).filter(|number| *number != 5).collect();
    assert_eq!(numbers(&store), expected);
    let gaps = store.dispatcher().gaps();
    assert_eq!(store.gaps(), gaps);
    assert_eq!((gaps.len(), gaps[0].from, gaps[0].to), (1, bad, next));
    assert!(matches!(gaps[0].fault, Some(RecordFault::MagicCode { .. })));
}

/// Only a slave waits for what follows: a master's log ends with a record, and has a gap where that is none.
#[test]
fn a_bad_record_at_the_end_of_a_log_that_is_no_slave_s_is_passed_over() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    fill(&store, 0..10);
    let (second, end) = (store.max_phy_offset() / 10, store.max_phy_offset());
    patch(&log_file(root.path(), 0), end - second + 4, |at| at[0] ^= 1);
    assert_eq!(store.reput().unwrap(), 9);
    let gaps = store.dispatcher().gaps();
    assert_eq!(gaps.iter().map(|gap| (gap.from, gap.to)).collect::<Vec<_>>(), [(end - second, end)]);
    assert_eq!((store.dispatcher().reput_from_offset(), store.dispatch_behind_bytes()), (end, 0));
    fill(&store, 10..11);
    assert_eq!(store.reput().unwrap(), 1);
    assert_eq!(store.dispatcher().gaps(), gaps);
}

#[test]
fn nothing_is_dispatched_behind_the_confirm_offset() {
    for thread_count in [1, 3] {
        let root = tempfile::tempdir().unwrap();
        let walked_parts = WalkedParts { thread_count, ..walked_parts(512) };
        let store = open_with(StoreConfig { duplication_enable: true, walked_parts, ..config(root.path()) });
        fill(&store, 0..10);
        assert_eq!((store.reput().unwrap(), store.log().confirm_offset()), (0, -1));
        let size = i64::try_from(store.max_phy_offset() / 10).unwrap();
        store.log().set_confirm_offset(3 * size + 1);
        let expected = "the record in which it lies is confirmed with it, as in 4.9.3";
        assert_eq!(store.reput().unwrap(), 4, "{expected}, {thread_count} threads");
        store.log().set_confirm_offset(6 * size);
        assert_eq!(store.reput().unwrap(), 2, "{thread_count} threads");
        store.log().set_confirm_offset(i64::MAX);
        assert_eq!(store.reput().unwrap(), 4, "{thread_count} threads");
    }
}

/// There are so many that several threads derive them, queue by queue.
#[test]
fn arrivals_of_several_queues_are_told_in_the_order_of_the_log() {
    let root = tempfile::tempdir().unwrap();
    let store = open_with(StoreConfig { walked_parts: walked_parts(2048), ..config(root.path()) });
    fill(&store, 0..40);
    store.reput().unwrap();
    assert!(store.dispatcher().take_arrivals().is_empty(), "nobody listens");
    store.dispatcher().set_listening(true);
    let expected: Vec<_> = (0..40)
        .map(|number| {
            put(&store, "u", number % 3, &[b'x'; 80], "");
            (number % 3, i64::from(number / 3) + 1)
        })
        .collect();
    store.reput().unwrap();
    let arrivals = store.dispatcher().take_arrivals();
    assert_eq!(arrivals.iter().map(|it| (it.queue_id, it.max_offset)).collect::<Vec<_>>(), expected);
}

#[test]
fn arrivals_are_kept_for_who_listens() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    put(&store, "t", 0, b"unheard", "");
    store.reput().unwrap();
    assert!(store.dispatcher().take_arrivals().is_empty());
    store.dispatcher().set_listening(true);
    put(&store, "t", 0, b"heard", "TAGS\x01A");
    put(&store, "u", 3, b"heard", "");
    store.reput().unwrap();
    store.dispatcher().set_listening(true);
    let arrivals = store.dispatcher().take_arrivals();
    let seen: Vec<_> =
        arrivals.iter().map(|it| (&*it.topic, it.queue_id, it.max_offset, it.tags_code)).collect();
    assert_eq!(seen, [("t", 0, 2, 65), ("u", 3, 1, 0)]);
    assert!(store.dispatcher().take_arrivals().is_empty());
    put(&store, "t", 0, b"", "");
    store.reput().unwrap();
    store.dispatcher().set_listening(false);
    assert!(store.dispatcher().take_arrivals().is_empty());
}

#[test]
fn a_delayed_message_has_its_time_of_delivery_in_its_unit() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    put(&store, "t", 4, b"later", "DELAY\x012\x02TAGS\x01A");
    put(&store, "t", 4, b"much later", "DELAY\x0199");
    store.reput().unwrap();
    let queue = store.find_consume_queue("SCHEDULE_TOPIC_XXXX", 1).unwrap();
    assert_eq!([0, 1].map(|index| queue.unit(index).unwrap().unwrap().tags_code), [1_005_000; 2]);
}

/// What a unit of a record with such a topic and properties says, stored at 1,000,000 ms, in a store where level 1
/// takes a second and level 2 five.
fn says(topic: &str, properties: &str, compat: bool) -> (i64, Vec<i64>) {
    let config = StoreConfig { compat, ..config(std::path::Path::new("/")) };
    let bytes = record_bytes(&fields(topic, 0, b"body", properties), 0, 0);
    let record = decode_record(&bytes).unwrap();
    let properties = DispatchProperties::of(record.properties);
    let fits = |&code: &i64| tags_code_fits(&config, &record, &properties, code);
    let possible = [0, 65, 7_000_000, 1_001_000, 1_005_000].into_iter().filter(fits).collect();
    (tags_code(&config, &record, &properties), possible)
}

#[test]
fn a_unit_says_the_tag_s_hash_or_when_the_message_is_due() {
    assert_eq!(says("t", "", false), (0, vec![0]));
    assert_eq!(says("t", "TAGS\x01A", false), (65, vec![65]));
    assert_eq!(says("t", "TAGS\x01A\x02DELAY\x011\x02MQSTORE_DELIVER_AT\x017000000", false), (65, vec![65]));
    for (level, expected) in
        [("1", 1_001_000), ("2", 1_005_000), ("99", 1_005_000), ("0", 65), ("-1", 65), ("x", 65)]
    {
        let properties = format!("TAGS\x01A\x02DELAY\x01{level}");
        assert_eq!(says("SCHEDULE_TOPIC_XXXX", &properties, false), (expected, vec![expected]), "{level}");
    }
    // Put while the log's time was ahead of the clock. 4.9.3 goes by the store time.
    let by_clock = "DELAY\x012\x02MQSTORE_DELIVER_AT\x011001000";
    assert_eq!(says("SCHEDULE_TOPIC_XXXX", by_clock, false), (1_001_000, vec![1_001_000, 1_005_000]));
    assert_eq!(says("SCHEDULE_TOPIC_XXXX", by_clock, true), (1_005_000, vec![1_005_000]));
    for other in ["7000000", "soon"] {
        let properties = format!("DELAY\x012\x02MQSTORE_DELIVER_AT\x01{other}");
        assert_eq!(says("SCHEDULE_TOPIC_XXXX", &properties, false), (1_005_000, vec![1_005_000]));
    }
    // Of timed messages 4.9.3 knows nothing: what it dispatched has the tag's hash.
    let properties = "TAGS\x01A\x02MQSTORE_DELIVER_AT\x017000000";
    assert_eq!(says("MQSTORE_TIMED_TOPIC", properties, false), (7_000_000, vec![65, 7_000_000]));
    assert_eq!(says("MQSTORE_TIMED_TOPIC", properties, true), (65, vec![65]));
    assert_eq!(says("MQSTORE_TIMED_TOPIC", "TAGS\x01A\x02MQSTORE_DELIVER_AT\x01soon", false), (65, vec![65]));
}

/// A broker reads a message without map itself, and believes a map.
#[test]
fn which_filters_a_message_passes_is_said_where_both_options_are_on() {
    for (has_ext, has_maps) in [(true, true), (true, false), (false, true)] {
        let root = tempfile::tempdir().unwrap();
        let mut config = config(root.path());
        config.enable_consume_queue_ext = has_ext;
        config.enable_calc_filter_bit_map = has_maps;
        let filter = ("t".to_owned(), vec![0, 9], "color = 'red'".to_owned());
        assert_eq!(config.filters.set(vec![filter]), Vec::<String>::new());
        let store = open_with(config);
        for (topic, color) in [("t", "red"), ("t", "blue"), ("u", "red")] {
            put(&store, topic, 0, b"", &format!("color\x01{color}"));
        }
        store.reput().unwrap();
        let map_of = |topic, index| {
            let queue = store.find_consume_queue(topic, 0).unwrap();
            let unit = queue.unit(index).unwrap().unwrap();
            is_ext_addr(unit.tags_code).then(|| queue.ext(unit.tags_code).unwrap().unwrap().filter_bit_map)
        };
        let passes = [[1, 2].as_slice(), &[0; 12]].concat();
        let expected = match (has_ext, has_maps) {
            (true, true) => [Some(passes), Some(vec![0; 14]), Some(Vec::new())],
            (true, false) => [const { Some(Vec::new()) }; 3],
            _ => [const { None }; 3],
        };
        let found = [map_of("t", 0), map_of("t", 1), map_of("u", 0)];
        assert_eq!(found, expected, "extension {has_ext}, maps {has_maps}");
    }
}

/// A broker does not read a message of which a map says that it does not pass.
#[test]
fn what_a_broker_alone_can_compile_passes_as_far_as_is_known() {
    let root = tempfile::tempdir().unwrap();
    let mut config = config(root.path());
    (config.enable_consume_queue_ext, config.enable_calc_filter_bit_map) = (true, true);
    let deep = format!("{}color = 'red'", "NOT ".repeat(400));
    let filters = [(0, "color = 'red'"), (1, "color = 'red' b"), (2, &deep)];
    let filters = filters.map(|(bit, expression)| ("t".to_owned(), vec![bit], expression.to_owned()));
    assert_eq!(config.filters.set(filters.into()).len(), 1);
    let store = open_with(config);
    put(&store, "t", 0, b"", "color\x01red");
    put(&store, "t", 0, b"", "color\x01blue");
    store.reput().unwrap();
    let queue = store.find_consume_queue("t", 0).unwrap();
    let map_of =
        |index| queue.ext(queue.unit(index).unwrap().unwrap().tags_code).unwrap().unwrap().filter_bit_map;
    assert_eq!([map_of(0)[0], map_of(1)[0]], [0b111, 0b100]);
}

/// A record that leads behind its file's end is not one whose rest is to come.
#[test]
fn a_slave_does_not_wait_for_the_rest_of_a_damaged_record() {
    let (master_root, slave_root) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let master = open(master_root.path());
    fill(&master, 0..10);
    let second = usize::try_from(master.max_phy_offset() / 10).unwrap();
    let end = usize::try_from(master.max_phy_offset()).unwrap();
    let mut log = std::fs::read(log_file(master_root.path(), 0)).unwrap();
    log[second + 1] = 1; // a size of more than 64 KiB
    let slave = open_with(StoreConfig { is_slave: true, ..config(slave_root.path()) });
    slave.append_to_commit_log(0, &log[..end]).unwrap();
    slave.reput().unwrap();
    assert_eq!(slave.dispatcher().gaps().len(), 1);
    assert_eq!(numbers(&slave), [0].into_iter().chain(2..10).collect::<Vec<_>>());
}

/// What a slave has of its log's last record is no gap for who reads beside it.
#[test]
fn a_reader_beside_a_slave_waits_for_a_record_s_rest() {
    let (master_root, slave_root) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let master = open(master_root.path());
    fill(&master, 0..10);
    let end = usize::try_from(master.max_phy_offset()).unwrap();
    let log = std::fs::read(log_file(master_root.path(), 0)).unwrap();
    let slave = open_with(StoreConfig { is_slave: true, ..config(slave_root.path()) });
    slave.append_to_commit_log(0, &log[..end - 50]).unwrap();
    slave.reput().unwrap();
    let reader = read(slave_root.path());
    assert_eq!(numbers(&reader), (0..9).collect::<Vec<_>>());
    slave.append_to_commit_log((end - 50) as u64, &log[end - 50..end]).unwrap();
    reader.refresh().unwrap();
    assert_eq!(numbers(&reader), (0..10).collect::<Vec<_>>());
    assert_eq!(reader.gaps(), []);
}

#[test]
fn further_queues_are_named_and_numbered_together() {
    let mut config = config(std::path::Path::new("/"));
    config.enable_lmq = true;
    let queues = |properties: &'static [u8]| multi_queues(&config, 7, &DispatchProperties::of(properties));
    let both = queues(b"INNER_MULTI_DISPATCH\x01%LMQ%a,b\x02INNER_MULTI_QUEUE_OFFSET\x015,6");
    assert_eq!(both, [(&b"%LMQ%a"[..], 0, 5), (b"b", 7, 6)]);
    for other in [
        &b"INNER_MULTI_DISPATCH\x01a,b\x02INNER_MULTI_QUEUE_OFFSET\x015"[..],
        b"INNER_MULTI_DISPATCH\x01a\x02INNER_MULTI_QUEUE_OFFSET\x01x",
        b"INNER_MULTI_DISPATCH\x01a",
        b"INNER_MULTI_QUEUE_OFFSET\x011",
        b"",
    ] {
        assert_eq!(queues(other), []);
    }
    let parts = |text: &'static [u8]| split_java(text).len();
    assert_eq!([&b"a,b"[..], b"a,b,,", b"", b",", b",a"].map(parts), [2, 2, 0, 0, 2]);
}

#[test]
fn a_light_queue_that_cannot_be_a_folder_is_left_out() {
    let root = tempfile::tempdir().unwrap();
    let mut config = config(root.path());
    config.enable_multi_dispatch = true;
    let store = open_with(config);
    put(&store, "t", 0, b"to no other queue", "");
    // A put of it is refused.
    let properties = "INNER_MULTI_DISPATCH\x01../../x,ok\x02INNER_MULTI_QUEUE_OFFSET\x017,7";
    let record = record_bytes(&fields("t", 0, b"body", properties), 0, 0);
    store.append_records(&[&record], &Finishing::default(), &mut Vec::new()).unwrap();
    assert_eq!(bodies(&store, "ok", 0), ["body"]);
    let light = store.find_consume_queue("ok", 0).unwrap();
    assert_eq!((light.min_offset_in_queue(), light.max_offset_in_queue()), (0, 1), "its own offset");
    assert_eq!(store.queues().queue_count(), 2);
    store.close().unwrap();
    assert!(!root.path().join("consumequeue/../../x").exists());
}

#[test]
fn many_puts_of_one_call_are_dispatched_in_order() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    let texts: Vec<String> = (0..200).map(|number| number.to_string()).collect();
    let messages: Vec<_> = texts.iter().map(|text| message("t", 0, text.as_bytes(), "")).collect();
    let mut done = Vec::new();
    assert!(matches!(store.put_many(messages.as_slice(), &mut done, Wait::Block), PutStep::Done(_)));
    assert_eq!(bodies(&store, "t", 0), texts);
    store.close().unwrap();
    assert_eq!(bodies(&read(root.path()), "t", 0), texts);
}
