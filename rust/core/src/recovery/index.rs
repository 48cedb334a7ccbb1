//! Which index files can be trusted.
//!
//! 4.9.3 drops the files that the checkpoint does not cover and indexes again from the recovered log
//! file on: keys between the dropped file's begin and that file are gone. Here dispatch to the index
//! begins where the first dropped file did. Source: `IndexService.load`.

use std::sync::Arc;

use super::log_end::LogEnd;
use super::{Recovered, StoreState};
use crate::error::Result;
use crate::index::file::IndexFile;
use crate::num;

/// Takes files that are not to be trusted out of the index. Gives them, and where dispatch to the
/// index has to begin; `None` where the queues' begin does.
///
/// # Errors
/// None yet.
pub fn recover(of: Recovered<'_>, end: &LogEnd) -> Result<(Vec<Arc<IndexFile>>, Option<u64>)> {
    let Some(index) = of.index.filter(|_| !matches!(of.state, StoreState::Live(_))) else {
        return Ok((Vec::new(), None));
    };
    let files = index.files();
    let log_end = num::java_long(end.log_end);
    let covered = of.checkpoint.times().index_msg_timestamp;
    let is_doubtful = |file: &&Arc<IndexFile>| {
        let header = file.header();
        // Entries of messages that were cut off cannot stay, however the store was closed.
        let behind_end = header.end_phy_offset >= log_end && header.index_count > 1;
        // A store that is only read checks every message against the log: what is there helps.
        behind_end || (of.state == StoreState::Crashed && of.writable && header.end_timestamp > covered)
    };
    let first_doubtful = files.iter().position(|file| is_doubtful(&file));
    let Some(at) = first_doubtful else { return Ok((Vec::new(), None)) };
    let (kept, dropped) = files.split_at_checked(at).unwrap_or((&[], &files));
    // A message whose keys did not all fit into the last kept file has the rest of them behind it.
    let from = match (kept.last(), dropped.first()) {
        (Some(last), _) => last.header().end_phy_offset,
        (None, Some(first)) => first.header().begin_phy_offset,
        (None, None) => 0,
    };
    let from = num::from_java_long(from).unwrap_or(0).max(of.log.min_offset().unwrap_or(0));
    let dropped = dropped.to_vec();
    index.forget(&dropped);
    Ok((dropped, Some(from)))
}
