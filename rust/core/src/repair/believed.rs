//! Which queue files tell of lost messages: those that agree with what the log still has.

use super::holes::Hole;
use crate::consume_queue::ConsumeQueue;
use crate::error::Result;
use crate::format::message::decode_record;
use crate::interrupt;
use crate::log_view::LogView;
use crate::num;
use crate::recovery::queues::unit_fits;

/// Units that are read at a time.
const UNITS_AT_ONCE: u64 = 1024;

/// Whether no record stands at a place: it is in one of the holes, in their order, or not in the log.
pub(super) fn is_gone(view: &LogView, holes: &[Hole], offset: u64) -> bool {
    let next = holes.partition_point(|hole| hole.from <= offset);
    offset < view.min_offset()
        || offset >= view.end()
        || next.checked_sub(1).and_then(|at| holes.get(at)).is_some_and(|hole| offset < hole.to)
}

/// Whether one of a queue's units between two indices agrees with its record; `None` where all lead to records that are gone.
///
/// A file of another store leads to places where this log has other records, or none.
///
/// # Errors
/// Where log or queue can't be read.
pub fn agrees_with_log(
    view: &LogView,
    holes: &[Hole],
    queue: &ConsumeQueue,
    from: u64,
    to: u64,
) -> Result<Option<bool>> {
    let mut leads_anywhere = false;
    let mut index = from;
    while index < to {
        interrupt::check()?;
        let units = queue.units(index, num::index(UNITS_AT_ONCE.min(to - index)))?;
        if units.is_empty() {
            break;
        }
        for (index, unit) in (index..).zip(&units) {
            let Some((offset, size)) = unit.place().filter(|&(offset, _)| !is_gone(view, holes, offset))
            else {
                continue;
            };
            leads_anywhere = true;
            if let Some(bytes) = view.log().get_message(offset, size)?
                && let Some(record) = decode_record(&bytes)
                && unit_fits(queue, unit, index, &record)
            {
                return Ok(Some(true));
            }
        }
        index += num::offset(units.len());
    }
    Ok(leads_anywhere.then_some(false))
}
