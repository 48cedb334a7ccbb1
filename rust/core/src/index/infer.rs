//! How many slots and entries an index file has, when the options do not say it.
//!
//! Neither number is in the file. What holds for the right ones, and hardly for others: the newest
//! entry's slot names just that entry, and every entry's chain leads to older entries of its slot.

use crate::error::Result;
use crate::format::index::{
    HASH_SLOT_SIZE, INDEX_HEADER_SIZE, INDEX_SIZE, IndexEntry, IndexHeader, IndexShape,
};
use crate::interrupt;
use crate::num;

/// RocketMQ's default number of slots, which is tried first.
const DEFAULT_HASH_SLOT_NUM: u32 = 5_000_000;
/// After so many numbers of slots it is asked whether to go on.
const TRIED_AT_ONCE: u32 = 1 << 16;
/// How many of the newest entries have to agree.
const CHECKED_ENTRY_COUNT: u32 = 64;

/// The shape of a file with these bytes; `None` where none agrees with its entries. Of one that was made
/// behind another one and has none yet, with which any agrees, one that gives its size.
#[must_use]
pub fn infer_shape(bytes: &[u8]) -> Option<IndexShape> {
    fn at<const N: usize>(bytes: &[u8], at: usize) -> Result<Option<[u8; N]>> {
        Ok(bytes.get(at..).and_then(|rest| rest.first_chunk().copied()))
    }
    let header = IndexHeader::read(bytes)?;
    infer_shape_of(bytes.len(), &header, |place| at(bytes, place), |place| at(bytes, place)).ok().flatten()
}

/// As [`infer_shape`], of a file of `len` bytes with a header, of which entries and words are read one by one.
///
/// # Errors
/// Where they can't be read, or it is broken off.
pub(super) fn infer_shape_of(
    len: usize,
    header: &IndexHeader,
    entry_at: impl Fn(usize) -> Result<Option<[u8; INDEX_SIZE]>>,
    word_at: impl Fn(usize) -> Result<Option<[u8; HASH_SLOT_SIZE]>>,
) -> Result<Option<IndexShape>> {
    let is_new = header.index_count == 1 && header.hash_slot_count == 0 && header.begin_timestamp > 0;
    let index_count = num::from_java_int(header.index_count).filter(|&count| count > 1 || is_new);
    let Some(index_count) = index_count else { return Ok(None) };
    let Some(room) = len.checked_sub(INDEX_HEADER_SIZE) else { return Ok(None) };
    let Ok(most_slots) = u32::try_from(room / HASH_SLOT_SIZE) else { return Ok(None) };
    let file = File { index_count, entry_at, word_at };
    for hash_slot_num in std::iter::once(DEFAULT_HASH_SLOT_NUM).chain(1..=most_slots) {
        if hash_slot_num.is_multiple_of(TRIED_AT_ONCE) {
            interrupt::check()?;
        }
        let Some(entries) = room.checked_sub(hash_slot_num as usize * HASH_SLOT_SIZE) else { continue };
        let Ok(index_num) = u32::try_from(entries / INDEX_SIZE) else { continue };
        let shape = IndexShape { hash_slot_num, index_num };
        if entries.is_multiple_of(INDEX_SIZE) && index_num >= index_count && file.agrees(shape)? {
            return Ok(Some(shape));
        }
    }
    Ok(None)
}

struct File<E, W> {
    index_count: u32,
    entry_at: E,
    word_at: W,
}

impl<E, W> File<E, W>
where
    E: Fn(usize) -> Result<Option<[u8; INDEX_SIZE]>>,
    W: Fn(usize) -> Result<Option<[u8; HASH_SLOT_SIZE]>>,
{
    fn agrees(&self, shape: IndexShape) -> Result<bool> {
        let newest = self.index_count - 1;
        let oldest_checked = newest.saturating_sub(CHECKED_ENTRY_COUNT).max(1);
        for number in (oldest_checked..=newest).rev() {
            let Some(slot) = self.entry(shape, number)?.and_then(|entry| slot_of(shape, &entry)) else {
                return Ok(false);
            };
            let head = (self.word_at)(shape.slot_at(slot))?.map(i32::from_be_bytes);
            let head = head.and_then(num::from_java_int).unwrap_or(0);
            // The chain leads from the slot's newest entry down to this one.
            let may_be = if number == newest { head == newest } else { head >= number && head <= newest };
            if !may_be || !self.leads_to(shape, slot, head, number)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn leads_to(&self, shape: IndexShape, slot: u32, from: u32, number: u32) -> Result<bool> {
        let mut current = from;
        while current > number {
            let entry = self.entry(shape, current)?;
            let Some(entry) = entry.filter(|entry| slot_of(shape, entry) == Some(slot)) else {
                return Ok(false);
            };
            let previous = num::from_java_int(entry.prev_index).unwrap_or(0);
            if previous >= current {
                return Ok(false);
            }
            current = previous;
        }
        Ok(current == number)
    }

    fn entry(&self, shape: IndexShape, number: u32) -> Result<Option<IndexEntry>> {
        Ok((self.entry_at)(shape.entry_at(number))?.and_then(|bytes| IndexEntry::read(&bytes)))
    }
}

fn slot_of(shape: IndexShape, entry: &IndexEntry) -> Option<u32> {
    num::from_java_int(entry.key_hash).map(|hash| shape.slot_of(hash))
}
