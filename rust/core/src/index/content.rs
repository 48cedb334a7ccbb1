//! The bytes of an index file: mapped, or read where its file system maps nothing, or another process may cut it off.

use std::path::Path;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::fs::FileHandle;
use crate::mmap::mapped_file::{Access, MappedFile};
use crate::mmap::region::Region;
use crate::num;
use crate::sync::Ordering;

/// Where the bytes of a file are.
#[derive(Debug)]
pub(super) enum Content {
    /// In memory alone.
    Memory(Arc<Region>),
    /// In a file, which is closed when cold.
    File(Arc<MappedFile>),
}

/// The bytes of a file, which stays open as long as this is held.
#[derive(Debug)]
pub(super) enum OpenContent {
    /// In memory, of which some change in place.
    Mapped(Arc<Region>),
    /// Read when they are asked for.
    Read {
        /// The file.
        handle: Arc<dyn FileHandle>,
        /// Bytes that it had when it was opened first.
        len: usize,
    },
}

/// How a file is reached by an access that is wanted: one that can't be mapped is read.
pub(super) fn possible_access(handle: &dyn FileHandle, access: Access) -> Access {
    if access == Access::MapRead && !handle.can_map() { Access::Read } else { access }
}

impl Content {
    /// The file; `None` for what is in memory alone.
    pub(super) const fn file(&self) -> Option<&Arc<MappedFile>> {
        match self {
            Self::Memory(_) => None,
            Self::File(file) => Some(file),
        }
    }

    /// Opens it where it is not.
    pub(super) fn open(&self) -> Result<OpenContent> {
        Ok(match self {
            Self::Memory(region) => OpenContent::Mapped(Arc::clone(region)),
            Self::File(file) if file.is_read() => {
                OpenContent::Read { handle: file.handle()?, len: num::index(file.present_size()) }
            }
            Self::File(file) => OpenContent::Mapped(file.region()?),
        })
    }

    /// As [`Content::open`]; `None` where it was removed, and nobody has it open.
    pub(super) fn open_if_there(&self) -> Result<Option<OpenContent>> {
        match self {
            Self::Memory(_) => self.open().map(Some),
            Self::File(file) => file.unless_removed(self.open()),
        }
    }
}

impl OpenContent {
    /// The first `len` bytes of an open file.
    pub(super) fn of(handle: &Arc<dyn FileHandle>, path: &Path, len: usize, access: Access) -> Result<Self> {
        if possible_access(&**handle, access) == Access::Read {
            return Ok(Self::Read { handle: Arc::clone(handle), len });
        }
        let region = handle.map(len, access == Access::MapWrite).map_err(Error::io("map", path))?;
        Ok(Self::Mapped(Arc::new(region)))
    }

    /// The mapping, where there is one.
    pub(super) fn region(&self) -> Option<&Region> {
        match self {
            Self::Mapped(region) => Some(region),
            Self::Read { .. } => None,
        }
    }

    /// Some bytes; `None` where the file ends before, and has since it was opened.
    pub(super) fn bytes<const N: usize>(&self, path: &Path, at: usize) -> Result<Option<[u8; N]>> {
        match self {
            Self::Mapped(region) => Ok(region.bytes(at, N).and_then(|bytes| bytes.try_into().ok())),
            Self::Read { handle, len } => {
                let mut bytes = [0; N];
                let count = handle.read_at(&mut bytes, num::offset(at)).map_err(Error::io("read", path))?;
                if count < N && at.saturating_add(N) <= *len {
                    return Err(Error::cut_off(path, num::offset(*len), num::offset(at + count)));
                }
                Ok((count == N).then_some(bytes))
            }
        }
    }

    /// A word that may change in place; 0 where the file ends before.
    pub(super) fn word(&self, path: &Path, at: usize) -> Result<u32> {
        match self {
            Self::Mapped(region) => {
                Ok(region.atomic_u32(at).map_or(0, |word| u32::from_be(word.load(Ordering::Acquire))))
            }
            Self::Read { .. } => Ok(self.bytes(path, at)?.map_or(0, u32::from_be_bytes)),
        }
    }
}
