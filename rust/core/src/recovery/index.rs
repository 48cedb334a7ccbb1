//! Which index files can be trusted.
//!
//! 4.9.3 drops the files that the checkpoint does not cover and indexes again from the recovered log
//! file on: keys between the dropped file's begin and that file are gone. Here dispatch to the index
//! begins where the first dropped file did. Source: `IndexService.load`.

use std::sync::Arc;

use super::log_end::LogEnd;
use super::{Recovered, StoreState};
use crate::checkpoint::LastPositions;
use crate::error::Result;
use crate::format::message::decode_record;
use crate::index::file::IndexFile;
use crate::num;

/// Takes files that are not to be trusted out of the index. Gives them, newest first, and where
/// dispatch to the index has to begin; `None` where the queues' begin does.
///
/// After an unclean stop only files are trusted that were full and flushed: of any other the header
/// lags behind the entries, so that chains would be cut where new keys are put on top, and pages may
/// be missing.
///
/// # Errors
/// Where the log can't be read.
pub fn recover(of: Recovered<'_>, end: &LogEnd) -> Result<(Vec<Arc<IndexFile>>, Option<u64>)> {
    let Some(index) = of.index.filter(|_| !matches!(of.state, StoreState::Live { .. })) else {
        return Ok((Vec::new(), None));
    };
    let files = index.files();
    let log_end = num::java_long(end.log_end);
    let is_doubtful = |at: usize, file: &IndexFile| {
        let header = file.header();
        // Entries of messages that were cut off cannot stay, however the store was closed.
        let behind_end = header.end_phy_offset >= log_end && header.index_count > 1;
        // One that follows another begins with its end: otherwise it is not made yet.
        let is_unmade = at > 0 && header.end_phy_offset == 0;
        behind_end || is_unmade || (of.state == StoreState::Crashed && !was_flushed(of, file))
    };
    let first_doubtful = files.iter().enumerate().position(|(at, file)| is_doubtful(at, file));
    let first_to_go = first_doubtful.into_iter().chain(index.first_half_made()).min();
    let at = behind_last_of_this_log(of, &files, first_to_go.unwrap_or(files.len()))?;
    // After an unclean stop what the kept files do not reach is indexed again, though no other file may be
    // left: recovery can have been cut off behind dropping them.
    if at == files.len() && first_to_go.is_none() && of.state == StoreState::Closed {
        return Ok((Vec::new(), None));
    }
    let (kept, dropped) = files.split_at_checked(at).unwrap_or((&[], &files));
    // A message whose keys did not all fit into the last kept file has the rest of them behind it.
    let from = kept.last().map_or(0, |last| last.header().end_phy_offset);
    let from = num::from_java_long(from).unwrap_or(0).max(of.log.min_offset().unwrap_or(0));
    let dropped: Vec<_> = dropped.iter().rev().cloned().collect();
    index.forget(&dropped);
    Ok((dropped, Some(from)))
}

/// How many of some first files can be kept: up to the last one that is of this log. Another one is of another log, and
/// dispatch would begin inside a record and tell it as damage, or behind what the index lacks.
fn behind_last_of_this_log(of: Recovered<'_>, files: &[Arc<IndexFile>], count: usize) -> Result<usize> {
    for (at, file) in files.iter().enumerate().take(count).rev() {
        if is_of_this_log(of, file)? {
            return Ok(at + 1);
        }
    }
    Ok(0)
}

/// Whether the last message of a file is one of the log, stored when the file says, or expired. That a record stands there can
/// be so by chance.
fn is_of_this_log(of: Recovered<'_>, file: &IndexFile) -> Result<bool> {
    let header = file.header();
    let end = num::from_java_long(header.end_phy_offset).unwrap_or(0);
    if end < of.log.min_offset().unwrap_or(0) || (file.index_count() <= 1 && end == 0) {
        return Ok(true);
    }
    let Some(bytes) = of.log.select_one_message_by_offset(end)? else { return Ok(false) };
    let Some(record) = decode_record(&bytes) else { return Ok(false) };
    Ok(record.store_timestamp == header.end_timestamp)
}

/// Whether a file was full, and flushed as such: by the checkpoint's time, and where an mqstore writer
/// was the last by its position, since a time can be that of many messages.
fn was_flushed(of: Recovered<'_>, file: &IndexFile) -> bool {
    let header = file.header();
    let covered = of.checkpoint.times().index_msg_timestamp;
    let is_reached = match of.positions {
        LastPositions::Never => true,
        LastPositions::Lost => false,
        LastPositions::Known(positions) => header.end_phy_offset < num::java_long(positions.index),
    };
    file.index_count() >= file.shape().index_num && header.end_timestamp <= covered && is_reached
}
