//! What a log has lost at its end.
//!
//! A torn tail never got to the disk. What the last mqstore writer knew to be there no power cut takes: where the log ends
//! before that, its last files are gone, or on a disk that is not there, or its last record is damaged. Who writes on would
//! put other messages under the same offsets. Of a store of RocketMQ's, which leaves times alone, the queues tell.

use std::ops::ControlFlow;
use std::sync::Arc;

use super::queues::agrees;
use super::{Recovered, StoreState};
use crate::checkpoint::StoreCheckpoint;
use crate::commit_log::CommitLog;
use crate::commit_log::scan::{self, ScanEnd};
use crate::config::OnDamage;
use crate::consume_queue::ConsumeQueue;
use crate::dispatch::Gap;
use crate::error::{Error, Result};
use crate::format::be;
use crate::format::message::{
    self, Check, Decoded, END_FILE_MIN_BLANK_LENGTH, PHYSICAL_OFFSET_AT, RecordFault,
};
use crate::format::positions::Owed;
use crate::mmap::mapped_file::MappedFile;
use crate::num;
use crate::side_by_side::each_of_many;

const BLANK_SIZE: u64 = END_FILE_MIN_BLANK_LENGTH as u64;
/// Between two messages of a queue may be so many files of others that nothing tells of; garbage leads anywhere.
const REACH_FILE_COUNT: u64 = 2;
/// As many bytes of a record say where it stands.
const PLACE_SIZE: u64 = PHYSICAL_OFFSET_AT as u64 + 8;

/// What was on the disk from a log's end on, which is set, as far as it is known. A log that was mended ends where it was cut.
/// Of a log that ends where its writer left it units are asked as well, where some may stand behind that: log and positions can
/// both be of an older time than the queues.
///
/// # Errors
/// Where log or queues can't be read.
pub fn find(of: Recovered<'_>, from: u64, may_have_units_behind: bool) -> Result<Option<Gap>> {
    if of.config.mended_to.is_some() || matches!(of.state, StoreState::Live { .. }) {
        return Ok(None);
    }
    let told = of.positions.known().map(|known| known.log.max(of.flushed));
    let to = match told {
        Some(told) if told == from && may_have_units_behind => from.max(told_by_queues(of, from)?),
        Some(told) => told,
        None => told_by_queues(of, from)?,
    };
    let owed = owed(of.checkpoint, of.log, from);
    if let Some(Owed { from: begin, to }) = owed.filter(|owed| owed.from < from) {
        return Ok(Some(Gap { from: begin, to, fault: None }));
    }
    let to = to.max(owed.map_or(0, |owed| owed.to));
    if to <= from {
        return Ok(None);
    }
    let is_there = match of.log.files().find(from) {
        Some(file) => is_blank(&file, from, to)? || is_begun(&file, from, to)?,
        None => false,
    };
    Ok(if is_there { None } else { Some(Gap { from, to, fault: fault_at(of, from)? }) })
}

/// What a slave's log up to an offset lacks of what it has lost.
pub(crate) fn owed(checkpoint: &StoreCheckpoint, log: &CommitLog, log_end: u64) -> Option<Owed> {
    checkpoint.owed()?.missing_in(log.min_offset().unwrap_or(log_end), log_end)
}

/// How far a log went at least, by its queues: behind the last record that has a unit. A closed store's units are of
/// records that its log has, but for one that changed: two of a queue have to say so, which goes on from what is there. Of a log of which no file is there one
/// says enough, since the newest file never expires.
fn told_by_queues(of: Recovered<'_>, log_end: u64) -> Result<u64> {
    let is_gone = of.log.files().last().is_none();
    if !is_gone && (of.state != StoreState::Closed || of.is_remote) {
        return Ok(0);
    }
    let (least_count, reach) =
        if is_gone { (1, u64::MAX) } else { (2, REACH_FILE_COUNT * of.log.files().file_size()) };
    let ends = each_of_many(&of.queues.all(), of.is_remote, |queue| {
        let (mut count, mut end) = (0, log_end);
        if !is_gone && !goes_on_behind(of, queue, log_end)? {
            return Ok(0);
        }
        queue.units_in_files().each_from(log_end, |_, unit| {
            if let Some((offset, size)) =
                unit.place().filter(|&(offset, _)| offset >= end && offset - end <= reach)
            {
                (count, end) = (count + 1, offset + u64::from(size));
            }
            Ok(())
        })?;
        Ok(if count < least_count { 0 } else { end })
    })?;
    Ok(ends.into_iter().max().unwrap_or(0))
}

/// Whether the last unit of a queue before those behind the log's end is that of a record which is there: else the queue's files are
/// another store's.
fn goes_on_behind(of: Recovered<'_>, queue: &ConsumeQueue, log_end: u64) -> Result<bool> {
    let units = queue.units_in_files();
    let Some((first_behind, _)) = units.first_at(log_end)? else { return Ok(false) };
    let Some(before) = first_behind.checked_sub(1) else { return Ok(false) };
    match units.unit(before)?.filter(|unit| unit.place().is_some()) {
        Some(unit) => agrees(of, queue, &unit, before),
        None => Ok(false),
    }
}

/// What is wrong with the record that stood at a place; `None` where its file is missing.
fn fault_at(of: Recovered<'_>, offset: u64) -> Result<Option<RecordFault>> {
    let end =
        scan::scan(of.log.files(), offset, u64::MAX, Check::BodyCrc, |_, _, _| Ok(ControlFlow::Break(())))?;
    Ok(if let ScanEnd::Fault { fault, .. } = end { Some(fault) } else { None })
}

/// Whether all of it is the blank that ends a file, which does not count.
fn is_blank(file: &Arc<MappedFile>, from: u64, to: u64) -> Result<bool> {
    let position = from - file.file_from_offset();
    let rest = file.slice(position, (file.end_offset() - from).min(BLANK_SIZE))?;
    let is_one = matches!(message::decode(&rest, Check::Structure), Ok(Decoded::Blank { .. }));
    Ok(is_one && to <= file.end_offset())
}

/// Whether all of it is the begin of a record, as a slave flushes it.
fn is_begun(file: &Arc<MappedFile>, from: u64, to: u64) -> Result<bool> {
    if to - from < PLACE_SIZE || to > file.end_offset() {
        return Ok(to <= file.end_offset());
    }
    let head = file.slice(from - file.file_from_offset(), PLACE_SIZE)?;
    let size = be::i32_at(&head, 0).and_then(num::from_java_int).map_or(0, u64::from);
    let is_its_place = be::i64_at(&head, PHYSICAL_OFFSET_AT).and_then(num::from_java_long) == Some(from);
    Ok(is_its_place && from.saturating_add(size) > to)
}

/// What a reader of the store has to be told. It is not written on where its log has lost something, unless the user says so. A slave
/// gets from its master what it lacks, and owes it until then: its master may never come back, and it become one itself.
///
/// # Errors
/// [`Error::EndLost`] for a writer; where log or queues can't be read.
pub(super) fn check(of: Recovered<'_>, log_end: u64, may_have_units_behind: bool) -> Result<Option<Gap>> {
    let Some(lost) = find(of, log_end, may_have_units_behind)? else { return Ok(None) };
    if !of.writable || of.config.is_slave {
        return Ok(Some(lost));
    }
    if of.config.on_damage == OnDamage::Truncate {
        return Ok(None);
    }
    let file = of.log.files().find(lost.from).or_else(|| of.log.files().last());
    let folder = || of.config.store_path_commit_log.first().unwrap_or(&of.config.store_path_root_dir).clone();
    let path = file.map_or_else(folder, |file| file.path().into());
    Err(Error::EndLost { path, offset: lost.from, flushed_to: lost.to })
}
