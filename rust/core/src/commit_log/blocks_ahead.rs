//! Blocks far ahead of the writer, and back again when the log is closed.
//!
//! To find free blocks the file system reads its maps of the disk, behind all that the disk was given to write: 50 to 85 ms for each
//! 128 MiB of ext4. Whoever writes to the same file waits for it meanwhile, the flush as well as who makes pages ready. So a log that
//! grows gets all blocks of its file before it comes to them, and those of the next one while nobody writes there.

use std::io;
use std::sync::Arc;

use super::CommitLog;
use super::active_file::ActiveFile;
use crate::error::{Error, Result};
use crate::format::message::MAGIC_CODE_AT;
use crate::fs::FileHandle;
use crate::mmap::mapped_file::MappedFile;
use crate::num;
use crate::zeros::is_zero;

/// What is got at a time, before which it is looked whether there is something else to do.
const STEP: u64 = 64 << 20;
/// A next opening looks behind the end for a record's size and magic code. On a full tmpfs a hole there would end the process.
const KEPT_SIZE: u64 = MAGIC_CODE_AT as u64 + 4;
/// What is held against zeros at a time.
const LOOKED_AT_SIZE: usize = 1 << 20;
/// Less is left where it is.
const LEAST_GIVEN_BACK: u64 = 64 << 10;
/// Blocks are got early where they are at most this part of the room that is left.
const PART_OF_ROOM: u64 = 16;

impl CommitLog {
    /// Gets all blocks of a file, where the log is no small one; unless there is something else to do.
    pub(super) fn allocate_early(&self, active: &ActiveFile, is_to_end: impl Fn() -> bool) -> Result<()> {
        let rest_size = active.end_offset() - active.allocated_offset();
        let is_growing = self.is_growing(active.file.file_size());
        if rest_size == 0 || !is_growing || !self.has_room_for(active, rest_size)? {
            return Ok(());
        }
        while !is_to_end() && active.allocate_early(STEP)? {}
        Ok(())
    }

    fn has_room_for(&self, active: &ActiveFile, size: u64) -> Result<bool> {
        let path = active.file.path();
        let space = self.files.file_system().space(path).map_err(Error::io("ask for the space of", path))?;
        Ok(size <= space.available / PART_OF_ROOM)
    }

    /// Gives the blocks behind its end back, of a log that is sealed: a store that is closed takes the room of what it has. Where
    /// that fails it takes more, and nothing else.
    pub fn give_back_blocks(&self) {
        let _best_effort = self.give_back_from(self.wrote_offset() + KEPT_SIZE);
    }

    fn give_back_from(&self, from: u64) -> Result<()> {
        if let Some(current) = self.current_file() {
            current.give_back(from)?;
        }
        self.files.find(from).map_or(Ok(()), |file| give_back_of(&file, from - file.file_from_offset()))
    }

    /// Gives back what a writer that was killed had got of the file behind the one that the log ends in. That is removed, but
    /// what has to be on the disk before it may need the room.
    pub fn give_back_next_file(&self, end: u64) {
        if let Some(file) = self.files.find(self.roll_next_file(end)) {
            let _best_effort = give_back_of(&file, KEPT_SIZE);
        }
    }
}

fn give_back_of(file: &Arc<MappedFile>, begin: u64) -> Result<()> {
    let handle = file.handle()?;
    let rest_size =
        handle.metadata().map_err(Error::io("look at", file.path()))?.allocated.saturating_sub(begin);
    // To give back changes the file's time.
    if rest_size < LEAST_GIVEN_BACK {
        return Ok(());
    }
    give_back_zeros(&*handle, begin, file.file_size()).map_err(Error::io("give space back of", file.path()))
}

/// Gives back what a writer that was killed had got, and what it had made ready. Of other bytes nobody knows here whose they are.
fn give_back_zeros(handle: &dyn FileHandle, begin: u64, end: u64) -> io::Result<()> {
    let mut window = vec![0; LOOKED_AT_SIZE];
    let mut at = begin;
    while at < end {
        let data = handle.next_data(at)?.map_or(end, |data| data.min(end));
        handle.give_back(at, data - at)?;
        let len = num::index((data + 1).next_multiple_of(num::offset(LOOKED_AT_SIZE)).min(end) - data);
        let found = window.get_mut(..len).unwrap_or_default();
        let count = handle.read_at(found, data)?;
        if count == 0 {
            break;
        }
        if is_zero(found) {
            handle.give_back(data, num::offset(count))?;
        }
        at = data + num::offset(count);
    }
    Ok(())
}
