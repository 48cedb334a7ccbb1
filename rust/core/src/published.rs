//! `mqstore/published`: how far the writer of a store is, for those that follow it.
//!
//! The file is mapped by the writer, and its fields change in place while the store's lock is held;
//! without that lock they mean nothing. Nothing that the writer itself does depends on them.
//!
//! | bytes | field |
//! |-------|-------|
//! | 8     | `mqstpub1` |
//! | 8     | process id of the writer |
//! | 8     | when it opened the store, in milliseconds |
//! | 8     | wrote: every byte of the log below can be read |
//! | 8     | flushed: every byte of the log below is on the disk |
//! | 8     | dispatched: the units of every record below are in the queues' files |
//! | 4048  | zeros |

use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::format::be::i64_at;
use crate::fs::{FileSystem, OpenMode};
use crate::mmap::region::Region;
use crate::num;
use crate::sync::{Ordering, before_visible_change};

const FILE_SIZE: usize = 4096;
const MAGIC: [u8; 8] = *b"mqstpub1";
const PID_AT: usize = 8;
const OPENED_AT: usize = 16;
const WROTE_AT: usize = 24;
const FLUSHED_AT: usize = 32;
const DISPATCHED_AT: usize = 40;

/// The writer's side.
#[derive(Debug)]
pub struct Published {
    region: Region,
}

/// The followers' side: what the writer had published when it was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PublishedPositions {
    /// Process id of the writer.
    pub pid: i64,
    /// When it opened the store, in milliseconds.
    pub opened_ms: i64,
    /// Every byte of the log below can be read.
    pub wrote: u64,
    /// Every byte of the log below is on the disk.
    pub flushed: u64,
    /// The units of every record below are in the queues' files.
    pub dispatched: u64,
}

/// Where the file is.
#[must_use]
pub fn path(own_dir: &Path) -> PathBuf {
    own_dir.join("published")
}

impl Published {
    /// Makes or takes over the file of a store whose lock is held.
    ///
    /// # Errors
    /// Where the file can't be made.
    pub fn create(fs: &dyn FileSystem, own_dir: &Path, pid: u32, now_ms: i64) -> Result<Self> {
        fs.create_dir_all(own_dir).map_err(Error::io("make the folder", own_dir))?;
        let path = path(own_dir);
        let handle = fs.open(&path, OpenMode::Create).map_err(Error::io("open", &path))?;
        let region = handle
            .write_at(&[0; FILE_SIZE], 0)
            .and_then(|()| handle.set_len(num::offset(FILE_SIZE)))
            .and_then(|()| handle.map(FILE_SIZE, true))
            .map_err(Error::io("set up", &path))?;
        let published = Self { region };
        published.store(PID_AT, u64::from(pid));
        published.store(OPENED_AT, num::from_java_long(now_ms).unwrap_or(0));
        let fits = published.region.write(0, &MAGIC);
        debug_assert!(fits, "the file has room for its magic");
        Ok(published)
    }

    #[inline]
    fn store(&self, at: usize, value: u64) {
        if let Some(word) = self.region.atomic_u64(at) {
            before_visible_change();
            word.store(value.to_be(), Ordering::Release);
        }
    }

    /// Publishes how far the log can be read.
    #[inline]
    pub fn set_wrote(&self, offset: u64) {
        self.store(WROTE_AT, offset);
    }

    /// Publishes how far the log is on the disk.
    pub fn set_flushed(&self, offset: u64) {
        self.store(FLUSHED_AT, offset);
    }

    /// Publishes how far the queues' files are complete.
    pub fn set_dispatched(&self, offset: u64) {
        self.store(DISPATCHED_AT, offset);
    }
}

impl PublishedPositions {
    /// Reads what a writer published; `None` where it published nothing.
    ///
    /// # Errors
    /// Where the file is there and can't be read.
    pub fn read(fs: &dyn FileSystem, own_dir: &Path) -> Result<Option<Self>> {
        let path = path(own_dir);
        let handle = match fs.open(&path, OpenMode::Read) {
            Ok(handle) => handle,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::io("open", &path)(error)),
        };
        let mut bytes = [0; DISPATCHED_AT + 8];
        let count = handle.read_at(&mut bytes, 0).map_err(Error::io("read", &path))?;
        if count < bytes.len() || !bytes.starts_with(&MAGIC) {
            return Ok(None);
        }
        let field = |at| i64_at(&bytes, at).unwrap_or(0);
        let offset = |at| num::from_java_long(field(at)).unwrap_or(0);
        Ok(Some(Self {
            pid: field(PID_AT),
            opened_ms: field(OPENED_AT),
            wrote: offset(WROTE_AT),
            flushed: offset(FLUSHED_AT),
            dispatched: offset(DISPATCHED_AT),
        }))
    }
}
