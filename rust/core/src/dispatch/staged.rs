//! What dispatch makes of a part of the log, kept until the parts before it are dispatched.
//!
//! What recovery derives of a whole log is kept at once: 24 bytes a record, 16 a unit, 4 a key. Units are kept by their
//! queue, which gets at once what a part has for it, in runs of which each unit's offset follows the one before.

use std::borrow::Cow;

use hashbrown::HashMap;

use super::{Derived, DispatchTargets, Dispatcher};
use crate::commit_log::topic_queue::{QueueKey, QueueRef};
use crate::consume_queue::NewUnit;
use crate::error::Result;
use crate::filter::bit_map::FilterBitMap;
use crate::format::cq_unit::CqUnit;
use crate::format::java_string::decode;
use crate::format::message::Record;
use crate::index::{IndexService, KeysOfMessage};
use crate::num;

/// Entries of the index whose slots the processor is told to fetch ahead.
const PREFETCHED: usize = 16;
/// In place of a number of keys: the index hears nothing of the record, not even that it has none.
const NOT_TOLD: u32 = u32::MAX;

/// Units and keys of the records of a part, in the log's order.
#[derive(Debug, Default)]
pub(crate) struct Staged {
    records: Vec<Place>,
    /// Of all records, one behind the other.
    hashes: Vec<u32>,
    queues: Vec<StagedQueue>,
    known: HashMap<QueueKey, usize>,
}

/// A record's place, when it was stored, and how many keys it has.
#[derive(Debug, Default, Clone, Copy)]
struct Place {
    offset: u64,
    store_timestamp: i64,
    size: u32,
    key_count: u32,
}

/// A queue's units, in the log's order.
#[derive(Debug)]
struct StagedQueue {
    key: QueueKey,
    runs: Vec<Run>,
}

/// Units of a queue that follow each other.
#[derive(Debug)]
struct Run {
    /// The first one's offset in the queue.
    cq_offset: i64,
    /// Whether the queue is a further one that the records name.
    is_light: bool,
    units: Vec<StagedUnit>,
    /// One for each unit, or none at all.
    bit_maps: Vec<FilterBitMap>,
}

#[derive(Debug)]
struct StagedUnit {
    tags_code: i64,
    /// Of which of the part's records.
    record: u32,
}

impl Place {
    const fn end(&self) -> u64 {
        self.offset.wrapping_add(self.size as u64)
    }
}

impl StagedQueue {
    fn put(&mut self, new: NewUnit, is_light: bool, record: u32) {
        if !self.runs.last().is_some_and(|last| last.goes_on_with(&new, is_light)) {
            self.runs.push(Run {
                cq_offset: new.cq_offset,
                is_light,
                units: Vec::new(),
                bit_maps: Vec::new(),
            });
        }
        if let Some(run) = self.runs.last_mut() {
            run.units.push(StagedUnit { tags_code: new.unit.tags_code, record });
            run.bit_maps.extend(new.filter_bit_map);
        }
    }
}

impl Run {
    /// Whether the queue's next unit belongs to it.
    fn goes_on_with(&self, new: &NewUnit, is_light: bool) -> bool {
        self.cq_offset_of(self.units.len()) == new.cq_offset
            && self.is_light == is_light
            && self.bit_maps.is_empty() == new.filter_bit_map.is_none()
    }

    const fn cq_offset_of(&self, index: usize) -> i64 {
        self.cq_offset.wrapping_add(num::java_long(num::offset(index)))
    }

    /// Its units, by the part's records.
    fn units(&self, records: &[Place]) -> impl ExactSizeIterator<Item = NewUnit> {
        self.units.iter().enumerate().map(|(index, unit)| {
            let record = records.get(unit.record as usize).copied().unwrap_or_default();
            NewUnit {
                unit: CqUnit {
                    physical_offset: num::java_long(record.offset),
                    size: num::java_int(record.size as usize),
                    tags_code: unit.tags_code,
                },
                cq_offset: self.cq_offset_of(index),
                store_timestamp: record.store_timestamp,
                filter_bit_map: self.bit_maps.get(index).copied(),
            }
        })
    }
}

impl Staged {
    /// Begins with a record, of which what is put from now on comes.
    pub(crate) fn begin(&mut self, offset: u64, record: &Record<'_>) {
        let Record { store_timestamp, total_size: size, .. } = *record;
        self.records.push(Place { offset, store_timestamp, size, key_count: NOT_TOLD });
    }

    /// Bytes of memory that it takes once it is [`Staged::packed`].
    pub(crate) fn size(&self) -> usize {
        let queues = self.queues.iter().map(|queue| size_of::<StagedQueue>() + queue.key.topic.len());
        let runs = self.queues.iter().flat_map(|queue| &queue.runs).map(|run| {
            size_of::<Run>() + size_of_val(run.units.as_slice()) + size_of_val(run.bit_maps.as_slice())
        });
        size_of_val(self.records.as_slice())
            + size_of_val(self.hashes.as_slice())
            + queues.chain(runs).sum::<usize>()
    }

    /// Lets go of what only further records would need.
    pub(crate) fn packed(mut self) -> Self {
        self.known = HashMap::new();
        self.records.shrink_to_fit();
        self.hashes.shrink_to_fit();
        self.queues.shrink_to_fit();
        for queue in &mut self.queues {
            queue.runs.shrink_to_fit();
            for run in &mut queue.runs {
                run.units.shrink_to_fit();
                run.bit_maps.shrink_to_fit();
            }
        }
        self
    }

    fn queue(&mut self, queue: QueueRef<'_>) -> usize {
        if let Some(&known) = self.known.get(&queue) {
            return known;
        }
        let number = match decode(queue.topic) {
            // Topics that are no UTF-8 can be one queue's, whose units have to come in the log's order.
            Cow::Owned(topic) => self.queue(QueueRef { topic: topic.as_bytes(), ..queue }),
            Cow::Borrowed(_) => {
                self.queues.push(StagedQueue { key: queue.into(), runs: Vec::new() });
                self.queues.len() - 1
            }
        };
        self.known.insert(queue.into(), number);
        number
    }

    fn put(&mut self, queue: QueueRef<'_>, new: NewUnit, is_light: bool) {
        debug_assert_eq!(
            self.records.last().map(|record| (num::java_long(record.offset), record.store_timestamp)),
            Some((new.unit.physical_offset, new.store_timestamp)),
            "a unit is that of the record which was begun with"
        );
        // A part has fewer records than that: each takes many bytes of it.
        let record = u32::try_from(self.records.len().saturating_sub(1)).unwrap_or(u32::MAX);
        let queue = self.queue(queue);
        if let Some(queue) = self.queues.get_mut(queue) {
            queue.put(new, is_light, record);
        }
    }

    /// Puts all of it into a store: the units of each queue at once, then the keys.
    ///
    /// # Errors
    /// As for [`Dispatcher::pass`]; the dispatcher stands where it stood.
    pub(super) fn put_into(&self, dispatcher: &Dispatcher, targets: DispatchTargets<'_>) -> Result<()> {
        for StagedQueue { key, runs } in &self.queues {
            let queue = targets.queues.get_or_make(key.as_ref())?;
            for run in runs {
                targets.queues.put_all(&queue, run.units(&self.records), run.is_light)?;
            }
        }
        if let Some(index) = targets.index {
            self.put_keys_into(index)?;
        }
        if dispatcher.is_listening() {
            self.tell_arrivals(dispatcher);
        }
        if let Some(last) = self.records.last() {
            let count = num::offset(self.records.len());
            dispatcher.reached(last.end(), last.offset, last.store_timestamp, count);
        }
        Ok(())
    }

    /// Puts the keys alone into an index.
    ///
    /// # Errors
    /// Where a file of it can't be made or written; what is there already is passed over when it is called again.
    pub(super) fn put_keys_into(&self, index: &IndexService) -> Result<()> {
        let mut begin = 0;
        let told = self.records.iter().filter(|record| record.key_count != NOT_TOLD);
        index.build_all(told.map(|record| {
            let end = begin + record.key_count as usize;
            let hashes = self.hashes.get(begin..end).unwrap_or_default();
            begin = end;
            KeysOfMessage {
                hashes,
                ahead: self.hashes.get(end + PREFETCHED).copied(),
                phy_offset: record.offset,
                store_timestamp: record.store_timestamp,
            }
        }))
    }

    /// In the log's order, as one record after the other would be told of.
    fn tell_arrivals(&self, dispatcher: &Dispatcher) {
        let mut units = Vec::new();
        for StagedQueue { key, runs } in &self.queues {
            for run in runs {
                let records = run.units.iter().map(|unit| unit.record);
                units.extend(records.zip(run.units(&self.records)).map(|(record, new)| (record, key, new)));
            }
        }
        units.sort_by_key(|(record, ..)| *record);
        for (_, queue, new) in units {
            dispatcher.arrived(queue.as_ref(), new);
        }
    }
}

impl Derived for Staged {
    fn put_unit(&mut self, queue: QueueRef<'_>, new: NewUnit) -> Result<()> {
        self.put(queue, new, false);
        Ok(())
    }

    fn put_light_unit(&mut self, queue: QueueRef<'_>, new: NewUnit) -> Result<()> {
        self.put(queue, new, true);
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
        if let Some(record) = self.records.last_mut() {
            // A property string has no room for more.
            record.key_count = u32::try_from(self.hashes.len() - before).unwrap_or(NOT_TOLD);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOPICS: [&[u8]; 3] = [b"t", b"\xFF", "\u{FFFD}".as_bytes()];

    fn begin_at(staged: &mut Staged, offset: u64, store_timestamp: i64, size: u32) {
        staged.records.push(Place { offset, store_timestamp, size, key_count: NOT_TOLD });
    }

    #[test]
    fn what_is_put_comes_out_again_by_queue() {
        let mut random = fastrand::Rng::with_seed(1);
        for _ in 0..200 {
            let mut staged = Staged::default();
            let mut expected: HashMap<(String, i32), Vec<String>> = HashMap::new();
            let mut offset = random.u64(..1 << 62);
            for _ in 0..random.usize(..20) {
                let (store_timestamp, size) = (random.i64(..), random.u32(..1 << 31));
                begin_at(&mut staged, offset, store_timestamp, size);
                for _ in 0..random.usize(..3) {
                    let topic = TOPICS.get(random.usize(..3)).copied().unwrap_or_default();
                    let queue_id = random.i32(0..2);
                    let is_light = random.bool();
                    let new = NewUnit {
                        unit: CqUnit {
                            physical_offset: num::java_long(offset),
                            size: num::java_int(size as usize),
                            tags_code: random.i64(..),
                        },
                        cq_offset: if random.bool() { random.i64(..) } else { random.i64(0..3) },
                        store_timestamp,
                        filter_bit_map: random.bool().then(|| [random.u8(..); 14]),
                    };
                    let queue = QueueRef { topic, queue_id };
                    let put = if is_light { Staged::put_light_unit } else { Staged::put_unit };
                    assert!(put(&mut staged, queue, new).is_ok());
                    let units = expected.entry((decode(topic).into_owned(), queue_id)).or_default();
                    units.push(format!("{new:?} {is_light}"));
                }
                offset += u64::from(size);
            }
            let staged = staged.packed();
            let found = staged.queues.iter().map(|StagedQueue { key, runs }| {
                let units = runs.iter().flat_map(|run| {
                    run.units(&staged.records).map(|new| format!("{new:?} {}", run.is_light))
                });
                ((decode(&key.topic).into_owned(), key.queue_id), units.collect())
            });
            assert_eq!(found.collect::<HashMap<_, _>>(), expected);
        }
    }

    #[test]
    fn an_ordinary_record_takes_little() {
        let mut staged = Staged::default();
        for number in 0..1000 {
            begin_at(&mut staged, number * 1200, 1_700_000_000_000, 1200);
            let new = NewUnit {
                unit: CqUnit {
                    physical_offset: num::java_long(number * 1200),
                    size: 1200,
                    tags_code: 1 << 30,
                },
                cq_offset: num::java_long(1_000_000 + number / 8),
                store_timestamp: 1_700_000_000_000,
                filter_bit_map: None,
            };
            let queue = QueueRef { topic: b"t", queue_id: num::java_int(num::index(number % 8)) };
            assert!(staged.put_unit(queue, new).is_ok());
            assert!(staged.put_keys([7].into_iter(), 0, 0).is_ok());
        }
        // A queue's units follow each other: they are one run.
        assert!((44_000..45_500).contains(&staged.size()), "{} bytes", staged.size());
    }
}
