//! Which messages a selection gives, against a look at every message.

use std::sync::Arc;

use mqstore_core::error::Error;
use mqstore_core::filter::SqlFilter;
use mqstore_core::format::message::decode_record;
use mqstore_core::format::sys_flag::TRANSACTION_PREPARED_TYPE;
use mqstore_core::interrupt;
use mqstore_core::selection::{QueueRange, Selection};
use mqstore_core::store::{Mode, NewMessage, Store, Subscription};
use proptest::prelude::*;

use crate::stores::{config, log_file, message, open, open_with, patch, put, read, try_open, try_put};

/// Number, topic, queue, queue offset, time, key, tag, place of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Known {
    number: usize,
    topic: &'static str,
    queue_id: i32,
    queue_offset: u64,
    time: i64,
    phy_offset: u64,
}

fn filled(root: &std::path::Path, count: usize) -> (crate::stores::Opened, Vec<Known>) {
    let store = open(root);
    let mut known = Vec::new();
    for number in 0..count {
        let topic = ["a", "b", "b"][number % 3];
        let queue_id = i32::try_from(number % 2).unwrap();
        let time = 1_000_000 + i64::try_from(number / 2).unwrap() * 700;
        store.clock.set(time);
        let properties = format!("KEYS\x01k{} all\x02TAGS\x01T{}", number % 5, number % 4);
        let appended = put(&store, topic, queue_id, number.to_string().as_bytes(), &properties);
        let queue_offset = appended.logics_offset.cast_unsigned();
        known.push(Known { number, topic, queue_id, queue_offset, time, phy_offset: appended.wrote_offset });
    }
    (store, known)
}

fn selected(store: &Arc<Store>, selection: &Selection, at_once: usize) -> Vec<usize> {
    let mut cursor = selection.cursor(Arc::clone(store)).unwrap();
    let mut found = Vec::new();
    loop {
        let messages = cursor.next_messages(at_once, 2000).unwrap();
        if messages.is_empty() {
            return found;
        }
        assert!(messages.len() <= at_once);
        let number = |record: &[u8]| {
            String::from_utf8_lossy(decode_record(record).unwrap().body).parse::<usize>().unwrap()
        };
        found.extend(messages.iter().map(|message| number(message.bytes())));
    }
}

#[test]
fn what_was_just_put_is_counted() {
    let root = tempfile::tempdir().unwrap();
    let (store, known) = filled(root.path(), 9);
    let all = QueueRange { topic: "b".into(), queue_id: None, from: None, to: None };
    let selection = Selection { queues: Some(vec![all]), ..Selection::default() };
    let expected = known.iter().filter(|known| known.topic == "b").count() as u64;
    assert_eq!(selection.count(Arc::clone(&store.store)).unwrap(), expected);
}

#[test]
fn going_over_queues_and_places_can_be_broken_off() {
    let root = tempfile::tempdir().unwrap();
    let (store, known) = filled(root.path(), 9);
    store.reput().unwrap();
    let all = QueueRange { topic: "b".into(), queue_id: None, from: None, to: None };
    let absent = SqlFilter::compile("absent = 1", false).unwrap();
    let places = known.iter().map(|known| known.phy_offset).collect();
    let selections = [
        Selection { queues: Some(vec![all]), sql: Some(Arc::new(absent)), ..Selection::default() },
        Selection { places: Some(places), ..Selection::default() },
    ];
    for selection in selections {
        let mut cursor = selection.cursor(Arc::clone(&store.store)).unwrap();
        let broken_off = interrupt::until(|| true, || cursor.next_messages(10, 2000).map(|_| ()));
        assert!(matches!(broken_off, Err(Error::Interrupted)), "{broken_off:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn a_selection_is_what_a_look_at_every_message_gives(
        count in 0..120_usize,
        ranges in proptest::option::of(proptest::collection::vec((0..2_usize, proptest::option::of(0..3_i32), proptest::option::of(0..40_u64), proptest::option::of(0..40_u64)), 1..3)),
        key in proptest::option::of(0..6_usize), tag in proptest::option::of(0..5_usize),
        times in (proptest::option::of(0..50_000_i64), proptest::option::of(0..50_000_i64)),
        places in (proptest::option::of(0..20_000_u64), proptest::option::of(0..20_000_u64)),
        limit in proptest::option::of(0..30_u64), at_once in 1..40_usize,
    ) {
        let root = tempfile::tempdir().unwrap();
        let (store, known) = filled(root.path(), count);
        let ranges = ranges.map(|ranges| ranges.into_iter().map(|(topic, queue_id, from, to)| QueueRange {
            topic: ["a", "b"][topic].into(), queue_id, from, to,
        }).collect::<Vec<_>>());
        // A message that two ranges name is given for each of them.
        let ranges = ranges.map(|mut ranges| { ranges.dedup_by(|a, b| a.topic == b.topic); ranges });
        prop_assume!(ranges.as_ref().is_none_or(|ranges| ranges.len() < 2 || ranges[0].topic != ranges[1].topic));
        let selection = Selection {
            queues: ranges.clone(),
            keys: key.map(|key| vec![format!("k{key}")]),
            tags: tag.and_then(|tag| Subscription::parse(&format!("T{tag}"))),
            begin_timestamp: times.0.map(|time| 1_000_000 + time),
            end_timestamp: times.1.map(|time| 1_000_000 + time),
            from_phy_offset: places.0,
            to_phy_offset: places.1,
            limit,
            ..Selection::default()
        };
        let takes = |known: &&Known| {
            ranges.as_ref().is_none_or(|ranges| ranges.iter().any(|range| {
                range.topic == known.topic
                    && range.queue_id.is_none_or(|queue_id| queue_id == known.queue_id)
                    && range.from.is_none_or(|from| known.queue_offset >= from)
                    && range.to.is_none_or(|to| known.queue_offset < to)
            }))
                && key.is_none_or(|key| known.number % 5 == key)
                && tag.is_none_or(|tag| known.number % 4 == tag)
                && selection.begin_timestamp.is_none_or(|begin| known.time >= begin)
                && selection.end_timestamp.is_none_or(|end| known.time <= end)
                && places.0.is_none_or(|from| known.phy_offset >= from)
                && places.1.is_none_or(|to| known.phy_offset < to)
        };
        let expected: Vec<usize> = known.iter().filter(takes).map(|known| known.number).collect();
        let wanted = limit.map_or(expected.len(), |limit| expected.len().min(usize::try_from(limit).unwrap()));
        let mut found = selected(&store, &selection, at_once);
        prop_assert_eq!(selection.count(Arc::clone(&store)).unwrap(), wanted as u64);
        prop_assert_eq!(found.len(), wanted);
        found.sort_unstable();
        if limit.is_none() {
            prop_assert_eq!(found, expected);
        } else {
            prop_assert!(found.iter().all(|number| expected.contains(number)));
            prop_assert!(found.windows(2).all(|pair| pair[0] != pair[1]));
        }
    }
}

#[test]
fn damage_that_a_walk_or_a_key_comes_by_is_told_of_the_store() {
    let root = tempfile::tempdir().unwrap();
    let (store, known) = filled(root.path(), 120);
    store.close().unwrap();
    drop(store);
    // Opening goes over the last three files alone.
    let damaged = known.iter().find(|known| known.number == 8).unwrap();
    patch(&log_file(root.path(), 0), damaged.phy_offset + 90, |body| body[0] ^= 1);
    let of_log = Selection::default();
    let of_key = Selection { keys: Some(vec!["k3".into()]), ..Selection::default() };
    for (selection, expected) in [(of_log, 119), (of_key, 23)] {
        let store = read(root.path());
        assert_eq!(store.gaps(), Vec::new());
        assert_eq!(selected(&store, &selection, 50).len(), expected);
        assert_eq!(store.gaps().iter().map(|gap| gap.from).collect::<Vec<_>>(), [damaged.phy_offset]);
    }
}

#[test]
fn a_walk_ends_with_an_error_where_its_store_is_closed() {
    let root = tempfile::tempdir().unwrap();
    let (store, _) = filled(root.path(), 20);
    let mut cursor = Selection::default().cursor(Arc::clone(&store)).unwrap();
    let held = cursor.next_messages(5, u64::MAX).unwrap();
    store.close().unwrap();
    assert!(matches!(cursor.next_messages(5, u64::MAX), Err(Error::Closed)));
    assert!(held.iter().all(|message| decode_record(message.bytes()).is_some()), "what was given stays");
}

#[test]
fn a_range_of_the_log_begins_with_a_record_wherever_it_is_said_to_begin() {
    const PHYSICAL_OFFSET_AT: usize = 28;
    const BODY_AT: u64 = 88;
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    let first = put(&store, "a", 0, b"0", "");
    let mut forged = store.log().get_bytes(0, store.max_phy_offset()).unwrap().unwrap().to_vec();
    let holder = store.max_phy_offset();
    forged[PHYSICAL_OFFSET_AT..][..8].copy_from_slice(&(holder + BODY_AT).to_be_bytes());
    put(&store, "a", 0, &forged, "");
    let last = put(&store, "a", 0, b"2", "");
    for from in [holder + 1, holder + BODY_AT, holder + BODY_AT + 1, last.wrote_offset] {
        let selection = Selection { from_phy_offset: Some(from), ..Selection::default() };
        assert_eq!(selected(&store.store, &selection, 10), [2], "from {from}");
        assert_eq!(selection.count(Arc::clone(&store.store)).unwrap(), 1);
        let nothing = Selection { to_phy_offset: Some(from), ..selection };
        assert!(selected(&store.store, &nothing, 10).is_empty());
    }
    assert_eq!(first.wrote_offset, 0);
}

#[test]
fn messages_of_further_queues_are_found_by_their_keys() {
    let root = tempfile::tempdir().unwrap();
    let mut config = config(root.path());
    (config.enable_lmq, config.enable_multi_dispatch) = (true, true);
    let store = open_with(config);
    for number in 0..4_usize {
        let properties = format!("INNER_MULTI_DISPATCH\x01%LMQ%a,twin\x02KEYS\x01k{number}");
        put(&store, "t", 1, number.to_string().as_bytes(), &properties);
    }
    put(&store, "twin", 1, b"9", "KEYS\x01k2");
    for (topic, expected) in [("%LMQ%a", &[2][..]), ("t", &[2]), ("twin", &[2, 9])] {
        assert_eq!(selected(&store.store, &of_key(topic, "k2"), 9), expected, "{topic}");
    }
}

fn of_key(topic: &str, key: &str) -> Selection {
    let queue = QueueRange { topic: topic.into(), queue_id: None, from: None, to: None };
    Selection { queues: Some(vec![queue]), keys: Some(vec![key.into()]), ..Selection::default() }
}

/// The index has messages that are in no queue: a removed one's, and prepared ones.
#[test]
fn keys_give_messages_of_the_queues_alone() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    put(&store, "t", 0, b"1", "KEYS\x01k");
    store.reput().unwrap();
    store.destroy_queue(&store.find_consume_queue("t", 0).unwrap()).unwrap();
    assert_eq!(selected(&store.store, &of_key("t", "k"), 9), []);
    let anywhere = Selection { queues: None, ..of_key("t", "k") };
    assert_eq!(selected(&store.store, &anywhere, 9), [1], "the log has it still");
    put(&store, "t", 0, b"2", "KEYS\x01k");
    let prepared = NewMessage { sys_flag: TRANSACTION_PREPARED_TYPE, ..message("t", 0, b"3", "KEYS\x01k") };
    try_put(&store, &prepared).unwrap();
    for store in [Arc::clone(&store.store), Arc::clone(&read(root.path()).store)] {
        assert_eq!(selected(&store, &of_key("t", "k"), 9), [2]);
        assert_eq!(selected(&store, &anywhere, 9), [1, 2, 3]);
    }
}

/// The units of a store that has an extension hold addresses in it, which are no tags.
#[test]
fn tags_are_found_without_the_option_for_the_extension() {
    let root = tempfile::tempdir().unwrap();
    let mut with_ext = config(root.path());
    with_ext.enable_consume_queue_ext = true;
    let store = open_with(with_ext);
    for number in 0..6_usize {
        put(&store, "t", 0, number.to_string().as_bytes(), &format!("TAGS\x01T{}", number % 2));
    }
    store.close().unwrap();
    let store = read(root.path());
    let tags = Subscription::parse("T1");
    let queue = QueueRange { topic: "t".into(), queue_id: None, from: None, to: None };
    let selection = Selection { queues: Some(vec![queue]), tags: tags.clone(), ..Selection::default() };
    assert_eq!(selected(&store.store, &selection, 9), [1, 3, 5]);
    assert_eq!(store.get_message("t", 0, 0, 32, tags.as_ref()).unwrap().messages.len(), 3);
}

/// Ranges that a message lies in twice give it once, where the first of them has it.
#[test]
fn ranges_that_overlap_give_no_message_twice() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    for number in 0..12_usize {
        put(&store, "t", 0, number.to_string().as_bytes(), "");
    }
    let range =
        |queue_id, from, to| QueueRange { topic: "t".into(), queue_id, from: Some(from), to: Some(to) };
    let queues = vec![range(Some(0), 7, 9), range(Some(0), 3, 5), range(Some(0), 4, 10), range(None, 8, 11)];
    let selection = Selection { queues: Some(queues), ..Selection::default() };
    assert_eq!(selected(&store.store, &selection, 100), [7, 8, 3, 4, 5, 6, 9, 10]);
    assert_eq!(selection.count(Arc::clone(&store.store)).unwrap(), 8);
}

/// A light queue's messages stand in the log under another topic.
#[test]
fn messages_of_light_queues_are_counted() {
    let root = tempfile::tempdir().unwrap();
    let mut with = config(root.path());
    (with.enable_lmq, with.enable_multi_dispatch) = (true, true);
    let store = open_with(with);
    let mut ends = Vec::new();
    for number in 0..20 {
        let properties = format!("INNER_MULTI_DISPATCH\x01%LMQ%{},twin", ["a", "b"][number % 2]);
        let appended = put(&store, "t", 3, b"x", &properties);
        if number % 2 == 0 {
            ends.push(appended.wrote_offset + u64::from(appended.wrote_bytes));
        }
    }
    let behind = |topic: &str, queue_id, from, to, count| {
        let range = QueueRange { topic: topic.into(), queue_id, from, to };
        let selection = Selection { queues: Some(vec![range]), ..Selection::default() };
        selection.position_behind(&store, count).unwrap()
    };
    assert!((ends[4]..ends[5]).contains(&behind("%LMQ%a", None, None, None, 5)));
    assert!((ends[4]..ends[5]).contains(&behind("%LMQ%a", Some(0), None, None, 5)));
    assert!((ends[6]..ends[7]).contains(&behind("%LMQ%a", None, Some(2), None, 5)), "from its third on");
    assert!(
        (ends[2]..ends[3]).contains(&behind("twin", Some(3), None, None, 5)),
        "which has the number of the record's queue"
    );
    let end = store.max_phy_offset();
    for none in [("%LMQ%a", Some(1)), ("%LMQ%c", None), ("twin", Some(0)), ("u", None)] {
        assert_eq!(behind(none.0, none.1, None, None, 5), end, "{none:?}");
    }
}

/// A walk over a store without one of its log files comes by millions of messages that are gone, and mostly nobody asks.
#[test]
fn of_what_gave_no_message_only_so_much_is_kept_unless_it_is_asked_for() {
    const COUNT: usize = 1500;
    const BODY_AT: u64 = 88;
    let root = tempfile::tempdir().unwrap();
    let mut with = config(root.path());
    with.mapped_file_size_commit_log = 1 << 20;
    let store = open_with(with.clone());
    let places: Vec<_> = (0..COUNT).map(|_| put(&store, "t", 0, b"0", "").wrote_offset).collect();
    put(&store, "whole", 0, b"0", "");
    store.close().unwrap();
    drop(store);
    patch(&log_file(root.path(), 0), 0, |log| {
        places.iter().for_each(|place| log[usize::try_from(place + BODY_AT).unwrap()] ^= 1);
    });
    let store = try_open(with, Mode::Read).unwrap();
    let queue = QueueRange { topic: "t".into(), queue_id: None, from: None, to: None };
    let selection = Selection { queues: Some(vec![queue]), ..Selection::default() };
    for (is_asked_for, expected) in [(true, COUNT), (false, 1024)] {
        let mut cursor = selection.cursor(Arc::clone(&store.store)).unwrap();
        let bad = is_asked_for.then(|| cursor.bad_ranges());
        assert!(cursor.next_messages(COUNT, u64::MAX).unwrap().is_empty());
        assert_eq!(bad.unwrap_or_else(|| cursor.bad_ranges()).take().len(), expected);
    }
}
