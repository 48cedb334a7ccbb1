//! The list of removed queues, held against a log.

use std::path::Path;

use mqstore_core::commit_log::Appended;
use mqstore_core::commit_log::topic_queue::{QueueKey, QueueRef};
use mqstore_core::format::removed_queues::{LastMessage, RemovedQueue, to_bytes};
use mqstore_core::removed_queues::{RemovedQueues, path};

use crate::stores::{LOG_FILE_SIZE, Opened, fs, log_file, open, patch, put};

const QUEUE: QueueRef<'static> = QueueRef { topic: b"t", queue_id: 0 };

fn key(topic: &str) -> QueueKey {
    QueueKey { topic: topic.as_bytes().into(), queue_id: 0 }
}

fn last_at(at: Appended) -> LastMessage {
    LastMessage {
        physical_offset: at.wrote_offset,
        size: at.wrote_bytes,
        store_timestamp: at.store_timestamp,
    }
}

/// What a store knows whose list says that a queue was removed behind a message.
fn loaded(own_dir: &Path, store: &Opened, last: LastMessage) -> RemovedQueues {
    let queue = RemovedQueue { topic: b"t".to_vec(), queue_id: 0, last };
    std::fs::write(path(own_dir), to_bytes(&[queue])).unwrap();
    let queues = RemovedQueues::default();
    assert!(queues.load(&*fs(), own_dir, store.log().files()).unwrap().is_none());
    queues
}

#[test]
fn one_whose_last_message_would_begin_the_next_file_does_not_count() {
    let (root, own) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let store = open(root.path());
    let there = last_at(put(&store, "t", 0, b"there", ""));
    for (physical_offset, counts) in [(0, true), (LOG_FILE_SIZE, false), (3 * LOG_FILE_SIZE, false)] {
        let queues = loaded(own.path(), &store, LastMessage { physical_offset, ..there });
        assert_eq!(queues.last_of(QUEUE), counts.then_some(physical_offset));
        assert_eq!(queues.is_cut(), !counts, "at {physical_offset}");
    }
}

#[test]
fn one_whose_last_message_is_damaged_counts_whatever_comes_behind_it() {
    let (root, own) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let store = open(root.path());
    put(&store, "other", 0, b"before", "");
    let last = put(&store, "t", 0, b"the last one", "");
    (0..3).for_each(|_| _ = put(&store, "other", 0, b"behind", ""));
    let file = log_file(root.path(), 0);
    // Its time and its body: it is no record that checks out, and not the one that the list tells of.
    patch(&file, last.wrote_offset, |at| {
        at[63] ^= 1;
        at[90] ^= 1;
    });
    let queues = loaded(own.path(), &store, last_at(last));
    assert_eq!((queues.last_of(QUEUE), queues.is_cut()), (Some(last.wrote_offset), false));
}

#[test]
fn who_reads_again_is_told_of_what_is_new() {
    let (root, own) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let store = open(root.path());
    let [first, second, third] = ["a", "b", "a"].map(|topic| last_at(put(&store, topic, 0, b"last", "")));
    let (writer, reader) = (RemovedQueues::default(), RemovedQueues::default());
    for (topic, last) in [("a", first), ("b", second), ("a", third)] {
        writer.add(&*fs(), own.path(), vec![(key(topic), last)], 0).unwrap();
        let told = reader.reload(&*fs(), own.path(), store.log().files()).unwrap();
        assert_eq!(told, [key(topic)]);
        assert_eq!(reader.reload(&*fs(), own.path(), store.log().files()).unwrap(), []);
    }
    assert_eq!(reader.queues().len(), 2);
}

#[test]
fn one_whose_messages_are_gone_with_the_log_s_begin_is_on_no_list() {
    let (root, own) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let store = open(root.path());
    let last = last_at(put(&store, "a", 0, b"last", ""));
    let queues = RemovedQueues::default();
    queues.add(&*fs(), own.path(), vec![(key("a"), last)], 0).unwrap();
    assert_eq!(queues.queues(), [key("a")]);
    queues.add(&*fs(), own.path(), Vec::new(), LOG_FILE_SIZE).unwrap();
    assert_eq!(queues.queues(), []);
    assert_eq!(std::fs::read(path(own.path())).unwrap(), to_bytes(&[]));
}
