//! The store times of a queue's messages, which never run backwards.
//!
//! Halving a queue reads a unit and a record at each step, each in a page of its own that no cache
//! holds. Times are therefore kept once they were read. What the known ones lead to is held against the messages
//! themselves, so that a queue that was cut and filled again since costs a second look and no more.

use std::ops::Range;

use super::ConsumeQueue;
use super::known_times::{GROUP_SIZE, Times};
use super::unit_reader::UnitReader;
use crate::commit_log::read::RecordReader;
use crate::error::Result;

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
        let queue = self.queue;
        let known = queue.known_times.covering(min, max, || queue.has_all_files());
        let (low, high) = self.narrow(&known, min, max, timestamp)?;
        let (mut found, mut looked_at_last) = self.search(low, high, timestamp, Some(&known))?;
        drop(known);
        if !self.is_first(found, min..max, timestamp)? {
            queue.known_times.forget();
            (found, looked_at_last) = self.search(min, max, timestamp, None)?;
        }
        // Where a single time sent the halving to the wrong side, all that was looked at since contradicts it: what was
        // found stands beside it, and what stands behind it is on the other side.
        if looked_at_last != found && self.is_too_late(found, min..max, timestamp)? {
            return Ok(self.search(found + 2, max, timestamp, None)?.0);
        }
        if looked_at_last.wrapping_add(1) != found && self.is_too_early(found, min..max, timestamp)? {
            return Ok(self.search(min, found - 2, timestamp, None)?.0);
        }
        Ok(found)
    }

    /// Whether the time of what was found is out of order: that of the next one is before what is looked for, and not
    /// the one that is out of order itself.
    fn is_too_late(&mut self, found: u64, range: Range<u64>, timestamp: i64) -> Result<bool> {
        let is_before = |time: &i64| *time < timestamp;
        if self.known_or_read_within(found + 1, &range)?.filter(is_before).is_none() {
            return Ok(false);
        }
        let Some(next) = self.within(found + 1, &range)?.filter(is_before) else { return Ok(false) };
        let time = self.within(found, &range)?;
        let behind = self.within(found + 2, &range)?;
        let before = found.checked_sub(1).map_or(Ok(None), |before| self.within(before, &range))?;
        Ok(behind.map_or(before.is_none_or(|before| before <= next), |behind| time > Some(behind)))
    }

    /// The same of the time before what was found.
    fn is_too_early(&mut self, found: u64, range: Range<u64>, timestamp: i64) -> Result<bool> {
        let is_not_before = |time: &i64| *time >= timestamp;
        let Some(before_last) = found.checked_sub(2) else { return Ok(false) };
        if self.known_or_read_within(before_last, &range)?.filter(is_not_before).is_none() {
            return Ok(false);
        }
        let mut at = |back: u64| found.checked_sub(back).map_or(Ok(None), |index| self.within(index, &range));
        let Some(next) = at(2)?.filter(is_not_before) else { return Ok(false) };
        let (time, behind) = (at(1)?, at(3)?);
        let before = self.within(found, &range)?;
        Ok(behind.map_or(before.is_none_or(|before| before >= next), |behind| time < Some(behind)))
    }

    fn within(&mut self, index: u64, range: &Range<u64>) -> Result<Option<i64>> {
        if range.contains(&index) { self.of(index) } else { Ok(None) }
    }

    fn known_or_read_within(&mut self, index: u64, range: &Range<u64>) -> Result<Option<i64>> {
        if !range.contains(&index) {
            return Ok(None);
        }
        let queue = self.queue;
        self.known_or_read(&queue.known_times.read(), index)
    }

    /// Whether its neighbours agree that an index is the first at a time.
    fn is_first(&mut self, found: u64, range: Range<u64>, timestamp: i64) -> Result<bool> {
        self.prefetch(found.saturating_sub(1)..(found + 1).min(range.end))?;
        Ok((found == range.end || self.is_before(found, timestamp)? != Some(true))
            && (found == range.start || self.is_before(found - 1, timestamp)? != Some(false)))
    }

    fn is_before(&mut self, index: u64, timestamp: i64) -> Result<Option<bool>> {
        Ok(self.of(index)?.map(|time| time < timestamp))
    }

    /// Has the processor fetch the records of units side by side.
    fn prefetch(&mut self, indexes: Range<u64>) -> Result<()> {
        for index in indexes {
            let place = self.units.unit(index)?.and_then(|unit| unit.place());
            self.records.prefetch(place.into_iter())?;
        }
        Ok(())
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

    /// The same by the known times; what is read is known from then on.
    fn known_or_read(&mut self, known: &Times, index: u64) -> Result<Option<i64>> {
        self.looked_at_last = index;
        if let Some(time) = known.get(index) {
            return Ok(Some(time));
        }
        let read = self.of(index)?;
        if let Some(time) = read {
            known.keep(index, time);
        }
        Ok(read)
    }

    /// A part of a range in which the groups' first times say that what is looked for is, its end included.
    fn narrow(&mut self, known: &Times, min: u64, max: u64, timestamp: i64) -> Result<(u64, u64)> {
        let (mut low, mut high) = (min, max);
        let (mut first, mut end) = (min.div_ceil(GROUP_SIZE), max.div_ceil(GROUP_SIZE));
        while first < end {
            let middle = first + (end - first) / 2;
            let start = middle * GROUP_SIZE;
            if !known.has_room(start) {
                break;
            }
            let Some(time) = self.known_or_read(known, start)? else { break };
            if time < timestamp {
                (first, low) = (middle + 1, start + 1);
            } else {
                (end, high) = (middle, start);
            }
        }
        Ok((low, high))
    }

    /// The first index in a range whose time is not before, and the last one that was looked at.
    fn search(&mut self, min: u64, max: u64, timestamp: i64, known: Option<&Times>) -> Result<(u64, u64)> {
        self.looked_at_last = u64::MAX;
        let queue = self.queue;
        let found = queue.first_not_before(min, max, |index| {
            let time = match known {
                Some(known) => self.known_or_read(known, index)?,
                None => self.of(index)?,
            };
            Ok(time.map(|time| time < timestamp))
        })?;
        Ok((found, self.looked_at_last))
    }
}
