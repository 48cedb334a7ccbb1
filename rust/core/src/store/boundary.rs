//! Where the log can be divided, with what the queues know of it.
//!
//! A boundary is known wherever a queue's unit points at a record that agrees with it: the walk from
//! there is shorter than the one from the begin of the file.

use std::cmp::Reverse;
use std::ops::ControlFlow;
use std::sync::Arc;

use super::Store;
use crate::commit_log::boundary;
use crate::commit_log::scan::{self, ScanEnd};
use crate::consume_queue::ConsumeQueue;
use crate::error::Result;
use crate::format::message::{self, Check, Decoded};
use crate::num;
use crate::recovery::queues::unit_fits;

/// Queues that are asked for a boundary: those with most messages have the nearest.
const ASKED_QUEUE_COUNT: usize = 64;
/// A walk that is no longer than this is not worth asking further queues.
const SHORT_WALK: u64 = 1 << 20;

impl Store {
    /// The first offset at or behind another at which a walk over the whole log comes by: where a
    /// record begins, or a part that holds none, or the log ends.
    ///
    /// # Errors
    /// Where queue or log can't be read.
    pub fn boundary_at(&self, offset: u64) -> Result<u64> {
        self.while_open(|| {
            let log = self.first_offset()..self.log.max_offset();
            let known = |file_from| self.known_boundary(file_from, offset);
            boundary::boundary_at(self.log.files(), log, offset, known)
        })
    }

    /// The last record of a file that begins at or before an offset, or at the least the file's first; the file's begin
    /// where none is there.
    ///
    /// # Errors
    /// Where queue or log can't be read.
    pub(super) fn record_at_or_before(&self, file_from: u64, offset: u64) -> Result<u64> {
        let (files, end) = (self.log.files(), self.log.max_offset());
        let mut position = self.known_boundary(file_from, offset.max(file_from))?;
        let mut last = position;
        loop {
            let reached = scan::scan(files, position, end, Check::Structure, |found, _, _| {
                if found > offset {
                    return Ok(ControlFlow::Break(()));
                }
                last = found;
                Ok(ControlFlow::Continue(()))
            })?;
            let ScanEnd::Fault { offset: bad, fault } = reached else { return Ok(last) };
            match scan::next_valid(files, bad, Some(fault), end)?.filter(|&next| next <= offset) {
                Some(next) => position = next,
                None => return Ok(last),
            }
        }
    }

    /// The last boundary before an offset that queues know of, else the begin of its file.
    fn known_boundary(&self, file_from: u64, offset: u64) -> Result<u64> {
        let mut queues = self.queues.all();
        queues.sort_by_key(|queue| Reverse(queue.message_total_in_queue()));
        let mut best = file_from;
        for queue in queues.iter().take(ASKED_QUEUE_COUNT) {
            if offset - best <= SHORT_WALK {
                break;
            }
            best = self.last_record_before(queue, offset)?.map_or(best, |found| best.max(found));
        }
        Ok(best)
    }

    /// The last record before an offset that a queue points at, where both agree and the body is
    /// whole.
    fn last_record_before(&self, queue: &Arc<ConsumeQueue>, offset: u64) -> Result<Option<u64>> {
        let Some(index) = queue.first_unit_at(offset)?.checked_sub(1) else { return Ok(None) };
        let Some(unit) = queue.unit(index)? else { return Ok(None) };
        let Some((place, size)) = unit.place().filter(|(place, _)| *place < offset) else { return Ok(None) };
        let Some(bytes) = self.log.get_message(place, size)? else { return Ok(None) };
        let agrees = match message::decode(&bytes, Check::BodyCrc) {
            Ok(Decoded::Message(record)) => {
                num::from_java_long(record.physical_offset) == Some(place)
                    && unit_fits(queue, &unit, index, &record)
            }
            _ => false,
        };
        Ok(agrees.then_some(place))
    }
}
