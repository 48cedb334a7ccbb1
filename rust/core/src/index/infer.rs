//! How many slots and entries an index file has, when the options do not say it.
//!
//! Neither number is in the file. What holds for the right ones, and hardly for others: the newest
//! entry's slot leads to just that entry, and every entry's chain to older entries of its slot. The header may be behind
//! the entries, as while keys are put.

use std::cell::Cell;

use crate::error::Result;
use crate::format::index::{
    HASH_SLOT_SIZE, INDEX_COUNT_AT, INDEX_HEADER_SIZE, INDEX_SIZE, IndexEntry, IndexHeader, IndexShape,
};
use crate::interrupt;
use crate::num;

/// RocketMQ's default number of slots, which is tried first.
const DEFAULT_HASH_SLOT_NUM: u32 = 5_000_000;
/// After so many numbers of slots it is asked whether to go on.
const TRIED_AT_ONCE: u32 = 1 << 16;
/// How many of the newest entries have to agree.
const CHECKED_ENTRY_COUNT: u32 = 64;
/// So many do by no accident.
const ENOUGH_ENTRIES: u32 = 8;
/// Behind one with which fewer agree so many numbers of slots are tried for a better one.
const MOST_TRIED_FOR_A_BETTER: u32 = 1 << 20;
/// So many steps are gone in chains of any shapes: a file can be made in which those of many shapes hold and are long.
const MOST_STEPS: u32 = 1 << 24;

/// The shape of a file with these bytes; `None` where none agrees with its entries. Of one that was made and has none yet,
/// with which any agrees, one that gives its size.
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
    // Of zeros the header says one entry more than none as well; whoever made the file wrote it.
    let is_made = header.begin_timestamp > 0 || word_at(INDEX_COUNT_AT)? == Some(1_u32.to_be_bytes());
    let is_new = header.index_count == 1 && header.hash_slot_count == 0 && is_made;
    let index_count = num::from_java_int(header.index_count).filter(|&count| count > 1 || is_new);
    let Some(index_count) = index_count else { return Ok(None) };
    let Some(room) = len.checked_sub(INDEX_HEADER_SIZE) else { return Ok(None) };
    let Ok(most_slots) = u32::try_from(room / HASH_SLOT_SIZE) else { return Ok(None) };
    let file = File { index_count, entry_at, word_at, steps_left: Cell::new(MOST_STEPS) };
    let mut best: Option<(u32, IndexShape)> = None;
    for hash_slot_num in std::iter::once(DEFAULT_HASH_SLOT_NUM).chain(1..=most_slots) {
        if hash_slot_num.is_multiple_of(TRIED_AT_ONCE) {
            interrupt::check()?;
        }
        let Some(entries) = room.checked_sub(hash_slot_num as usize * HASH_SLOT_SIZE) else { continue };
        let Ok(index_num) = u32::try_from(entries / INDEX_SIZE) else { continue };
        let shape = IndexShape { hash_slot_num, index_num };
        if !entries.is_multiple_of(INDEX_SIZE) || index_num < index_count {
            continue;
        }
        match (file.agreeing(shape)?, best) {
            (Some(count), _) if count >= ENOUGH_ENTRIES => return Ok(Some(shape)),
            (Some(count), best_yet) if best_yet.is_none_or(|(most, _)| count > most) => {
                best = Some((count, shape));
            }
            (_, Some((_, found)))
                if hash_slot_num.saturating_sub(found.hash_slot_num) > MOST_TRIED_FOR_A_BETTER =>
            {
                break;
            }
            _ => {}
        }
    }
    Ok(best.map(|(_, shape)| shape))
}

struct File<E, W> {
    index_count: u32,
    entry_at: E,
    word_at: W,
    steps_left: Cell<u32>,
}

impl<E, W> File<E, W>
where
    E: Fn(usize) -> Result<Option<[u8; INDEX_SIZE]>>,
    W: Fn(usize) -> Result<Option<[u8; HASH_SLOT_SIZE]>>,
{
    /// With how many entries a shape agrees, as far as that is of interest; `None` where one of the newest does not.
    fn agreeing(&self, shape: IndexShape) -> Result<Option<u32>> {
        let newest = self.index_count - 1;
        let oldest_checked = newest.saturating_sub(CHECKED_ENTRY_COUNT).max(1);
        for number in (oldest_checked..=newest).rev() {
            if !self.is_linked(shape, number)? {
                return Ok(None);
            }
        }
        // Those that the header does not know yet, but for one on its way, to which its slot does not lead yet.
        let mut count = newest;
        while count < ENOUGH_ENTRIES && self.is_linked(shape, count + 1)? {
            count += 1;
        }
        Ok(Some(count))
    }

    /// Whether the chain of an entry's slot leads down to it.
    fn is_linked(&self, shape: IndexShape, number: u32) -> Result<bool> {
        let Some(slot) = self.entry(shape, number)?.and_then(|entry| slot_of(shape, &entry)) else {
            return Ok(false);
        };
        let head = (self.word_at)(shape.slot_at(slot))?.map(i32::from_be_bytes);
        self.leads_to(shape, slot, head.and_then(num::from_java_int).unwrap_or(0), number)
    }

    fn leads_to(&self, shape: IndexShape, slot: u32, from: u32, number: u32) -> Result<bool> {
        let mut current = from;
        while current > number {
            let Some(steps_left) = self.steps_left.get().checked_sub(1) else { return Ok(false) };
            self.steps_left.set(steps_left);
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
