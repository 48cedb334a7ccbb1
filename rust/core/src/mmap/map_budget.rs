//! How many files may be open at once: beyond that the coldest are closed.
//!
//! A store of 100,000 queues has as many files, while a process may have some tens of thousands of
//! mappings and often no more than a thousand open files. Which file is cold is found as by a clock's
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

/// A bound on open files.
#[derive(Debug)]
pub struct MapBudget {
    limit: usize,
    open: Mutex<VecDeque<Weak<MappedFile>>>,
}

impl MapBudget {
    /// At most so many files open at once.
    #[must_use]
    pub fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { limit: limit.max(1), open: Mutex::default() })
    }

    /// At most so many, and fewer where the process may have few open.
    #[must_use]
    pub fn within_process(limit: usize) -> Arc<Self> {
        let part = getrlimit(Resource::RLIMIT_NOFILE).map_or(u64::MAX, |(soft, _)| soft / PART_OF_PROCESS);
        Self::new(limit.min(num::index(part)))
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
            if Arc::ptr_eq(&candidate, file) || (candidate.take_used() && spared < self.limit) {
                spared += 1;
                open.push_back(next);
                if spared > 2 * self.limit {
                    return;
                }
                continue;
            }
            candidate.close();
        }
    }
}
