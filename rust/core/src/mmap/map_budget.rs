//! How many files may be open at once: beyond that the coldest are closed.
//!
//! A store of 100,000 queues has as many files, and a log of a terabyte a thousand, while a process may have some tens of
//! thousands of mappings and often no more than a thousand open files. Which file is cold is found as by a clock's
//! hand: a file that was used since the hand passed last is spared once.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use nix::sys::resource::{Resource, getrlimit};

use super::mapped_file::MappedFile;
use crate::num;
use crate::sync::Mutex;

/// Which part of the files that the process may have open a budget takes at most: others may be another store's, or
/// the program's own.
const PART_OF_PROCESS: u64 = 4;
/// The same for a log's files, of which fewer are used at once.
const LOG_PART_OF_PROCESS: u64 = 8;
/// The same for an index's files, of which a store has few.
const INDEX_PART_OF_PROCESS: u64 = 16;
/// Most files of a log that are open, and most of an index.
const MOST_LONG: usize = 1024;

/// A bound on open files.
#[derive(Debug)]
pub struct MapBudget {
    limit: usize,
    are_short: bool,
    open: Mutex<VecDeque<Weak<MappedFile>>>,
}

impl MapBudget {
    /// At most so many files open at once, of which most are short, and closed again after a read or two.
    #[must_use]
    pub fn new(limit: usize) -> Arc<Self> {
        Self::of(limit, true)
    }

    fn of(limit: usize, are_short: bool) -> Arc<Self> {
        Arc::new(Self { limit: limit.max(1), are_short, open: Mutex::default() })
    }

    /// As [`MapBudget::new`], and fewer where the process may have few open.
    #[must_use]
    pub fn within_process(limit: usize) -> Arc<Self> {
        Self::new(limit.min(part_of_process(PART_OF_PROCESS)))
    }

    /// For the files of a log, which are long and read from end to end: as many as the process may well have open.
    #[must_use]
    pub fn of_log() -> Arc<Self> {
        Self::of(MOST_LONG.min(part_of_process(LOG_PART_OF_PROCESS)), false)
    }

    /// For the files of an index.
    #[must_use]
    pub fn of_index() -> Arc<Self> {
        Self::of(MOST_LONG.min(part_of_process(INDEX_PART_OF_PROCESS)), false)
    }

    /// Whether most of the files are short, and opened for a read or two.
    pub(crate) const fn are_short(&self) -> bool {
        self.are_short
    }

    /// How many files may be open.
    pub(crate) const fn limit(&self) -> usize {
        self.limit
    }

    /// How many are open, or were and have been dropped since.
    #[must_use]
    pub fn open_count(&self) -> usize {
        self.open.lock().len()
    }

    /// A file was opened: closes a cold one where there are too many.
    pub(crate) fn opened(&self, file: &Arc<MappedFile>) {
        let mut open = self.open.lock();
        // Opened twice (for its handle, then its mapping) it stands twice, which only makes the
        // bound stricter.
        open.push_back(Arc::downgrade(file));
        let mut spared = 0;
        while open.len() > self.limit {
            let Some(next) = open.pop_front() else { return };
            let Some(candidate) = next.upgrade() else { continue };
            let is_needed = Arc::ptr_eq(&candidate, file) || candidate.is_kept_open();
            if is_needed || (candidate.take_used() && spared < self.limit) {
                spared += 1;
                open.push_back(next);
                if spared > 2 * self.limit {
                    return;
                }
                continue;
            }
            candidate.close_unless_kept_open();
        }
    }
}

fn part_of_process(part: u64) -> usize {
    num::index(getrlimit(Resource::RLIMIT_NOFILE).map_or(u64::MAX, |(soft, _)| soft / part))
}
