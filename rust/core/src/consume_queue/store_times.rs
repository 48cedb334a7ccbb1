//! The store times of a queue's messages, which never run backwards.
//!
//! Halving a queue reads a unit and a record at each step, each in a page of its own that no cache
//! holds. Every eighth time is therefore kept once it was read: most steps then read eight bytes of
//! a table, and the last few read units and records next to each other. What the table leads to is
//! held against the messages themselves, so that a queue that was cut and filled again since costs a
//! second look and no more.

use std::ops::Range;

use super::ConsumeQueue;
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
    /// The samples, with room for those of the units from `min` up to `max`. None where not all of these have a file
    /// (`are_there`): a file's name can say that there are more than any memory holds.
    fn covering(&self, min: u64, max: u64, are_there: impl FnOnce() -> bool) -> RwLockReadGuard<'_, Samples> {
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
        if !are_there() {
            *samples = Samples::default();
            return RwLockWriteGuard::downgrade(samples);
        }
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
    looked_at_last: u64,
}

impl<'a> StoreTimes<'a> {
    pub(super) const fn new(queue: &'a ConsumeQueue, records: RecordReader<'a>) -> Self {
        Self { queue, units: UnitReader::new(queue), records, has_met_none: false, looked_at_last: u64::MAX }
    }

    /// The first index in a range whose message was stored at a time or later, else the range's end. One time that is
    /// damaged, or far off, leads no further astray than to itself.
    ///
    /// # Errors
    /// Where queue or log can't be read.
    pub(super) fn first_at(&mut self, min: u64, max: u64, timestamp: i64) -> Result<u64> {
        let (low, high) = self.narrow(min, max, timestamp)?;
        let mut found = self.search(low, high, timestamp)?;
        let mut looked_at_last = self.looked_at_last;
        if !self.is_first(found, min..max, timestamp)? {
            self.queue.time_samples.forget();
            found = self.search(min, max, timestamp)?;
            looked_at_last = self.looked_at_last;
        }
        // Where a single time sent the halving to the wrong side, all that was looked at since contradicts it: what was
        // found stands beside it, and what stands behind it is on the other side.
        if looked_at_last != found && self.is_too_late(found, min..max, timestamp)? {
            return self.search(found + 2, max, timestamp);
        }
        if looked_at_last.wrapping_add(1) != found && self.is_too_early(found, min..max, timestamp)? {
            return self.search(min, found - 2, timestamp);
        }
        Ok(found)
    }

    /// Whether the time of what was found is out of order: that of the next one is before what is looked for, and not
    /// the one that is out of order itself.
    fn is_too_late(&mut self, found: u64, range: Range<u64>, timestamp: i64) -> Result<bool> {
        let Some(next) = self.within(found + 1, &range)?.filter(|&next| next < timestamp) else {
            return Ok(false);
        };
        let time = self.within(found, &range)?;
        let behind = self.within(found + 2, &range)?;
        let before = found.checked_sub(1).map_or(Ok(None), |before| self.within(before, &range))?;
        Ok(behind.map_or(before.is_none_or(|before| before <= next), |behind| time > Some(behind)))
    }

    /// The same of the time before what was found.
    fn is_too_early(&mut self, found: u64, range: Range<u64>, timestamp: i64) -> Result<bool> {
        let mut at = |back: u64| found.checked_sub(back).map_or(Ok(None), |index| self.within(index, &range));
        let Some(next) = at(2)?.filter(|&next| next >= timestamp) else { return Ok(false) };
        let (time, behind) = (at(1)?, at(3)?);
        let before = self.within(found, &range)?;
        Ok(behind.map_or(before.is_none_or(|before| before >= next), |behind| time < Some(behind)))
    }

    fn within(&mut self, index: u64, range: &Range<u64>) -> Result<Option<i64>> {
        if range.contains(&index) { self.of(index) } else { Ok(None) }
    }

    /// Whether its neighbours agree that an index is the first at a time.
    fn is_first(&mut self, found: u64, range: Range<u64>, timestamp: i64) -> Result<bool> {
        Ok((found == range.end || self.is_before(found, timestamp)? != Some(true))
            && (found == range.start || self.is_before(found - 1, timestamp)? != Some(false)))
    }

    fn is_before(&mut self, index: u64, timestamp: i64) -> Result<Option<bool>> {
        Ok(self.of(index)?.map(|time| time < timestamp))
    }

    /// When the message of a unit was stored; `None` where it can't be read.
    ///
    /// # Errors
    /// Where queue or log can't be read.
    pub(super) fn of(&mut self, index: u64) -> Result<Option<i64>> {
        self.looked_at_last = index;
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
        let samples = queue.time_samples.covering(min, max, || queue.has_all_files());
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
        self.looked_at_last = u64::MAX;
        let queue = self.queue;
        queue.first_not_before(min, max, |index| self.is_before(index, timestamp))
    }
}
