//! Files put end to end whose newest bytes are still in memory.
//!
//! A queue's units are derived from the log, so nothing is lost when those in memory are: they are
//! dispatched again. Gathering them makes dispatch to 100,000 queues as cheap as to one, and a store
//! that is only read keeps there for good what its files are missing.

use std::path::PathBuf;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::mmap::file_queue::{FileQueue, Listing};
use crate::mmap::mapped_file::MappedFile;
use crate::num;

/// Files and a tail.
#[derive(Debug)]
pub(crate) struct TailedFiles {
    files: FileQueue,
    /// Behind the last byte that is in the files; the tail begins here.
    in_files: u64,
    tail: Vec<u8>,
    /// Behind the last byte that is on the disk.
    flushed: u64,
    /// Whether the files are only read, so that the tail stays in memory.
    memory_only: bool,
    /// Files that are there and that such a store does not believe, oldest first.
    disbelieved: Vec<Arc<MappedFile>>,
    /// The file that begins at the end, where recovery left nothing in it: all zeros, and no part of the files until
    /// something is written there again. To remove it and make it anew costs a file system far more.
    spare: Option<Arc<MappedFile>>,
    /// The file in which recovery zeroed something behind the end, and the offset behind that.
    zeroed: Option<(Arc<MappedFile>, u64)>,
}

/// Files and folders that were changed, and are not on the disk yet.
#[derive(Debug, Default)]
pub(crate) struct Changed {
    pub(crate) files: Vec<Arc<MappedFile>>,
    pub(crate) folders: Vec<PathBuf>,
}

/// What a place in tailed files holds, up to the end of its file at the most.
#[derive(Debug)]
pub(crate) enum Found {
    /// In a file, from the position on, so many bytes.
    InFile(Arc<MappedFile>, u64, u64),
    /// In memory; copied.
    InTail(Vec<u8>),
}

impl TailedFiles {
    pub(crate) fn new(files: FileQueue, memory_only: bool) -> Self {
        let in_files = files.last().map_or(0, |last| last.end_offset());
        Self {
            files,
            in_files,
            tail: Vec::new(),
            flushed: in_files,
            memory_only,
            disbelieved: Vec::new(),
            spare: None,
            zeroed: None,
        }
    }

    pub(crate) fn files(&self) -> &FileQueue {
        &self.files
    }

    pub(crate) fn file_size(&self) -> u64 {
        self.files.file_size()
    }

    /// The offset of the first byte that is kept.
    pub(crate) fn start(&self) -> u64 {
        self.files.min_offset().unwrap_or(self.in_files)
    }

    /// The offset behind the last byte.
    pub(crate) fn end(&self) -> u64 {
        self.in_files + num::offset(self.tail.len())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.tail.is_empty() && self.start() == self.in_files
    }

    pub(crate) fn tail_len(&self) -> usize {
        self.tail.len()
    }

    /// Whether something is in memory that belongs into the files.
    pub(crate) fn has_unspilled(&self) -> bool {
        !self.memory_only && !self.tail.is_empty()
    }

    pub(crate) const fn is_memory_only(&self) -> bool {
        self.memory_only
    }

    /// Lets go of all files and of what is in memory: nothing is before the end any more.
    pub(crate) fn forget_all(&mut self) {
        let end = self.end();
        self.files.forget(&self.files_from(0));
        self.set_end(end);
    }

    /// Lets an empty queue begin at an offset other than 0, the first of a file.
    pub(crate) fn begin_at(&mut self, file_from_offset: u64) {
        self.in_files = file_from_offset;
        self.flushed = file_from_offset;
    }

    pub(crate) fn append(&mut self, bytes: &[u8]) {
        self.tail.extend_from_slice(bytes);
    }

    /// Up to `len` bytes from an offset on; none behind the end or before the start.
    pub(crate) fn find(&self, offset: u64, len: u64) -> Option<Found> {
        if offset >= self.end() {
            return None;
        }
        let file_end = offset - offset % self.file_size() + self.file_size();
        let end = self.end().min(file_end).min(offset.saturating_add(len));
        if offset >= self.in_files {
            let at = num::index(offset - self.in_files);
            return self
                .tail
                .get(at..num::index(end - self.in_files))
                .map(|bytes| Found::InTail(bytes.to_vec()));
        }
        let file = self.files.find(offset)?;
        let position = offset - file.file_from_offset();
        Some(Found::InFile(file, position, end.min(self.in_files) - offset))
    }

    /// The last offset up to another one behind which there is a byte; the start where there is none.
    pub(crate) fn end_before(&self, offset: u64) -> u64 {
        let offset = offset.min(self.end());
        if offset > self.in_files {
            return offset;
        }
        let files = self.files.files();
        let known = files.partition_point(|file| file.file_from_offset() < offset);
        let last = known.checked_sub(1).and_then(|last| files.get(last));
        last.map_or(self.start(), |last| offset.min(last.end_offset()))
    }

    /// The first offset from another one on that lies in a file or in memory; the end where there is none.
    pub(crate) fn next_there(&self, offset: u64) -> u64 {
        if offset >= self.in_files {
            return offset;
        }
        let files = self.files.files();
        let ended = files.partition_point(|file| file.end_offset() <= offset);
        files.get(ended).map_or(self.in_files, |file| offset.max(file.file_from_offset()))
    }

    /// Whether no file is missing between others.
    pub(crate) fn has_all_files(&self) -> bool {
        let span = |first: &MappedFile, last: &MappedFile| last.end_offset() - first.file_from_offset();
        let files = self.files.files();
        match (files.first(), files.last()) {
            (Some(first), Some(last)) => {
                span(first, last) <= num::offset(files.len()).saturating_mul(self.file_size())
            }
            _ => true,
        }
    }

    /// Writes the tail into the files. Gives whether there was one.
    pub(crate) fn spill(&mut self) -> Result<bool> {
        if !self.has_unspilled() {
            return Ok(false);
        }
        let mut done = 0;
        while done < self.tail.len() {
            let at = self.in_files + num::offset(done);
            let written = self.file_to_write(at).and_then(|file| {
                let rest = self.tail.get(done..).unwrap_or_default();
                write(&file, at, rest)
            });
            match written {
                Ok(count) => done += count,
                Err(error) => {
                    self.spilled(done);
                    return Err(error);
                }
            }
        }
        self.spilled(done);
        Ok(true)
    }

    fn spilled(&mut self, count: usize) {
        self.tail.drain(..count);
        self.in_files += num::offset(count);
        if self.tail.is_empty() {
            self.tail = Vec::new();
        }
    }

    fn file_to_write(&mut self, at: u64) -> Result<Arc<MappedFile>> {
        if let Some(file) = self.files.find(at) {
            return Ok(file);
        }
        let file_from_offset = at - at % self.file_size();
        let file = match self.spare.take_if(|spare| spare.file_from_offset() == file_from_offset) {
            Some(spare) => spare,
            None => self.files.create(file_from_offset)?,
        };
        self.files.push(Arc::clone(&file));
        Ok(file)
    }

    /// Ends what [`TailedFiles::truncate`] began, once all is written again that comes from before: adds what has to be
    /// synced of zeros that nothing was written over, and removes the file that was kept where nothing was written to it.
    pub(crate) fn end_truncation(&mut self, changed: &mut Changed) -> Result<()> {
        let is_left = |(file, end): &(Arc<MappedFile>, u64)| {
            let is_own = |found| Arc::ptr_eq(&found, file);
            self.in_files < *end && self.files.find(file.file_from_offset()).is_some_and(is_own)
        };
        changed.files.extend(self.zeroed.take().filter(is_left).map(|(file, _)| file));
        let Some(spare) = self.spare.take() else { return Ok(()) };
        changed.folders.extend(self.files.paths().cloned());
        spare.delete()
    }

    /// The files with bytes that are not on the disk yet, and the offset up to which they would be.
    pub(crate) fn unflushed(&self) -> (Vec<Arc<MappedFile>>, u64) {
        let files = self.files.files();
        let behind = |file: &&Arc<MappedFile>| {
            file.end_offset() > self.flushed && file.file_from_offset() < self.in_files
        };
        let files = if self.flushed < self.in_files {
            files.iter().filter(behind).cloned().collect()
        } else {
            Vec::new()
        };
        (files, self.in_files)
    }

    /// Whether as much as this many pages is not on the disk.
    pub(crate) fn has_unflushed_pages(&self, least_pages: u64) -> bool {
        let page = crate::mmap::region::OS_PAGE_SIZE;
        let fills_a_file = self.flushed / self.file_size() != self.in_files / self.file_size();
        self.flushed < self.in_files
            && (fills_a_file || self.in_files / page - self.flushed / page >= least_pages)
    }

    pub(crate) fn set_flushed(&mut self, flushed: u64) {
        self.flushed = self.flushed.max(flushed.min(self.in_files));
    }

    /// Sets where the valid bytes of the files end, as recovery found it, without touching them.
    pub(crate) fn set_end(&mut self, end: u64) {
        if self.in_files < end && end < self.end() {
            self.tail.truncate(num::index(end - self.in_files));
            return;
        }
        self.tail = Vec::new();
        self.in_files = end;
        self.flushed = end;
        if self.memory_only {
            let from_end = self.files_from(end);
            self.files.forget(&from_end);
            self.disbelieved.splice(0..0, from_end.into_iter().rev());
        }
    }

    /// The files that begin at an offset or behind it, newest first.
    fn files_from(&self, offset: u64) -> Vec<Arc<MappedFile>> {
        let files = self.files.files();
        files.iter().rev().take_while(|file| file.file_from_offset() >= offset).cloned().collect()
    }

    /// All files as they lie there, oldest first, whatever is believed of them.
    pub(crate) fn files_on_disk(&self) -> Vec<Arc<MappedFile>> {
        let files = self.files.files();
        files.iter().chain(&self.disbelieved).cloned().collect()
    }

    /// Closes all files until they are used again.
    pub(crate) fn close_files(&self) {
        self.files.files().iter().chain(&self.disbelieved).chain(&self.spare).for_each(|file| file.close());
    }

    /// Whether a crash left files before they were made.
    pub(crate) fn has_half_made(&self) -> bool {
        self.files.has_half_made()
    }

    /// Cuts everything behind an offset, of files that are written and before anything was appended: what is cut is
    /// zeroed, later files go. Adds what has to be synced then; of zeros [`TailedFiles::end_truncation`] does, since most
    /// are written over before.
    pub(crate) fn truncate(&mut self, end: u64, changed: &mut Changed) -> Result<()> {
        debug_assert!(self.tail.is_empty() && !self.memory_only, "a recovery of files that are written");
        self.set_end(end);
        let mut later = self.files_from(end);
        let is_whole = |file: &Arc<MappedFile>| file.present_size() == file.file_size();
        self.spare = later.pop_if(|oldest| oldest.file_from_offset() == end && is_whole(oldest));
        self.files.forget(self.spare.as_slice());
        if self.files.has_half_made() {
            // 4.9.3 refuses a store that has one.
            self.files.remove_half_made()?;
            changed.folders.extend(self.files.paths().cloned());
        }
        if !later.is_empty() {
            self.files.delete(&later)?;
            // Back after a power cut they would be believed where the positions have moved on.
            changed.folders.extend(self.files.paths().cloned());
        }
        if let Some(last) = self.spare.clone().or_else(|| self.files.last())
            && let Some(behind) = last.zero_from(end - last.file_from_offset())?
        {
            let end = last.file_from_offset() + behind;
            self.zeroed = Some((last, end));
        }
        Ok(())
    }

    /// Lets go of what is in memory and in the files by now, which another process writes: bytes of
    /// the tail that the files hold too, in whole units.
    pub(crate) fn adopt(&mut self, listing: &Listing, unit_size: usize) -> Result<()> {
        self.files.refresh(listing);
        let mut same = 0;
        while let Some(rest) = self.tail.get(same..).filter(|rest| !rest.is_empty()) {
            let at = self.in_files + num::offset(same);
            let Some(file) = self.files.find(at) else { break };
            let written = file.slice_if_there(at - file.file_from_offset(), num::offset(rest.len()))?;
            let Some(written) = written else { break };
            let equal = written.iter().zip(rest).take_while(|(a, b)| a == b).count();
            same += equal;
            if equal == 0 || equal < written.len() {
                break;
            }
        }
        self.spilled(same / unit_size * unit_size);
        Ok(())
    }

    /// Removes files from the disk that lie wholly before an offset, the newest aside; none in a store that is
    /// only read.
    pub(crate) fn delete_before(&self, offset: u64) -> Result<usize> {
        if self.memory_only {
            return Ok(0);
        }
        let files = self.files.files();
        let (_, older) = files.split_last().map_or((None, &[][..]), |(last, older)| (Some(last), older));
        let mut count = 0;
        for file in older.iter().take_while(|file| file.end_offset() <= offset) {
            self.files.delete_first(file)?;
            count += 1;
        }
        Ok(count)
    }

    /// Removes everything.
    pub(crate) fn destroy(&mut self) -> Result<()> {
        let files = self.files_from(0);
        self.set_end(0);
        if self.memory_only {
            return Ok(());
        }
        self.files.remove_half_made()?;
        self.files.delete(&files)
    }
}

/// Writes what goes into a file, and gives how much that was.
fn write(file: &Arc<MappedFile>, at: u64, bytes: &[u8]) -> Result<usize> {
    let count = bytes.len().min(num::index(file.end_offset() - at));
    let bytes = bytes.get(..count).unwrap_or_default();
    let position = at - file.file_from_offset();
    file.handle()?.write_at(bytes, position).map_err(Error::io("write", file.path()))?;
    Ok(count)
}
