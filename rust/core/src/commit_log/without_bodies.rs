//! Records without their bodies, where files are read and not mapped: what lies between a record's
//! head and its tail is passed over and reads as zeros.

use std::ops::ControlFlow;
use std::sync::Arc;

use super::scan::{ScanEnd, check_record};
use crate::error::Result;
use crate::format::be;
use crate::format::message::{self, Check, Decoded, MAX_HEAD_SIZE, Record, body_behind_head};
use crate::interrupt;
use crate::mmap::mapped_file::MappedFile;
use crate::mmap::slice::Slice;
use crate::num;

/// What is read at a time. Bodies up to about this size cost less to read than to pass over.
const WINDOW: u64 = 16 << 10;

/// The bytes of the record at a position of a file, its body unread; fewer than `size` where the
/// file ends before. What stands there need not be a record.
///
/// # Errors
/// Where the file can't be read.
pub(super) fn read(file: &Arc<MappedFile>, position: u64, size: u64) -> Result<Slice> {
    if size <= WINDOW {
        return file.slice(position, size);
    }
    let head = file.slice(position, MAX_HEAD_SIZE as u64)?;
    let Some(body) = body_behind_head(&head).filter(|body| num::offset(body.end) < size) else {
        return file.slice(position, size);
    };
    let tail = file.slice(position + num::offset(body.end), size - num::offset(body.end))?;
    let mut bytes = vec![0; body.end + tail.len()];
    for (at, part) in [(0, head.get(..body.start)), (body.end, Some(&*tail))] {
        let part = part.unwrap_or_default();
        if let Some(place) = bytes.get_mut(at..at + part.len()) {
            place.copy_from_slice(part);
        }
    }
    Ok(Slice::read(bytes))
}

/// Walks the records of a file up to `end` as [`super::scan`] does, their structure checked.
pub(super) fn scan_file(
    file: &Arc<MappedFile>,
    from: u64,
    end: u64,
    visit: &mut impl FnMut(u64, &Record<'_>, &Slice, usize) -> Result<ControlFlow<()>>,
) -> Result<ScanEnd> {
    let (mut window, mut window_from) = (Slice::read([]), from);
    let mut offset = from;
    while offset < end {
        let mut at = num::index(offset - window_from);
        let is_whole = |rest: &[u8]| {
            let size = be::i32_at(rest, 0).and_then(num::from_java_int);
            size.is_some_and(|size| size as usize <= rest.len())
        };
        if !window.get(at..).is_some_and(is_whole) {
            interrupt::check()?;
            let position = offset - file.file_from_offset();
            let head = file.slice(position, 4)?;
            let size = be::i32_at(&head, 0).and_then(num::from_java_int).map_or(0, u64::from);
            window = read(file, position, size.max(WINDOW).min(end - offset))?;
            (window_from, at) = (offset, 0);
        }
        let rest = window.get(at..).unwrap_or_default();
        let decoded = message::decode(rest, Check::Structure).and_then(|decoded| {
            if let Decoded::Message(record) = &decoded {
                check_record(record, offset)?;
            }
            Ok(decoded)
        });
        match decoded {
            Ok(Decoded::Blank { .. }) => return Ok(ScanEnd::Reached(file.end_offset())),
            Ok(Decoded::Message(record)) => {
                if visit(offset, &record, &window, at)?.is_break() {
                    return Ok(ScanEnd::Stopped(offset));
                }
                offset = record.next_offset(offset);
            }
            Err(fault) => return Ok(ScanEnd::Fault { offset, fault }),
        }
    }
    Ok(ScanEnd::Reached(end))
}
