//! Deleting what has expired: files of the log, oldest first, and behind them those of queues and
//! index that hold nothing else. When, and how old is old, is the control plane's to decide.
//!
//! A file that is deleted lives on in the slices that were given out. Source:
//! `CleanCommitLogService`, `CleanConsumeQueueService`, `MappedFileQueue.deleteExpiredFileByTime`.

mod queues;
mod usage;

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

use crate::commit_log::Bodies;
use crate::commit_log::scan;
use crate::error::Result;
use crate::format::message::{Check, decode_record};
use crate::mmap::mapped_file::MappedFile;
use crate::store::Store;

pub use usage::TopicUsage;

/// Which files of the log may go.
#[derive(Debug, Clone, Copy)]
pub struct Expiry {
    /// A file goes when all of its messages are older, in milliseconds.
    pub reserved_ms: i64,
    /// It goes whatever its age.
    pub at_once: bool,
    /// Messages from this offset of the log on are still needed.
    pub keep_from: u64,
}

/// A file of the log that was deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeletedLogFile {
    /// Where it was.
    pub path: PathBuf,
    /// The offset of its first byte.
    pub file_from_offset: u64,
}

impl Store {
    /// Deletes the log's first file where it may go; `None` where it has to stay. The file of the last message always
    /// stays, also once the next one has been made: an empty log says nothing of where it goes on, which a slave asks its own.
    /// So does what is not on the disk or not dispatched yet.
    ///
    /// # Errors
    /// Where the log can't be read, or the file not be removed: it stays the log's first file. Where its
    /// folder cannot be synced it is gone all the same.
    pub fn delete_expired_log_file(&self, expiry: Expiry) -> Result<Option<DeletedLogFile>> {
        self.check_writable()?;
        let files = self.log().files().files();
        let has_last = |file: &&Arc<MappedFile>| file.end_offset() >= self.log().wrote_offset();
        let Some(first) = files.first().filter(|first| !has_last(first)) else { return Ok(None) };
        let done_to = self.dispatcher().reput_from_offset().min(self.log().flushed_offset());
        if first.end_offset() > expiry.keep_from.min(done_to) {
            return Ok(None);
        }
        let is_younger = |time: i64| self.now_ms().saturating_sub(time) < expiry.reserved_ms;
        let has_younger =
            || Ok(is_younger(self.time_behind(first)?) || self.latest_in(first)?.is_some_and(is_younger));
        if !expiry.at_once && self.while_open(has_younger)? {
            return Ok(None);
        }
        // Nothing dispatches its messages again: without their units their queues would begin anew.
        if self.checkpoint().positions_on_disk().queues < first.end_offset() {
            self.flush_everything()?;
            if self.checkpoint().positions_on_disk().queues < first.end_offset() {
                return Ok(None);
            }
        }
        // A close waits for this. It may be over already.
        let _not_beside_a_close = self.flushing();
        self.check_writable()?;
        // What was delivered of it stands at the log's end: it is on the disk before what it was made of goes.
        self.log().commit(0)?;
        self.flush_commit_log(0)?;
        self.log().files().delete_first(first)?;
        // What queues and index have of it goes next: back after a power cut it would be in neither.
        self.log().files().sync_dirs()?;
        let path = first.path().to_path_buf();
        Ok(Some(DeletedLogFile { path, file_from_offset: first.file_from_offset() }))
    }

    /// The latest store time of a file's messages that is not ahead of the clock. Messages that were imported with the
    /// times that they had may stand behind later ones, so that what stands behind a file does not tell its age alone.
    fn latest_in(&self, file: &Arc<MappedFile>) -> Result<Option<i64>> {
        if self.config().compat {
            return Ok(None);
        }
        let mut known = self.latest_in_file.lock();
        if let Some((_, latest)) = known.filter(|&(of, _)| of == file.file_from_offset()) {
            return Ok(latest);
        }
        let (now_ms, end) = (self.now_ms(), file.end_offset());
        let (mut latest, mut position) = (None, file.file_from_offset());
        while position < end {
            let files = self.log().files();
            let check = Check::Structure;
            let reached =
                scan::scan_windows(files, position, end, check, Bodies::Unwanted, |_, record, _, _| {
                    latest = latest.max(Some(record.store_timestamp).filter(|&time| time <= now_ms));
                    Ok(ControlFlow::Continue(()))
                })?;
            let Err((bad, fault)) = reached.reached() else { break };
            position = scan::next_valid(files, bad, fault, end)?.unwrap_or(end);
        }
        *known = Some((file.file_from_offset(), latest));
        Ok(latest)
    }

    /// A time that no message of a file is behind: that of the first message behind the file, or of the second, since
    /// no checksum covers a time, and one alone may be damaged. 4.9.3 goes by when the file was changed last, which a
    /// copy forgets.
    fn time_behind(&self, file: &Arc<MappedFile>) -> Result<i64> {
        if self.config().compat {
            return file.last_modified_timestamp();
        }
        let next = self.record_at(file.end_offset())?;
        if let Some(next) = next.as_deref().and_then(decode_record) {
            let second = self.record_at(next.next_offset(file.end_offset()))?;
            let second = second.as_deref().and_then(decode_record);
            let times = [Some(next.store_timestamp), second.map(|second| second.store_timestamp)];
            // A time that is not yet says nothing where the other one does.
            let now_ms = self.now_ms();
            let latest = times.iter().flatten().copied().filter(|&time| time <= now_ms).max();
            return Ok(latest.unwrap_or(next.store_timestamp));
        }
        file.last_modified_timestamp()
    }
}
