//! The next offset of each queue.

use mqstore_core::commit_log::topic_queue::{QueueRef, TopicQueueTable};

#[test]
fn queues_of_topics_are_told_apart() {
    let queue = |topic: &'static str, queue_id| QueueRef { topic: topic.as_bytes(), queue_id };
    let mut table = TopicQueueTable::default();
    assert_eq!(table.next_offset(queue("a", 1)), 0);
    table.set(queue("a", 1), 5);
    table.set(queue("a", 11), 6);
    table.set(queue("a1", 1), 7);
    table.set(queue("a", 1), 8);
    let offsets =
        [("a", 1), ("a", 11), ("a1", 1), ("a", 0)].map(|(topic, id)| table.next_offset(queue(topic, id)));
    assert_eq!(offsets, [8, 6, 7, 0]);
    assert_eq!(table.queue_count(), 3);
    table.remove(queue("a", 1));
    assert_eq!((table.next_offset(queue("a", 1)), table.queue_count()), (0, 2));
}
