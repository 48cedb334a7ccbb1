//! Reading the log by offset.

use super::CommitLog;
use crate::error::Result;
use crate::format::be;
use crate::format::message::{SYS_FLAG_AT, store_timestamp_at};
use crate::mmap::slice::Slice;
use crate::num;

impl CommitLog {
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
        let slice = file.slice(offset - file.file_from_offset(), u64::from(size))?;
        Ok((slice.len() == size as usize).then_some(slice))
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
        let slice = file.slice(offset - file.file_from_offset(), end - offset)?;
        Ok((!slice.is_empty()).then_some(slice))
    }

    /// The record that begins at an offset, by its own size field: what `selectOneMessageByOffset`
    /// gives, unchecked.
    ///
    /// # Errors
    /// Where the file can't be read.
    pub fn select_one_message_by_offset(&self, offset: u64) -> Result<Option<Slice>> {
        let Some(head) = self.get_message(offset, 4)? else { return Ok(None) };
        let Some(size) = be::i32_at(&head, 0).and_then(num::from_java_int) else { return Ok(None) };
        self.get_message(offset, size)
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
        Ok(be::i32_at(&record, SYS_FLAG_AT)
            .and_then(|sys_flag| be::i64_at(&record, store_timestamp_at(sys_flag)))
            .unwrap_or(-1))
    }
}
