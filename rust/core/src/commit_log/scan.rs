//! Walking the log record by record.
//!
//! Everything that reads the log from one end to the other goes through here: recovery, dispatch,
//! selections, rebuilds, verification. A walk starts at a record's boundary; behind a bad record
//! [`next_valid`] finds where records go on.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

use super::{Bodies, without_bodies};
use crate::error::{Error, Result};
use crate::format::be;
use crate::format::java_string::decode;
use crate::format::message::{
    self, Check, Decoded, END_FILE_MIN_BLANK_LENGTH, FIXED_SIZE, MAGIC_CODE_AT, MAX_HEAD_SIZE,
    MESSAGE_MAGIC_CODE, MESSAGE_MAGIC_CODE_V2, PHYSICAL_OFFSET_AT, Record, RecordFault,
};
use crate::format::sys_flag;
use crate::interrupt;
use crate::mmap::file_queue::FileQueue;
use crate::mmap::mapped_file::MappedFile;
use crate::mmap::slice::Slice;
use crate::num;
use crate::short_text::has_either;
use crate::zeros;

/// Bytes that are read at a time where files are read and not mapped.
const READ_AHEAD: u64 = 8 << 20;
/// What a walk or a search reads first there, and by how much more at a time: behind each of many bad records one begins,
/// and few of them go far.
const FIRST_READ: u64 = 64 << 10;
const READS_GROW_BY: u64 = 16;
/// A bad record is not taken to be larger than this.
pub const MAX_BAD_SIZE: u64 = 8 << 20;

/// Most bytes of a folder's name.
const MAX_NAME_LENGTH: usize = 255;

/// How a walk ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScanEnd {
    /// At the offset to which it was to go, or at the end of the last file.
    Reached(u64),
    /// The visitor stopped it before the record at this offset.
    Stopped(u64),
    /// At a place that holds no record.
    Fault {
        /// The place.
        offset: u64,
        /// What is wrong there.
        fault: RecordFault,
    },
    /// At a file that is missing.
    Missing(u64),
}

impl ScanEnd {
    /// Where it was at its end or stopped; in the other case the place at which there is no record, and what
    /// is wrong there, `None` where its file is missing.
    ///
    /// # Errors
    /// That place.
    pub const fn reached(self) -> std::result::Result<u64, (u64, Option<RecordFault>)> {
        match self {
            Self::Reached(offset) | Self::Stopped(offset) => Ok(offset),
            Self::Fault { offset, fault } => Err((offset, Some(fault))),
            Self::Missing(offset) => Err((offset, None)),
        }
    }
}

/// Whether a record can be served at all: beside what decoding checks, it stands where it says, its topic
/// can be a topic, and one that is in no queue has no offset there.
///
/// # Errors
/// The fault.
pub fn check_record(record: &Record<'_>, offset: u64) -> std::result::Result<(), RecordFault> {
    record.check_offset(offset)?;
    let Record { queue_id, queue_offset, .. } = *record;
    if queue_offset != 0 && !sys_flag::enters_consume_queue(record.sys_flag) {
        return Err(RecordFault::Misplaced { queue_id, queue_offset });
    }
    check_topic(record.topic)
}

/// Whether a topic can be one of a store: it becomes a folder's name.
///
/// # Errors
/// The fault.
pub fn check_topic(topic: &[u8]) -> std::result::Result<(), RecordFault> {
    let bad = topic.is_empty()
        || topic == b"."
        || topic == b".."
        || has_either(topic, b'/', 0)
        || is_longer_than_names(topic);
    if bad { Err(RecordFault::Topic { len: u32::try_from(topic.len()).unwrap_or(u32::MAX) }) } else { Ok(()) }
}

fn is_longer_than_names(topic: &[u8]) -> bool {
    topic.len() > MAX_NAME_LENGTH / char::REPLACEMENT_CHARACTER.len_utf8()
        && decode(topic).len() > MAX_NAME_LENGTH
}

/// Walks the records from `from`, a boundary, up to `to`; the visitor gets a record's bytes too.
///
/// # Errors
/// Where a file can't be read, or the visitor's own.
pub fn scan(
    files: &FileQueue,
    from: u64,
    to: u64,
    check: Check,
    mut visit: impl FnMut(u64, &Record<'_>, &[u8]) -> Result<ControlFlow<()>>,
) -> Result<ScanEnd> {
    scan_windows(files, from, to, check, Bodies::Wanted, |offset, record, window, at| {
        let bytes = window.get(at..at + record.total_size as usize).unwrap_or_default();
        visit(offset, record, bytes)
    })
}

/// As [`scan`]; the visitor gets the window that the record lies in, and its place there.
/// Without bodies only the records' structure is checked.
///
/// # Errors
/// As for [`scan`].
pub fn scan_windows(
    files: &FileQueue,
    from: u64,
    to: u64,
    check: Check,
    bodies: Bodies,
    mut visit: impl FnMut(u64, &Record<'_>, &Slice, usize) -> Result<ControlFlow<()>>,
) -> Result<ScanEnd> {
    let check = if bodies == Bodies::Unwanted { Check::Structure } else { check };
    let mut offset = from;
    while offset < to {
        let Some(file) = files.find(offset) else {
            let behind_last = files.last().is_none_or(|last| offset >= last.end_offset());
            return Ok(if behind_last { ScanEnd::Reached(offset) } else { ScanEnd::Missing(offset) });
        };
        let reached = if bodies == Bodies::Unwanted && file.is_read() {
            without_bodies::scan_file(&file, offset, to.min(file.end_offset()), &mut visit)?
        } else {
            scan_file(&file, offset, to, check, &mut visit)?
        };
        match reached {
            ScanEnd::Reached(end) => offset = end,
            end => return Ok(end),
        }
    }
    Ok(ScanEnd::Reached(offset))
}

/// What to read first of a file, and what after so much.
fn first_read(file: &MappedFile) -> u64 {
    if file.is_read() { FIRST_READ } else { READ_AHEAD }
}

const fn next_read(last: u64) -> u64 {
    let next = last.saturating_mul(READS_GROW_BY);
    if next < READ_AHEAD { next } else { READ_AHEAD }
}

/// Walks the records of one file. [`ScanEnd::Reached`] with the file's end means: go on behind it.
fn scan_file(
    file: &Arc<MappedFile>,
    from: u64,
    to: u64,
    check: Check,
    visit: &mut impl FnMut(u64, &Record<'_>, &Slice, usize) -> Result<ControlFlow<()>>,
) -> Result<ScanEnd> {
    let end = to.min(file.end_offset());
    let mut offset = from;
    let mut window_size = first_read(file);
    while offset < end {
        interrupt::check()?;
        let wanted = (end - offset).min(window_size);
        let window = file.slice(offset - file.file_from_offset(), wanted)?;
        let is_whole = wanted == end - offset || num::offset(window.len()) < wanted;
        let start = offset;
        window_size = next_read(window_size);
        loop {
            let rest = window.get(num::index(offset - start)..).unwrap_or_default();
            if rest.is_empty() {
                break;
            }
            match message::decode(rest, check).and_then(|decoded| {
                if let Decoded::Message(record) = &decoded {
                    check_record(record, offset)?;
                }
                Ok(decoded)
            }) {
                Ok(Decoded::Blank { .. }) => return Ok(ScanEnd::Reached(file.end_offset())),
                Ok(Decoded::Message(record)) => {
                    if visit(offset, &record, &window, num::index(offset - start))?.is_break() {
                        return Ok(ScanEnd::Stopped(offset));
                    }
                    offset = record.next_offset(offset);
                }
                // The window may have cut the record.
                Err(RecordFault::TooShort { needed, .. }) if !is_whole => {
                    window_size = window_size.max(needed);
                    break;
                }
                Err(fault) => return Ok(ScanEnd::Fault { offset, fault }),
            }
        }
        if offset == start && is_whole {
            let fault = RecordFault::TooShort { needed: FIXED_SIZE as u64, found: num::offset(window.len()) };
            return Ok(ScanEnd::Fault { offset, fault });
        }
    }
    Ok(ScanEnd::Reached(end))
}

/// The first record that checks out at or behind an offset that is no record's boundary: magic
/// code, own offset, lengths and body CRC agree. `None` where no such record follows.
///
/// A body may hold bytes that look like a record of just that place, so what this finds counts as
/// found only where the walk that goes on from it holds, or where nothing worse than refusing to
/// cut depends on it.
///
/// # Errors
/// Where a file can't be read.
pub fn next_record(files: &FileQueue, from: u64, to: u64) -> Result<Option<u64>> {
    for file in files.files().iter() {
        if file.end_offset() <= from || file.file_from_offset() >= to {
            continue;
        }
        if let Some(found) = next_record_in_file(file, from.max(file.file_from_offset()), to)? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// The next valid record behind a bad place and before `to`. A body can hold bytes that look like a record
/// of just that place, so what stands inside the bad record does not count, where its end is known: its own
/// lengths agree, or by one of them it ends where a record that checks out begins.
///
/// # Errors
/// Where a file can't be read.
pub fn next_valid(files: &FileQueue, bad: u64, fault: Option<RecordFault>, to: u64) -> Result<Option<u64>> {
    next_valid_in_more(files, bad, fault, 0, to)
}

/// As [`next_valid`], where none was found when the log ended at `searched_to`.
///
/// # Errors
/// Where a file can't be read.
pub fn next_valid_in_more(
    files: &FileQueue,
    bad: u64,
    fault: Option<RecordFault>,
    searched_to: u64,
    to: u64,
) -> Result<Option<u64>> {
    let size = match (fault, files.find(bad)) {
        (Some(_), Some(file)) => size_of_bad(&file, bad)?,
        _ => None,
    };
    // Its begin may have been there then.
    let from = (bad + size.unwrap_or(1)).max(searched_to.saturating_sub(MAX_BAD_SIZE));
    next_record(files, from, to)
}

fn size_of_bad(file: &Arc<MappedFile>, bad: u64) -> Result<Option<u64>> {
    let most = MAX_BAD_SIZE.min(file.end_offset() - bad);
    // Of a mapped file nothing is read by that; of another one it would be megabytes for each of many bad records.
    let slice = |at: u64, len: u64| {
        file.slice(bad - file.file_from_offset() + at.min(most), len.min(most.saturating_sub(at)))
    };
    let head = slice(0, MAX_HEAD_SIZE as u64)?;
    let by_size = be::i32_at(&head, 0).and_then(num::from_java_int).map(u64::from);
    let by_lengths = message::size_by_lengths(&head, |at, len| slice(num::offset(at), num::offset(len)))?;
    let size_if_whole = |bytes: &[u8]| match message::decode(bytes, Check::Structure) {
        Ok(Decoded::Message(record)) => Ok(Some(u64::from(record.total_size))),
        Ok(Decoded::Blank { .. }) => Ok(None),
        Err(fault) => Err(fault),
    };
    let whole = match size_if_whole(&head) {
        Err(RecordFault::TooShort { needed, .. }) if needed <= most => size_if_whole(&slice(0, needed)?),
        outcome => outcome,
    };
    if let Ok(Some(size)) = whole {
        return Ok(Some(size));
    }
    let mut sizes: Vec<_> = by_size.into_iter().chain(by_lengths).collect();
    sizes.sort_unstable();
    for size in sizes.into_iter().filter(|&size| size >= FIXED_SIZE as u64) {
        let behind = slice(size, END_FILE_MIN_BLANK_LENGTH as u64)?;
        let ends_file =
            matches!(message::decode(&behind, Check::Structure), Ok(Decoded::Blank { size }) if size > 0);
        let end = bad + size;
        if ends_file
            || (end < file.end_offset()
                && size_in_file(file, end, file.end_offset(), Check::BodyCrc)?.is_some())
        {
            return Ok(Some(size));
        }
    }
    Ok(None)
}

fn next_record_in_file(file: &Arc<MappedFile>, from: u64, to: u64) -> Result<Option<u64>> {
    const OVERLAP: u64 = FIXED_SIZE as u64;
    let end = to.min(file.end_offset());
    let handle = file.handle()?;
    let mut at = from;
    let mut window_size = first_read(file);
    while at < end {
        interrupt::check()?;
        // Reserved blocks that were never written read as zeros and can be long: skip them.
        let position = at - file.file_from_offset();
        let Some(data) = handle.next_data(position).map_err(Error::io("look for data in", file.path()))?
        else {
            break;
        };
        // A record's size begins with zeros, which may lie in the hole.
        at = at.max(file.file_from_offset() + data.saturating_sub(MAGIC_CODE_AT as u64));
        if at >= end {
            break;
        }
        let data_end = end.min(data_end_in(file, data)?);
        let len = window_size.min(data_end - at);
        window_size = next_read(window_size);
        let window = file.slice(at - file.file_from_offset(), len)?;
        if let Some(found) = find_in_window(file, &window, at, end)? {
            return Ok(Some(found));
        }
        if len == end - at || num::offset(window.len()) < len {
            break;
        }
        // No magic code goes on in a hole.
        at = if at + len == data_end { data_end } else { at + len - OVERLAP };
    }
    Ok(None)
}

/// Up to which offset a file goes on without a hole from a position where there is none. A hole is not read: on tmpfs that would
/// give it memory.
fn data_end_in(file: &Arc<MappedFile>, data: u64) -> Result<u64> {
    let hole = file.handle()?.next_hole(data).map_err(Error::io("look for a hole in", file.path()))?;
    Ok(file.file_from_offset() + hole.max(data + 1))
}

fn find_in_window(file: &Arc<MappedFile>, window: &[u8], at: u64, end: u64) -> Result<Option<u64>> {
    // Both magic codes of a message share their first three bytes.
    let [a, b, c, _] = MESSAGE_MAGIC_CODE.to_be_bytes();
    for found in memchr::memmem::find_iter(window, &[a, b, c]) {
        let Some(start) = found.checked_sub(MAGIC_CODE_AT) else { continue };
        let is_magic = be::i32_at(window, found)
            .is_some_and(|code| code == MESSAGE_MAGIC_CODE || code == MESSAGE_MAGIC_CODE_V2);
        let offset = at + num::offset(start);
        if is_magic && size_in_file(file, offset, end, Check::BodyCrc)?.is_some() {
            return Ok(Some(offset));
        }
    }
    Ok(None)
}

/// The size of the record at an offset; `None` where none stands there that checks out, its body
/// included.
///
/// # Errors
/// Where the file can't be read.
pub fn size_at(files: &FileQueue, offset: u64) -> Result<Option<u32>> {
    files.find(offset).map_or(Ok(None), |file| size_in_file(&file, offset, file.end_offset(), Check::BodyCrc))
}

fn size_in_file(file: &Arc<MappedFile>, offset: u64, end: u64, check: Check) -> Result<Option<u32>> {
    let position = offset - file.file_from_offset();
    // What is cheap to tell first: bodies can be full of what looks like the heads of records, each of a size that it takes
    // long to read and to sum up.
    let head = file.slice(position, PHYSICAL_OFFSET_AT as u64 + 8)?;
    let Some(size) = be::i32_at(&head, 0).and_then(num::from_java_int) else { return Ok(None) };
    let is_its_place = be::i64_at(&head, PHYSICAL_OFFSET_AT).and_then(num::from_java_long) == Some(offset);
    if !is_its_place || offset + u64::from(size) > end {
        return Ok(None);
    }
    interrupt::check()?;
    let bytes = file.slice(position, u64::from(size))?;
    Ok(match message::decode(&bytes, check) {
        Ok(Decoded::Message(record)) if check_record(&record, offset).is_ok() => Some(size),
        _ => None,
    })
}

/// Whether nothing but zeros, or fewer bytes than a blank takes, stand between two offsets of a file.
///
/// # Errors
/// Where the file can't be read.
pub fn is_zero(file: &Arc<MappedFile>, from: u64, to: u64) -> Result<bool> {
    let handle = file.handle()?;
    let mut at = from;
    while at < to {
        interrupt::check()?;
        let position = at - file.file_from_offset();
        let Some(data) = handle.next_data(position).map_err(Error::io("look for data in", file.path()))?
        else {
            break;
        };
        at = at.max(file.file_from_offset() + data);
        if at >= to {
            break;
        }
        let len = READ_AHEAD.min(to.min(data_end_in(file, data)?) - at);
        let window = file.slice(at - file.file_from_offset(), len)?;
        if window.is_empty() {
            break;
        }
        if !zeros::is_zero(&window) {
            return Ok(false);
        }
        at += num::offset(window.len());
    }
    Ok(true)
}

/// The error for a place that holds no record.
#[must_use]
pub fn fault_error(files: &FileQueue, offset: u64, fault: RecordFault) -> Error {
    let path = files.find(offset).map_or_else(PathBuf::new, |file| file.path().to_path_buf());
    Error::Record { path, offset, fault }
}

/// Bytes that a file must have left for a record to follow.
#[must_use]
pub const fn leaves_room(remaining: u64) -> bool {
    remaining >= END_FILE_MIN_BLANK_LENGTH as u64
}
