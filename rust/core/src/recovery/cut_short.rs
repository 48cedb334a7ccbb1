//! The only file of a log, where somebody has cut it short: its length is not the one that the log's files have.
//!
//! A whole file has room for a blank behind its last record, always. Where records go to its end, or beyond, or a blank
//! says that more of the file follows, something is missing.

use std::ops::ControlFlow;
use std::sync::Arc;

use crate::commit_log::scan::{self, ScanEnd};
use crate::config::StoreConfig;
use crate::error::Result;
use crate::format::be;
use crate::format::message::{
    self, Check, Decoded, END_FILE_MIN_BLANK_LENGTH, MAGIC_CODE_AT, MAX_HEAD_SIZE, MESSAGE_MAGIC_CODE,
    MESSAGE_MAGIC_CODE_V2,
};
use crate::mmap::file_queue::FileQueue;
use crate::mmap::mapped_file::MappedFile;
use crate::num;

const BLANK_SIZE: u64 = END_FILE_MIN_BLANK_LENGTH as u64;

/// The size that the files of a log had, where it has one file, that was cut short, and the options say a larger size.
///
/// # Errors
/// Where the file can't be read.
pub fn size_before(files: &FileQueue, config: &StoreConfig) -> Result<Option<u64>> {
    let size = config.mapped_file_size_commit_log;
    let all = files.files();
    let [only] = all.as_slice() else { return Ok(None) };
    let can_be = files.file_size() < size && only.file_from_offset().is_multiple_of(size);
    Ok((can_be && is_cut(files, only)?).then_some(size))
}

fn is_cut(files: &FileQueue, file: &Arc<MappedFile>) -> Result<bool> {
    let left_from = records_end(files, file)?;
    let (at, left) = (left_from - file.file_from_offset(), file.end_offset() - left_from);
    let read = |from: u64, len: u64| file.slice(at + from.min(left), len.min(left.saturating_sub(from)));
    let head = read(0, MAX_HEAD_SIZE as u64)?;
    if let Ok(Decoded::Blank { size }) = message::decode(&head, Check::Structure) {
        return Ok(num::from_java_int(size).is_some_and(|size| u64::from(size) > left));
    }
    let is_record =
        matches!(be::i32_at(&head, MAGIC_CODE_AT), Some(MESSAGE_MAGIC_CODE | MESSAGE_MAGIC_CODE_V2));
    let by_size = be::i32_at(&head, 0).and_then(num::from_java_int).map(u64::from);
    let by_lengths = message::size_by_lengths(&head, |at, len| read(num::offset(at), num::offset(len)))?;
    let goes_beyond = |size: Option<u64>| size.is_none_or(|size| size + BLANK_SIZE > left);
    // Its size alone can be what is damaged.
    Ok(left < BLANK_SIZE || (is_record && goes_beyond(by_size) && goes_beyond(by_lengths)))
}

/// Where the records of a file end, and what is behind is none.
fn records_end(files: &FileQueue, file: &Arc<MappedFile>) -> Result<u64> {
    let (mut position, end) = (file.file_from_offset(), file.end_offset());
    loop {
        let mut reached = position;
        let walked = scan::scan(files, position, end, Check::Structure, |offset, record, _| {
            reached = record.next_offset(offset);
            Ok(ControlFlow::Continue(()))
        })?;
        let ScanEnd::Fault { offset, fault } = walked else { return Ok(reached) };
        match scan::next_valid(files, offset, Some(fault), end)? {
            Some(next) => position = next,
            None => return Ok(offset),
        }
    }
}
