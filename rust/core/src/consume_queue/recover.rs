//! Where a queue ends, when a store is opened.
//!
//! Nothing in a queue's files says how many units they hold: behind the last one the file reads as
//! zeros, or as what was cut off before. So the end is searched for, and the units next to it are
//! held against the log. Source for what 4.9.3 trusts: `ConsumeQueue.recover` and
//! `truncateDirtyLogicFiles`.

use super::tailed_files::Changed;
use super::{ConsumeQueue, FIRST_CHUNK, MAX_CHUNK, UNIT};
use crate::error::Result;
use crate::format::cq_ext_unit::is_ext_addr;
use crate::format::cq_unit::CqUnit;
use crate::num;
use crate::sync::Ordering;

/// How many of the newest files are read unit by unit after an unclean stop, as in 4.9.3.
const CHECKED_FILE_COUNT: u64 = 3;
/// How many units are looked at where something ends a queue: more than a page of zeros hides.
const UNITS_BEHIND_END: usize = 256;

impl ConsumeQueue {
    /// After a clean stop: finds the end, then takes units off it until one agrees with
    /// the log (`agrees` gets the unit and its index). Gives whether something stands behind the end
    /// that has to go.
    ///
    /// # Errors
    /// Where a file can't be read.
    pub(crate) fn recover_clean(&self, agrees: impl Fn(&CqUnit, u64) -> Result<bool>) -> Result<bool> {
        let (start, file_end) = self.bounds();
        let written_end = self.written_end(start, file_end)?;
        // Zeros can hide what is written behind them.
        let goes_on = self.raw_units(written_end, FIRST_CHUNK)?.iter().any(CqUnit::is_written);
        let end = self.behind_last(start, written_end, agrees)?;
        let has_orphaned_ext = end == start && self.has_ext();
        self.set_end(end)?;
        Ok(end < written_end || goes_on || has_orphaned_ext || self.has_half_made())
    }

    /// Lets go of all units, in memory: none of them counts.
    ///
    /// # Errors
    /// Where a file can't be read.
    pub(crate) fn forget_units(&self) -> Result<()> {
        let (start, _) = self.bounds();
        self.set_end(start)
    }

    /// Finds behind which unit none is written, by halving. It begins with steps that grow from the last
    /// file's begin on: halving all of a file would read in many places that hold nothing. What is left in the end is
    /// read as a whole.
    fn written_end(&self, start: u64, file_end: u64) -> Result<u64> {
        let is_written =
            |index| -> Result<bool> { Ok(self.unit(index)?.is_some_and(|unit| unit.is_written())) };
        let last_file = file_end.saturating_sub(self.units_in_file()).max(start);
        let (mut low, mut high) = (start, file_end);
        if start < last_file {
            if is_written(last_file)? { low = last_file } else { high = last_file }
        }
        let mut step = FIRST_CHUNK as u64;
        while low + step < high {
            if !is_written(low + step)? {
                high = low + step;
                break;
            }
            low += step + 1;
            step *= 2;
        }
        while low + (FIRST_CHUNK as u64) < high {
            let middle = low + (high - low) / 2;
            if is_written(middle)? { low = middle + 1 } else { high = middle }
        }
        // Files end in between.
        while low < high {
            let units = self.raw_units(low, num::index(high - low))?;
            let written = units.iter().take_while(|unit| unit.is_written()).count();
            low += num::offset(written);
            if written < units.len() || units.is_empty() {
                break;
            }
        }
        Ok(low)
    }

    fn has_ext(&self) -> bool {
        self.state.lock().ext.as_ref().is_some_and(|ext| !ext.units.is_empty())
    }

    /// Whether the unit's part in the extension is there, where it has one.
    fn has_ext_of(&self, unit: &CqUnit) -> Result<bool> {
        let has_ext = self.state.lock().ext.is_some();
        Ok(!has_ext || !is_ext_addr(unit.tags_code) || self.ext(unit.tags_code)?.is_some())
    }

    /// Whether a crash left files of the queue or its extension before they were made.
    pub(crate) fn has_half_made(&self) -> bool {
        let state = self.state.lock();
        state.units.has_half_made() || state.ext.as_ref().is_some_and(|ext| ext.units.has_half_made())
    }

    /// Behind the last record whose unit was kept.
    pub(crate) fn reached(&self) -> u64 {
        num::from_java_long(self.max_physic_offset()).unwrap_or(0)
    }

    /// After an unclean stop: keeps the units of records below `dispatched_to`, as far as they are
    /// in order and the last one agrees with the log (`agrees` gets the unit and its index). Gives where dispatch has
    /// to begin for this queue when that is earlier.
    ///
    /// # Errors
    /// Where a file can't be read.
    pub(crate) fn recover_up_to(
        &self,
        dispatched_to: u64,
        agrees: impl Fn(&CqUnit, u64) -> Result<bool>,
    ) -> Result<Option<u64>> {
        let (start, file_end) = self.bounds();
        let mut index = self.first_checked(start, file_end, dispatched_to)?;
        let mut previous_end = -1;
        let mut garbage = self.has_half_made();
        let mut chunk = FIRST_CHUNK;
        'files: while index < file_end {
            let units = self.raw_units(index, chunk)?;
            chunk = (2 * chunk).min(MAX_CHUNK);
            if units.is_empty() {
                break;
            }
            for unit in &units {
                let is_zero = unit.physical_offset == 0 && unit.size == 0 && unit.tags_code == 0;
                if unit.is_blank() {
                    index += 1;
                    continue;
                }
                let in_order = unit.is_written() && unit.physical_offset >= previous_end;
                if !in_order || unit.physical_offset >= num::java_long(dispatched_to) {
                    garbage |= if in_order { !agrees(unit, index)? } else { !is_zero };
                    garbage |= self.has_known_behind(index, dispatched_to)?;
                    break 'files;
                }
                previous_end = unit.end();
                index += 1;
            }
        }
        let end = self.behind_last(start, index, agrees)?;
        garbage |= end < index;
        self.set_end(end)?;
        Ok((garbage && self.reached() < dispatched_to).then_some(self.reached()))
    }

    /// Whether units of records below a point stand behind one that is none of those, in the next page of the file: a
    /// power cut takes units that were not known to be on the disk, and damage others.
    fn has_known_behind(&self, from: u64, dispatched_to: u64) -> Result<bool> {
        let units = self.raw_units(from, UNITS_BEHIND_END)?;
        Ok(units.iter().filter_map(CqUnit::place).any(|(offset, _)| offset < dispatched_to))
    }

    /// From where on units are read one by one: the begin of one of the newest files, and of an earlier
    /// one where not even that file's first unit was known to be on the disk.
    fn first_checked(&self, start: u64, file_end: u64, dispatched_to: u64) -> Result<u64> {
        let units_in_file = self.units_in_file();
        let newest = file_end.div_ceil(units_in_file).saturating_sub(CHECKED_FILE_COUNT);
        let mut index = newest * units_in_file;
        while index > start {
            let is_known = |(offset, _)| offset < dispatched_to;
            if self.unit(index)?.and_then(|unit| unit.place()).is_some_and(is_known) {
                return Ok(index);
            }
            index = self.end_before(index).saturating_sub(1) / units_in_file * units_in_file;
        }
        Ok(start)
    }

    /// Behind the last unit of a range that is blank or agrees with the log, else the range's begin.
    fn behind_last(
        &self,
        start: u64,
        end: u64,
        agrees: impl Fn(&CqUnit, u64) -> Result<bool>,
    ) -> Result<u64> {
        self.behind_last_that(start, end, |last, index| {
            Ok(last.is_blank() || (self.has_ext_of(last)? && agrees(last, index)?))
        })
    }

    /// Behind the last unit of a range that stays, else the range's begin. Files that are missing are passed over, however
    /// many their neighbours' names say there were, and so are units that cannot be read, whose file a writer has removed.
    fn behind_last_that(
        &self,
        start: u64,
        end: u64,
        stays: impl Fn(&CqUnit, u64) -> Result<bool>,
    ) -> Result<u64> {
        let mut end = self.end_before(end);
        while end > start {
            if let Some(last) = self.unit(end - 1)?
                && stays(&last, end - 1)?
            {
                break;
            }
            end = self.end_before(end - 1);
        }
        Ok(end.max(start))
    }

    /// Cuts off units of records at or behind the log's end, in memory. Gives whether there were any.
    ///
    /// # Errors
    /// Where a file can't be read.
    pub(crate) fn cut_behind(&self, log_end: u64) -> Result<bool> {
        if self.max_physic_offset() <= num::java_long(log_end) {
            return Ok(false);
        }
        let (start, end) = self.bounds();
        let end = self.behind_last_that(start, end, |last, _| {
            Ok(last.place().is_some() && last.end() <= num::java_long(log_end))
        })?;
        self.set_end(end)?;
        Ok(true)
    }

    /// Zeroes what stands behind the end, and removes later files. Adds what has to be synced then; zeros are by
    /// [`ConsumeQueue::end_trim`].
    ///
    /// # Errors
    /// Where a file can't be written or removed.
    pub(crate) fn trim(&self, changed: &mut Changed) -> Result<()> {
        let mut state = self.state.lock();
        let end = state.units.end();
        state.units.truncate(end, changed)?;
        let last_address = self.last_ext_address(end / UNIT, &state)?;
        match &mut state.ext {
            Some(ext) => ext.truncate_by_max_address(last_address, changed),
            None => Ok(()),
        }
    }

    /// Removes the files that were kept to be written again, where nothing was. Adds what has to be synced then, zeros that
    /// nothing was written over among it.
    ///
    /// # Errors
    /// Where a file can't be removed.
    pub(crate) fn end_trim(&self, changed: &mut Changed) -> Result<()> {
        let mut state = self.state.lock();
        state.units.end_truncation(changed)?;
        state.ext.as_mut().map_or(Ok(()), |ext| ext.units.end_truncation(changed))
    }

    fn last_ext_address(&self, end: u64, state: &super::State) -> Result<Option<i64>> {
        let start = state.units.start() / UNIT;
        let mut index = end;
        while index > start {
            index -= 1;
            let unit = match state.units.find(index * UNIT, UNIT) {
                Some(super::Found::InTail(bytes)) => CqUnit::read(&bytes),
                Some(super::Found::InFile(file, position, len)) => CqUnit::read(&file.slice(position, len)?),
                None => None,
            };
            match unit {
                Some(unit) if is_ext_addr(unit.tags_code) => return Ok(Some(unit.tags_code)),
                Some(_) => {}
                None => break,
            }
        }
        Ok(None)
    }

    /// The extension ends behind the unit that the last of the queue's units points at.
    fn set_end(&self, end: u64) -> Result<()> {
        {
            let mut state = self.state.lock();
            state.units.set_end(end * UNIT);
            let has_ext = state.ext.as_ref().is_some_and(|ext| !ext.units.is_empty());
            let last_address = if has_ext { self.last_ext_address(end, &state)? } else { None };
            if let Some(ext) = state.ext.as_mut().filter(|_| has_ext) {
                ext.set_end_by_max_address(last_address)?;
            }
        }
        self.max_offset.store(end, Ordering::Release);
        let (start, _) = self.bounds();
        let mut index = end;
        let mut physic = -1;
        while index > start && physic < 0 {
            // What a missing file had is as much as the names of the others say.
            index = self.end_before(index).saturating_sub(1);
            physic = self.unit(index)?.filter(|unit| unit.place().is_some()).map_or(-1, |unit| unit.end());
        }
        self.max_physic_offset.store(physic, Ordering::Release);
        Ok(())
    }

    /// The last index up to another one behind which there is a unit.
    fn end_before(&self, index: u64) -> u64 {
        self.state.lock().units.end_before(index * UNIT) / UNIT
    }

    fn bounds(&self) -> (u64, u64) {
        let state = self.state.lock();
        (state.units.start() / UNIT, state.units.end() / UNIT)
    }

    fn units_in_file(&self) -> u64 {
        self.state.lock().units.file_size() / UNIT
    }
}
