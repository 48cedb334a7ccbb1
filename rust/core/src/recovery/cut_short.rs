//! The only file of a log, where somebody has cut it short: its length is not the one that the log's files have.
//!
//! Which length that is an mqstore writer leaves beside the store ([`published`]). Where none came yet, as in a store of
//! RocketMQ's, what stands at the file's end tells: a whole file has room for a blank behind its last record, always. Where
//! records go to its end, or beyond, or a blank says that more of the file follows, something is missing.

use std::ops::ControlFlow;
use std::sync::Arc;

use crate::commit_log::scan::{self, ScanEnd};
use crate::config::StoreConfig;
use crate::error::{Error, Result};
use crate::format::be;
use crate::format::message::{
    self, Check, Decoded, END_FILE_MIN_BLANK_LENGTH, MAGIC_CODE_AT, MAX_HEAD_SIZE, MESSAGE_MAGIC_CODE,
    MESSAGE_MAGIC_CODE_V2,
};
use crate::fs::FileSystem;
use crate::mmap::file_queue::{FileQueue, Listing};
use crate::mmap::mapped_file::MappedFile;
use crate::num;
use crate::published;

const BLANK_SIZE: u64 = END_FILE_MIN_BLANK_LENGTH as u64;

/// What is to be done about a log file that was cut short.
pub(super) const TO_DO: &str = "somebody has cut it short. Nothing was changed: restore the file, or have mqstore repair make \
                                a store of what is left (with --out, and -c broker.conf as the store's broker has it)";

/// The size that the only file of a log had when the store's last writer made it, where it has fewer bytes by now. Where it
/// has as many as the options say it is whole, whoever made it.
///
/// # Errors
/// Where it can't be read what the writer left of that.
pub(super) fn size_when_made(
    fs: &dyn FileSystem,
    log: &Listing,
    config: &StoreConfig,
) -> Result<Option<u64>> {
    let [(offset, len, _)] = log.files.as_slice() else { return Ok(None) };
    if *len == config.mapped_file_size_commit_log {
        return Ok(None);
    }
    let made = published::log_file_size(fs, &config.own_dir())?;
    Ok(made.filter(|&size| size > *len && offset.is_multiple_of(size)))
}

/// The size that the files of a log had, where it has one file, that was cut short, nothing but its end tells of it, and the
/// options say a larger size.
///
/// # Errors
/// Where the file can't be read.
pub fn size_before(fs: &dyn FileSystem, files: &FileQueue, config: &StoreConfig) -> Result<Option<u64>> {
    let size = config.mapped_file_size_commit_log;
    let Some(only) = only_file_of_untold_size(fs, files, config)? else { return Ok(None) };
    let can_be = only.file_size() < size && only.file_from_offset().is_multiple_of(size);
    Ok((can_be && is_cut(files, &only)?).then_some(size))
}

/// Refuses to write to a log whose only file was cut short: what follows would go into files of that length, in which no
/// store has them, and what was cut off could not be told any more.
///
/// # Errors
/// [`Error::Layout`] where it was; anything that can't be read.
pub fn refuse(fs: &dyn FileSystem, files: &FileQueue, config: &StoreConfig) -> Result<()> {
    let Some(only) = only_file_of_untold_size(fs, files, config)? else { return Ok(()) };
    if !is_cut(files, &only)? {
        return Ok(());
    }
    let (size, len) = (config.mapped_file_size_commit_log, only.present_size());
    let expected = if size > len {
        format!("{size} bytes, as mappedFileSizeCommitLog says")
    } else {
        format!("more than {len} bytes, since a record, or the blank behind the last one, goes on there")
    };
    Err(Error::Layout { path: only.path().into(), expected, found: format!("{len} bytes: {TO_DO}") })
}

/// The only file of a log, where neither the options nor a writer say that files have its length.
fn only_file_of_untold_size(
    fs: &dyn FileSystem,
    files: &FileQueue,
    config: &StoreConfig,
) -> Result<Option<Arc<MappedFile>>> {
    let all = files.files();
    let [only] = all.as_slice() else { return Ok(None) };
    let len = only.present_size();
    // Of a file with fewer bytes than it is to have its length is told already.
    if len == config.mapped_file_size_commit_log || len < only.file_size() {
        return Ok(None);
    }
    let made = published::log_file_size(fs, &config.own_dir())?;
    Ok((made != Some(len)).then(|| Arc::clone(only)))
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
