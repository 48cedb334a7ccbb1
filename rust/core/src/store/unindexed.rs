//! Parts of the log whose keys no index file has: what look-ups by key pass over without a word.
//!
//! Each index file says where the messages of its first and its last entry stand. Between two files, before the
//! first and behind the last one no record has keys, so that the first record with some tells; how many without are
//! passed over is bounded.

use std::ops::ControlFlow;
use std::sync::Arc;

use super::{Mode, Store};
use crate::commit_log::Bodies;
use crate::commit_log::scan::{self, ScanEnd};
use crate::error::Result;
use crate::format::message::Check;
use crate::format::properties::DispatchProperties;
use crate::format::sys_flag;
use crate::index::IndexService;
use crate::num;

/// Records without keys that are looked at in one place.
const MOST_WITHOUT_KEYS: usize = 1000;

/// A part of the log of which no index file says that it has its keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unindexed {
    /// Where it begins: a record with keys, where that is certain.
    pub from: u64,
    /// Where index files go on.
    pub to: u64,
    /// Whether there is a record with keys, and not only one that nobody has come to.
    pub is_certain: bool,
}

impl Store {
    /// Parts of the log whose keys no index file has; none where there is no index. Looked for once: what is dispatched
    /// later is in it.
    ///
    /// # Errors
    /// Where the log can't be read.
    pub fn unindexed(&self) -> Result<Arc<Vec<Unindexed>>> {
        let mut known = self.unindexed.lock();
        if let Some(known) = &*known {
            return Ok(Arc::clone(known));
        }
        let found = Arc::new(self.while_open(|| self.find_unindexed())?);
        *known = Some(Arc::clone(&found));
        Ok(found)
    }

    fn find_unindexed(&self) -> Result<Vec<Unindexed>> {
        let mut found = Vec::new();
        let Some(index) = &self.index else { return Ok(found) };
        // From there on all that there is was dispatched by this process.
        let end = self.notes.dispatched_from.min(self.log.max_offset());
        let (mut from, mut is_behind_its_record) = (self.first_offset(), false);
        let mut is_any = false;
        for (first, last) in ends_of_files(index) {
            is_any = true;
            found.extend(self.unindexed_between(from, first.min(end), is_behind_its_record)?);
            if last >= from {
                (from, is_behind_its_record) = (last, true);
            }
        }
        // The header of the file that a live writer puts keys into lags behind.
        if !(is_any && self.notes.writer.is_some()) {
            found.extend(self.unindexed_between(from, end, is_behind_its_record)?);
        }
        Ok(found)
    }

    /// A writer whose index lacks the messages before those that are dispatched puts no keys of these into the same file: the
    /// file would say that it has the others too.
    ///
    /// # Errors
    /// Where the log can't be read.
    pub(super) fn keep_unindexed_apart(&self) -> Result<()> {
        let Some(index) = self.index.as_ref().filter(|_| self.mode == Mode::ReadWrite) else { return Ok(()) };
        let end = self.notes.dispatched_from.min(self.log.max_offset());
        let first = self.first_offset();
        if let Some(&(_, last)) = ends_of_files(index).last()
            && self
                .unindexed_between(first.max(last), end, last >= first)?
                .is_some_and(|part| part.is_certain)
        {
            index.begin_file();
        }
        Ok(())
    }

    /// Looks for the first record with keys between two offsets, of which the first one's own do not count where
    /// `is_behind` says so.
    fn unindexed_between(&self, from: u64, to: u64, is_behind: bool) -> Result<Option<Unindexed>> {
        if from >= to {
            return Ok(None);
        }
        let (mut count, mut first) = (0, None);
        let walked = scan::scan_windows(
            self.log.files(),
            from,
            to,
            Check::Structure,
            Bodies::Unwanted,
            |at, record, _, _| {
                let is_known = is_behind && at == from;
                let has_keys = !is_known
                    && sys_flag::enters_index(record.sys_flag)
                    && DispatchProperties::of(record.properties).index_keys().next().is_some();
                first = has_keys.then_some(at);
                count += 1;
                let is_enough = has_keys || count > MOST_WITHOUT_KEYS;
                Ok(if is_enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
            },
        );
        let walked = match walked {
            // Its messages are gone.
            Err(error) if error.is_removed(&*self.fs) => return Ok(None),
            walked => walked?,
        };
        if let Some(from) = first {
            return Ok(Some(Unindexed { from, to, is_certain: true }));
        }
        let is_all = matches!(walked, ScanEnd::Reached(_));
        Ok((!is_all).then_some(Unindexed { from, to, is_certain: false }))
    }
}

/// Where the first and the last message stand of each index file on the disk that has any.
fn ends_of_files(index: &IndexService) -> Vec<(u64, u64)> {
    let files = index.files();
    let on_disk = files.iter().filter(|file| !file.path().as_os_str().is_empty());
    let ends = on_disk.filter_map(|file| {
        let header = file.header();
        let ends =
            (num::from_java_long(header.begin_phy_offset)?, num::from_java_long(header.end_phy_offset)?);
        (header.index_count > 1).then_some(ends)
    });
    ends.collect()
}
