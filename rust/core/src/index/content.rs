//! The bytes of an index file: mapped, or read where its file system maps nothing, or another process may cut it off.

use std::path::Path;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::fs::FileHandle;
use crate::mmap::mapped_file::Access;
use crate::mmap::region::Region;
use crate::num;
use crate::sync::Ordering;

/// The bytes of a file.
#[derive(Debug)]
pub(super) enum Content {
    /// In memory, of which some change in place.
    Mapped(Region),
    /// Read when they are asked for.
    Read {
        /// The file.
        handle: Arc<dyn FileHandle>,
        /// Bytes that it had when it was opened.
        len: usize,
    },
}

impl Content {
    /// The first `len` bytes of a file.
    pub(super) fn open(
        handle: &Arc<dyn FileHandle>,
        path: &Path,
        len: usize,
        access: Access,
    ) -> Result<Self> {
        let is_read = access == Access::Read || access == Access::MapRead && !handle.can_map();
        if is_read {
            return Ok(Self::Read { handle: Arc::clone(handle), len });
        }
        handle.map(len, access == Access::MapWrite).map(Self::Mapped).map_err(Error::io("map", path))
    }

    /// The mapping, where there is one.
    pub(super) const fn region(&self) -> Option<&Region> {
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
