//! A queue's extension: units that do not fit into twenty bytes. Source: `ConsumeQueueExt`.

use std::ops::RangeInclusive;

use super::tailed_files::{Changed, Found, TailedFiles};
use crate::error::Result;
use crate::format::cq_ext_unit::{self, CqExtUnit, END_BLANK_DATA_LENGTH, END_OF_FILE, MAX_EXT_UNIT_SIZE};
use crate::mmap::file_queue::{Listing, most_common};
use crate::num;

/// Bytes that a file can have.
pub(crate) const FILE_SIZES: RangeInclusive<u64> = 64..=i32::MAX as u64;

/// Bytes of an extension's file, by the files of a store: what most of them have, since one may be cut, where the names of
/// all allow it. Else what is given.
pub(super) fn file_size<'a>(all: &(impl Iterator<Item = &'a Listing> + Clone), given: u64) -> u64 {
    let files = || all.clone().flat_map(|listing| &listing.files);
    let usable = files().map(|(_, len, _)| *len).filter(|len| FILE_SIZES.contains(len));
    most_common(usable.map(|len| (len, 1)))
        .filter(|&len| files().all(|(offset, _, _)| offset.is_multiple_of(len)))
        .unwrap_or(given)
}

/// The extension of one queue.
#[derive(Debug)]
pub(crate) struct ConsumeQueueExt {
    pub(crate) units: TailedFiles,
}

impl ConsumeQueueExt {
    pub(crate) fn new(units: TailedFiles) -> Self {
        Self { units }
    }

    /// Appends a unit and gives its address; `None` where it is too large for a file.
    pub(crate) fn put(&mut self, unit: &CqExtUnit) -> Option<i64> {
        let bytes = unit.to_bytes()?;
        let file_size = self.units.file_size();
        let size = num::offset(bytes.len());
        if size + END_BLANK_DATA_LENGTH as u64 > file_size {
            return None;
        }
        let left = file_size - self.units.end() % file_size;
        if size + END_BLANK_DATA_LENGTH as u64 > left {
            let mut filler = vec![0; num::index(left)];
            if let Some(mark) = filler.first_chunk_mut::<2>() {
                *mark = END_OF_FILE.to_be_bytes();
            }
            self.units.append(&filler);
        }
        let address = cq_ext_unit::decorate(self.units.end());
        self.units.append(&bytes);
        Some(address)
    }

    /// The unit at an address; `None` where there is none.
    pub(crate) fn get(&self, address: i64) -> Result<Option<CqExtUnit>> {
        let Some(offset) = cq_ext_unit::undecorate(address) else { return Ok(None) };
        let Some(found) = self.units.find(offset, MAX_EXT_UNIT_SIZE as u64) else { return Ok(None) };
        Ok(match found {
            Found::InTail(bytes) => CqExtUnit::read(&bytes),
            Found::InFile(file, position, len) => {
                file.slice_if_there(position, len)?.and_then(|bytes| CqExtUnit::read(&bytes))
            }
        })
    }

    /// Lets it end behind the unit at an address, without touching its files; where no unit is left to
    /// point here, at its start.
    pub(crate) fn set_end_by_max_address(&mut self, max_address: Option<i64>) -> Result<()> {
        if let Some(end) = self.end_by_max_address(max_address)? {
            self.units.set_end(end);
        }
        Ok(())
    }

    /// Cuts everything behind the unit at an address; all of it where no unit is left to point here.
    pub(crate) fn truncate_by_max_address(
        &mut self,
        max_address: Option<i64>,
        changed: &mut Changed,
    ) -> Result<()> {
        match self.end_by_max_address(max_address)? {
            Some(end) => self.units.truncate(end, changed),
            None => Ok(()),
        }
    }

    /// `None` where the address holds no unit.
    fn end_by_max_address(&self, max_address: Option<i64>) -> Result<Option<u64>> {
        let Some(address) = max_address else { return Ok(Some(self.units.start())) };
        let end = match (cq_ext_unit::undecorate(address), self.get(address)?) {
            (Some(offset), Some(unit)) => Some(offset + num::offset(unit.size())),
            _ => None,
        };
        Ok(end.map(|end| end.min(self.units.end())))
    }

    /// Removes files that lie wholly before the unit at an address.
    pub(crate) fn truncate_by_min_address(&self, min_address: i64) -> Result<()> {
        if let Some(offset) = cq_ext_unit::undecorate(min_address) {
            self.units.delete_before(offset)?;
        }
        Ok(())
    }
}
