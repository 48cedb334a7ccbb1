//! Putting keys into the index, which makes a file where the last one is full.

use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Arc;

use super::IndexService;
use super::content::OpenContent;
use super::file::{IndexFile, PutKey};
use crate::error::{Error, Result};
use crate::format::index::IndexShape;
use crate::fs::make_folder;
use crate::num;
use crate::sync::Ordering;

/// Entries of an index file in memory, for what a read-only store's index is missing.
const IN_MEMORY_SHAPE: IndexShape = IndexShape { hash_slot_num: 1 << 18, index_num: 1 << 20 };

/// The keys of one of several messages that are put at once.
#[derive(Debug, Clone, Copy)]
pub struct KeysOfMessage<'a> {
    /// Their hashes.
    pub hashes: &'a [u32],
    /// A hash that will be put soon: its slot is fetched meanwhile.
    pub ahead: Option<u32>,
    /// Where the message stands.
    pub phy_offset: u64,
    /// When it was stored, in milliseconds.
    pub store_timestamp: i64,
}

/// The last file, open from its first key on as long as keys are put.
#[derive(Debug)]
struct Last {
    file: Arc<IndexFile>,
    open: Option<OpenContent>,
}

impl Last {
    const fn of(file: Arc<IndexFile>) -> Self {
        Self { file, open: None }
    }

    fn put_key(&mut self, hash: u32, phy_offset: u64, store_timestamp: i64) -> Result<PutKey> {
        let open = match self.open.take() {
            Some(open) => open,
            None => self.file.open_to_put()?,
        };
        self.file.put_key_in(self.open.insert(open), hash, phy_offset, store_timestamp)
    }

    fn prefetch_slot(&self, hash: u32) {
        if let Some(region) = self.open.as_ref().and_then(OpenContent::region) {
            let shape = self.file.shape();
            region.prefetch(shape.slot_at(shape.slot_of(hash)), size_of::<u32>());
        }
    }
}

impl IndexService {
    /// Puts a message's keys, given as their hashes. Those that are there already because the
    /// message is the last one in the index are skipped. Source: `buildIndex`.
    ///
    /// # Errors
    /// Where a file can't be made or has no space.
    pub fn build_index(
        &self,
        hashes: impl Iterator<Item = u32>,
        phy_offset: u64,
        store_timestamp: i64,
    ) -> Result<()> {
        self.build_behind(self.last(), hashes, phy_offset, store_timestamp).map(drop)
    }

    /// As [`IndexService::build_index`] for messages that follow each other in the log.
    ///
    /// # Errors
    /// As there; those behind the one that failed have no keys put.
    pub fn build_all<'a>(&self, messages: impl Iterator<Item = KeysOfMessage<'a>>) -> Result<()> {
        let mut last = self.last();
        for KeysOfMessage { hashes, ahead, phy_offset, store_timestamp } in messages {
            if let Some((ahead, last)) = ahead.zip(last.as_ref()) {
                last.prefetch_slot(ahead);
            }
            last = self.build_behind(last, hashes.iter().copied(), phy_offset, store_timestamp)?;
        }
        Ok(())
    }

    fn last(&self) -> Option<Last> {
        self.files.read().last().cloned().map(Last::of)
    }

    /// Puts a message's keys behind what the last file has; gives what is the last one then.
    fn build_behind(
        &self,
        last: Option<Last>,
        hashes: impl Iterator<Item = u32>,
        phy_offset: u64,
        store_timestamp: i64,
    ) -> Result<Option<Last>> {
        let end = last
            .as_ref()
            .and_then(|last| num::from_java_long(last.file.header().end_phy_offset))
            .unwrap_or(0);
        if phy_offset < end {
            return Ok(last);
        }
        let known = if phy_offset == end { self.keys_known_of(phy_offset)? } else { 0 };
        let mut hashes = hashes.skip(known).peekable();
        if known > 0 && hashes.peek().is_none() {
            // The file that follows a full one is for the next message to make.
            return Ok(last);
        }
        let mut last = self.writable_file(last)?;
        for hash in hashes {
            if last.put_key(hash, phy_offset, store_timestamp)? == PutKey::Full {
                last = self.writable_file(Some(last))?;
                last.put_key(hash, phy_offset, store_timestamp)?;
            }
        }
        Ok(Some(last))
    }

    /// Lets the next key begin a file: what files say of the messages between their ends holds for each by itself, so
    /// that what none has between two of them is told.
    pub fn begin_file(&self) {
        self.begins_file.store(true, Ordering::Relaxed);
    }

    /// The files that have become full since the last call, which have to be brought to the disk.
    #[must_use]
    pub fn take_filled(&self) -> Vec<Arc<IndexFile>> {
        std::mem::take(&mut *self.filled.lock())
    }

    /// How many keys of the last message are in the index, over as many files as they take.
    fn keys_known_of(&self, phy_offset: u64) -> Result<usize> {
        let offset = num::java_long(phy_offset);
        let ends_with = |file: &&Arc<IndexFile>| file.header().end_phy_offset == offset;
        let mut known = 0;
        for file in self.files().iter().rev().take_while(ends_with) {
            known += file.keys_of_last_message()?;
        }
        Ok(known)
    }

    /// The last file, or a new one where it is full. Source: `getAndCreateLastIndexFile`.
    fn writable_file(&self, last: Option<Last>) -> Result<Last> {
        let takes = |last: &IndexFile| {
            !last.is_write_full() && self.takes_keys(last) && !self.begins_file.load(Ordering::Relaxed)
        };
        let last = match last {
            Some(last) if takes(&last.file) => return Ok(last),
            last => last.map(|last| last.file),
        };
        let previous_end = last.as_ref().map(|last| {
            let header = last.header();
            (header.end_phy_offset, header.end_timestamp)
        });
        if let Some(full) = last.as_ref().filter(|last| self.takes_keys(last)) {
            // Who sees the next file takes this one's header for what it holds.
            full.write_header();
        }
        let file = Arc::new(self.create(previous_end)?);
        let mut files = self.files.write();
        let mut next = Vec::clone(&files);
        next.push(Arc::clone(&file));
        *files = Arc::new(next);
        drop(files);
        self.begins_file.store(false, Ordering::Relaxed);
        if let Some(full) = last.filter(|last| last.is_write_full() && !self.is_memory_only()) {
            self.add_filled(full);
        }
        Ok(Last::of(file))
    }

    /// A file has become full. As long as it is not on the disk it stays open: where that holds of too many, the next key
    /// waits until the oldest of them is there. What becomes of that is told by the flush that takes the file.
    fn add_filled(&self, full: Arc<IndexFile>) {
        let mut filled = self.filled.lock();
        filled.push(full);
        // Each comes to this place as others follow it.
        let one_too_many = filled.iter().nth_back(self.most_unflushed()).cloned();
        drop(filled);
        if let Some(oldest) = one_too_many {
            oldest.flush_early();
        }
    }

    fn create(&self, previous_end: Option<(i64, i64)>) -> Result<IndexFile> {
        if self.is_memory_only() {
            return IndexFile::in_memory(IN_MEMORY_SHAPE, previous_end);
        }
        make_folder(&*self.fs, &self.folder)?;
        let (path, file) = self.create_file(self.next_name(), previous_end)?;
        if let Err(error) = self.fs.sync_dir(&self.folder) {
            // Left there it would have the name of the next attempt.
            let _already_failing = self.fs.remove_file(&path);
            return Err(Error::io("sync the folder", &self.folder)(error));
        }
        Ok(file)
    }

    /// A name behind all names that there are: files are put in order by them when they are loaded,
    /// and a clock can stand still or be set back.
    fn create_file(&self, first: String, previous_end: Option<(i64, i64)>) -> Result<(PathBuf, IndexFile)> {
        let mut name = first;
        loop {
            let path = self.folder.join(&name);
            let budget = Some(Arc::clone(&self.budget));
            match IndexFile::create(&self.fs, &path, self.shape, previous_end, budget) {
                // A file that cannot be used is left where it is, and its name with it.
                Err(Error::Io { source, .. }) if source.kind() == ErrorKind::AlreadyExists => {
                    name = next_millisecond(&name);
                }
                outcome => return outcome.map(|file| (path, file)),
            }
        }
    }

    fn next_name(&self) -> String {
        let files = self.files.read();
        let last = files.last().and_then(|last| last.path().file_name()).and_then(|name| name.to_str());
        name_behind(last, self.clock.now_ms())
    }
}

/// The name of a file made at a time: behind the last name, whatever the clock does.
pub(crate) fn name_behind(last: Option<&str>, now_ms: i64) -> String {
    let now = local_time_name(now_ms);
    match last {
        Some(last) if last >= now.as_str() => next_millisecond(last),
        _ => now,
    }
}

/// A time as an index file's name, in the machine's time zone as Java has it.
fn local_time_name(now_ms: i64) -> String {
    let zone = jiff::tz::TimeZone::system();
    let timestamp = jiff::Timestamp::from_millisecond(now_ms).unwrap_or_default();
    timestamp.to_zoned(zone).strftime("%Y%m%d%H%M%S%3f").to_string()
}

/// The next name in order. Names compare as numbers, so it need not be a time that exists.
fn next_millisecond(name: &str) -> String {
    let next = name.parse::<u64>().unwrap_or(0) + 1;
    format!("{next:017}")
}
