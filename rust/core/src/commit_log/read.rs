//! Reading the log by offset.

use super::{CommitLog, without_bodies};
use crate::error::Result;
use crate::format::be;
use crate::format::message::{SYS_FLAG_AT, V4_HEAD_SIZE, store_timestamp_at};
use crate::mmap::slice::Slice;
use crate::num;
use crate::sync::Ordering;

/// Most windows that are kept.
const MOST_WINDOWS: usize = 16;
/// Enough of a record to know its size.
const HEAD_SIZE: u32 = 4;
/// Most records are no longer.
const USUAL_SIZE: usize = 4096;

/// Most topics and properties take no more.
const TAIL_SIZE: usize = 128;
/// As much of a record is fetched of which every byte is read.
const MOST_FETCHED: usize = 2048;

/// Whether the bodies of records are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bodies {
    /// They are, to be lent: who has them looks at them when it comes to that.
    Wanted,
    /// They are, and each is read at once from its beginning to its end.
    Read,
    /// They are not: they may read as zeros, and nothing that they take is read where that saves
    /// something.
    Unwanted,
}

/// Bytes of the log: a file's that is mapped, or of one record.
#[derive(Debug)]
struct Window {
    from: u64,
    bytes: Slice,
}

impl Window {
    fn has(&self, offset: u64, end: u64) -> bool {
        self.from <= offset && end <= self.from + num::offset(self.bytes.len())
    }
}

/// Reads records one after another. It keeps what the last ones lie in, where the next one often lies too.
#[derive(Debug)]
pub struct RecordReader<'a> {
    log: &'a CommitLog,
    /// The log's end, as it was when something was last looked for behind what was known of it.
    log_end: u64,
    bodies: Bodies,
    windows: Vec<Window>,
    /// Which of them had the last record.
    last: usize,
    /// Whether records are asked for before they are read.
    is_slow: bool,
}

impl RecordReader<'_> {
    /// An end that the log has had: what lies before it can be read.
    #[must_use]
    pub const fn log_end(&self) -> u64 {
        self.log_end
    }

    /// Whether it reads bodies.
    #[must_use]
    pub const fn bodies(&self) -> Bodies {
        self.bodies
    }

    /// A record as a window and its place in it. `None` where its bytes are not all in one file and
    /// below the end, or their file is gone.
    ///
    /// # Errors
    /// Where the file can't be read.
    pub fn find(&mut self, offset: u64, size: u32) -> Result<Option<(&Slice, usize)>> {
        let Some(end) = offset.checked_add(u64::from(size)) else { return Ok(None) };
        if end > self.log_end {
            // A queue's unit that was read since the reader was made leads there.
            self.log_end = self.log.max_offset();
            if end > self.log_end {
                return Ok(None);
            }
        }
        if !self.windows.get(self.last).is_some_and(|window| window.has(offset, end)) {
            self.last = match self.windows.iter().position(|window| window.has(offset, end)) {
                Some(known) => known,
                None => match self.open(offset, end)? {
                    Some(window) => self.keep(window),
                    None => return Ok(None),
                },
            };
        }
        let window = self.windows.get(self.last);
        Ok(window.map(|window| (&window.bytes, num::index(offset - window.from))))
    }

    /// Gives where it is among those that are kept.
    fn keep(&mut self, window: Window) -> usize {
        // Of files that are read each record has its own, which is hardly asked for again.
        if self.windows.len() == MOST_WINDOWS || !self.log.files.is_mapped() {
            self.windows.clear();
        }
        self.windows.push(window);
        self.windows.len() - 1
    }

    /// What has all of a range, in one file.
    fn open(&self, offset: u64, end: u64) -> Result<Option<Window>> {
        let Some(file) = self.log.files.find(offset).filter(|file| end <= file.end_offset()) else {
            return Ok(None);
        };
        let position = offset - file.file_from_offset();
        let window = if file.is_read() && self.bodies == Bodies::Unwanted {
            without_bodies::read(&file, position, end - offset).map(|bytes| Window { from: offset, bytes })
        } else {
            let window = file.window(position, end - offset);
            window.map(|(bytes, at)| Window { from: offset - num::offset(at), bytes })
        };
        Ok(file.unless_removed(window)?.filter(|window| window.has(offset, end)))
    }

    /// The store time of the record at an offset; `None` where none can be read.
    ///
    /// # Errors
    /// Where the file can't be read.
    pub fn store_timestamp(&mut self, offset: u64, size: u32) -> Result<Option<i64>> {
        let Some((window, at)) = self.find(offset, size)? else { return Ok(None) };
        let record = window.get(at..at + size as usize).unwrap_or_default();
        Ok(store_timestamp_of(record))
    }

    /// The record that says its size at an offset, as [`RecordReader::find`] gives it, and that size.
    ///
    /// # Errors
    /// Where the file can't be read.
    pub fn find_record(&mut self, offset: u64) -> Result<Option<(&Slice, usize, usize)>> {
        self.will_need(offset)?;
        self.prefetch_usual(offset)?;
        let Some(size) = self.size_at(offset)? else { return Ok(None) };
        self.log.usual_size.store(size, Ordering::Relaxed);
        let found = self.find(offset, size)?;
        Ok(found.map(|(window, at)| (window, at, size as usize)))
    }

    /// Has the processor fetch a record's beginning and end side by side, though only its beginning says where its end
    /// is: most records have about the size of the last one.
    fn prefetch_usual(&mut self, offset: u64) -> Result<()> {
        if !self.log.files.is_mapped() {
            return Ok(());
        }
        let usual_size = self.log.usual_size.load(Ordering::Relaxed);
        let Some((window, at)) = self.find(offset, HEAD_SIZE)? else { return Ok(()) };
        prefetch_ends(window, at, usual_size as usize);
        Ok(())
    }

    fn size_at(&mut self, offset: u64) -> Result<Option<u32>> {
        let Some((window, at)) = self.find(offset, HEAD_SIZE)? else { return Ok(None) };
        Ok(be::i32_at(window, at).and_then(num::from_java_int))
    }

    /// Whether records that are looked for by their offset alone come from the disk: each is asked for then without
    /// what is around it, and many beside each other.
    pub const fn set_slow(&mut self, is_slow: bool) {
        self.is_slow = is_slow;
    }

    fn will_need(&mut self, offset: u64) -> Result<()> {
        if self.is_slow
            && self.log.files.is_mapped()
            && let Some((window, at)) = self.find(offset, HEAD_SIZE)?
        {
            window.will_need(at, USUAL_SIZE.min(window.len().saturating_sub(at)));
        }
        Ok(())
    }

    /// As [`RecordReader::prefetch`], for records of which only the offsets are known.
    ///
    /// # Errors
    /// Where a file can't be mapped.
    pub fn prefetch_records(&mut self, offsets: &[u64]) -> Result<()> {
        offsets.iter().try_for_each(|&offset| self.will_need(offset))?;
        self.prefetch(offsets.iter().map(|&offset| (offset, HEAD_SIZE)))?;
        let mut places = Vec::with_capacity(offsets.len());
        for &offset in offsets.iter().filter(|_| self.log.files.is_mapped()) {
            places.extend(self.size_at(offset)?.map(|size| (offset, size)));
        }
        self.prefetch(places.into_iter())
    }

    /// Has the processor fetch the beginnings and ends of records that are about to be looked at,
    /// given as offset and size: beside each other, where each would otherwise wait for its own memory.
    /// Does nothing for files that are not mapped.
    ///
    /// # Errors
    /// Where a file can't be mapped.
    pub fn prefetch(&mut self, places: impl Iterator<Item = (u64, u32)>) -> Result<()> {
        self.prefetch_with(places, prefetch_ends)
    }

    /// As [`RecordReader::prefetch`], for records of which every byte is read.
    ///
    /// # Errors
    /// Where a file can't be mapped.
    pub fn prefetch_whole(&mut self, places: impl Iterator<Item = (u64, u32)>) -> Result<()> {
        self.prefetch_with(places, prefetch_whole)
    }

    #[inline]
    fn prefetch_with(
        &mut self,
        places: impl Iterator<Item = (u64, u32)>,
        prefetch: impl Fn(&Slice, usize, usize),
    ) -> Result<()> {
        if !self.log.files.is_mapped() {
            return Ok(());
        }
        for (offset, size) in places {
            let Some((window, at)) = self.find(offset, size)? else { continue };
            prefetch(window, at, size as usize);
        }
        Ok(())
    }
}

/// Of a long record its beginning and its end: the processor itself sees how reading goes on.
pub(crate) fn prefetch_whole(window: &Slice, at: usize, len: usize) {
    window.prefetch_into_l2(at, len.min(MOST_FETCHED));
    if len > MOST_FETCHED {
        prefetch_end(window, at, len);
    }
}

fn prefetch_ends(window: &Slice, at: usize, len: usize) {
    window.prefetch(at, V4_HEAD_SIZE);
    prefetch_end(window, at, len);
}

fn prefetch_end(window: &Slice, at: usize, len: usize) {
    let before = len.saturating_sub(TAIL_SIZE);
    window.prefetch(at + before, len - before);
}

impl CommitLog {
    /// A reader of records.
    #[must_use]
    pub fn records(&self) -> RecordReader<'_> {
        self.records_with(Bodies::Wanted)
    }

    /// As [`CommitLog::records`], with or without bodies.
    #[must_use]
    pub fn records_with(&self, bodies: Bodies) -> RecordReader<'_> {
        RecordReader {
            log: self,
            log_end: self.max_offset(),
            bodies,
            windows: Vec::new(),
            last: 0,
            is_slow: false,
        }
    }

    /// A record's bytes. `None` where they are not all in one file and below the end, or their file
    /// is gone.
    ///
    /// # Errors
    /// Where the file can't be read.
    pub fn get_message(&self, offset: u64, size: u32) -> Result<Option<Slice>> {
        let Some(end) = offset.checked_add(u64::from(size)) else { return Ok(None) };
        if end > self.max_offset() {
            return Ok(None);
        }
        let Some(file) = self.files.find(offset).filter(|file| end <= file.end_offset()) else {
            return Ok(None);
        };
        let slice = file.slice_if_there(offset - file.file_from_offset(), u64::from(size))?;
        Ok(slice.filter(|slice| slice.len() == size as usize))
    }

    /// As [`CommitLog::get_message`], with or without the body.
    ///
    /// # Errors
    /// Where the file can't be read.
    pub fn get_message_with(&self, offset: u64, size: u32, bodies: Bodies) -> Result<Option<Slice>> {
        let Some(file) = self.files.find(offset).filter(|file| bodies == Bodies::Unwanted && file.is_read())
        else {
            return self.get_message(offset, size);
        };
        let end = offset.saturating_add(u64::from(size));
        if end > self.max_offset() || end > file.end_offset() {
            return Ok(None);
        }
        let slice = without_bodies::read(&file, offset - file.file_from_offset(), u64::from(size));
        Ok(file.unless_removed(slice)?.filter(|slice| slice.len() == size as usize))
    }

    /// Everything from an offset to the end of its file or of the log. `None` where nothing is there.
    ///
    /// # Errors
    /// Where the file can't be read.
    pub fn get_data(&self, offset: u64) -> Result<Option<Slice>> {
        self.get_bytes(offset, self.files.file_size())
    }

    /// At most `len` bytes from an offset on, fewer at the end of its file or of the log.
    ///
    /// # Errors
    /// Where the file can't be read.
    pub fn get_bytes(&self, offset: u64, len: u64) -> Result<Option<Slice>> {
        let Some(file) = self.files.find(offset) else { return Ok(None) };
        let end = file.end_offset().min(self.max_offset()).min(offset.saturating_add(len));
        if offset >= end {
            return Ok(None);
        }
        let slice = file.slice_if_there(offset - file.file_from_offset(), end - offset)?;
        Ok(slice.filter(|slice| !slice.is_empty()))
    }

    /// The record that begins at an offset, by its own size field: what `selectOneMessageByOffset`
    /// gives, unchecked.
    ///
    /// # Errors
    /// Where the file can't be read.
    pub fn select_one_message_by_offset(&self, offset: u64) -> Result<Option<Slice>> {
        self.select_one_message_with(offset, Bodies::Wanted)
    }

    /// As [`CommitLog::select_one_message_by_offset`], with or without the body.
    ///
    /// # Errors
    /// Where the file can't be read.
    pub fn select_one_message_with(&self, offset: u64, bodies: Bodies) -> Result<Option<Slice>> {
        let Some(head) = self.get_message(offset, 4)? else { return Ok(None) };
        let Some(size) = be::i32_at(&head, 0).and_then(num::from_java_int) else { return Ok(None) };
        self.get_message_with(offset, size, bodies)
    }

    /// The store time of the record at an offset, or -1 where there is none.
    /// Source: `pickupStoreTimestamp`.
    ///
    /// # Errors
    /// Where the file can't be read.
    pub fn pickup_store_timestamp(&self, offset: u64, size: u32) -> Result<i64> {
        if self.min_offset().is_none_or(|min| offset < min) {
            return Ok(-1);
        }
        let Some(record) = self.get_message(offset, size)? else { return Ok(-1) };
        Ok(store_timestamp_of(&record).unwrap_or(-1))
    }
}

fn store_timestamp_of(record: &[u8]) -> Option<i64> {
    let sys_flag = be::i32_at(record, SYS_FLAG_AT)?;
    be::i64_at(record, store_timestamp_at(sys_flag))
}
