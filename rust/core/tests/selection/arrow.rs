//! Record batches.

use std::sync::Arc;

use arrow_array::{
    Array, BinaryArray, BinaryViewArray, Int32Array, Int64Array, ListArray, MapArray, RecordBatch,
    StringArray,
};
use mqstore_core::arrow::{BatchOptions, BodyType, Column, Columns, MessageReader};
use mqstore_core::selection::{QueueRange, Selection};
use mqstore_core::store::{NewMessage, Properties, Store};

use crate::stores::{message, open, put, read, try_put};

fn batches(store: &Arc<Store>, columns: Columns, options: BatchOptions) -> Vec<RecordBatch> {
    let cursor = Selection::default().cursor(Arc::clone(store)).unwrap();
    MessageReader::new(cursor, columns, options).map(Result::unwrap).collect()
}

fn of_topic(store: &Arc<Store>, topic: &str, columns: Columns, options: BatchOptions) -> Vec<RecordBatch> {
    let queue = QueueRange { topic: topic.into(), queue_id: None, from: None, to: None };
    let selection = Selection { queues: Some(vec![queue]), ..Selection::default() };
    MessageReader::new(selection.cursor(Arc::clone(store)).unwrap(), columns, options)
        .map(Result::unwrap)
        .collect()
}

fn column<'a, T: 'static>(batch: &'a RecordBatch, name: &str) -> &'a T {
    batch.column_by_name(name).unwrap().as_any().downcast_ref().unwrap()
}

#[test]
fn columns_hold_the_fields_of_the_messages() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    put(&store, "t", 3, b"body", "KEYS\x01k1 k2\x02TAGS\x01A\x02x\x011\x02x\x012");
    put(&store, "u", 0, b"", "UNIQ_KEY\x01unique");
    for body in [BodyType::Binary, BodyType::BinaryView] {
        let found = batches(&store, Columns::all(body), BatchOptions::default());
        assert_eq!((found.len(), found[0].num_rows(), found[0].num_columns()), (1, 2, Column::ALL.len() - 2));
        let batch = &found[0];
        let texts = |name| column::<StringArray>(batch, name).iter().collect::<Vec<_>>();
        assert_eq!(texts("topic"), [Some("t"), Some("u")]);
        assert_eq!((texts("tags"), texts("unique_key")), (vec![Some("A"), None], vec![None, Some("unique")]));
        assert_eq!(column::<Int64Array>(batch, "commit_log_offset").value(0), 0);
        assert_eq!(column::<ListArray>(batch, "keys").value_length(0), 2);
        assert_eq!(column::<MapArray>(batch, "properties").value(0).len(), 3, "each name stands once");
        match body {
            BodyType::Binary => assert_eq!(column::<BinaryArray>(batch, "body").value(0), b"body"),
            BodyType::BinaryView => assert_eq!(column::<BinaryViewArray>(batch, "body").value(0), b"body"),
        }
    }
}

#[test]
fn a_column_alone_holds_what_it_holds_beside_all_others() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    put(&store, "t", 3, b"body", "KEYS\x01k1 k2\x02TAGS\x01A\x02x\x011");
    put(&store, "u", 0, b"", "UNIQ_KEY\x01unique\x02y\x012");
    let all = batches(&store, Columns::all(BodyType::Binary), BatchOptions::default());
    for name in Column::ALL.into_iter().filter(|column| !column.is_raw()).map(Column::name) {
        let columns = Columns::by_name([name], BodyType::Binary).unwrap();
        let alone = batches(&store, columns, BatchOptions::default());
        assert_eq!(alone[0].column_by_name(name), all[0].column_by_name(name), "{name}");
    }
}

#[test]
fn views_outlive_the_store_and_bodies_of_many_files_are_right() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    let bodies: Vec<Vec<u8>> = (0..60_u8).map(|number| vec![number; usize::from(number) * 9]).collect();
    bodies.iter().for_each(|body| _ = put(&store, "t", 0, body, ""));
    let columns = || Columns::by_name(["body", "raw_body"], BodyType::BinaryView).unwrap();
    let found =
        batches(&store, columns(), BatchOptions { max_messages: 17, max_bytes: 1 << 20, max_threads: 1 });
    store.close().unwrap();
    drop(store);
    std::fs::remove_dir_all(root.path()).unwrap();
    assert_eq!(found.len(), 4);
    let views = found.iter().flat_map(|batch| {
        let views: &BinaryViewArray = column(batch, "body");
        views.iter().map(|body| body.unwrap().to_vec()).collect::<Vec<_>>()
    });
    assert_eq!(views.collect::<Vec<_>>(), bodies);
}

#[test]
fn a_body_that_does_not_inflate_is_left_out_and_told_with_its_place() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    let mut bad = message("t", 0, b"not zlib", "");
    bad.sys_flag = 1;
    let appended = try_put(&store, &bad).unwrap();
    put(&store, "t", 0, b"whole", "");
    let columns = |name| Columns::by_name([name], BodyType::Binary).unwrap();
    // A batch of one message has none left of it; one that is left out does not count as one of the first.
    for (limit, max_messages) in [(None, 1), (None, 10), (Some(1), 10)] {
        let cursor = || Selection { limit, ..Selection::default() }.cursor(Arc::clone(&store)).unwrap();
        let options = BatchOptions { max_messages, ..BatchOptions::default() };
        let raw = MessageReader::new(cursor(), columns("raw_body"), options);
        let raw: usize = raw.map(|batch| batch.unwrap().num_rows()).sum();
        assert_eq!(raw, limit.map_or(2, |_| 1));
        let cursor = cursor();
        let told = cursor.bad_ranges();
        let found: Vec<_> =
            MessageReader::new(cursor, columns("body"), options).map(Result::unwrap).collect();
        assert_eq!(found.len(), 1);
        assert_eq!(
            column::<BinaryArray>(&found[0], "body").iter().collect::<Vec<_>>(),
            [Some(&b"whole"[..])]
        );
        let told = told.take();
        assert_eq!((told.len(), told[0].from, told[0].to), (1, 0, appended.end_offset()));
        assert!(told[0].reason.contains("zlib") && !told[0].is_gone, "{told:?}");
    }
}

#[test]
fn a_column_that_there_is_not_is_named_with_those_that_there_are() {
    let unknown = Columns::by_name(["topic", "colour"], BodyType::Binary).unwrap_err();
    let text = unknown.to_string();
    assert!(text.contains("\"colour\"") && text.contains("queue_offset"), "{text}");
    let two = Columns::by_name(["body", "topic"], BodyType::Binary).unwrap().schema();
    assert_eq!(two.fields().iter().map(|field| field.name().as_str()).collect::<Vec<_>>(), ["body", "topic"]);
}

#[test]
fn batches_made_side_by_side_are_those_that_one_thread_makes() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    for number in 0..400_usize {
        let body = vec![u8::try_from(number % 251).unwrap(); number % 97];
        let tags = if number % 3 == 0 { "" } else { "\x02TAGS\x01A" };
        put(&store, "t", i32::try_from(number % 3).unwrap(), &body, &format!("KEYS\x01k{number}{tags}"));
    }
    for body in [BodyType::Binary, BodyType::BinaryView] {
        for (max_messages, max_bytes) in [(7, 1 << 20), (1000, 3000), (1000, 1 << 20)] {
            let made = |max_threads| {
                let options = BatchOptions { max_messages, max_bytes, max_threads };
                of_topic(&store, "t", Columns::all(body), options)
            };
            let expected = made(1);
            assert_eq!(expected.iter().map(RecordBatch::num_rows).sum::<usize>(), 400);
            let is_full = |batch: &RecordBatch| {
                let sizes = column::<Int32Array>(batch, "store_size").values().iter().sum::<i32>();
                batch.num_rows() == max_messages || u64::try_from(sizes).unwrap() >= max_bytes
            };
            let (_, full) = expected.split_last().unwrap();
            assert!(full.iter().all(is_full));
            assert_eq!(made(2), expected);
            assert_eq!(made(5), expected);
        }
    }
}

#[test]
fn messages_that_are_damaged_are_left_out_of_every_batch() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    let places: Vec<_> = (0..30).map(|number| put(&store, "t", 0, &[number; 40], "")).collect();
    store.close().unwrap();
    drop(store);
    let file = root.path().join("commitlog/00000000000000000000");
    let mut log = std::fs::read(&file).unwrap();
    // The bodies of three in a row, which are a batch, and of one in the middle of another.
    for number in [3, 4, 5, 10] {
        log[usize::try_from(places[number].wrote_offset).unwrap() + 90] ^= 1;
    }
    std::fs::write(&file, log).unwrap();
    let store = read(root.path());
    for max_threads in [1, 4] {
        let options = BatchOptions { max_messages: 3, max_bytes: 1 << 20, max_threads };
        let found = of_topic(&store, "t", Columns::by_name(["body"], BodyType::Binary).unwrap(), options);
        let bodies = found.iter().flat_map(|batch| {
            column::<BinaryArray>(batch, "body").iter().map(|body| body.unwrap()[0]).collect::<Vec<_>>()
        });
        let expected: Vec<u8> = (0..30).filter(|number| ![3, 4, 5, 10].contains(number)).collect();
        assert_eq!(bodies.collect::<Vec<_>>(), expected);
    }
}

#[test]
fn a_batch_that_is_kept_is_not_written_over_by_later_ones() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    (0..60).for_each(|number: u8| _ = put(&store, "t", 0, &[number; 50], ""));
    let queue = QueueRange { topic: "t".into(), queue_id: None, from: None, to: None };
    let selection = Selection { queues: Some(vec![queue]), ..Selection::default() };
    let columns = Columns::by_name(["body"], BodyType::Binary).unwrap();
    let options = BatchOptions { max_messages: 4, max_bytes: 1 << 20, max_threads: 2 };
    let mut reader = MessageReader::new(selection.cursor(Arc::clone(&store)).unwrap(), columns, options);
    let mut kept = Vec::new();
    let mut places = Vec::new();
    for at in 0..15 {
        let batch = reader.next().unwrap().unwrap();
        places.push(column::<BinaryArray>(&batch, "body").values().as_ptr());
        if at % 3 == 0 {
            kept.push((at, batch));
        }
    }
    assert!(reader.next().is_none());
    drop(reader);
    for (at, batch) in kept {
        let expected: Vec<Vec<u8>> = (at * 4..at * 4 + 4).map(|number| vec![number; 50]).collect();
        let found: Vec<_> = column::<BinaryArray>(&batch, "body").iter().map(Option::unwrap).collect();
        assert_eq!(found, expected);
    }
    places.sort_unstable();
    places.dedup();
    assert!(places.len() < 15, "the memory of batches that are gone is used again");
}

#[test]
fn texts_that_repeat_change_or_are_missing_stand_with_their_messages() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    let tags = [None, None, Some("A"), Some("A"), None, Some("B"), Some("A"), Some("\u{e4}"), None];
    let hosts = ["1.2.3.4:5", "1.2.3.4:5", "1.2.3.4:6", "[::1]:5"];
    for (number, tag) in tags.iter().enumerate() {
        let properties = tag.map_or_else(String::new, |tag| format!("TAGS\x01{tag}"));
        let mut new = message("t", 0, b"", &properties);
        new.born_host = hosts[number % hosts.len()].parse().unwrap();
        try_put(&store, &new).unwrap();
    }
    let found = of_topic(&store, "t", Columns::all(BodyType::Binary), BatchOptions::default());
    let texts = |name| column::<StringArray>(&found[0], name).iter().collect::<Vec<_>>();
    assert_eq!(texts("tags"), tags);
    assert_eq!(texts("topic"), [Some("t"); 9]);
    let shown = ["1.2.3.4:5", "1.2.3.4:5", "1.2.3.4:6", "0:0:0:0:0:0:0:1:5"];
    assert_eq!(texts("born_host"), (0..9).map(|number| Some(shown[number % 4])).collect::<Vec<_>>());
    let ids = texts("msg_id");
    assert_eq!(ids[0], Some("7F00000100002A9F0000000000000000"));
    assert_eq!(texts("unique_key"), [None; 9]);
}

#[test]
fn bytes_that_are_no_utf_8_are_what_java_makes_of_them() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    let new = NewMessage {
        properties: Properties::Raw(b"KEYS\x01k\xff k2\x02TAGS\x01\xed\xa0\x80\x02n\xfe\x01v"),
        ..message("t", 0, b"", "")
    };
    try_put(&store, &new).unwrap();
    let found = of_topic(&store, "t", Columns::all(BodyType::Binary), BatchOptions::default());
    assert_eq!(column::<StringArray>(&found[0], "tags").value(0), "\u{fffd}");
    let keys = column::<ListArray>(&found[0], "keys").value(0);
    let keys: &StringArray = keys.as_any().downcast_ref().unwrap();
    assert_eq!(keys.iter().flatten().collect::<Vec<_>>(), ["k\u{fffd}", "k2"]);
    let maps: &MapArray = column(&found[0], "properties");
    let names: &StringArray = maps.keys().as_any().downcast_ref().unwrap();
    assert_eq!(names.iter().flatten().collect::<Vec<_>>(), ["KEYS", "TAGS", "n\u{fffd}"]);
}
