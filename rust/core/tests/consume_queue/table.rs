//! All queues of a store.

use std::sync::Arc;

use mqstore_core::commit_log::topic_queue::QueueRef;
use mqstore_core::mmap::mapped_file::Access;

use crate::stores::{config, fs};
use crate::{all_units, new_unit, queue_of, table, table_with, unit};

fn queue(topic: &'static [u8], queue_id: i32) -> QueueRef<'static> {
    QueueRef { topic, queue_id }
}

#[test]
fn queues_are_ordered_as_java_orders_their_topics() {
    let root = tempfile::tempdir().unwrap();
    let table = table(root.path());
    for topic in ["\u{ff5e}", "b", "😀", "a"] {
        for queue_id in [10, 2] {
            table.get_or_make(QueueRef { topic: topic.as_bytes(), queue_id }).unwrap();
        }
    }
    let all: Vec<_> =
        table.all().iter().map(|queue| format!("{}{}", queue.topic(), queue.queue_id())).collect();
    assert_eq!(all, ["a2", "a10", "b2", "b10", "😀2", "😀10", "\u{ff5e}2", "\u{ff5e}10"]);
    assert_eq!(table.queue_count(), 8);
    assert!(table.get(queue(b"c", 2)).is_none());
}

#[test]
fn a_topic_that_is_no_text_has_the_folder_of_the_text_that_java_makes_of_it() {
    let root = tempfile::tempdir().unwrap();
    let table = table(root.path());
    let odd = table.get_or_make(queue(b"a\xffb", 0)).unwrap();
    table.put(&odd, new_unit(0, 0)).unwrap();
    table.spill_all().unwrap();
    table.flush(0).unwrap();
    assert!(root.path().join("consumequeue/a\u{fffd}b/0").is_dir());
    let same = table.get_or_make(queue(b"a\xffb", 0)).unwrap();
    assert_eq!((same.max_offset_in_queue(), table.queue_count()), (1, 1));
    assert!(table.get_decoded(queue(b"a\xffb", 0)).is_some() && table.get(queue(b"a\xffb", 0)).is_none());
}

#[test]
fn light_queues_are_counted() {
    let root = tempfile::tempdir().unwrap();
    let table = table(root.path());
    let light = table.get_or_make(queue(b"%LMQ%x", 0)).unwrap();
    let other = table.get_or_make(queue(b"x", 0)).unwrap();
    assert_eq!(table.lmq_count(), 1);
    table.destroy(&other).unwrap();
    assert_eq!(table.lmq_count(), 1);
    table.destroy(&light).unwrap();
    assert_eq!(table.lmq_count(), 0);
}

#[test]
fn the_size_of_queue_files_is_that_of_those_that_are_there() {
    let root = tempfile::tempdir().unwrap();
    let table_of_ten = table(root.path());
    let queue = queue_of(&table_of_ten);
    table_of_ten.put(&queue, new_unit(0, 0)).unwrap();
    table_of_ten.spill_all().unwrap();
    table_of_ten.flush(0).unwrap();
    let mut config = config(root.path());
    config.mapped_file_size_consume_queue = 6_000_000;
    let again = table_with(config, Access::MapWrite);
    assert_eq!((again.file_size(), again.units_in_file()), (200, 10));
}

#[test]
fn many_queues_are_kept_within_the_budget_of_open_files() {
    let root = tempfile::tempdir().unwrap();
    let mut config = config(root.path());
    config.max_open_queue_files = 20;
    let table = table_with(config, Access::MapWrite);
    for queue_id in 0..300 {
        let queue = table.get_or_make(queue(b"t", queue_id)).unwrap();
        for number in 0..3 {
            table.put(&queue, new_unit(number, number)).unwrap();
        }
    }
    table.spill_all().unwrap();
    table.flush(0).unwrap();
    for queue in table.all() {
        assert_eq!(all_units(&queue), [0, 1, 2].map(unit));
    }
    let open = table.open_file_count();
    assert!((2..=20).contains(&open), "{open} files are open");
}

#[test]
fn a_pass_flushes_queues_with_enough_pages() {
    let root = tempfile::tempdir().unwrap();
    let mut config = config(root.path());
    config.mapped_file_size_consume_queue = 20_000;
    let table = table_with(config, Access::MapWrite);
    let queue = queue_of(&table);
    table.put(&queue, new_unit(0, 0)).unwrap();
    table.spill_all().unwrap();
    table.flush(2).unwrap();
    assert_eq!(queue.tail_len(), 0, "what is in memory goes to the files whatever the pages");
    (1..900).for_each(|number| _ = table.put(&queue, new_unit(number, number)).unwrap());
    table.spill_all().unwrap();
    table.flush(2).unwrap();
    table.spill_all().unwrap();
    table.flush(0).unwrap();
    assert_eq!(all_units(&queue).len(), 900);
}

#[test]
fn a_reader_lets_go_of_units_that_the_files_hold_by_now() {
    let root = tempfile::tempdir().unwrap();
    let writer = table(root.path());
    let written = queue_of(&writer);
    let reader = table_with(config(root.path()), Access::Read);
    let queue = queue_of(&reader);
    for number in 0..25 {
        writer.put(&written, new_unit(number, number)).unwrap();
        reader.put(&queue, new_unit(number, number)).unwrap();
        if number == 14 {
            writer.spill_all().unwrap();
            writer.flush(0).unwrap();
        }
    }
    assert_eq!(queue.tail_len(), 25 * 20);
    queue.adopt_files(&*fs()).unwrap();
    assert_eq!(queue.tail_len(), 10 * 20, "the writer's last ten are in its memory");
    assert_eq!(all_units(&queue), (0..25).map(unit).collect::<Vec<_>>());
    writer.spill_all().unwrap();
    writer.flush(0).unwrap();
    queue.adopt_files(&*fs()).unwrap();
    assert_eq!((queue.tail_len(), queue.max_offset_in_queue()), (0, 25));
    assert_eq!(all_units(&queue), (0..25).map(unit).collect::<Vec<_>>());
}

/// A look at the files is one at the folders of all queues.
#[test]
fn a_reader_looks_at_the_files_once_it_has_much_in_memory() {
    let root = tempfile::tempdir().unwrap();
    let (writer, reader) = (table(root.path()), table_with(config(root.path()), Access::Read));
    assert_eq!(config(root.path()).adopt_above, 5 * 20);
    let written = queue_of(&writer);
    (0..20).for_each(|number| _ = writer.put(&written, new_unit(number, number)).unwrap());
    writer.spill_all().unwrap();
    let queue = queue_of(&reader);
    for number in 0..20_u8 {
        reader.put(&queue, new_unit(number.into(), number.into())).unwrap();
        reader.adopt_files().unwrap();
        let in_memory = (usize::from(number) + 1) % 5;
        assert_eq!(queue.tail_len(), in_memory * 20);
    }
    assert_eq!(all_units(&queue), (0..20).map(unit).collect::<Vec<_>>());
}

#[test]
fn a_reader_removes_no_folder() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("consumequeue/t/0");
    std::fs::create_dir_all(&folder).unwrap();
    let reader = table_with(config(root.path()), Access::Read);
    reader.destroy(&queue_of(&reader)).unwrap();
    assert!(folder.is_dir() && reader.get(queue(b"t", 0)).is_none());
}

#[test]
fn a_light_queue_that_is_removed_twice_counts_once() {
    let root = tempfile::tempdir().unwrap();
    let table = table_with(config(root.path()), Access::MapWrite);
    let first = table.get_or_make(queue(b"%LMQ%one", 0)).unwrap();
    table.get_or_make(queue(b"%LMQ%two", 0)).unwrap();
    assert_eq!(table.lmq_count(), 2);
    table.destroy(&first).unwrap();
    table.destroy(&first).unwrap();
    assert_eq!(table.lmq_count(), 1);
    let anew = table.get_or_make(queue(b"%LMQ%one", 0)).unwrap();
    table.destroy(&first).unwrap();
    assert!(Arc::ptr_eq(&table.get(queue(b"%LMQ%one", 0)).unwrap(), &anew), "it is another one");
    assert_eq!(table.lmq_count(), 2);
}
