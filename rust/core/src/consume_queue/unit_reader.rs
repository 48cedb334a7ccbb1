//! Reading single units of a queue here and there.

use super::tailed_files::Found;
use super::{ConsumeQueue, UNIT};
use crate::error::Result;
use crate::format::cq_unit::{CQ_STORE_UNIT_SIZE, CqUnit};
use crate::mmap::slice::Slice;
use crate::num;

/// Reads units of a queue. It keeps the mapping of the last one, in which the next one often lies too.
#[derive(Debug)]
pub(super) struct UnitReader<'a> {
    queue: &'a ConsumeQueue,
    last: Option<Window>,
}

/// Units of one file.
#[derive(Debug)]
struct Window {
    first_index: u64,
    units: Slice,
}

impl Window {
    fn unit(&self, index: u64) -> Option<CqUnit> {
        let at = num::index(index.checked_sub(self.first_index)?.checked_mul(UNIT)?);
        CqUnit::read(self.units.get(at..at.checked_add(CQ_STORE_UNIT_SIZE)?)?)
    }
}

impl<'a> UnitReader<'a> {
    pub(super) const fn new(queue: &'a ConsumeQueue) -> Self {
        Self { queue, last: None }
    }

    /// The unit at an index.
    ///
    /// # Errors
    /// Where the file can't be read.
    pub(super) fn unit(&mut self, index: u64) -> Result<Option<CqUnit>> {
        if let Some(unit) = self.last.as_ref().and_then(|last| last.unit(index)) {
            return Ok(Some(unit));
        }
        let Some(offset) = index.checked_mul(UNIT) else { return Ok(None) };
        let found = self.queue.state.lock().units.find(offset, UNIT);
        let (file, position, _) = match found {
            None => return Ok(None),
            Some(Found::InTail(bytes)) => return Ok(CqUnit::read(&bytes)),
            Some(Found::InFile(file, position, len)) => (file, position, len),
        };
        if file.is_read() {
            let unit = file.slice_if_there(position, UNIT)?;
            return Ok(unit.and_then(|bytes| CqUnit::read(&bytes)));
        }
        // All units of the file that are written: those behind them are in memory still.
        let first_index = file.file_from_offset() / UNIT;
        let found = self.queue.state.lock().units.find(file.file_from_offset(), file.file_size());
        let Some(Found::InFile(file, 0, len)) = found else { return Ok(None) };
        let Some(units) = file.slice_if_there(0, len)? else { return Ok(None) };
        let window = Window { first_index, units };
        let unit = window.unit(index);
        self.last = Some(window);
        Ok(unit)
    }
}
