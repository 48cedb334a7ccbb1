//! How many slots and entries an index file has, when the options do not say it.
//!
//! Neither number is in the file. What holds for the right ones, and hardly for others: the newest
//! entry's slot names just that entry, and every entry's chain leads to older entries of its slot.

use crate::format::be;
use crate::format::index::{
    HASH_SLOT_SIZE, INDEX_HEADER_SIZE, INDEX_SIZE, IndexEntry, IndexHeader, IndexShape,
};
use crate::num;

/// RocketMQ's default number of slots, which is tried first.
const DEFAULT_HASH_SLOT_NUM: u32 = 5_000_000;
/// How many of the newest entries have to agree.
const CHECKED_ENTRY_COUNT: u32 = 64;

/// The shape of a file with these bytes; `None` where it has no entries to tell by, or none agrees.
#[must_use]
pub fn infer_shape(bytes: &[u8]) -> Option<IndexShape> {
    let header = IndexHeader::read(bytes)?;
    let index_count = num::from_java_int(header.index_count).filter(|&count| count > 1)?;
    let room = bytes.len().checked_sub(INDEX_HEADER_SIZE)?;
    let most_slots = u32::try_from(room / HASH_SLOT_SIZE).ok()?;
    let shape_of = |hash_slot_num: u32| {
        let entries = room.checked_sub(hash_slot_num as usize * HASH_SLOT_SIZE)?;
        let index_num = u32::try_from(entries / INDEX_SIZE).ok()?;
        let fits = entries.is_multiple_of(INDEX_SIZE) && index_num >= index_count;
        fits.then_some(IndexShape { hash_slot_num, index_num })
    };
    let candidates = std::iter::once(DEFAULT_HASH_SLOT_NUM).chain(1..=most_slots);
    candidates.filter_map(shape_of).find(|&shape| agrees(bytes, shape, index_count))
}

fn agrees(bytes: &[u8], shape: IndexShape, index_count: u32) -> bool {
    let newest = index_count - 1;
    let oldest_checked = newest.saturating_sub(CHECKED_ENTRY_COUNT).max(1);
    (oldest_checked..=newest).rev().all(|number| {
        let Some(slot) = entry(bytes, shape, number).and_then(|entry| slot_of(shape, &entry)) else {
            return false;
        };
        let head = be::i32_at(bytes, shape.slot_at(slot)).and_then(num::from_java_int).unwrap_or(0);
        // The chain leads from the slot's newest entry down to this one.
        (if number == newest { head == newest } else { head >= number && head <= newest })
            && leads_to(bytes, shape, slot, head, number)
    })
}

fn leads_to(bytes: &[u8], shape: IndexShape, slot: u32, from: u32, number: u32) -> bool {
    let mut current = from;
    while current > number {
        let Some(entry) = entry(bytes, shape, current).filter(|entry| slot_of(shape, entry) == Some(slot))
        else {
            return false;
        };
        let previous = num::from_java_int(entry.prev_index).unwrap_or(0);
        if previous >= current {
            return false;
        }
        current = previous;
    }
    current == number
}

fn entry(bytes: &[u8], shape: IndexShape, number: u32) -> Option<IndexEntry> {
    IndexEntry::read(bytes.get(shape.entry_at(number)..)?)
}

fn slot_of(shape: IndexShape, entry: &IndexEntry) -> Option<u32> {
    num::from_java_int(entry.key_hash).map(|hash| shape.slot_of(hash))
}
