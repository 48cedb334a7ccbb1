//! Writing a range's units to their places in the queue files.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::segment::{Place, QueueRuns, STAGED_UNIT_SIZE, WorkFiles};
use crate::config::StoreConfig;
use crate::error::{Error, Result};
use crate::format::be;
use crate::format::cq_ext_unit::{self, CqExtUnit, END_BLANK_DATA_LENGTH, END_OF_FILE, MIN_EXT_UNIT_SIZE};
use crate::format::cq_unit::{CQ_STORE_UNIT_SIZE, CqUnit};
use crate::format::file_name;
use crate::fs::{FileHandle, FileSystem, OpenMode};
use crate::num;

const UNIT: u64 = CQ_STORE_UNIT_SIZE as u64;
/// More files than this are brought to the disk by one sync of their file system.
const SYNC_ALL_ABOVE: usize = 256;
/// Bytes that are put together before they are written.
const WRITE_SIZE: usize = 1 << 20;

/// Writes a staged range's units to where the fold says, into the store of a configuration. Ranges
/// may be placed at the same time: no two of them write the same bytes.
///
/// # Errors
/// Where a work file is not whole, or a queue file can't be made or written.
pub fn place(config: &StoreConfig, work: WorkFiles<'_>, from: u64) -> Result<u64> {
    let (summary, units) = work.units(from)?;
    let mut count = 0;
    let mut open = OpenFile::new(&**work.fs, config);
    for place in work.places(from)? {
        let Some(queue) = summary.queues.get(place.queue as usize) else { continue };
        open.place(queue, &place, &units)?;
        count += place.count;
    }
    open.finish()?;
    Ok(count)
}

/// The file that is written, with what is to be written to it next.
struct OpenFile<'a> {
    fs: &'a dyn FileSystem,
    config: &'a StoreConfig,
    handle: Option<Arc<dyn FileHandle>>,
    file: PathBuf,
    at: u64,
    pending: Vec<u8>,
    written: BTreeSet<PathBuf>,
}

impl<'a> OpenFile<'a> {
    fn new(fs: &'a dyn FileSystem, config: &'a StoreConfig) -> Self {
        let (file, pending) = (PathBuf::new(), Vec::new());
        Self { fs, config, handle: None, file, at: 0, pending, written: BTreeSet::new() }
    }

    fn place(&mut self, queue: &QueueRuns, place: &Place, units: &[u8]) -> Result<()> {
        let units_folder = self.config.queue_folder(&queue.topic, queue.queue_id);
        let ext_folder = self.config.queue_ext_folder(&queue.topic, queue.queue_id);
        for index in place.blanks_from..place.index {
            self.put_unit(&units_folder, index, &CqUnit::PRE_BLANK)?;
        }
        let staged = units.chunks_exact(STAGED_UNIT_SIZE);
        let staged = staged.skip(num::index(place.first)).take(num::index(place.count));
        for (number, bytes) in (0..).zip(staged.clone()) {
            let Some(mut unit) = CqUnit::read(bytes) else { continue };
            if let Some(ext_index) = place.ext_index {
                let address = ext_address(self.config, ext_index + number);
                unit.tags_code = cq_ext_unit::decorate(address);
            }
            self.put_unit(&units_folder, place.index + number, &unit)?;
        }
        let Some(ext_index) = place.ext_index else { return Ok(()) };
        for (number, bytes) in (0..).zip(staged) {
            let Some(unit) = CqUnit::read(bytes) else { continue };
            let msg_store_time = be::i64_at(bytes, CQ_STORE_UNIT_SIZE).unwrap_or_default();
            let ext = CqExtUnit { tags_code: unit.tags_code, msg_store_time, filter_bit_map: Vec::new() };
            self.put_ext(&ext_folder, ext_index + number, &ext)?;
        }
        Ok(())
    }

    fn put_unit(&mut self, folder: &Path, index: u64, unit: &CqUnit) -> Result<()> {
        let size = self.config.mapped_file_size_consume_queue;
        let Some(at) = index.checked_mul(UNIT).filter(|&at| at < u64::MAX / 2 - size) else {
            return Err(Error::Layout {
                path: folder.into(),
                expected: "a queue offset that a queue file can have".into(),
                found: index.to_string(),
            });
        };
        self.put(folder, size, at, &unit.to_bytes())
    }

    /// An extension unit, and where it is the last of its file the mark behind it: that mark is
    /// written when the next unit does not fit, so with the first unit of the next file.
    fn put_ext(&mut self, folder: &Path, index: u64, unit: &CqExtUnit) -> Result<()> {
        let size = self.config.mapped_file_size_consume_queue_ext;
        let at = ext_address(self.config, index);
        if at > 0 && at.is_multiple_of(size) {
            let previous = ext_address(self.config, index - 1);
            let mark = previous + num::offset(MIN_EXT_UNIT_SIZE);
            self.put(folder, size, mark, &END_OF_FILE.to_be_bytes())?;
        }
        self.put(folder, size, at, &unit.to_bytes().unwrap_or_default())
    }

    /// Bytes at an offset of files of one size put end to end; they never cross two files.
    fn put(&mut self, folder: &Path, file_size: u64, at: u64, bytes: &[u8]) -> Result<()> {
        let position = at % file_size;
        let file_from = at - position;
        let follows = self.at + num::offset(self.pending.len()) == position
            && self.file.parent() == Some(folder)
            && self.file.file_name().is_some_and(|name| *name == *file_name::from_offset(file_from));
        if !follows {
            self.write()?;
            self.open(folder, file_size, file_from)?;
            self.at = position;
        }
        self.pending.extend_from_slice(bytes);
        if self.pending.len() >= WRITE_SIZE {
            self.write()?;
        }
        Ok(())
    }

    fn open(&mut self, folder: &Path, file_size: u64, file_from: u64) -> Result<()> {
        let path = folder.join(file_name::from_offset(file_from));
        if path == self.file && self.handle.is_some() {
            return Ok(());
        }
        self.fs.create_dir_all(folder).map_err(Error::io("make the folder", folder))?;
        let handle = self.fs.open(&path, OpenMode::Create).map_err(Error::io("create", &path))?;
        let len = handle.metadata().map_err(Error::io("look at", &path))?.len;
        if len != file_size {
            handle.set_len(file_size).map_err(Error::io("set the size of", &path))?;
        }
        self.written.insert(path.clone());
        (self.handle, self.file) = (Some(handle), path);
        Ok(())
    }

    fn write(&mut self) -> Result<()> {
        if let Some(handle) = &self.handle {
            handle.write_at(&self.pending, self.at).map_err(Error::io("write", &self.file))?;
        }
        self.at += num::offset(self.pending.len());
        self.pending.clear();
        Ok(())
    }

    /// Writes what is left and brings all files that were written to the disk.
    fn finish(mut self) -> Result<()> {
        self.write()?;
        if self.written.len() > SYNC_ALL_ABOVE {
            // Each may be another disk's.
            let of_queues = self.written.iter().filter_map(|path| path.ancestors().nth(3));
            let folders: BTreeSet<_> = of_queues.chain([&*self.config.store_path_root_dir]).collect();
            return folders.into_iter().try_for_each(|folder| {
                self.fs.sync_all(folder).map_err(Error::io("sync the file system of", folder))
            });
        }
        let mut folders: BTreeSet<&Path> = BTreeSet::new();
        for path in &self.written {
            let handle = self.fs.open(path, OpenMode::Write).map_err(Error::io("open", path))?;
            handle.sync_data().map_err(Error::io("flush", path))?;
            // Up to the folder of all queues: the queue's folder and its topic's may be new.
            folders.extend(path.ancestors().skip(1).take(3));
        }
        folders
            .into_iter()
            .try_for_each(|path| self.fs.sync_dir(path).map_err(Error::io("sync the folder", path)))
    }
}

/// Where a queue's extension has its nth unit: all are of the least size, and a file keeps room for
/// the mark at its end.
fn ext_address(config: &StoreConfig, index: u64) -> u64 {
    let size = config.mapped_file_size_consume_queue_ext;
    let in_file = (size - END_BLANK_DATA_LENGTH as u64) / MIN_EXT_UNIT_SIZE as u64;
    index / in_file * size + index % in_file * MIN_EXT_UNIT_SIZE as u64
}
