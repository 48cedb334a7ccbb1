//! Looking at the heads of records first, where most of them may be out of a selection's time: what is out of it costs as
//! little as where no bodies are wanted.

use std::ops::ControlFlow;

use super::cursor::Search;
use crate::commit_log::Bodies;
use crate::commit_log::read::RecordReader;
use crate::commit_log::scan::{self, ScanEnd};
use crate::consume_queue::ConsumeQueue;
use crate::error::Result;
use crate::format::cq_unit::CqUnit;
use crate::format::message::Check;

/// Behind so many messages in a row that are out of its time a walk looks at heads again: it reads ahead, and begins anew
/// behind each look.
pub(super) const MOST_OUTSIDE: usize = 64;

impl Search<'_> {
    /// Whether it is worth while.
    pub(super) fn looks_at_heads(&self) -> bool {
        self.bodies != Bodies::Unwanted && self.selection.is_by_each_time()
    }

    /// The first place in a part of the log that has to be read: of a record of the selection's time, or of none.
    pub(super) fn first_in_time(&self, from: u64, end: u64) -> Result<u64> {
        let log = self.store.log();
        let (files, to) = (log.files(), log.max_offset().min(end));
        let reached =
            scan::scan_windows(files, from, to, Check::Structure, Bodies::Unwanted, |_, record, _, _| {
                let is_meant = self.selection.takes_time_of(record);
                Ok(if is_meant { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
            })?;
        Ok(match reached {
            ScanEnd::Reached(offset) | ScanEnd::Stopped(offset) | ScanEnd::Missing(offset) => offset,
            ScanEnd::Fault { offset, .. } => offset,
        })
    }

    /// Whether the record of a unit has to be read, by its head. Where there is none it is told why.
    pub(super) fn has_to_read(
        &self,
        heads: &mut RecordReader<'_>,
        queue: &ConsumeQueue,
        unit: &CqUnit,
        index: u64,
    ) -> Result<bool> {
        let Some(found) = self.store.record_of(heads, queue, unit, index)? else {
            self.report_unit(queue, unit, index)?;
            return Ok(false);
        };
        Ok(found.decoded().is_none_or(|record| self.selection.takes_time_of(&record)))
    }
}
