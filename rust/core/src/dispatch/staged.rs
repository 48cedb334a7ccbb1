//! What dispatch makes of a part of the log, kept until the parts before it are dispatched.
//!
//! What recovery derives of a whole log is kept at once, so it is packed, into some ten bytes a record and four a
//! key. Items follow each other, each a number of which the lowest three bits are its kind, and more numbers,
//! seven bits a byte, the lowest first. What may be negative has its sign in the lowest bit.
//!
//! | kind | item       | rest of the first number | numbers behind it                                      |
//! |------|------------|--------------------------|--------------------------------------------------------|
//! | 0    | record     | its size                 | bytes between it and the one before, time since that's |
//! | 1, 2 | unit       | the queue's place        | queue offset less the expected one, tags code          |
//! | 3    | keys       | how many hashes          |                                                        |
//!
//! A unit of kind 2 is of a further queue that the record names; with 4 added to its kind a unit has a filter bit map.

use std::ops::Range;
use std::slice;

use hashbrown::HashMap;

use super::{Derived, DispatchTargets, Dispatcher};
use crate::commit_log::topic_queue::{QueueKey, QueueRef};
use crate::consume_queue::NewUnit;
use crate::error::Result;
use crate::filter::bit_map::FilterBitMap;
use crate::format::cq_unit::CqUnit;
use crate::format::message::Record;
use crate::index::{IndexService, KeysOfMessage};
use crate::num;

/// Entries of the index whose slots the processor is told to fetch ahead.
const PREFETCHED: usize = 16;

const KIND_BITS: u32 = 3;
const RECORD: u64 = 0;
const UNIT: u64 = 1;
const LIGHT_UNIT: u64 = 2;
const KEYS: u64 = 3;
const WITH_BIT_MAP: u64 = 4;

/// Units and keys of the records of a part, in the log's order.
#[derive(Debug, Default)]
pub(crate) struct Staged {
    queues: Vec<QueueKey>,
    known: HashMap<QueueKey, usize>,
    items: Vec<u8>,
    hashes: Vec<u32>,
    bit_maps: Vec<FilterBitMap>,
    before: Before,
}

/// What the next item is counted from.
#[derive(Debug, Default)]
struct Before {
    record: Place,
    /// By the queue: behind its last unit.
    cq_offsets: Vec<i64>,
}

/// A record's place, and when it was stored.
#[derive(Debug, Default, Clone, Copy)]
struct Place {
    offset: u64,
    size: u64,
    store_timestamp: i64,
}

enum Item {
    Record(Place),
    Unit {
        queue: usize,
        new: NewUnit,
        is_light: bool,
    },
    /// Of the hashes these.
    Keys(Range<usize>),
}

impl Place {
    const fn end(&self) -> u64 {
        self.offset.wrapping_add(self.size)
    }
}

impl Before {
    /// The offset that a queue's next unit is expected to have.
    fn cq_offset(&self, queue: usize) -> i64 {
        self.cq_offsets.get(queue).copied().unwrap_or(0)
    }

    fn set_cq_offset(&mut self, queue: usize, cq_offset: i64) {
        if self.cq_offsets.len() <= queue {
            self.cq_offsets.resize(queue + 1, 0);
        }
        if let Some(expected) = self.cq_offsets.get_mut(queue) {
            *expected = cq_offset.wrapping_add(1);
        }
    }
}

impl Staged {
    /// Begins with a record, of which what is put from now on comes.
    pub(crate) fn begin(&mut self, offset: u64, record: &Record<'_>) {
        let size = u64::from(record.total_size);
        self.begin_at(Place { offset, size, store_timestamp: record.store_timestamp });
    }

    fn begin_at(&mut self, place: Place) {
        let before = std::mem::replace(&mut self.before.record, place);
        self.write(place.size << KIND_BITS | RECORD);
        self.write(place.offset.wrapping_sub(before.end()));
        self.write_signed(place.store_timestamp.wrapping_sub(before.store_timestamp));
    }

    /// Bytes of memory that it takes once it is [`Staged::packed`].
    pub(crate) fn size(&self) -> usize {
        let queues = self.queues.iter().map(|queue| size_of::<QueueKey>() + queue.topic.len()).sum::<usize>();
        self.items.len()
            + size_of_val(self.hashes.as_slice())
            + size_of_val(self.bit_maps.as_slice())
            + queues
    }

    /// Lets go of what only further records would need.
    pub(crate) fn packed(mut self) -> Self {
        (self.known, self.before) = Default::default();
        self.queues.shrink_to_fit();
        self.items.shrink_to_fit();
        self.hashes.shrink_to_fit();
        self.bit_maps.shrink_to_fit();
        self
    }

    fn write(&mut self, mut number: u64) {
        loop {
            let [.., lowest] = number.to_be_bytes();
            number >>= 7;
            if number == 0 {
                self.items.push(lowest);
                return;
            }
            self.items.push(lowest | 0x80);
        }
    }

    fn write_signed(&mut self, number: i64) {
        self.write(((number << 1) ^ (number >> 63)).cast_unsigned());
    }

    fn queue(&mut self, queue: QueueRef<'_>) -> usize {
        if let Some(&known) = self.known.get(&queue) {
            return known;
        }
        self.known.insert(queue.into(), self.queues.len());
        self.queues.push(queue.into());
        self.queues.len() - 1
    }

    fn put(&mut self, queue: QueueRef<'_>, new: NewUnit, kind: u64) {
        debug_assert_eq!(
            (num::from_java_long(new.unit.physical_offset), new.store_timestamp),
            (Some(self.before.record.offset), self.before.record.store_timestamp),
            "a unit is that of the record which was begun with"
        );
        let queue = self.queue(queue);
        let kind = if new.filter_bit_map.is_some() { kind | WITH_BIT_MAP } else { kind };
        self.bit_maps.extend(new.filter_bit_map);
        let expected = self.before.cq_offset(queue);
        self.before.set_cq_offset(queue, new.cq_offset);
        self.write(num::offset(queue) << KIND_BITS | kind);
        self.write_signed(new.cq_offset.wrapping_sub(expected));
        self.write_signed(new.unit.tags_code);
    }

    fn items(&self) -> Items<'_> {
        let bit_maps = self.bit_maps.iter();
        Items { bytes: self.items.iter(), bit_maps, hash_count: 0, before: Before::default() }
    }

    /// Puts all of it into a store: the units of each queue at once, then the keys.
    ///
    /// # Errors
    /// As for [`Dispatcher::pass`]; the dispatcher stands where it stood.
    pub(super) fn put_into(&self, dispatcher: &Dispatcher, targets: DispatchTargets<'_>) -> Result<()> {
        let mut units: Vec<Vec<(NewUnit, bool)>> = vec![Vec::new(); self.queues.len()];
        let (mut record_count, mut last) = (0, None);
        for item in self.items() {
            match item {
                Item::Record(record) => {
                    record_count += 1;
                    last = Some(record);
                }
                Item::Unit { queue, new, is_light } => {
                    if let Some(units) = units.get_mut(queue) {
                        units.push((new, is_light));
                    }
                }
                Item::Keys(_) => {}
            }
        }
        for (queue, units) in self.queues.iter().zip(&units) {
            targets.queues.put_all(&targets.queues.get_or_make(queue.as_ref())?, units)?;
        }
        if let Some(index) = targets.index {
            self.put_keys_into(index)?;
        }
        if dispatcher.is_listening() {
            self.tell_arrivals(dispatcher);
        }
        if let Some(last) = last {
            dispatcher.reached(last.end(), last.store_timestamp, record_count);
        }
        Ok(())
    }

    /// Puts the keys alone into an index.
    ///
    /// # Errors
    /// Where a file of it can't be made or written; what is there already is passed over when it is called again.
    pub(super) fn put_keys_into(&self, index: &IndexService) -> Result<()> {
        let mut record = Place::default();
        index.build_all(self.items().filter_map(|item| match item {
            Item::Record(next) => {
                record = next;
                None
            }
            Item::Unit { .. } => None,
            Item::Keys(range) => Some(KeysOfMessage {
                ahead: self.hashes.get(range.end + PREFETCHED).copied(),
                hashes: self.hashes.get(range).unwrap_or_default(),
                phy_offset: record.offset,
                store_timestamp: record.store_timestamp,
            }),
        }))
    }

    fn tell_arrivals(&self, dispatcher: &Dispatcher) {
        for item in self.items() {
            if let Item::Unit { queue, new, .. } = item
                && let Some(queue) = self.queues.get(queue)
            {
                dispatcher.arrived(queue.as_ref(), new);
            }
        }
    }
}

/// What was put, in that order.
struct Items<'a> {
    bytes: slice::Iter<'a, u8>,
    bit_maps: slice::Iter<'a, FilterBitMap>,
    hash_count: usize,
    before: Before,
}

impl Items<'_> {
    fn read(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..u64::BITS).step_by(7) {
            let byte = *self.bytes.next()?;
            number |= u64::from(byte & 0x7F) << shift;
            if byte & 0x80 == 0 {
                break;
            }
        }
        Some(number)
    }

    fn read_signed(&mut self) -> Option<i64> {
        let number = self.read()?;
        Some((number >> 1).cast_signed() ^ -(number & 1).cast_signed())
    }
}

impl Iterator for Items<'_> {
    type Item = Item;

    fn next(&mut self) -> Option<Item> {
        let first = self.read()?;
        let (kind, rest) = (first & ((1 << KIND_BITS) - 1), first >> KIND_BITS);
        match kind {
            RECORD => {
                let offset = self.before.record.end().wrapping_add(self.read()?);
                let store_timestamp = self.before.record.store_timestamp.wrapping_add(self.read_signed()?);
                self.before.record = Place { offset, size: rest, store_timestamp };
                Some(Item::Record(self.before.record))
            }
            KEYS => {
                let begin = self.hash_count;
                self.hash_count += num::index(rest);
                Some(Item::Keys(begin..self.hash_count))
            }
            unit => {
                let (queue, difference, tags_code) =
                    (num::index(rest), self.read_signed()?, self.read_signed()?);
                let cq_offset = self.before.cq_offset(queue).wrapping_add(difference);
                self.before.set_cq_offset(queue, cq_offset);
                let Place { offset, size, store_timestamp } = self.before.record;
                let unit_of_record = CqUnit {
                    physical_offset: num::java_long(offset),
                    size: num::java_int(num::index(size)),
                    tags_code,
                };
                let filter_bit_map =
                    if unit & WITH_BIT_MAP == 0 { None } else { self.bit_maps.next().copied() };
                let new = NewUnit { unit: unit_of_record, cq_offset, store_timestamp, filter_bit_map };
                Some(Item::Unit { queue, new, is_light: unit & !WITH_BIT_MAP == LIGHT_UNIT })
            }
        }
    }
}

impl Derived for Staged {
    fn put_unit(&mut self, queue: QueueRef<'_>, new: NewUnit) -> Result<()> {
        self.put(queue, new, UNIT);
        Ok(())
    }

    fn put_light_unit(&mut self, queue: QueueRef<'_>, new: NewUnit) -> Result<()> {
        self.put(queue, new, LIGHT_UNIT);
        Ok(())
    }

    fn put_keys(
        &mut self,
        hashes: impl Iterator<Item = u32>,
        _offset: u64,
        _store_timestamp: i64,
    ) -> Result<()> {
        let before = self.hashes.len();
        self.hashes.extend(hashes);
        self.write(num::offset(self.hashes.len() - before) << KIND_BITS | KEYS);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A number of any length.
    fn any(random: &mut fastrand::Rng) -> i64 {
        random.i64(..) >> random.u32(..64)
    }

    #[test]
    fn what_is_put_comes_out_again() {
        let mut random = fastrand::Rng::with_seed(1);
        for _ in 0..200 {
            let mut staged = Staged::default();
            let mut expected = Vec::new();
            let mut offset = any(&mut random).cast_unsigned() >> 1;
            for _ in 0..random.usize(..20) {
                let place = Place {
                    offset,
                    size: u64::from(random.u32(..1 << 31)),
                    store_timestamp: any(&mut random),
                };
                staged.begin_at(place);
                expected.push(format!("{place:?}"));
                for _ in 0..random.usize(..3) {
                    let queue_id = random.i32(..3);
                    let is_light = random.bool();
                    let new = NewUnit {
                        unit: CqUnit {
                            physical_offset: num::java_long(offset),
                            size: num::java_int(num::index(place.size)),
                            tags_code: any(&mut random),
                        },
                        cq_offset: any(&mut random),
                        store_timestamp: place.store_timestamp,
                        filter_bit_map: random.bool().then(|| [random.u8(..); 14]),
                    };
                    let queue = QueueRef { topic: b"t", queue_id };
                    let put = if is_light { Staged::put_light_unit } else { Staged::put_unit };
                    assert!(put(&mut staged, queue, new).is_ok());
                    expected.push(format!("{queue_id} {new:?} {is_light}"));
                }
                let hashes: Vec<u32> = (0..random.usize(..3)).map(|_| random.u32(..)).collect();
                assert!(staged.put_keys(hashes.iter().copied(), offset, place.store_timestamp).is_ok());
                expected.push(format!("{hashes:?}"));
                // A blank can stand between two records.
                offset = (place.end() + random.u64(..2) * random.u64(..1 << 30)) & (u64::MAX >> 1);
            }
            let staged = staged.packed();
            let found = staged.items().map(|item| match item {
                Item::Record(place) => format!("{place:?}"),
                Item::Unit { queue, new, is_light } => {
                    let queue_id = staged.queues.get(queue).map_or(-1, |queue| queue.queue_id);
                    format!("{queue_id} {new:?} {is_light}")
                }
                Item::Keys(range) => format!("{:?}", staged.hashes.get(range).unwrap_or_default()),
            });
            assert_eq!(found.collect::<Vec<_>>(), expected);
        }
    }

    #[test]
    fn an_ordinary_record_takes_little() {
        let mut staged = Staged::default();
        for number in 0..1000 {
            let place = Place { offset: number * 1200, size: 1200, store_timestamp: 1_700_000_000_000 };
            staged.begin_at(place);
            let unit =
                CqUnit { physical_offset: num::java_long(place.offset), size: 1200, tags_code: 1 << 30 };
            let new = NewUnit {
                unit,
                cq_offset: num::java_long(1_000_000 + number / 8),
                store_timestamp: place.store_timestamp,
                filter_bit_map: None,
            };
            let queue = QueueRef { topic: b"t", queue_id: num::java_int(num::index(number % 8)) };
            assert!(staged.put_unit(queue, new).is_ok());
            assert!(staged.put_keys([7].into_iter(), place.offset, place.store_timestamp).is_ok());
        }
        // A unit's offset in its queue takes one byte, as the expected one.
        assert!((16_000..16_300).contains(&staged.size()), "{} bytes", staged.size());
    }
}
