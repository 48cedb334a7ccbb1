//! The order in which Java's `HashMap<String, String>` gives its entries.
//!
//! RocketMQ writes a message's properties by walking a `HashMap`, so the bytes of a record depend
//! on that order. Only the order is built here: buckets by `(h ^ h >>> 16) & (capacity - 1)`,
//! doubling once the size passes three quarters of the capacity, insertion order inside a bucket.
//! Source: `java.util.HashMap` of JDK 8 to 25. A bucket of more than eight colliding keys becomes a
//! tree in Java; below a capacity of 64 that doubles the table instead, which is followed, and
//! beyond it the tree's root moves to the front of its bucket, which is not: it takes nine keys
//! with one hash in one message.

use std::borrow::Cow;
use std::collections::HashMap;

use super::java_string::hash_code;

const DEFAULT_CAPACITY: usize = 16;
const TREEIFY_THRESHOLD: usize = 8;
const MIN_TREEIFY_CAPACITY: usize = 64;
/// Up to here a look at each entry is faster than a table of them.
const FEW: usize = 16;

/// Keys with values, in a Java `HashMap`'s order once [`ordered`](JavaHashMap::ordered) is called.
#[derive(Debug, Clone)]
pub struct JavaHashMap<'a> {
    /// In insertion order; a bucket keeps it, and a resize splits buckets without reordering them.
    entries: Vec<Entry<'a>>,
    /// Where each key stands in them, once they are more than a [`FEW`].
    positions: HashMap<&'a [u8], usize>,
    capacity: usize,
}

#[derive(Debug, Clone)]
struct Entry<'a> {
    spread: u32,
    key: &'a [u8],
    value: Cow<'a, [u8]>,
}

impl Default for JavaHashMap<'_> {
    fn default() -> Self {
        Self { entries: Vec::new(), positions: HashMap::new(), capacity: DEFAULT_CAPACITY }
    }
}

impl<'a> JavaHashMap<'a> {
    /// Java's `put`: a key that is there keeps its place and gets the new value.
    pub fn put(&mut self, key: &'a [u8], value: impl Into<Cow<'a, [u8]>>) {
        let value = value.into();
        let position = self.position(key);
        if let Some(entry) = position.and_then(|position| self.entries.get_mut(position)) {
            entry.value = value;
            return;
        }
        let spread = spread(key);
        let is_full = self.capacity < MIN_TREEIFY_CAPACITY && self.in_bucket(spread) >= TREEIFY_THRESHOLD;
        self.entries.push(Entry { spread, key, value });
        if is_full {
            self.capacity *= 2;
        }
        if self.entries.len() > self.capacity / 4 * 3 {
            self.capacity *= 2;
        }
        if self.positions.is_empty() {
            self.find_positions();
        } else {
            self.positions.insert(key, self.entries.len() - 1);
        }
    }

    /// Java's `putAll`.
    pub fn put_all(&mut self, other: &'a JavaHashMap<'a>) {
        other.iter().for_each(|(key, value)| self.put(key, value));
    }

    /// Java's `isEmpty`.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Java's `remove`.
    pub fn remove(&mut self, key: &[u8]) {
        self.entries.retain(|entry| entry.key != key);
        self.positions.clear();
        self.find_positions();
    }

    /// Java's `get`.
    #[must_use]
    pub fn get(&self, key: &[u8]) -> Option<&[u8]> {
        self.entries.get(self.position(key)?).map(|entry| entry.value.as_ref())
    }

    /// The entries in the order in which they were put.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.entries.iter().map(|entry| (entry.key, entry.value.as_ref()))
    }

    /// The entries in the order of Java's `entrySet()`.
    #[must_use]
    pub fn ordered(&self) -> Vec<(&[u8], &[u8])> {
        let mut order: Vec<&Entry<'_>> = self.entries.iter().collect();
        order.sort_by_key(|entry| self.bucket(entry.spread)); // stable: a bucket keeps its order
        order.into_iter().map(|entry| (entry.key, entry.value.as_ref())).collect()
    }

    fn position(&self, key: &[u8]) -> Option<usize> {
        if self.positions.is_empty() {
            return self.entries.iter().position(|entry| entry.key == key);
        }
        self.positions.get(key).copied()
    }

    fn find_positions(&mut self) {
        if self.entries.len() > FEW {
            let keys = self.entries.iter().enumerate();
            self.positions.extend(keys.map(|(position, entry)| (entry.key, position)));
        }
    }

    fn in_bucket(&self, spread: u32) -> usize {
        self.entries.iter().filter(|entry| self.bucket(entry.spread) == self.bucket(spread)).count()
    }

    fn bucket(&self, spread: u32) -> usize {
        spread as usize & (self.capacity - 1)
    }
}

fn spread(key: &[u8]) -> u32 {
    let hash = crate::num::int_as_bits(hash_code(key));
    hash ^ (hash >> 16)
}
