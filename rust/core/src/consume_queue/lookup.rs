//! Finding a queue's unit by time or by place in the log.

use super::store_times::StoreTimes;
use super::{ConsumeQueue, UNIT};
use crate::commit_log::CommitLog;
use crate::error::Result;
use crate::format::cq_unit::CqUnit;
use crate::num;

/// Which unit a look-up by time gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Boundary {
    /// The one whose time is nearest; of several of one time the first.
    Nearest,
    /// The first whose time is not before.
    Lower,
    /// The last whose time is not behind.
    Upper,
}

/// What a look-up by time found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FoundByTime {
    /// The unit's index.
    pub index: u64,
    /// Whether each unit that was looked at has a message. The others say nothing of their times.
    pub is_whole: bool,
}

impl ConsumeQueue {
    /// The index of the unit that a time stands for. With [`Boundary::Lower`] it is the queue's end
    /// where all are earlier; with [`Boundary::Upper`] the unit before the first where all are later
    /// is given as the first. 0 in a queue without messages.
    ///
    /// # Errors
    /// Where queue or log can't be read.
    pub fn offset_by_time(&self, log: &CommitLog, timestamp: i64, boundary: Boundary) -> Result<FoundByTime> {
        let (min, max) = (self.min_offset_in_queue(), self.max_offset_in_queue());
        let mut times = StoreTimes::new(self, log.records());
        let index = match boundary {
            _ if max == 0 => 0,
            Boundary::Lower => times.first_at(min, max, timestamp)?,
            Boundary::Upper => {
                let behind = times.first_at(min, max, timestamp.saturating_add(1))?;
                behind.saturating_sub(1).max(min)
            }
            Boundary::Nearest => nearest(&mut times, min, max, timestamp)?,
        };
        Ok(FoundByTime { index, is_whole: times.were_there() })
    }

    /// 4.9.3's answer: it looks in the first file that was changed at the time or later, and there
    /// only. Source: `getOffsetInQueueByTime`.
    ///
    /// # Errors
    /// Where queue or log can't be read.
    pub fn offset_by_time_compat(&self, log: &CommitLog, timestamp: i64) -> Result<u64> {
        let (file, end) = {
            let state = self.state.lock();
            let files = state.units.files();
            (files.by_modified_time(timestamp)?, state.units.end())
        };
        // What is in memory lies in a file that a 4.9.3 store would have changed just now.
        let (from, file_end) = match &file {
            Some(file) => (file.file_from_offset(), file.end_offset().min(end)),
            None => {
                let file_size = self.state.lock().units.file_size();
                (end.saturating_sub(1) / file_size * file_size, end)
            }
        };
        let (first, last) = (from / UNIT, file_end / UNIT);
        if last <= first {
            return Ok(0);
        }
        let min_phy_offset = num::java_long(log.min_offset().unwrap_or(0));
        let mut low = self.min_offset_in_queue().max(first);
        let mut high = last; // exclusive
        let mut left: Option<(u64, Option<i64>)> = None;
        let mut right: Option<(u64, i64)> = None;
        while low < high {
            // 4.9.3 takes the middle of byte positions, both ends included.
            let middle = first + (low - first + high - 1 - first) / 2;
            let Some(unit) = self.unit(middle)? else { return Ok(0) };
            if unit.physical_offset < min_phy_offset {
                low = middle + 1;
                left = Some((middle, left.and_then(|(_, time)| time)));
                continue;
            }
            let time = unit_time(log, &unit)?;
            if time < 0 {
                return Ok(0);
            } else if time == timestamp {
                return Ok(middle);
            } else if time > timestamp {
                high = middle;
                right = Some((middle, time));
            } else {
                low = middle + 1;
                left = Some((middle, Some(time)));
            }
        }
        Ok(match (left, right) {
            (Some((_, None)) | None, Some((right, _))) => right,
            // 4.9.3 divides the file's offset minus 1 by the unit's size.
            (Some((_, None)) | None, None) => first.saturating_sub(1),
            (Some((left, Some(_))), None) => left,
            (Some((left, Some(before))), Some((right, behind))) => {
                if timestamp - before > behind - timestamp { right } else { left }
            }
        })
    }

    /// The index of the first unit whose message stands at a place in the log or behind it; the
    /// queue's end where there is none.
    ///
    /// # Errors
    /// Where the queue can't be read.
    pub fn first_unit_at(&self, phy_offset: u64) -> Result<u64> {
        let (start, end) = {
            let state = self.state.lock();
            (state.units.start() / UNIT, state.units.end() / UNIT)
        };
        let is_before = |index| -> Result<Option<bool>> {
            let place = self.unit(index)?.and_then(|unit| unit.place());
            Ok(place.map(|(offset, _)| offset < phy_offset))
        };
        // Mostly it is the first one, and many queues are asked.
        if start < end && is_before(start)? == Some(false) {
            return Ok(start);
        }
        let mut low = self.first_not_before(start, end, is_before)?;
        // Blank units before the first that has a message belong to no message.
        while low < end && self.unit(low)?.is_some_and(|unit| unit.is_blank()) {
            low += 1;
        }
        Ok(low)
    }

    /// Moves the first offset to the first unit whose message is still in the log.
    /// Source: `correctMinOffset`.
    ///
    /// # Errors
    /// Where the queue can't be read.
    pub fn correct_min_offset(&self, min_phy_offset: u64) -> Result<()> {
        let first = self.find_min_offset(min_phy_offset)?;
        self.correct_ext(first)
    }

    /// As [`ConsumeQueue::correct_min_offset`], where another process removes files. A reader may have the first of them open
    /// for long, so that it is not the one to look in, as 4.9.3 does.
    ///
    /// # Errors
    /// Where the queue can't be read.
    pub(crate) fn follow_min_offset(&self, min_phy_offset: u64) -> Result<()> {
        let first = self.first_unit_at(min_phy_offset)?;
        self.min_offset.store(first, crate::sync::Ordering::Release);
        self.correct_ext(Some(first))
    }

    /// Lets go of the extension before the first unit's part.
    fn correct_ext(&self, first: Option<u64>) -> Result<()> {
        if self.state.lock().ext.is_some()
            && let Some(unit) = first.map_or(Ok(None), |first| self.unit(first))?
            && let Some(ext) = &self.state.lock().ext
        {
            ext.truncate_by_min_address(unit.tags_code)?;
        }
        Ok(())
    }

    /// As [`ConsumeQueue::correct_min_offset`], in memory alone: the extension's files stay.
    ///
    /// # Errors
    /// Where the queue can't be read.
    pub(crate) fn find_min_offset(&self, min_phy_offset: u64) -> Result<Option<u64>> {
        let first = if self.compat {
            self.first_unit_at_compat(min_phy_offset)?
        } else {
            Some(self.first_unit_at(min_phy_offset)?)
        };
        if let Some(first) = first {
            self.min_offset.store(first, crate::sync::Ordering::Release);
        }
        Ok(first)
    }

    /// As [`ConsumeQueue::correct_min_offset`], once the store is opened: recovery found the first offset, which
    /// what was dispatched since can change, as the extension's end.
    ///
    /// # Errors
    /// Where the queue can't be read.
    pub(crate) fn correct_min_offset_once_dispatched(&self, min_phy_offset: u64) -> Result<()> {
        if self.dispatched_size() == 0 && self.state.lock().ext.is_none() {
            return Ok(());
        }
        self.correct_min_offset(min_phy_offset)
    }

    /// The first index in a range that is not before what is looked for, else the range's end. An index of
    /// which `is_before` can't tell says nothing: the next one of which it can decides.
    pub(super) fn first_not_before(
        &self,
        min: u64,
        max: u64,
        mut is_before: impl FnMut(u64) -> Result<Option<bool>>,
    ) -> Result<u64> {
        let (mut low, mut high) = (min, max);
        while low < high {
            let middle = low + (high - low) / 2;
            let mut probe = middle;
            let mut found = is_before(probe)?;
            while found.is_none() {
                probe = self.next_there(probe + 1);
                if probe >= high {
                    break;
                }
                found = is_before(probe)?;
            }
            if found == Some(true) {
                low = probe + 1;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }

    /// As 4.9.3 finds it: in the first file alone, blank units counting as messages at offset 0.
    fn first_unit_at_compat(&self, min_phy_offset: u64) -> Result<Option<u64>> {
        let (start, in_file) = {
            let state = self.state.lock();
            (state.units.start() / UNIT, num::index(state.units.file_size() / UNIT))
        };
        let min_phy_offset = num::java_long(min_phy_offset);
        let units = self.raw_units(start, in_file)?;
        let found = units.iter().position(|unit| unit.physical_offset >= min_phy_offset);
        Ok(found.map(|at| start + num::offset(at)))
    }
}

/// The index in a range whose time is nearest.
fn nearest(times: &mut StoreTimes<'_>, min: u64, max: u64, timestamp: i64) -> Result<u64> {
    let right = times.first_at(min, max, timestamp)?;
    if right == min {
        return Ok(right);
    }
    let behind = if right < max { times.of(right)? } else { None };
    let Some(before) = times.of(right - 1)? else {
        return Ok(right.min(max - 1));
    };
    match behind {
        Some(behind) if timestamp - before > behind - timestamp => Ok(right),
        _ => times.first_at(min, right, before),
    }
}

fn unit_time(log: &CommitLog, unit: &CqUnit) -> Result<i64> {
    match (num::from_java_long(unit.physical_offset), num::from_java_int(unit.size)) {
        (Some(offset), Some(size)) => log.pickup_store_timestamp(offset, size),
        _ => Ok(-1),
    }
}
