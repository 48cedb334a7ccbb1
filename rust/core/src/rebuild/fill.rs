//! Making one index file from its entries.
//!
//! `index.plan` says which entries each range has, by where it begins: 8 bytes offset, 8 bytes number
//! of its first entry, for each range in the log's order, then 8 bytes each of: all ones, entries in
//! all. A file of `n` entries' room holds `n - 1`, so that which entries a file has is known from
//! its number.

use std::path::{Path, PathBuf};

use super::segment::{RangeSummary, STAGED_ENTRY_SIZE, WorkFiles, damaged};
use crate::config::StoreConfig;
use crate::error::{Error, Result};
use crate::format::be::FieldReader;
use crate::format::index::IndexShape;
use crate::fs::OpenMode;
use crate::index::file::IndexFile;
use crate::index::name_behind;
use crate::num;

/// Entries that are read at a time.
const ENTRIES_AT_ONCE: u64 = 1 << 16;

/// Which entries each range has.
#[derive(Debug, Default)]
pub struct IndexPlan {
    /// Where a range begins, and the number of its first entry.
    ranges: Vec<(u64, u64)>,
    entry_count: u64,
    record_count: u64,
    last_record_entry_count: u64,
    last_store_timestamp: i64,
}

/// A staged entry.
#[derive(Debug, Clone, Copy)]
struct Entry {
    hash: u32,
    phy_offset: u64,
    store_timestamp: i64,
}

impl IndexPlan {
    /// Adds a range, in the log's order.
    pub(super) fn add(&mut self, summary: &RangeSummary) {
        self.ranges.push((summary.from, self.entry_count));
        self.entry_count += summary.entry_count;
        self.record_count += summary.record_count;
        if summary.record_count > 0 {
            self.last_record_entry_count = summary.last_record_entry_count;
            self.last_store_timestamp = summary.last_store_timestamp;
        }
    }

    pub(super) const fn entry_count(&self) -> u64 {
        self.entry_count
    }

    /// How many files there are. Dispatch makes one at the first record, and where the last one is
    /// full at the next record, whether that has keys or not, or at the next key of the same one.
    fn file_count(&self, shape: IndexShape) -> u64 {
        if self.record_count == 0 {
            return 0;
        }
        let in_file = entries_in_file(shape);
        let before_last = self.entry_count - self.last_record_entry_count;
        (before_last / in_file + 1).max(self.entry_count.div_ceil(in_file))
    }

    /// The files' names: by the time of their first entry, as if each had been made when its message
    /// was stored, and each behind the one before it.
    pub(super) fn names(&self, work: WorkFiles<'_>, shape: IndexShape) -> Result<Vec<String>> {
        let mut names: Vec<String> = Vec::new();
        for number in 0..self.file_count(shape) {
            let first = self.entry(work, number * entries_in_file(shape))?;
            let time = first.map_or(self.last_store_timestamp, |entry| entry.store_timestamp);
            names.push(name_behind(names.last().map(String::as_str), time));
        }
        Ok(names)
    }

    /// Writes it beside the ranges.
    pub(super) fn write(&self, work: WorkFiles<'_>) -> Result<()> {
        let all = self.ranges.iter().copied().chain([(u64::MAX, self.entry_count)]);
        let bytes: Vec<u8> = all.flat_map(|(from, first)| [from, first]).flat_map(u64::to_be_bytes).collect();
        work.fs.create_dir_all(work.folder).map_err(Error::io("make the folder", work.folder))?;
        work.write(&path(work), &bytes)
    }

    fn read(work: WorkFiles<'_>) -> Result<Self> {
        let bytes = work.read(&path(work))?.ok_or_else(|| damaged(path(work)))?;
        let mut reader = FieldReader::new(&bytes);
        let mut next = || reader.array().map(u64::from_be_bytes);
        let mut plan = Self::default();
        while let (Some(from), Some(first)) = (next(), next()) {
            if from == u64::MAX {
                plan.entry_count = first;
                return Ok(plan);
            }
            plan.ranges.push((from, first));
        }
        Err(damaged(path(work)))
    }

    fn entry(&self, work: WorkFiles<'_>, number: u64) -> Result<Option<Entry>> {
        let mut found = None;
        self.for_each(work, number, number + 1, |entry| {
            found = Some(entry);
            Ok(())
        })?;
        Ok(found)
    }

    /// Gives entries by their numbers, in the log's order.
    fn for_each(
        &self,
        work: WorkFiles<'_>,
        from: u64,
        to: u64,
        mut visit: impl FnMut(Entry) -> Result<()>,
    ) -> Result<()> {
        let ends = self.ranges.iter().skip(1).map(|(_, first)| *first).chain([self.entry_count]);
        for (&(range, first), end) in self.ranges.iter().zip(ends) {
            let (mut at, end) = (from.max(first), to.min(end));
            if at >= end {
                continue;
            }
            let path = work.path(range, "entries");
            let handle = work.fs.open(&path, OpenMode::Read).map_err(Error::io("open", &path))?;
            while at < end {
                let count = ENTRIES_AT_ONCE.min(end - at);
                let mut bytes = vec![0; num::index(count) * STAGED_ENTRY_SIZE];
                let position = (at - first) * num::offset(STAGED_ENTRY_SIZE);
                let read = handle.read_at(&mut bytes, position).map_err(Error::io("read", &path))?;
                if read < bytes.len() {
                    return Err(damaged(path));
                }
                for entry in bytes.chunks_exact(STAGED_ENTRY_SIZE).filter_map(Entry::read) {
                    visit(entry)?;
                }
                at += count;
            }
        }
        Ok(())
    }
}

impl Entry {
    fn read(bytes: &[u8]) -> Option<Self> {
        let mut reader = FieldReader::new(bytes);
        Some(Self {
            hash: reader.array().map(u32::from_be_bytes)?,
            phy_offset: reader.array().map(u64::from_be_bytes)?,
            store_timestamp: reader.i64()?,
        })
    }
}

fn path(work: WorkFiles<'_>) -> PathBuf {
    work.folder.join("index.plan")
}

fn entries_in_file(shape: IndexShape) -> u64 {
    u64::from(shape.index_num.saturating_sub(1)).max(1)
}

/// Makes the index file of a number, under a name, in the store of a configuration. It has its name
/// once it is whole and on the disk; one that is there already is left as it is.
///
/// # Errors
/// Where a work file is not whole, or the file can't be made.
pub fn fill(config: &StoreConfig, work: WorkFiles<'_>, number: u64, name: &str) -> Result<u64> {
    let folder = config.store_path_index();
    let path = folder.join(name);
    if work.fs.metadata(&path).map_err(Error::io("look at", &path))?.is_some() {
        return Ok(0);
    }
    work.fs.create_dir_all(&folder).map_err(Error::io("make the folder", &folder))?;
    let unfinished = work.folder.join(format!("{name}.{}.part", std::process::id()));
    let count = fill_file(config, work, number, &unfinished)?;
    work.fs.rename(&unfinished, &path).map_err(Error::io("rename", &unfinished))?;
    work.fs.sync_dir(&folder).map_err(Error::io("sync the folder", &folder))?;
    Ok(count)
}

fn fill_file(config: &StoreConfig, work: WorkFiles<'_>, number: u64, path: &Path) -> Result<u64> {
    let plan = IndexPlan::read(work)?;
    let in_file = entries_in_file(config.index_shape);
    let first = number * in_file;
    let previous_end = match first.checked_sub(1) {
        Some(before) => plan.entry(work, before)?,
        None => None,
    };
    let previous_end = previous_end.map(|entry| (num::java_long(entry.phy_offset), entry.store_timestamp));
    if work.fs.metadata(path).map_err(Error::io("look at", path))?.is_some() {
        work.fs.remove_file(path).map_err(Error::io("remove", path))?;
    }
    let file = IndexFile::create(work.fs, path, config.index_shape, previous_end, None)?;
    let mut count = 0;
    plan.for_each(work, first, first + in_file, |entry| {
        file.put_key(entry.hash, entry.phy_offset, entry.store_timestamp)?;
        count += 1;
        Ok(())
    })?;
    file.flush()?;
    Ok(count)
}
