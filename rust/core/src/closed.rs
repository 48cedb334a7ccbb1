//! What a store had when its writer closed it.
//!
//! It holds for who opens the store next, as long as nobody has written to it: no mqstore writer has opened it since, and the log
//! ends where it did.

use std::path::{Path, PathBuf};

use crate::config_file;
use crate::error::Result;
use crate::format::closed::{ClosedBytes, ClosedFile, ClosedHeader, ClosedQueue};
use crate::fs::FileSystem;
use crate::published::Openings;

/// What the last mqstore writer left when it closed the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Closed(ClosedFile);

/// Where a store keeps it.
#[must_use]
pub fn path(own_dir: &Path) -> PathBuf {
    own_dir.join("closed")
}

impl Closed {
    /// Reads it; `None` where the last mqstore writer did not close the store, or the file is not whole.
    ///
    /// # Errors
    /// Where a file is there and can't be read.
    pub fn load(fs: &dyn FileSystem, own_dir: &Path) -> Result<Option<Self>> {
        let Some(bytes) = config_file::read(fs, &path(own_dir))? else { return Ok(None) };
        let opening_count = Openings::read(fs, own_dir)?.count();
        let file = ClosedFile::read(bytes);
        Ok(file.filter(|file| file.header().opening_count == opening_count).map(Self))
    }

    /// Leaves it, for the writer that closes the store.
    ///
    /// # Errors
    /// Where the file can't be written.
    pub fn leave<'a>(
        fs: &dyn FileSystem,
        own_dir: &Path,
        header: ClosedHeader,
        queues: impl IntoIterator<Item = ClosedQueue<'a>>,
    ) -> Result<()> {
        let mut bytes = ClosedBytes::new(header);
        queues.into_iter().for_each(|queue| bytes.add(&queue));
        config_file::swap(fs, &path(own_dir), &bytes.finish())
    }

    /// Where the log began, if it ends where it did.
    #[must_use]
    pub fn log_begin(&self, log_end: u64) -> Option<u64> {
        let header = self.0.header();
        (header.log_end == log_end).then_some(header.log_begin)
    }

    /// The queues, in no order; none if the log does not end where it did.
    pub fn queues(&self, log_end: u64) -> impl Iterator<Item = ClosedQueue<'_>> {
        self.log_begin(log_end).into_iter().flat_map(|_| self.0.queues())
    }
}
