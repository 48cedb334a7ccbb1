//! The checkpoint file, and beside it the positions that it cannot say.
//!
//! Times and positions are set once what they cover is on the disk, and only then.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::config_file;
use crate::error::{Error, Result};
use crate::format::checkpoint::{CHECKPOINT_FIELDS_SIZE, CHECKPOINT_FILE_SIZE, CheckpointTimes};
use crate::format::positions::{
    DurablePositions, LOG_MARKS_SIZE, LastRecord, LogMarks, Owed, POSITIONS_FILE_SIZE,
};
use crate::fs::{FileSystem, OpenMode, open_if_there};
use crate::num;
use crate::published;
use crate::sync::Mutex;

/// What the last mqstore writer knew to be on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LastPositions {
    /// The store never had an mqstore writer: times tell.
    Never,
    /// The file is not there or not whole: of times, which can be that of many messages, nothing is believed.
    Lost,
    /// This.
    Known(DurablePositions),
}

impl LastPositions {
    /// The positions, where they are known.
    #[must_use]
    pub const fn known(self) -> Option<DurablePositions> {
        match self {
            Self::Known(positions) => Some(positions),
            Self::Never | Self::Lost => None,
        }
    }
}

/// Times and positions, as they stand and as they are on the disk.
#[derive(Debug)]
pub struct StoreCheckpoint {
    fs: Arc<dyn FileSystem>,
    path: PathBuf,
    positions_path: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    times: CheckpointTimes,
    positions: DurablePositions,
    /// The positions that the file has.
    on_disk: DurablePositions,
    marks: LogMarks,
}

impl StoreCheckpoint {
    /// Reads a store's checkpoint, and what an mqstore writer left beside it. A missing or short checkpoint
    /// holds zeros.
    ///
    /// # Errors
    /// Where a file is there and can't be read.
    pub fn load(fs: Arc<dyn FileSystem>, path: PathBuf, own_dir: &Path) -> Result<(Self, LastPositions)> {
        let positions_path = own_dir.join("positions");
        let times = read(&*fs, &path, CHECKPOINT_FIELDS_SIZE)?;
        let times = times.and_then(|bytes| CheckpointTimes::read(&bytes)).unwrap_or_default();
        let file = read(&*fs, &positions_path, POSITIONS_FILE_SIZE + LOG_MARKS_SIZE)?;
        let marks = file.as_ref().and_then(|bytes| bytes.get(POSITIONS_FILE_SIZE..));
        let marks = marks.map(LogMarks::read).unwrap_or_default();
        let positions = match file.as_ref().and_then(|bytes| DurablePositions::read(bytes)) {
            Some(positions) => LastPositions::Known(positions),
            None if file.is_some() || is_there(&*fs, &published::path(own_dir))? => LastPositions::Lost,
            None => LastPositions::Never,
        };
        let on_disk = positions.known().unwrap_or_default();
        let state = Mutex::new(State { times, positions: DurablePositions::default(), on_disk, marks });
        Ok((Self { fs, path, positions_path, state }, positions))
    }

    /// The positions' file.
    #[must_use]
    pub fn positions_path(&self) -> &Path {
        &self.positions_path
    }

    /// The times.
    #[must_use]
    pub fn times(&self) -> CheckpointTimes {
        self.state.lock().times
    }

    /// Every message of the log up to this store time is on the disk. 0 says nothing.
    pub fn set_physic_msg_timestamp(&self, timestamp: i64) {
        if timestamp > 0 {
            self.state.lock().times.physic_msg_timestamp = timestamp;
        }
    }

    /// Every unit of messages up to this store time is on the disk. 0 says nothing.
    pub fn set_logics_msg_timestamp(&self, timestamp: i64) {
        if timestamp > 0 {
            self.state.lock().times.logics_msg_timestamp = timestamp;
        }
    }

    /// The last full index file, with messages up to this store time, is on the disk. 0 says nothing.
    pub fn set_index_msg_timestamp(&self, timestamp: i64) {
        if timestamp > 0 {
            self.state.lock().times.index_msg_timestamp = timestamp;
        }
    }

    /// The positions.
    #[must_use]
    pub fn positions(&self) -> DurablePositions {
        self.state.lock().positions
    }

    /// The positions that a crash leaves.
    #[must_use]
    pub fn positions_on_disk(&self) -> DurablePositions {
        self.state.lock().on_disk
    }

    /// Moves the positions.
    pub fn set_positions(&self, positions: DurablePositions) {
        self.state.lock().positions = positions;
    }

    /// What a slave's log has lost and not got again from its master.
    #[must_use]
    pub fn owed(&self) -> Option<Owed> {
        self.state.lock().marks.owed
    }

    /// A slave's log has lost this; nothing where it has it again, or does without.
    pub fn set_owed(&self, owed: Option<Owed>) {
        self.state.lock().marks.owed = owed;
    }

    /// The last record of which queues and index have all, where that is known.
    #[must_use]
    pub fn last_record(&self) -> Option<LastRecord> {
        self.state.lock().marks.last
    }

    /// Queues and index have all of this record, which is on the disk.
    pub fn set_last_record(&self, last: LastRecord) {
        self.state.lock().marks.last = Some(last);
    }

    /// Moves the index's position on: an index file became full and is on the disk with all before it.
    pub fn advance_index_position(&self, index: u64) {
        let mut state = self.state.lock();
        state.positions.index = state.positions.index.max(index);
    }

    /// Brings times and positions to the disk.
    ///
    /// # Errors
    /// Where a file can't be written.
    pub fn flush(&self) -> Result<()> {
        let mut state = self.state.lock();
        self.write_times(&state.times.to_bytes())?;
        // Of what was cut another record may be there soon.
        let queues = state.positions.queues;
        state.marks.last = state.marks.last.filter(|last| last.offset < queues);
        // Without positions a store could not tell a power cut from damage.
        let bytes = [&state.positions.to_bytes()[..], &state.marks.to_bytes()].concat();
        config_file::swap(&*self.fs, &self.positions_path, &bytes)?;
        state.on_disk = state.positions;
        Ok(())
    }

    fn write_times(&self, bytes: &[u8]) -> Result<()> {
        let path = &self.path;
        let file_size = CHECKPOINT_FILE_SIZE;
        let handle = self.fs.open(path, OpenMode::Create).map_err(Error::io("open", path))?;
        let found = handle.metadata().map_err(Error::io("look at", path))?;
        if found.len != num::offset(file_size) {
            handle.set_len(num::offset(file_size)).map_err(Error::io("set the size of", path))?;
            if let Some(folder) = path.parent() {
                self.fs.sync_dir(folder).map_err(Error::io("sync the folder", folder))?;
            }
        }
        handle.write_at(bytes, 0).map_err(Error::io("write", path))?;
        handle.sync_data().map_err(Error::io("flush", path))
    }
}

fn is_there(fs: &dyn FileSystem, path: &Path) -> Result<bool> {
    Ok(fs.metadata(path).map_err(Error::io("look at", path))?.is_some())
}

/// The first bytes of a file, as many as it has of them; `None` where there is no file.
fn read(fs: &dyn FileSystem, path: &Path, count: usize) -> Result<Option<Vec<u8>>> {
    let Some(handle) = open_if_there(fs, path)? else { return Ok(None) };
    let mut bytes = vec![0; count];
    let found = handle.read_at(&mut bytes, 0).map_err(Error::io("read", path))?;
    bytes.truncate(found);
    Ok(Some(bytes))
}
