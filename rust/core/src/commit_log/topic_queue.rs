//! The next offset of each topic's queue: what `CommitLog.topicQueueTable` is in 4.9.3.

use std::hash::{Hash, Hasher};

use hashbrown::hash_map::EntryRef;
use hashbrown::{Equivalent, HashMap};

/// A topic's queue, borrowed.
#[derive(Debug, Clone, Copy)]
pub struct QueueRef<'a> {
    /// The topic.
    pub topic: &'a [u8],
    /// The queue.
    pub queue_id: i32,
}

/// A topic's queue, owned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueKey {
    /// The topic.
    pub topic: Box<[u8]>,
    /// The queue.
    pub queue_id: i32,
}

impl QueueKey {
    /// The queue, borrowed.
    #[must_use]
    pub fn as_ref(&self) -> QueueRef<'_> {
        QueueRef { topic: &self.topic, queue_id: self.queue_id }
    }
}

impl Hash for QueueRef<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write(self.topic);
        state.write_i32(self.queue_id);
    }
}

impl Hash for QueueKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_ref().hash(state);
    }
}

impl Equivalent<QueueKey> for QueueRef<'_> {
    fn equivalent(&self, key: &QueueKey) -> bool {
        self.queue_id == key.queue_id && *self.topic == *key.topic
    }
}

impl From<QueueRef<'_>> for QueueKey {
    fn from(queue: QueueRef<'_>) -> Self {
        Self { topic: queue.topic.into(), queue_id: queue.queue_id }
    }
}

/// The next offset of each queue.
#[derive(Debug, Default)]
pub struct TopicQueueTable {
    next: HashMap<QueueKey, i64>,
}

impl TopicQueueTable {
    /// The offset that the queue's next message gets.
    #[must_use]
    pub fn next_offset(&self, queue: QueueRef<'_>) -> i64 {
        self.next.get(&queue).copied().unwrap_or(0)
    }

    /// The offset that the queue's next message gets, to be moved once that is in the log. Of a queue that has had none
    /// a function is asked first whether it may have one.
    ///
    /// # Errors
    /// Those of the function.
    #[inline]
    pub fn next_offset_mut<E>(
        &mut self,
        queue: QueueRef<'_>,
        admit: impl FnOnce() -> Result<(), E>,
    ) -> Result<&mut i64, E> {
        match self.next.entry_ref(&queue) {
            EntryRef::Occupied(known) => Ok(known.into_mut()),
            EntryRef::Vacant(new) => {
                admit()?;
                Ok(new.insert_with_key(queue.into(), 0))
            }
        }
    }

    /// Whether the queue has had a message.
    #[must_use]
    pub fn contains(&self, queue: QueueRef<'_>) -> bool {
        self.next.contains_key(&queue)
    }

    /// Moves a queue's next offset.
    pub fn set(&mut self, queue: QueueRef<'_>, next_offset: i64) {
        match self.next.entry_ref(&queue) {
            EntryRef::Occupied(mut known) => _ = known.insert(next_offset),
            EntryRef::Vacant(new) => _ = new.insert_with_key(queue.into(), next_offset),
        }
    }

    /// The next offsets of all queues.
    #[must_use]
    pub fn all(&self) -> Vec<(QueueKey, i64)> {
        self.next.iter().map(|(queue, next)| (queue.clone(), *next)).collect()
    }

    /// Forgets a queue: its next message starts again at 0.
    pub fn remove(&mut self, queue: QueueRef<'_>) {
        self.next.remove(&queue);
    }

    /// How many queues have had a message.
    #[must_use]
    pub fn queue_count(&self) -> usize {
        self.next.len()
    }
}
