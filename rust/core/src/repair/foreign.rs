//! Files of the log that are another store's: each record checks out, and says a place in the queues that may even be free.
//!
//! Queues tell. Where they agree with the rest of the log and, in the same files of theirs, lead to other places of one of the
//! log's files, and to none of its records, that file has taken the place of the one that they were made from.

use std::ops::{ControlFlow, Range};

use hashbrown::HashMap;

use super::believed::agrees_with_log;
use super::filler::is_filler;
use super::holes::Hole;
use super::order::{self, offset_of};
use crate::commit_log::topic_queue::{QueueKey, QueueRef};
use crate::consume_queue::table::QueueTable;
use crate::dispatch::Gap;
use crate::error::Result;
use crate::format::message::{Record, decode_record};
use crate::log_view::LogView;
use crate::num;

/// Units that lead elsewhere, and no fewer, tell that a file is another store's: one can be damaged.
const LEAST_CONTRADICTED: usize = 2;

/// What the queues say of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Said {
    /// They lead to it.
    Its,
    /// At its place in its queue they lead to another place of its file, where nothing stands.
    Another,
    Nothing,
}

/// The records of such files. Of a store's own the first one's unit tells, mostly.
///
/// # Errors
/// Where log or queues can't be read.
pub(super) fn of_another_store(view: &LogView, queues: &QueueTable, holes: &[Hole]) -> Result<Vec<Gap>> {
    let mut found = Vec::new();
    let file_size = view.files().file_size();
    let mut from = view.min_offset();
    while from < view.end() {
        let to = (from - from % file_size + file_size).min(view.end());
        found.append(&mut FileCheck { view, queues, file: from..to }.records_of_another(holes)?);
        from = to;
    }
    Ok(found)
}

struct FileCheck<'a> {
    view: &'a LogView,
    queues: &'a QueueTable,
    file: Range<u64>,
}

impl FileCheck<'_> {
    fn records_of_another(&self, holes: &[Hole]) -> Result<Vec<Gap>> {
        let (mut records, mut is_its) = (Vec::new(), false);
        // By queue file: how many units lead elsewhere.
        let mut contradicted: HashMap<(QueueKey, u64), usize> = HashMap::new();
        order::each_record(self.view, holes, self.file.clone(), |offset, record| {
            if is_filler(record) {
                return Ok(ControlFlow::Continue(()));
            }
            records.push(order::misplaced(offset, record));
            let queue = self.view.config().removed_queues.queue_of(offset, record);
            let Some(queue) = queue else { return Ok(ControlFlow::Continue(())) };
            let said = self.said(offset, record, queue)?;
            if said == Said::Another {
                let number = offset_of(record) / self.queues.units_in_file();
                *contradicted.entry((queue.into(), number)).or_default() += 1;
            }
            is_its = said == Said::Its;
            Ok(if is_its { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        if is_its {
            return Ok(Vec::new());
        }
        let mut count = 0;
        for ((queue, number), contradicting) in contradicted {
            if self.is_believed(holes, queue.as_ref(), number)? {
                count += contradicting;
            }
        }
        Ok(if count < LEAST_CONTRADICTED { Vec::new() } else { records })
    }

    fn said(&self, offset: u64, record: &Record<'_>, queue: QueueRef<'_>) -> Result<Said> {
        let Some(files) = self.queues.get_decoded(queue) else { return Ok(Said::Nothing) };
        let unit = files.units_in_files().unit(offset_of(record))?;
        let Some((at, size)) = unit.and_then(|unit| unit.place()) else { return Ok(Said::Nothing) };
        if (at, size) == (offset, record.total_size) {
            return Ok(Said::Its);
        }
        let is_elsewhere = self.file.contains(&at) && !self.stands_at(at, size)?;
        Ok(if is_elsewhere { Said::Another } else { Said::Nothing })
    }

    /// Whether a record of a size stands at a place: then the unit is another queue's, as where their files are swapped.
    fn stands_at(&self, offset: u64, size: u32) -> Result<bool> {
        let Some(bytes) = self.view.log().get_message(offset, size)? else { return Ok(false) };
        let record = decode_record(&bytes);
        Ok(record.is_some_and(|record| record.physical_offset == num::java_long(offset)))
    }

    /// Whether a queue's file agrees with the rest of the log: one of another store leads to nothing of this one either.
    fn is_believed(&self, holes: &[Hole], queue: QueueRef<'_>, number: u64) -> Result<bool> {
        let Some(files) = self.queues.get_decoded(queue) else { return Ok(false) };
        let count = self.queues.units_in_file();
        let begin = number.saturating_mul(count);
        let agrees = agrees_with_log(self.view, holes, &files, begin, begin.saturating_add(count))?;
        Ok(agrees == Some(true))
    }
}
