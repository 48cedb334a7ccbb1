//! Appending bytes of another log as they are: what a slave gets from its master.
//!
//! Source: `CommitLog.appendData`. 4.9.3 appends at its log's end whatever offset the bytes are for;
//! here they have to follow that end.

use std::sync::Arc;

use super::CommitLog;
use super::active_file::ActiveFile;
use super::append::{AppendRefusal, Appender, Wait};
use crate::error::{Error, Result};
use crate::num;
use crate::sync::Ordering;

/// What [`CommitLog`] says of a log that did not begin anew.
pub(super) const NOWHERE: u64 = u64::MAX;

impl CommitLog {
    /// Whether it has no byte: it can begin at any file's begin.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.files.min_offset().is_none_or(|min| self.wrote_offset() <= min)
    }

    /// Appends bytes of another log that stand at `start_offset` there, and here: the end of this
    /// one. They are of one file, and may begin and end inside a record.
    ///
    /// # Errors
    /// Where they do not follow the log's end, would go on in the next file, or no space can be
    /// reserved for them. Nothing was appended then.
    pub fn append_data(&self, start_offset: u64, data: &[u8]) -> Result<()> {
        let appended = self.with_appender(Wait::Block, |appender, _| {
            let size = num::offset(data.len());
            let active = self.active_for_data(appender, start_offset, size)?;
            self.reserve_blocks(&active, start_offset + size, Wait::Block)?;
            active.set_by_call(self.write_many(&active, start_offset, data)?);
            self.publish(start_offset + size);
            Ok(())
        });
        appended.map_err(|refusal| match refusal {
            AppendRefusal::NoSpace(error) | AppendRefusal::Unavailable(error) => error,
            refusal => Error::Poisoned { operation: "append", reason: refusal.to_string() },
        })
    }

    /// The file in which the bytes go on.
    fn active_for_data(
        &self,
        appender: &mut Appender,
        start: u64,
        size: u64,
    ) -> Result<Arc<ActiveFile>, AppendRefusal> {
        let file_size = self.files.file_size();
        let end = self.wrote_offset();
        let begins = start != end && self.is_empty() && start.is_multiple_of(file_size);
        if start != end && !begins {
            return Err(AppendRefusal::Unavailable(Error::NotAtEnd { offset: start, end }));
        }
        if start % file_size + size > file_size {
            let file_end = start - start % file_size + file_size;
            let end = start + size;
            return Err(AppendRefusal::Unavailable(Error::CrossesFile { offset: start, end, file_end }));
        }
        if begins {
            self.begin_at(appender, start).map_err(AppendRefusal::Unavailable)?;
        }
        let active = match &appender.active {
            Some(active) if start < active.end_offset() => Arc::clone(active),
            Some(full) => self.next_active(full.end_offset(), Wait::Block)?,
            None => self.open_active(start, size, Wait::Block)?,
        };
        appender.active = Some(Arc::clone(&active));
        Ok(active)
    }

    /// Where the log has begun anew since this was asked last: what was known of it from before does not hold there.
    pub(crate) fn take_begun_at(&self) -> Option<u64> {
        match self.begun_at.swap(NOWHERE, Ordering::AcqRel) {
            NOWHERE => None,
            begun_at => Some(begun_at),
        }
    }

    /// Lets an empty log begin at a file's begin other than the one that it would.
    fn begin_at(&self, appender: &mut Appender, start: u64) -> Result<()> {
        appender.active = None;
        self.discard_prepared_file()?;
        self.files.delete(&self.files.files())?;
        // Before the positions are: who sees those finds it.
        self.begun_at.store(start, Ordering::Release);
        for position in [&self.positions.wrote, &self.positions.committed, &self.positions.flushed] {
            position.store(start, Ordering::Release);
        }
        Ok(())
    }
}
