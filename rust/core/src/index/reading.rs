//! Following an index file's chains.

use super::content::OpenContent;
use super::file::IndexFile;
use crate::error::Result;
use crate::format::index::{INDEX_HEADER_SIZE, INDEX_SIZE, INVALID_INDEX, IndexEntry, IndexHeader};

/// An index file that stays open as long as this is held, also where it is removed meanwhile.
#[derive(Debug)]
pub struct Reading<'a> {
    file: &'a IndexFile,
    content: OpenContent,
}

impl<'a> Reading<'a> {
    pub(super) const fn new(file: &'a IndexFile, content: OpenContent) -> Self {
        Self { file, content }
    }

    /// The file.
    #[must_use]
    pub const fn file(&self) -> &'a IndexFile {
        self.file
    }

    /// Its header as it stands now.
    #[must_use]
    pub fn header(&self) -> IndexHeader {
        // Where it can't be read what is read next of it can't either, which tells why.
        if self.file.is_live()
            && let Ok(bytes) = self.content.bytes::<INDEX_HEADER_SIZE>(self.file.path(), 0)
        {
            return bytes.and_then(|bytes| IndexHeader::read(&bytes)).unwrap_or_default();
        }
        self.file.known_header()
    }

    /// An entry by its number.
    ///
    /// # Errors
    /// Where the file can't be read.
    pub fn entry(&self, number: u32) -> Result<Option<IndexEntry>> {
        let shape = self.file.shape();
        let end =
            if self.file.is_live() { shape.index_num } else { self.file.index_count().min(shape.index_num) };
        if number == INVALID_INDEX || number >= end {
            return Ok(None);
        }
        let bytes = self.content.bytes::<INDEX_SIZE>(self.file.path(), shape.entry_at(number))?;
        Ok(bytes.and_then(|bytes| IndexEntry::read(&bytes)))
    }

    /// The newest entry of a slot; 0 for none. Source: the test of `putKey` and `selectPhyOffset`.
    ///
    /// # Errors
    /// Where the file can't be read.
    pub fn slot(&self, slot: u32) -> Result<u32> {
        self.file.slot_in(&self.content, slot)
    }

    /// Has the processor fetch a slot, without waiting for it.
    pub(super) fn prefetch_slot(&self, slot: u32) {
        self.prefetch(self.file.shape().slot_at(slot), size_of::<u32>());
    }

    /// Has the processor fetch an entry, without waiting for it.
    pub(super) fn prefetch_entry(&self, number: u32) {
        self.prefetch(self.file.shape().entry_at(number), INDEX_SIZE);
    }

    /// Asks for a slot to be read, without those around it.
    pub(super) fn will_need_slot(&self, slot: u32) {
        self.will_need(self.file.shape().slot_at(slot), size_of::<u32>());
    }

    /// Asks for an entry to be read, without those around it.
    pub(super) fn will_need_entry(&self, number: u32) {
        self.will_need(self.file.shape().entry_at(number), INDEX_SIZE);
    }

    fn will_need(&self, at: usize, len: usize) {
        if let Some(region) = self.content.region() {
            let _best_effort = region.will_need(at, len);
        }
    }

    fn prefetch(&self, at: usize, len: usize) {
        if let Some(region) = self.content.region() {
            region.prefetch(at, len);
        }
    }

    /// How many of the last entries belong to the message at the end of the file: a message whose
    /// keys did not all fit has the rest of them in the next file.
    ///
    /// # Errors
    /// Where the file can't be read.
    pub(super) fn keys_of_last_message(&self) -> Result<usize> {
        let last = self.header().end_phy_offset;
        let mut number = self.file.index_count();
        let mut count = 0;
        while number > 1 {
            number -= 1;
            if self.entry(number)?.is_none_or(|entry| entry.phy_offset != last) {
                break;
            }
            count += 1;
        }
        Ok(count)
    }
}
