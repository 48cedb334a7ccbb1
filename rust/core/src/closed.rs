//! What a store had when its writer closed it.
//!
//! It holds for who opens the store next, as long as nobody has written to it: no mqstore writer has opened it since, and the log
//! ends where it did. In a store whose later writers were killed queues have at least what they had then, unless one of these
//! writers changed the log before that.

use std::path::{Path, PathBuf};

use crate::config_file;
use crate::error::Result;
use crate::format::closed::{self as format, ClosedFile, ClosedHeader, ClosedQueue};
use crate::fs::FileSystem;
use crate::published::Openings;

/// What an mqstore writer left when it closed the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Closed {
    file: ClosedFile,
    /// Whether others have opened the store since.
    is_older: bool,
}

/// Where a store keeps it.
#[must_use]
pub fn path(own_dir: &Path) -> PathBuf {
    own_dir.join("closed")
}

impl Closed {
    /// Reads what holds for a store that is closed, or, where it is not, what held before its last writers opened it; `None`
    /// where nothing does, or the file is not whole.
    ///
    /// # Errors
    /// Where a file is there and can't be read.
    pub fn load(fs: &dyn FileSystem, own_dir: &Path, is_closed: bool) -> Result<Option<Self>> {
        let Some(file) = config_file::read(fs, &path(own_dir))?.and_then(ClosedFile::read) else {
            return Ok(None);
        };
        let header = file.header();
        let now = Openings::read(fs, own_dir)?;
        let is_older = header.opening_count < now.count();
        let holds = if is_closed {
            header.opening_count == now.count()
        } else {
            is_older
                && now.unchanged_since(&now.clone().when_they_were(header.opening_count)).log
                    >= header.log_end
        };
        Ok(holds.then_some(Self { file, is_older }))
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
        config_file::swap(fs, &path(own_dir), &format::to_bytes(header, queues))
    }

    /// Where the log began; `None` where it does not end as it did, so that somebody may have expired files.
    #[must_use]
    pub fn log_begin(&self, log_end: u64) -> Option<u64> {
        let header = self.file.header();
        (!self.is_older && header.log_end == log_end).then_some(header.log_begin)
    }

    /// The queues, in no order; none where nothing is known of them.
    pub fn queues(&self, log_end: u64) -> impl Iterator<Item = ClosedQueue<'_>> {
        let known_to = self.file.header().log_end;
        let holds = if self.is_older { known_to <= log_end } else { known_to == log_end };
        holds.then(|| self.file.queues()).into_iter().flatten()
    }
}
