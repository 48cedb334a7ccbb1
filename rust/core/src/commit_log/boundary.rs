//! Where a log can be divided.
//!
//! A body can hold bytes that look like a record of just that place, so what a search finds from any
//! byte is no boundary yet. One is known at the first byte of each file; from a known one a walk finds
//! the next ones.

use std::ops::{ControlFlow, Range};

use super::Bodies;
use super::scan;
use crate::error::Result;
use crate::format::message::Check;
use crate::mmap::file_queue::FileQueue;

/// The first offset at or behind another at which a walk over a whole log comes by: where a record
/// begins, or a part that holds none, or the log ends. `known` gives a boundary between the begin of
/// the offset's file, which is one, and the offset.
///
/// # Errors
/// Where the log can't be read, or what `known` gives.
pub fn boundary_at(
    files: &FileQueue,
    log: Range<u64>,
    offset: u64,
    known: impl FnOnce(u64) -> Result<u64>,
) -> Result<u64> {
    let end = log.end;
    if offset <= log.start || offset >= end {
        return Ok(offset.clamp(log.start, end.max(log.start)));
    }
    // In a file that is missing nothing begins: the next one does.
    let Some(file) = files.find(offset) else {
        let behind = files.files().iter().map(|file| file.file_from_offset()).find(|&from| from > offset);
        return Ok(behind.unwrap_or(end));
    };
    let mut at = known(file.file_from_offset())?;
    while at < offset {
        let reached =
            scan::scan_windows(files, at, end, Check::Structure, Bodies::Unwanted, |found, _, _, _| {
                Ok(if found >= offset { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
            })?;
        at = match reached.reached() {
            Ok(found) => return Ok(found.min(end)),
            Err((bad, _)) if bad >= offset => return Ok(bad),
            Err((bad, fault)) => scan::next_valid(files, bad, fault, end)?.unwrap_or(end),
        };
    }
    Ok(at.min(end))
}
