//! Files that are read by byte ranges from somewhere else: an object store, a distributed file system.
//!
//! A [`Source`] lists folders and reads ranges, each at the cost of a round trip, and is not trusted:
//! what it says is checked before it is used. [`RangeFileSystem`] makes of it a file system that is only
//! read. It takes a folder's listing once, so that a store is as it was when it was opened, and reads
//! through a [`BlockCache`], so that what lies near each other comes in one request.

mod block_cache;
mod file;
mod file_system;
mod listing;

use std::fmt;
use std::io;
use std::sync::Arc;

pub use block_cache::BlockCache;
pub use file_system::RangeFileSystem;

/// A file or a folder, as a source lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Its path below the folder that was listed, parts separated by `/`.
    pub path: String,
    /// Whether it is a folder.
    pub is_dir: bool,
    /// Bytes of a file; `None` where the source says so only of an open file.
    pub len: Option<u64>,
    /// When it changed last, in milliseconds; 0 where the source does not know.
    pub modified_ms: i64,
}

/// Somewhere that files are read from. Its methods are called without any lock held.
pub trait Source: Send + Sync + fmt::Debug {
    /// What is in a folder, and with `recursive` in the folders below it; `None` where there is no folder.
    ///
    /// # Errors
    /// Where it can't be asked.
    fn list(&self, folder: &str, recursive: bool) -> io::Result<Option<Vec<Listed>>>;
    /// Opens a file to read.
    ///
    /// # Errors
    /// Where there is none or it can't be opened.
    fn open(&self, path: &str) -> io::Result<Arc<dyn SourceFile>>;
}

/// An open file of a source.
pub trait SourceFile: Send + Sync + fmt::Debug {
    /// Its bytes.
    ///
    /// # Errors
    /// Where it can't be asked.
    fn size(&self) -> io::Result<u64>;
    /// Fills the buffer from an offset, and gives how many bytes it has: fewer at the end of the file.
    ///
    /// # Errors
    /// Where they can't be read.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
}
