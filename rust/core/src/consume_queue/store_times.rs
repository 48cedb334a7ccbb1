//! The store times of a queue's messages, which never run backwards.
//!
//! Halving a queue reads a unit and a record at each step, each in a page of its own that no cache
//! holds. Every eighth time is therefore kept once it was read: most steps then read eight bytes of
//! a table, and the last few read units and records next to each other. What the table leads to is
//! held against the messages themselves, so that a queue that was cut and filled again since costs a
//! second look and no more.

use super::ConsumeQueue;
use super::lookup::first_not_before;
use super::unit_reader::UnitReader;
use crate::commit_log::read::RecordReader;
use crate::error::Result;
use crate::num;
use crate::sync::{AtomicI64, Ordering, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// The time of every unit whose index is a multiple of this is kept.
const SAMPLE_EVERY: u64 = 8;
const UNKNOWN: i64 = -1;

/// Every eighth time of a queue, as far as it was read. Empty until a time is looked up.
#[derive(Debug, Default)]
pub(super) struct TimeSamples(RwLock<Samples>);

#[derive(Debug, Default)]
struct Samples {
    /// The number of the first sample: its unit's index divided by [`SAMPLE_EVERY`].
    first: u64,
    times: Vec<AtomicI64>,
}

impl TimeSamples {
    /// The samples, with room for those of the units from `min` up to `max`.
    fn covering(&self, min: u64, max: u64) -> RwLockReadGuard<'_, Samples> {
        let (first, end) = (min / SAMPLE_EVERY, max.div_ceil(SAMPLE_EVERY));
        let samples = self.0.read();
        let known_end = samples.first + num::offset(samples.times.len());
        // Those of removed units are kept until they are as many as the others.
        let is_bloated = (first - first.min(samples.first)) * 2 > num::offset(samples.times.len());
        if samples.first <= first && end <= known_end && !is_bloated {
            return samples;
        }
        drop(samples);
        let mut samples = self.0.write();
        if first < samples.first || first > samples.first + num::offset(samples.times.len()) {
            *samples = Samples { first, times: Vec::new() };
        }
        let gone = num::index(first - samples.first);
        samples.times.drain(..gone);
        samples.first = first;
        let count = num::index(end - first).max(samples.times.len());
        samples.times.resize_with(count, || AtomicI64::new(UNKNOWN));
        RwLockWriteGuard::downgrade(samples)
    }

    fn forget(&self) {
        *self.0.write() = Samples::default();
    }
}

impl Samples {
    fn slot(&self, number: u64) -> Option<&AtomicI64> {
        self.times.get(num::index(number.checked_sub(self.first)?))
    }
}

/// Reads them.
#[derive(Debug)]
pub(super) struct StoreTimes<'a> {
    queue: &'a ConsumeQueue,
    units: UnitReader<'a>,
    records: RecordReader<'a>,
    has_met_none: bool,
}

impl<'a> StoreTimes<'a> {
    pub(super) const fn new(queue: &'a ConsumeQueue, records: RecordReader<'a>) -> Self {
        Self { queue, units: UnitReader::new(queue), records, has_met_none: false }
    }

    /// The first index in a range whose message was stored at a time or later, else the range's end.
    ///
    /// # Errors
    /// Where queue or log can't be read.
    pub(super) fn first_at(&mut self, min: u64, max: u64, timestamp: i64) -> Result<u64> {
        let (low, high) = self.narrow(min, max, timestamp)?;
        let found = self.search(low, high, timestamp)?;
        let is_reached = found == max || self.of(found)?.is_none_or(|time| time >= timestamp);
        let is_first = found == min || self.of(found - 1)?.is_none_or(|time| time < timestamp);
        if is_reached && is_first {
            return Ok(found);
        }
        self.queue.time_samples.forget();
        self.search(min, max, timestamp)
    }

    /// When the message of a unit was stored; `None` where it can't be read.
    ///
    /// # Errors
    /// Where queue or log can't be read.
    pub(super) fn of(&mut self, index: u64) -> Result<Option<i64>> {
        let Some((offset, size)) = self.units.unit(index)?.and_then(|unit| unit.place()) else {
            self.has_met_none = true;
            return Ok(None);
        };
        let time = self.records.store_timestamp(offset, size)?;
        Ok(time.filter(|&time| time >= 0))
    }

    /// Whether all units whose times were read so far have messages.
    pub(super) const fn were_there(&self) -> bool {
        !self.has_met_none
    }

    /// A part of a range that the samples say holds what is looked for, its end included.
    fn narrow(&mut self, min: u64, max: u64, timestamp: i64) -> Result<(u64, u64)> {
        let queue = self.queue;
        let samples = queue.time_samples.covering(min, max);
        let (mut low, mut high) = (min, max);
        let (mut first, mut end) = (min.div_ceil(SAMPLE_EVERY), max.div_ceil(SAMPLE_EVERY));
        while first < end {
            let middle = first + (end - first) / 2;
            let Some(slot) = samples.slot(middle) else { break };
            let mut time = slot.load(Ordering::Relaxed);
            if time == UNKNOWN {
                let Some(read) = self.of(middle * SAMPLE_EVERY)? else { break };
                slot.store(read, Ordering::Relaxed);
                time = read;
            }
            if time < timestamp {
                (first, low) = (middle + 1, middle * SAMPLE_EVERY + 1);
            } else {
                (end, high) = (middle, middle * SAMPLE_EVERY);
            }
        }
        Ok((low, high))
    }

    fn search(&mut self, min: u64, max: u64, timestamp: i64) -> Result<u64> {
        first_not_before(min, max, |index| Ok(self.of(index)?.map(|time| time < timestamp)))
    }
}
