//! Threads that a call has for itself: parts of a log, and batches of messages.

use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use arrow_array::{Array, BinaryArray, RecordBatch};
use mqstore_core::arrow::{BatchOptions, BodyType, Columns, MessageReader};
use mqstore_core::commit_log::in_parts::{self, Walk};
use mqstore_core::config::{StoreConfig, WalkedParts};
use mqstore_core::error::Error;
use mqstore_core::format::message::{Check, Record};
use mqstore_core::selection::{QueueRange, Selection};
use mqstore_core::store::Store;

use crate::stores::{config, crash, fill, numbers, open, open_with, put, walked_parts};
use crate::{run, thread};

/// A walk by two threads beside the one that takes, in parts of few records, more than are walked ahead.
fn of(store: &Store) -> Walk<'_> {
    let to = store.log().max_offset();
    let parts = WalkedParts { thread_count: 2, ..walked_parts(512) };
    Walk { files: store.log().files(), from: 0, to, limit: to, check: Check::Structure, parts }
}

fn visit(part: &mut Vec<u64>, offset: u64, _: &Record<'_>) -> mqstore_core::error::Result<ControlFlow<()>> {
    part.push(offset);
    Ok(ControlFlow::Continue(()))
}

#[test]
fn parts_of_a_log_are_taken_in_order_and_each_once() {
    run(|| {
        let root = tempfile::tempdir().unwrap();
        let store = open(root.path());
        fill(&store, 0..30);
        let mut taken: Vec<Range<u64>> = Vec::new();
        let mut count = 0;
        let reached = in_parts::walk(of(&store), visit, |range, part: Vec<u64>| {
            assert!(part.iter().all(|offset| range.contains(offset)));
            count += part.len();
            taken.push(range);
            Ok(())
        });
        assert_eq!((reached.unwrap(), count), (store.max_phy_offset(), 30));
        assert!(taken.len() > 4);
        assert!(taken.windows(2).all(|next| next[0].end == next[1].start));
    });
}

/// Those who walk ahead are told when nobody takes what they find.
#[test]
fn nobody_walks_on_for_a_taker_that_is_gone() {
    run(|| {
        let root = tempfile::tempdir().unwrap();
        let store = open(root.path());
        fill(&store, 0..30);
        let mut count = 0;
        let outcome = in_parts::walk(of(&store), visit, |_, _: Vec<u64>| {
            count += 1;
            if count == 2 { Err(Error::Interrupted) } else { Ok(()) }
        });
        assert!(matches!(outcome, Err(Error::Interrupted)));
        assert_eq!(count, 2);
    });
}

/// Units and keys of what was derived in the walk are put by a thread each.
#[test]
fn an_opening_puts_each_unit_and_each_key_once() {
    run(|| {
        let root = tempfile::tempdir().unwrap();
        let store = open(root.path());
        fill(&store, 0..12);
        crash(store);
        let parts = WalkedParts { thread_count: 2, keys_aside_size: 0, ..walked_parts(512) };
        let store = open_with(StoreConfig { walked_parts: parts, ..config(root.path()) });
        assert_eq!(numbers(&store), (0..12).collect::<Vec<_>>());
        assert_eq!(store.dispatcher().message_count(), 12);
        let key_counts =
            store.index().unwrap().files().iter().map(|file| file.index_count() - 1).sum::<u32>();
        assert_eq!(key_counts, 12);
    });
}

fn bodies_of(batch: &RecordBatch) -> Vec<Vec<u8>> {
    let bodies: &BinaryArray = batch.column(0).as_any().downcast_ref().unwrap();
    bodies.iter().map(|body| body.unwrap().to_vec()).collect()
}

/// Batches are dropped by another thread while the next ones are made in the memory that they had.
#[test]
fn batches_come_in_order_and_keep_what_is_in_them() {
    run(|| {
        let root = tempfile::tempdir().unwrap();
        let store = open(root.path());
        let bodies: Vec<Vec<u8>> = (0..12_u8).map(|number| vec![number; 1 + usize::from(number)]).collect();
        bodies.iter().for_each(|body| _ = put(&store, "t", 0, body, ""));
        store.reput().unwrap();
        let columns = Columns::by_name(["body"], BodyType::Binary).unwrap();
        let options = BatchOptions { max_messages: 2, max_bytes: 1 << 20, max_threads: 3 };
        // Of a queue the units tell which messages are in which batch.
        let queue = QueueRange { topic: "t".into(), queue_id: None, from: None, to: None };
        let selection = Selection { queues: Some(vec![queue]), ..Selection::default() };
        let cursor = selection.cursor(Arc::clone(&store)).unwrap();
        let reader = MessageReader::new(cursor, columns, options);
        // In no scope: the scheduler takes the end of its threads for that of those which a batch is made by.
        let mut readers = Vec::new();
        for batch in reader {
            readers.push(thread::spawn(move || bodies_of(&batch.unwrap())));
        }
        let found: Vec<_> = readers.into_iter().flat_map(|reader| reader.join().unwrap()).collect();
        assert_eq!(found, bodies);
    });
}
