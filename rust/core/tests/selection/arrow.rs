//! Record batches.

use std::sync::Arc;

use arrow_array::{
    Array, BinaryArray, BinaryViewArray, Int64Array, ListArray, MapArray, RecordBatch, StringArray,
};
use mqstore_core::arrow::{BatchOptions, BodyType, Column, Columns, MessageReader};
use mqstore_core::selection::Selection;

use crate::stores::{message, open, put, try_put};

fn batches(
    store: &Arc<mqstore_core::store::Store>,
    columns: Columns,
    options: BatchOptions,
) -> Vec<RecordBatch> {
    let cursor = Selection::default().cursor(Arc::clone(store)).unwrap();
    MessageReader::new(cursor, columns, options).map(Result::unwrap).collect()
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
        assert_eq!((found.len(), found[0].num_rows(), found[0].num_columns()), (1, 2, Column::ALL.len() - 1));
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
fn views_outlive_the_store_and_bodies_of_many_files_are_right() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    let bodies: Vec<Vec<u8>> = (0..60_u8).map(|number| vec![number; usize::from(number) * 9]).collect();
    bodies.iter().for_each(|body| _ = put(&store, "t", 0, body, ""));
    let columns = || Columns::by_name(["body", "raw_body"], BodyType::BinaryView).unwrap();
    let found = batches(&store, columns(), BatchOptions { max_messages: 17, max_bytes: 1 << 20 });
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
fn a_body_that_does_not_inflate_is_an_error_that_names_its_place() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    let mut bad = message("t", 0, b"not zlib", "");
    bad.sys_flag = 1;
    try_put(&store, &bad).unwrap();
    let cursor = || Selection::default().cursor(Arc::clone(&store)).unwrap();
    let raw = Columns::by_name(["raw_body"], BodyType::Binary).unwrap();
    let mut reader = MessageReader::new(cursor(), raw, BatchOptions::default());
    assert_eq!(reader.next().unwrap().unwrap().num_rows(), 1);
    let inflated = Columns::by_name(["body"], BodyType::Binary).unwrap();
    let error = MessageReader::new(cursor(), inflated, BatchOptions::default()).next().unwrap().unwrap_err();
    assert!(error.to_string().contains("the body at 0") && error.to_string().contains("zlib"), "{error}");
}

#[test]
fn a_column_that_there_is_not_is_named_with_those_that_there_are() {
    let unknown = Columns::by_name(["topic", "colour"], BodyType::Binary).unwrap_err();
    let text = unknown.to_string();
    assert!(text.contains("\"colour\"") && text.contains("queue_offset"), "{text}");
    let two = Columns::by_name(["body", "topic"], BodyType::Binary).unwrap().schema();
    assert_eq!(two.fields().iter().map(|field| field.name().as_str()).collect::<Vec<_>>(), ["body", "topic"]);
}
