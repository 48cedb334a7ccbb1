//! Units as they lie in a queue's files, also behind the queue's end: what a crash left there and nobody has
//! believed or removed yet.

use std::sync::Arc;

use super::{ConsumeQueue, FIRST_CHUNK, MAX_CHUNK, UNIT};
use crate::error::Result;
use crate::format::cq_unit::{CQ_STORE_UNIT_SIZE, CqUnit};
use crate::mmap::mapped_file::MappedFile;
use crate::mmap::slice::Slice;
use crate::num;

/// The units in a queue's files.
#[derive(Debug)]
pub(crate) struct UnitsInFiles {
    files: Vec<Arc<MappedFile>>,
}

impl ConsumeQueue {
    /// The units in the files as they are now.
    pub(crate) fn units_in_files(&self) -> UnitsInFiles {
        UnitsInFiles { files: self.state.lock().units.files_on_disk() }
    }
}

impl UnitsInFiles {
    /// The unit at an index.
    ///
    /// # Errors
    /// Where the file can't be read.
    pub(crate) fn unit(&self, index: u64) -> Result<Option<CqUnit>> {
        Ok(self.read(index, 1)?.and_then(|bytes| CqUnit::read(&bytes)))
    }

    /// Units from an index on, up to the end of their file at the most; `None` where a writer has removed that.
    fn read(&self, index: u64, count: usize) -> Result<Option<Slice>> {
        let Some(offset) = index.checked_mul(UNIT) else { return Ok(None) };
        let at = self.files.partition_point(|file| file.end_offset() <= offset);
        let Some(file) = self.files.get(at).filter(|file| file.contains(offset)) else { return Ok(None) };
        file.slice_if_there(offset - file.file_from_offset(), num::offset(count) * UNIT)
    }

    /// The first unit for a record that stands at a place in the log or behind it, and its index. Of files
    /// that are damaged it may be another unit or none.
    ///
    /// It is searched by steps that grow, then by halving: a file is mostly hole behind its last unit, and
    /// a hole that is read takes memory.
    ///
    /// # Errors
    /// Where a file can't be read.
    pub(crate) fn first_at(&self, phy_offset: u64) -> Result<Option<(u64, CqUnit)>> {
        let (Some(first), Some(last)) = (self.first_there()?, self.files.last()) else { return Ok(None) };
        let end = last.end_offset() / UNIT;
        let (mut low, mut high, mut step) = (first, end, 0);
        let mut found = None;
        while low < high {
            // From a unit on that is not before the place no step fits any more.
            let middle = if step < high - low { low + step } else { low + (high - low) / 2 };
            let (index, unit) = self.behind_blanks(middle, high)?;
            match unit {
                Some(unit) if unit.physical_offset < num::java_long(phy_offset) => {
                    low = index + 1;
                    step = (2 * step + 1).min(end);
                }
                _ => {
                    found = unit.map(|unit| (index, unit)).or(found);
                    high = middle;
                }
            }
        }
        Ok(found)
    }

    /// The first index of the first file that a writer has not removed since: units of the ones before it are for
    /// messages that are gone.
    fn first_there(&self) -> Result<Option<u64>> {
        for file in &self.files {
            let first = file.file_from_offset() / UNIT;
            if self.read(first, 1)?.is_some() {
                return Ok(Some(first));
            }
        }
        Ok(None)
    }

    /// Gives each unit for a record, and its index, from the first one for a place in the log or behind it up
    /// to where none is written.
    ///
    /// # Errors
    /// Where a file can't be read; those of `visit`.
    pub(crate) fn each_from(
        &self,
        phy_offset: u64,
        mut visit: impl FnMut(u64, &CqUnit) -> Result<()>,
    ) -> Result<()> {
        let Some((mut index, _)) = self.first_at(phy_offset)? else { return Ok(()) };
        let mut count = FIRST_CHUNK;
        while let Some(bytes) = self.read(index, count)?.filter(|bytes| bytes.len() >= CQ_STORE_UNIT_SIZE) {
            for unit in bytes.chunks_exact(CQ_STORE_UNIT_SIZE).filter_map(CqUnit::read) {
                if !unit.is_written() {
                    return Ok(());
                }
                if unit.place().is_some() {
                    visit(index, &unit)?;
                }
                index += 1;
            }
            count = (2 * count).min(MAX_CHUNK);
        }
        Ok(())
    }

    /// The first index from one on whose unit is not blank, or the last one before an end, and the unit there
    /// where it is that of a record.
    fn behind_blanks(&self, from: u64, end: u64) -> Result<(u64, Option<CqUnit>)> {
        let mut index = from;
        let mut unit = self.unit(index)?;
        while index + 1 < end && unit.is_some_and(|unit| unit.is_blank()) {
            index += 1;
            unit = self.unit(index)?;
        }
        Ok((index, unit.filter(|unit| unit.place().is_some())))
    }
}
