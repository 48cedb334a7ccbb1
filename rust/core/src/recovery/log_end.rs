//! Where the log ends.
//!
//! Only a torn tail is cut: bytes behind the last valid record that no valid record follows, or, after
//! an unclean stop, that never got to the disk. 4.9.3
//! cuts at the first bad record, wherever it stands. Source for where the walk begins:
//! `CommitLog.recoverNormally`, `recoverAbnormally` and `isMappedFileMatchedRecover`.

use std::ops::ControlFlow;
use std::sync::Arc;

use super::ahead::{self, Told, Wanted};
use super::{Recovered, StoreState};
use crate::checkpoint::LastPositions;
use crate::commit_log::CommitLog;
use crate::commit_log::in_parts;
use crate::commit_log::scan::{self, ScanEnd};
use crate::config::OnDamage;
use crate::dispatch::Gap;
use crate::error::{Error, Result};
use crate::format::be;
use crate::format::message::{
    Check, MAGIC_CODE_AT, MESSAGE_MAGIC_CODE, MESSAGE_MAGIC_CODE_V2, Record, RecordFault, SYS_FLAG_AT,
    store_timestamp_at,
};
use crate::format::record_crc::RecordCrc;
use crate::mmap::file_queue::FileQueue;
use crate::mmap::mapped_file::MappedFile;
use crate::num;

/// How many of the newest files are read after a clean stop, as in 4.9.3.
const CHECKED_FILE_COUNT: usize = 3;
/// How much is written again at a time.
const WRITTEN_AGAIN_SIZE: u64 = 1 << 20;
/// The least that a disk writes as a whole.
const SECTOR_SIZE: u64 = 512;
/// As much of a file as its first record's store time needs.
const HEAD_SIZE: u64 = 128;

/// What was found.
#[derive(Debug)]
pub struct LogEnd {
    /// Where the log ends.
    pub log_end: u64,
    /// Store time of the last message that was seen; 0 where none was.
    pub last_store_timestamp: i64,
    /// Where the walk began: the first byte of a file.
    pub walked_from: u64,
    /// Parts without records, with records behind them.
    pub gaps: Vec<Gap>,
    /// What stands behind the end.
    pub behind: Behind,
    /// What the walk told beside.
    pub told: Told,
}

/// What stands behind the log's end, up to the end of its last file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Behind {
    /// Zeros, as reserved blocks read.
    Zeros,
    /// The blank that ended the last file, or what was not looked at.
    Unknown,
    /// Something that has to go.
    Remains,
}

impl LogEnd {
    /// An end that is known without a walk, or is that of one that has not seen a record yet.
    pub(super) fn at(log_end: u64, walked_from: u64) -> Self {
        let behind = Behind::Unknown;
        let (gaps, told) = (Vec::new(), Told::default());
        Self { log_end, last_store_timestamp: 0, walked_from, gaps, behind, told }
    }
}

/// Finds the log's end.
///
/// # Errors
/// As for [`super::recover`].
pub fn find(of: Recovered<'_>) -> Result<LogEnd> {
    let files = of.log.files();
    if let StoreState::Live { wrote: Some(wrote), .. } = of.state {
        let log_end = files.last().map_or(0, |last| wrote.min(last.end_offset()));
        return Ok(LogEnd::at(log_end, log_end));
    }
    let all = files.files();
    let (Some(start), Some(first)) = (start_file(of, &all)?, all.first()) else {
        return Ok(LogEnd::at(0, 0));
    };
    let found = walk(of, &all, start.file_from_offset())?;
    if start.file_from_offset() > first.file_from_offset() && overclaims(of, &found) {
        return walk(of, &all, first.file_from_offset());
    }
    Ok(found)
}

/// Whether the checkpoint covers messages that the log does not have: then it says nothing about
/// those that it has. Its times are covered by no checksum.
fn overclaims(of: Recovered<'_>, found: &LogEnd) -> bool {
    let times = of.checkpoint.times();
    let covered = times.physic_msg_timestamp.min(times.logics_msg_timestamp);
    of.state == StoreState::Crashed && covered > found.last_store_timestamp
}

fn walk(of: Recovered<'_>, all: &[Arc<MappedFile>], walked_from: u64) -> Result<LogEnd> {
    let files = of.log.files();
    let check = if of.config.check_crc_on_recover { Check::BodyCrc } else { Check::Structure };
    let mut found = LogEnd::at(walked_from, walked_from);
    found.told = Told::before_walk(of);
    let last_file = all.last().map_or(walked_from, |last| last.file_from_offset());
    let to = of.config.mended_to.unwrap_or(u64::MAX);
    let mut position = walk_in_parts(of, &mut found, check, to)?;
    loop {
        let end = scan::scan(files, position, to, check, |offset, record, _| {
            if has_lost_properties(of, offset, record)? {
                return Ok(ControlFlow::Break(()));
            }
            found.log_end = record.next_offset(offset);
            found.last_store_timestamp = record.store_timestamp;
            if let Some(search) = &mut found.told.search {
                search.record(of.queues, offset, record)?;
            }
            if let Some(queues) = &mut found.told.queues {
                queues.record(&of.config.removed_queues, offset, record);
            }
            Ok(ControlFlow::Continue(()))
        })?;
        if let Some(mended_to) = of.config.mended_to {
            check_is_whole(of, end, mended_to)?;
            found.log_end = mended_to;
            found.behind = Behind::Remains;
            return Ok(found);
        }
        let (bad, fault) = match end {
            ScanEnd::Fault { offset, fault } => (offset, Some(fault)),
            ScanEnd::Missing(offset) => (offset, None),
            ScanEnd::Stopped(lost) => {
                found.log_end = found.log_end.max(file_start(files, lost));
                found.behind = Behind::Remains;
                return Ok(found);
            }
            // The blank at the end of the last file does not count, as in 4.9.3.
            ScanEnd::Reached(_) => {
                found.log_end = found.log_end.max(last_file);
                return Ok(found);
            }
        };
        let next = next_promised(of, bad, fault)?;
        let Some(next) = next.filter(|_| !is_being_written(of, files, bad)) else {
            found.log_end = found.log_end.max(file_start(files, bad));
            found.behind = if is_unwritten(files, bad)? { Behind::Zeros } else { Behind::Remains };
            return Ok(found);
        };
        if of.writable {
            refuse_unless_told_to_cut(of, bad, fault, next)?;
            found.log_end = found.log_end.max(file_start(files, bad));
            found.behind = Behind::Remains;
            return Ok(found);
        }
        found.gaps.push(Gap { from: bad, to: next, fault });
        found.told.search = None;
        position = next;
    }
}

/// Refuses a mended log that is not whole up to its end: nothing of it is cut for that.
fn check_is_whole(of: Recovered<'_>, end: ScanEnd, mended_to: u64) -> Result<()> {
    match end.reached() {
        Ok(reached) if reached >= mended_to => Ok(()),
        Ok(bad) => refuse_unless_told_to_cut(of, bad, None, mended_to),
        Err((bad, fault)) => refuse_unless_told_to_cut(of, bad, fault, mended_to),
    }
}

/// What a part of the walk gave.
#[derive(Debug, Default)]
struct Part {
    /// Where its last record ends, and that record's store time.
    last: Option<(u64, i64)>,
    ahead: ahead::Part,
}

/// Walks on several threads as far as the log is without a bad record, and gives where that is.
fn walk_in_parts(of: Recovered<'_>, found: &mut LogEnd, check: Check, limit: u64) -> Result<u64> {
    let files = of.log.files();
    let walk = in_parts::Walk {
        files,
        from: found.walked_from,
        to: files.last().map_or(0, |last| last.end_offset()).min(limit),
        limit,
        check,
        parts: of.config.walked_parts,
    };
    let wanted = Wanted::of(of, &found.told);
    let visit = |part: &mut Part, offset: u64, record: &Record<'_>| {
        if has_lost_properties(of, offset, record)? {
            return Ok(ControlFlow::Break(()));
        }
        part.last = Some((record.next_offset(offset), record.store_timestamp));
        wanted.record(&mut part.ahead, offset, record)?;
        Ok(ControlFlow::Continue(()))
    };
    in_parts::walk(walk, visit, |range, part: Part| {
        if let Some(last) = part.last {
            (found.log_end, found.last_store_timestamp) = last;
        }
        wanted.take(&mut found.told, range, part.ahead)
    })
}

/// Whether a place that held no record does by now, in a store that somebody writes: the walk may
/// have come by while the record was copied there. Then the log ends here for this reader.
fn is_being_written(of: Recovered<'_>, files: &FileQueue, bad: u64) -> bool {
    matches!(of.state, StoreState::Live { .. }) && matches!(scan::size_at(files, bad), Ok(Some(_)))
}

/// From where on bytes may not have got to the disk, though some behind them may have: a power cut takes
/// any of the pages, or of their sectors, that were not flushed, and leaves of a sector what was in it
/// when it was last written.
fn unflushed_from(of: Recovered<'_>) -> u64 {
    let known = of.positions.known().filter(|_| of.state == StoreState::Crashed);
    known.map_or(u64::MAX, |known| known.log)
}

/// The next valid record behind a bad place; `None` too where what stands at that place did not get to the
/// disk. What was flushed stands before all that was not, so nothing that was promised is behind.
fn next_promised(of: Recovered<'_>, bad: u64, fault: Option<RecordFault>) -> Result<Option<u64>> {
    let unflushed = unflushed_from(of);
    if bad >= unflushed && is_lost(of, bad, bad, u64::MAX)? {
        return Ok(None);
    }
    let next = scan::next_valid(of.log.files(), bad, fault, u64::MAX)?;
    // A slave's log is flushed up to anywhere in a record, whose rest may not be there then. Of a damaged
    // record before, its size may be what is wrong.
    let is_cut = |next: &u64| bad < unflushed && *next > unflushed;
    let rest_is_lost = match next.filter(is_cut) {
        Some(next) => is_lost(of, bad, unflushed, next)?,
        None => false,
    };
    Ok(next.filter(|_| !rest_is_lost))
}

/// Whether of a bad record something between two offsets did not get to the disk.
fn is_lost(of: Recovered<'_>, bad: u64, from: u64, to: u64) -> Result<bool> {
    let Some(file) = of.log.files().find(bad) else { return Ok(false) };
    let position = bad - file.file_from_offset();
    let size = be::i32_at(&file.slice(position, 4)?, 0).and_then(num::from_java_int).unwrap_or(0);
    let least = SECTOR_SIZE - position % SECTOR_SIZE;
    let end = (bad + u64::from(size).max(least)).min(to).min(file.end_offset());
    if from >= end {
        return Ok(false);
    }
    let bytes = file.slice(from - file.file_from_offset(), end - from)?;
    Ok(ends_in_zeros(&bytes, from))
}

/// Whether the properties of a record, which the body's CRC does not cover, did not get to the disk.
fn has_lost_properties(of: Recovered<'_>, offset: u64, record: &Record<'_>) -> Result<bool> {
    let end = offset + u64::from(record.total_size);
    let lost = end.saturating_sub(unflushed_from(of)).min(num::offset(record.properties.len()));
    let kept = record.properties.len() - num::index(lost);
    let unflushed = record.properties.get(kept..).unwrap_or_default();
    if !ends_in_zeros(unflushed, end - lost) {
        return Ok(false);
    }
    if !RecordCrc::is_in(record.properties) {
        return Ok(true);
    }
    // Where checksums are looked at the walk has done it.
    let file = of.log.files().find(offset).filter(|_| !of.config.check_crc_on_recover);
    let Some(file) = file else { return Ok(false) };
    let bytes = file.slice(offset - file.file_from_offset(), u64::from(record.total_size))?;
    Ok(record.check_content(&bytes).is_err())
}

/// Whether what some bytes at an offset of the log have of a sector ends with the zeros that were there
/// before: it was written when not all of it had been copied there, or not at all.
pub(crate) fn ends_in_zeros(bytes: &[u8], offset: u64) -> bool {
    let in_first = num::index(SECTOR_SIZE - offset % SECTOR_SIZE);
    let (first, others) = bytes.split_at_checked(in_first).unwrap_or((bytes, &[]));
    let mut sectors = std::iter::once(first).chain(others.chunks(num::index(SECTOR_SIZE)));
    sectors.any(|sector| sector.last() == Some(&0))
}

/// A store that is opened for writing is not cut where valid records would go, unless the user says so.
pub(super) fn refuse_unless_told_to_cut(
    of: Recovered<'_>,
    bad: u64,
    fault: Option<RecordFault>,
    next_valid: u64,
) -> Result<()> {
    if of.config.on_damage == OnDamage::Truncate {
        return Ok(());
    }
    let files = of.log.files();
    let path =
        files.find(bad).map_or_else(|| of.config.store_path_root_dir.clone(), |file| file.path().into());
    let fault = fault.unwrap_or(RecordFault::TooShort { needed: files.file_size(), found: 0 });
    Err(Error::Damaged { path, offset: bad, fault, next_valid })
}

fn file_start(files: &FileQueue, offset: u64) -> u64 {
    files.find(offset).map_or(offset, |file| file.file_from_offset())
}

/// Whether nothing but zeros stands from an offset to the end of the last file.
fn is_unwritten(files: &FileQueue, offset: u64) -> Result<bool> {
    for file in files.files().iter().filter(|file| file.end_offset() > offset) {
        if !scan::is_zero(file, offset.max(file.file_from_offset()), file.end_offset())? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The file at which the walk begins: after a clean stop the third but last, otherwise the newest
/// whose first message is older than what the checkpoint covers, or the one up to which the last
/// mqstore writer knew everything to be on the disk, whichever is earlier.
fn start_file(of: Recovered<'_>, files: &[Arc<MappedFile>]) -> Result<Option<Arc<MappedFile>>> {
    if of.state != StoreState::Crashed {
        return Ok(files.get(files.len().saturating_sub(CHECKED_FILE_COUNT)).cloned());
    }
    let times = of.checkpoint.times();
    let covered = if of.config.message_index_enable && of.config.message_index_safe {
        times.min_timestamp_index()
    } else {
        times.min_timestamp()
    };
    let mut start = files.first();
    for file in files.iter().rev() {
        if first_store_timestamp(file)?.is_some_and(|first| first <= covered) {
            start = Some(file);
            break;
        }
    }
    let known = match of.positions {
        LastPositions::Never => return Ok(start.cloned()),
        LastPositions::Lost => 0,
        LastPositions::Known(positions) => positions.log,
    };
    let by_position = files.iter().rev().find(|file| file.file_from_offset() <= known).or(files.first());
    let by_time = start.map_or(0, |file| file.file_from_offset());
    let earlier = by_position.filter(|file| file.file_from_offset() < by_time);
    Ok(earlier.or(start).cloned())
}

/// The store time of a file's first message; `None` where it begins with none.
fn first_store_timestamp(file: &Arc<MappedFile>) -> Result<Option<i64>> {
    let head = file.slice(0, HEAD_SIZE)?;
    let is_message = be::i32_at(&head, MAGIC_CODE_AT)
        .is_some_and(|code| code == MESSAGE_MAGIC_CODE || code == MESSAGE_MAGIC_CODE_V2);
    let time =
        be::i32_at(&head, SYS_FLAG_AT).and_then(|sys_flag| be::i64_at(&head, store_timestamp_at(sys_flag)));
    Ok(time.filter(|&time| is_message && time != 0))
}

/// Removes what stands behind the log's end: zeroes the rest of its file and flushes that before
/// anything new is written, so that what was cut can never be read again. Later files go.
///
/// # Errors
/// Where a file can't be written or removed.
pub fn trim(log: &CommitLog, log_end: u64, behind: Behind) -> Result<()> {
    let files = log.files();
    let all = files.files();
    let later: Vec<_> = all.iter().filter(|file| file.file_from_offset() > log_end).cloned().collect();
    // The newest go first: a crash in between leaves no file missing in the middle.
    for file in later.iter().rev() {
        files.delete(std::slice::from_ref(file))?;
    }
    if let Some(file) = files.find(log_end).filter(|_| behind != Behind::Zeros)
        && file.zero_from(log_end - file.file_from_offset())?.is_some()
    {
        file.sync()?;
    }
    files.remove_half_made()?;
    files.sync_dirs()
}

/// Writes the log's end once more, from where it was flushed, and the zeros behind it. A page that the disk did not take stays
/// in memory as it is, and is called clean: the next flush would leave it out, and say that it is on the disk.
///
/// # Errors
/// Where a file can't be read or written.
pub fn write_again(log: &CommitLog, from: u64, log_end: u64) -> Result<()> {
    let files = log.files().files();
    for file in files.iter().filter(|file| file.end_offset() > from) {
        let handle = file.handle()?;
        let mut position = from.saturating_sub(file.file_from_offset());
        while position < file.file_size() {
            if file.file_from_offset() + position >= log_end {
                // What was cut can be there on the disk; what was never written is not read.
                match handle.next_data(position).map_err(Error::io("look for data in", file.path()))? {
                    Some(data) if data < file.file_size() => position = position.max(data),
                    _ => break,
                }
            }
            let len = WRITTEN_AGAIN_SIZE.min(file.file_size() - position);
            let bytes = file.slice(position, len)?;
            handle.write_at(&bytes, position).map_err(Error::io("write", file.path()))?;
            position += len;
        }
        file.sync()?;
    }
    Ok(())
}
