//! An index file: a hash table over the keys of messages.
//!
//! | bytes  | field | |
//! |--------|-------|-|
//! | 8      | begin timestamp | store time of the first message in the file, in milliseconds |
//! | 8      | end timestamp | of the last |
//! | 8      | begin physical offset | of the first |
//! | 8      | end physical offset | of the last |
//! | 4      | hash slot count | slots in use |
//! | 4      | index count | entries, plus one: entry 0 stays empty |
//! | 4 × s  | slots | number of the newest entry of the slot's chain, 0 for none |
//! | 20 × n | entries | |
//!
//! An entry:
//!
//! | bytes | field | |
//! |-------|-------|-|
//! | 4     | key hash | `abs(hashCode(topic + "#" + key))`, 0 for `Integer.MIN_VALUE` |
//! | 8     | physical offset | of the message |
//! | 4     | time difference | whole seconds since the begin timestamp |
//! | 4     | previous entry | the next older one of the slot, 0 for none |
//!
//! Neither `s` nor `n` is in the file: they are the options `maxHashSlotNum` and `maxIndexNum`.
//! Its name is when it was made: `yyyyMMddHHmmssSSS`. Source: `IndexHeader` and `IndexFile`.

use super::be::{FieldReader, FieldWriter};
use super::java_string::hash_more;

/// Bytes of the header.
pub const INDEX_HEADER_SIZE: usize = 40;
/// Where the index count stands.
pub const INDEX_COUNT_AT: usize = INDEX_HEADER_SIZE - 4;
/// Bytes of a slot.
pub const HASH_SLOT_SIZE: usize = 4;
/// Bytes of an entry.
pub const INDEX_SIZE: usize = 20;
/// What a slot or a chain's end holds.
pub const INVALID_INDEX: u32 = 0;
const _: () = assert!(8 + 8 + 8 + 8 + 4 + 4 == INDEX_HEADER_SIZE);
const _: () = assert!(4 + 8 + 4 + 4 == INDEX_SIZE);

/// How many slots and entries the files of a store have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexShape {
    /// `maxHashSlotNum`.
    pub hash_slot_num: u32,
    /// `maxIndexNum`; entry 0 counts and stays empty.
    pub index_num: u32,
}

impl IndexShape {
    /// Bytes of a file.
    #[must_use]
    pub const fn file_size(&self) -> usize {
        self.entry_at(self.index_num)
    }

    /// Where a slot stands.
    #[must_use]
    pub const fn slot_at(&self, slot: u32) -> usize {
        INDEX_HEADER_SIZE + slot as usize * HASH_SLOT_SIZE
    }

    /// Where an entry stands.
    #[must_use]
    pub const fn entry_at(&self, entry: u32) -> usize {
        INDEX_HEADER_SIZE + self.hash_slot_num as usize * HASH_SLOT_SIZE + entry as usize * INDEX_SIZE
    }

    /// The slot of a key's hash.
    #[must_use]
    pub const fn slot_of(&self, key_hash: u32) -> u32 {
        key_hash % self.hash_slot_num
    }
}

/// The hash of a message's key. Source: `IndexFile.indexKeyHashMethod` over `topic + "#" + key`.
#[must_use]
pub fn key_hash(topic: &[u8], key: &[u8]) -> u32 {
    TopicHash::of(topic).key(key)
}

/// The part of a key's hash that the keys of one topic share.
#[derive(Debug, Clone, Copy)]
pub struct TopicHash(i32);

impl TopicHash {
    /// Of a topic.
    #[must_use]
    pub fn of(topic: &[u8]) -> Self {
        Self(hash_more(hash_more(0, topic), b"#"))
    }

    /// The hash of a key of the topic.
    #[must_use]
    pub fn key(self, key: &[u8]) -> u32 {
        let hash = hash_more(self.0, key);
        if hash == i32::MIN { 0 } else { hash.unsigned_abs() }
    }
}

/// A header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct IndexHeader {
    /// Store time of the first message, in milliseconds.
    pub begin_timestamp: i64,
    /// Store time of the last message.
    pub end_timestamp: i64,
    /// Where the first message stands.
    pub begin_phy_offset: i64,
    /// Where the last message stands.
    pub end_phy_offset: i64,
    /// Slots in use.
    pub hash_slot_count: i32,
    /// Entries, plus one.
    pub index_count: i32,
}

impl IndexHeader {
    /// Reads one, or `None` where fewer than forty bytes are left. An index count below 1 becomes
    /// 1, as in 4.9.3.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let mut reader = FieldReader::new(bytes);
        Some(Self {
            begin_timestamp: reader.i64()?,
            end_timestamp: reader.i64()?,
            begin_phy_offset: reader.i64()?,
            end_phy_offset: reader.i64()?,
            hash_slot_count: reader.i32()?,
            index_count: reader.i32()?.max(1),
        })
    }

    /// Its bytes.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; INDEX_HEADER_SIZE] {
        let mut out = FieldWriter::<INDEX_HEADER_SIZE>::default();
        out.i64(self.begin_timestamp);
        out.i64(self.end_timestamp);
        out.i64(self.begin_phy_offset);
        out.i64(self.end_phy_offset);
        out.i32(self.hash_slot_count);
        out.i32(self.index_count);
        out.written().try_into().unwrap_or([0; INDEX_HEADER_SIZE])
    }

    /// The whole seconds between the file's begin and a store time, as an entry holds them.
    #[must_use]
    pub fn time_diff(&self, store_timestamp: i64) -> i32 {
        if self.begin_timestamp <= 0 {
            return 0;
        }
        let seconds = store_timestamp.saturating_sub(self.begin_timestamp) / 1000;
        i32::try_from(seconds.max(0)).unwrap_or(i32::MAX)
    }
}

/// An entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexEntry {
    /// Of topic and key.
    pub key_hash: i32,
    /// Of the message.
    pub phy_offset: i64,
    /// Whole seconds since the file's begin timestamp.
    pub time_diff: i32,
    /// The next older entry of the slot.
    pub prev_index: i32,
}

impl IndexEntry {
    /// Reads one, or `None` where fewer than twenty bytes are left.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let mut reader = FieldReader::new(bytes);
        Some(Self {
            key_hash: reader.i32()?,
            phy_offset: reader.i64()?,
            time_diff: reader.i32()?,
            prev_index: reader.i32()?,
        })
    }

    /// Its bytes.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; INDEX_SIZE] {
        let mut out = FieldWriter::<INDEX_SIZE>::default();
        out.i32(self.key_hash);
        out.i64(self.phy_offset);
        out.i32(self.time_diff);
        out.i32(self.prev_index);
        out.written().try_into().unwrap_or([0; INDEX_SIZE])
    }
}
