//! A file that is read by ranges: small reads by blocks, and ahead of those that follow each other.

use std::io::{Error, ErrorKind, Result};
use std::sync::{Arc, OnceLock};

use super::block_cache::{BLOCK_SIZE, BlockCache};
use super::{Source, SourceFile};
use crate::fs::{FileHandle, LockOutcome, Metadata, count_read};
use crate::mmap::region::Region;
use crate::num;
use crate::sync::Mutex;

/// A read of so much is made as it is, past the cache: it is one of a walk, and will not come again.
const LARGE_READ: usize = 1 << 20;
/// Most bytes of one request, so that what a wrong length asks for takes no more memory than this.
const MAX_REQUEST: usize = 8 << 20;
/// Most blocks that are read ahead of small reads that follow each other.
const MAX_AHEAD: u64 = (MAX_REQUEST / BLOCK_SIZE) as u64;

/// An open file.
#[derive(Debug)]
pub(super) struct RangeFile {
    pub source: Arc<dyn Source>,
    /// Below the source.
    pub path: String,
    pub metadata: Metadata,
    pub cache: Arc<BlockCache>,
    /// Its number in the cache.
    pub number: u64,
    pub opened: OnceLock<Arc<dyn SourceFile>>,
    pub ahead: Mutex<Ahead>,
}

/// What small reads did last.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    /// The block behind those that were read.
    next: u64,
    /// How many they were.
    count: u64,
}

impl Ahead {
    /// How many blocks to read from one on that is missing: twice as many as before where reading goes on
    /// behind them.
    fn blocks(&mut self, from: u64, least: u64) -> u64 {
        let follows = self.count > 0 && from == self.next;
        self.count = if follows { (self.count * 2).min(MAX_AHEAD) } else { 1 }.max(least);
        self.next = from + self.count;
        self.count
    }
}

impl RangeFile {
    fn opened(&self) -> Result<&Arc<dyn SourceFile>> {
        if let Some(opened) = self.opened.get() {
            return Ok(opened);
        }
        // Two threads may both open it; one of them is kept.
        let opened = self.source.open(&self.path)?;
        Ok(self.opened.get_or_init(|| opened))
    }

    /// Fills the buffer; fewer bytes than it takes are an error, since the file was said to have them.
    fn request(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        let (end, wanted) = (offset + num::offset(buffer.len()), buffer.len());
        let told = |error: Error| Error::new(error.kind(), Told { from: offset, end, source: error });
        let count = self.opened().and_then(|file| file.read_at(buffer, offset)).map_err(told)?;
        count_read(num::offset(count.min(wanted)));
        if count != wanted {
            let len = self.metadata.len;
            let found =
                format!("expected {wanted} bytes of the {len} that it was listed with, found {count}");
            return Err(told(Error::new(ErrorKind::UnexpectedEof, found)));
        }
        Ok(())
    }

    fn read_large(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        let mut at = offset;
        for part in buffer.chunks_mut(MAX_REQUEST) {
            self.request(part, at)?;
            at += num::offset(part.len());
        }
        Ok(())
    }

    fn read_blocks(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        const SIZE: u64 = BLOCK_SIZE as u64;
        let end = offset + num::offset(buffer.len());
        let mut at = offset;
        let mut rest = buffer;
        while at < end {
            let block = self.block(at / SIZE, (end - 1) / SIZE)?;
            let from = num::index(at % SIZE);
            let found = block.get(from..).unwrap_or_default();
            let count = found.len().min(rest.len());
            if count == 0 {
                return Err(Error::new(
                    ErrorKind::UnexpectedEof,
                    format!("nothing is known from {at} to {end}"),
                ));
            }
            let (part, behind) = rest.split_at_mut(count);
            part.copy_from_slice(found.get(..count).unwrap_or_default());
            rest = behind;
            at += num::offset(count);
        }
        Ok(())
    }

    /// A block; what is missing behind it up to the last that is wanted comes with it.
    fn block(&self, block: u64, last: u64) -> Result<Arc<[u8]>> {
        if let Some(found) = self.cache.get(self.number, block) {
            return Ok(found);
        }
        let count = self.ahead.lock().blocks(block, last + 1 - block);
        let from = block * num::offset(BLOCK_SIZE);
        let len = (count * num::offset(BLOCK_SIZE)).min(self.metadata.len.saturating_sub(from));
        let mut bytes = vec![0; num::index(len)];
        self.read_large(&mut bytes, from)?;
        let mut wanted = Arc::from([]);
        for (number, part) in (block..).zip(bytes.chunks(BLOCK_SIZE)) {
            let part: Arc<[u8]> = part.into();
            if number == block {
                wanted = Arc::clone(&part);
            }
            self.cache.put(self.number, number, part);
        }
        Ok(wanted)
    }
}

impl FileHandle for RangeFile {
    fn metadata(&self) -> Result<Metadata> {
        Ok(self.metadata)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        let there = self.metadata.len.saturating_sub(offset).min(num::offset(buffer.len()));
        let Some(buffer) = buffer.get_mut(..num::index(there)).filter(|buffer| !buffer.is_empty()) else {
            return Ok(0);
        };
        if buffer.len() >= LARGE_READ {
            self.read_large(buffer, offset)?;
        } else {
            self.read_blocks(buffer, offset)?;
        }
        Ok(buffer.len())
    }

    fn next_data(&self, offset: u64) -> Result<Option<u64>> {
        Ok((offset < self.metadata.len).then_some(offset))
    }

    fn next_hole(&self, _: u64) -> Result<u64> {
        Ok(self.metadata.len)
    }

    fn can_map(&self) -> bool {
        false
    }

    fn map(&self, _: usize, _: bool) -> Result<Region> {
        Err(refused("map"))
    }

    /// Nobody writes what is only read here, as far as anybody can tell.
    fn lock_holder(&self) -> Result<Option<LockOutcome>> {
        Ok(None)
    }

    fn set_len(&self, _: u64) -> Result<()> {
        Err(refused("set the size of"))
    }

    fn allocate(&self, _: u64, _: u64) -> Result<()> {
        Err(refused("allocate"))
    }

    fn write_at(&self, _: &[u8], _: u64) -> Result<()> {
        Err(refused("write"))
    }

    fn sync_data(&self) -> Result<()> {
        Err(refused("flush"))
    }

    fn flush_mapped(&self, _: &Region, _: usize, _: usize) -> Result<()> {
        Err(refused("flush"))
    }

    fn populate(&self, _: &Region, _: usize, _: usize) -> Result<()> {
        Err(refused("map"))
    }

    fn try_lock(&self) -> Result<LockOutcome> {
        Err(refused("lock"))
    }

    fn unlock(&self) -> Result<()> {
        Err(refused("unlock"))
    }
}

/// What is not done to files that are only read by ranges.
pub(super) fn refused(what: &str) -> Error {
    Error::new(ErrorKind::ReadOnlyFilesystem, format!("it can't {what} files that are not local"))
}

/// A range that could not be read, and why.
#[derive(Debug, thiserror::Error)]
#[error("bytes {from} to {end}: {source}")]
struct Told {
    from: u64,
    end: u64,
    source: Error,
}
