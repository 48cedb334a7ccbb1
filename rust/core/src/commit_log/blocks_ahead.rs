//! Blocks far ahead of the writer, and back again when the log is closed.
//!
//! To find free blocks the file system reads its maps of the disk, behind all that the disk was given to write: 50 to 85 ms for each
//! 128 MiB of ext4. Whoever writes to the same file waits for it meanwhile, the flush as well as who makes pages ready. So a log that
//! grows gets all blocks of its file before it comes to them, and those of the next one while nobody writes there.

use super::CommitLog;
use super::active_file::ActiveFile;
use crate::error::{Error, Result};

/// A log gets blocks early, and its next file, once it has this part of a file.
pub(super) const EARLY_PART: u64 = 4;
/// What is got at a time, before which it is looked whether there is something else to do.
const STEP: u64 = 64 << 20;
/// Blocks are got early where they are at most this part of the room that is left.
const PART_OF_ROOM: u64 = 16;

impl CommitLog {
    /// Gets all blocks of a file, where the log is no small one; unless there is something else to do.
    pub(super) fn allocate_early(&self, active: &ActiveFile, is_to_end: impl Fn() -> bool) -> Result<()> {
        let rest_size = active.end_offset() - active.allocated_offset();
        let is_small = self.size_so_far() < active.file.file_size() / EARLY_PART;
        if rest_size == 0 || is_small || !self.has_room_for(active, rest_size)? {
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

    /// Gives the blocks behind its end back, of a log that is sealed and flushed: a store that is closed takes the room of what it
    /// has. Where that fails it takes more, and nothing else.
    pub fn give_back_blocks(&self) {
        if let Some(current) = self.current_file() {
            let _best_effort = current.give_back(self.wrote_offset());
        }
    }
}
