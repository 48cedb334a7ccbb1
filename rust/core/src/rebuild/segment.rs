//! Work files of a rebuild: what one range of the log gives.
//!
//! Each range has four files, named by the offset at which it begins. All fields are big-endian.
//!
//! `*.units`: the units of each queue, queue after queue in the order of the summary, in the log's
//! order; 28 bytes a unit.
//!
//! | bytes | field |
//! |-------|-------|
//! | 20    | the unit, its tags code as dispatch gives it |
//! | 8     | store time of its message, for the extension |
//!
//! `*.entries`: the index entries in the log's order; 20 bytes an entry.
//!
//! | bytes | field |
//! |-------|-------|
//! | 4     | hash of the key |
//! | 8     | physical offset |
//! | 8     | store time |
//!
//! `*.range`: the summary, written last; the others are whole where it is there and its sums agree.
//!
//! | bytes | field |
//! |-------|-------|
//! | 8     | magic |
//! | 8     | where the range begins |
//! | 8     | where its walk came to |
//! | 8     | records |
//! | 8     | index entries |
//! | 8     | index entries of the last record |
//! | 8     | store time of the last record |
//! | 8     | queues |
//! | 8     | parts of the log that it passed over |
//! | 4     | CRC-32 of `*.units` |
//! | 4     | CRC-32 of `*.entries` |
//!
//! then for each queue 4 bytes length of its topic, the topic, 4 bytes queue id, 8 bytes number of
//! runs, and for each run of consecutive offsets
//!
//! | bytes | field |
//! |-------|-------|
//! | 8     | offset of the first unit, as its record says; 0 for a negative one |
//! | 8     | units |
//! | 1     | 1: has a part in the extension; 2: its record gave the queue's unit before it too |
//!
//! then for each part that was passed over 8 bytes begin and 8 bytes end, and 4 bytes CRC-32 of all
//! before them.
//!
//! `*.places` is the fold's: where the runs go. For each run that goes anywhere
//!
//! | bytes | field |
//! |-------|-------|
//! | 4     | queue, by its place in the summary |
//! | 8     | its first unit in `*.units` |
//! | 8     | units |
//! | 8     | blank units fill the queue from this index up to the first unit |
//! | 8     | index of the first unit in its queue |
//! | 8     | its first unit in the extension, or -1 |
//!
//! and 4 bytes CRC-32 at the end.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::format::be::FieldReader;
use crate::format::file_name;
use crate::fs::{FileSystem, OpenMode};
use crate::num;

const MAGIC: [u8; 8] = *b"mqrange1";
/// Bytes of a staged unit.
pub const STAGED_UNIT_SIZE: usize = 28;
/// Bytes of a staged entry.
pub const STAGED_ENTRY_SIZE: usize = 20;
const SUM_SIZE: usize = 4;

/// Consecutive units of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// Offset of the first, as its record says; 0 for a negative one.
    pub cq_offset: u64,
    /// How many.
    pub count: u64,
    /// Whether they have a part in the extension.
    pub with_ext: bool,
    /// Whether its record gave the unit before it in this queue too: a record can name a queue twice.
    pub repeats: bool,
}

/// What a range has for one queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueRuns {
    /// The topic, as text.
    pub topic: String,
    /// The queue.
    pub queue_id: i32,
    /// Its units.
    pub runs: Vec<Run>,
}

/// What a range gave.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RangeSummary {
    /// Where it begins.
    pub from: u64,
    /// Where its walk came to: the next range's begin, where that was a record.
    pub reached: u64,
    /// Records.
    pub record_count: u64,
    /// Index entries.
    pub entry_count: u64,
    /// Index entries of its last record.
    pub last_record_entry_count: u64,
    /// Store time of its last record.
    pub last_store_timestamp: i64,
    /// By queue, in the order of `*.units`.
    pub queues: Vec<QueueRuns>,
    /// Parts of the log that hold no record: begin and end.
    pub gaps: Vec<(u64, u64)>,
}

impl RangeSummary {
    /// Units in all.
    #[must_use]
    pub fn unit_count(&self) -> u64 {
        self.queues.iter().flat_map(|queue| &queue.runs).map(|run| run.count).sum()
    }

    fn to_bytes(&self, units_sum: u32, entries_sum: u32) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        let mut put = |value: u64| out.extend_from_slice(&value.to_be_bytes());
        put(self.from);
        put(self.reached);
        put(self.record_count);
        put(self.entry_count);
        put(self.last_record_entry_count);
        put(self.last_store_timestamp.cast_unsigned());
        put(num::offset(self.queues.len()));
        put(num::offset(self.gaps.len()));
        out.extend_from_slice(&units_sum.to_be_bytes());
        out.extend_from_slice(&entries_sum.to_be_bytes());
        for queue in &self.queues {
            out.extend_from_slice(&num::java_int(queue.topic.len()).to_be_bytes());
            out.extend_from_slice(queue.topic.as_bytes());
            out.extend_from_slice(&queue.queue_id.to_be_bytes());
            out.extend_from_slice(&num::offset(queue.runs.len()).to_be_bytes());
            for run in &queue.runs {
                out.extend_from_slice(&run.cq_offset.to_be_bytes());
                out.extend_from_slice(&run.count.to_be_bytes());
                out.push(u8::from(run.with_ext) | u8::from(run.repeats) << 1);
            }
        }
        for (from, to) in &self.gaps {
            out.extend_from_slice(&from.to_be_bytes());
            out.extend_from_slice(&to.to_be_bytes());
        }
        with_sum(out)
    }

    fn read(bytes: &[u8]) -> Option<(Self, u32, u32)> {
        let mut reader = FieldReader::new(bytes);
        if reader.array()? != MAGIC {
            return None;
        }
        let mut next = || reader.array().map(u64::from_be_bytes);
        let mut summary = Self {
            from: next()?,
            reached: next()?,
            record_count: next()?,
            entry_count: next()?,
            last_record_entry_count: next()?,
            last_store_timestamp: next()?.cast_signed(),
            ..Self::default()
        };
        let (queue_count, gap_count) = (next()?, next()?);
        let units_sum = reader.array().map(u32::from_be_bytes)?;
        let entries_sum = reader.array().map(u32::from_be_bytes)?;
        for _ in 0..queue_count {
            let topic_len = num::from_java_int(reader.i32()?)?;
            let topic = std::str::from_utf8(reader.bytes(topic_len as usize)?).ok()?.to_owned();
            let queue_id = reader.i32()?;
            let run_count = reader.array().map(u64::from_be_bytes)?;
            let run = |reader: &mut FieldReader<'_>| {
                let cq_offset = reader.array().map(u64::from_be_bytes)?;
                let count = reader.array().map(u64::from_be_bytes)?;
                let flags = reader.u8()?;
                Some(Run { cq_offset, count, with_ext: flags & 1 != 0, repeats: flags & 2 != 0 })
            };
            let runs = (0..run_count).map(|_| run(&mut reader)).collect::<Option<_>>()?;
            summary.queues.push(QueueRuns { topic, queue_id, runs });
        }
        for _ in 0..gap_count {
            let from = reader.array().map(u64::from_be_bytes)?;
            summary.gaps.push((from, reader.array().map(u64::from_be_bytes)?));
        }
        Some((summary, units_sum, entries_sum))
    }
}

/// Where a run goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The queue, by its place in the summary.
    pub queue: u32,
    /// Its first unit in `*.units`.
    pub first: u64,
    /// How many units.
    pub count: u64,
    /// Blank units fill the queue from here up to the first unit.
    pub blanks_from: u64,
    /// Index of the first unit in its queue.
    pub index: u64,
    /// Its first unit in the extension; `None` for units that have no part in it.
    pub ext_index: Option<u64>,
}

impl Place {
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.queue.to_be_bytes());
        let ext = self.ext_index.unwrap_or(u64::MAX);
        for value in [self.first, self.count, self.blanks_from, self.index, ext] {
            out.extend_from_slice(&value.to_be_bytes());
        }
    }

    fn read(reader: &mut FieldReader<'_>) -> Option<Self> {
        let queue = reader.array().map(u32::from_be_bytes)?;
        let mut next = || reader.array().map(u64::from_be_bytes);
        Some(Self {
            queue,
            first: next()?,
            count: next()?,
            blanks_from: next()?,
            index: next()?,
            ext_index: next().map(|index| (index != u64::MAX).then_some(index))?,
        })
    }
}

fn with_sum(mut bytes: Vec<u8>) -> Vec<u8> {
    let sum = crc32fast::hash(&bytes);
    bytes.extend_from_slice(&sum.to_be_bytes());
    bytes
}

fn without_sum(mut bytes: Vec<u8>) -> Option<Vec<u8>> {
    let at = bytes.len().checked_sub(SUM_SIZE)?;
    let sum = bytes.get(at..)?.first_chunk().copied().map(u32::from_be_bytes)?;
    bytes.truncate(at);
    (crc32fast::hash(&bytes) == sum).then_some(bytes)
}

/// The work files of a rebuild.
#[derive(Debug, Clone, Copy)]
pub struct WorkFiles<'a> {
    /// Through which they go.
    pub fs: &'a Arc<dyn FileSystem>,
    /// Where they lie.
    pub folder: &'a Path,
}

impl WorkFiles<'_> {
    /// A range's file of a kind.
    #[must_use]
    pub fn path(&self, from: u64, kind: &str) -> PathBuf {
        self.folder.join(format!("{}.{kind}", file_name::from_offset(from)))
    }

    /// Writes a file as a whole: it has its name once it is whole.
    ///
    /// # Errors
    /// Where it can't be written.
    pub fn write(&self, path: &Path, bytes: &[u8]) -> Result<()> {
        let unfinished = path.with_extension(format!("{}.part", std::process::id()));
        let handle = self.fs.open(&unfinished, OpenMode::Create).map_err(Error::io("create", &unfinished))?;
        let written = handle.set_len(0).and_then(|()| handle.write_at(bytes, 0));
        written.map_err(Error::io("write", &unfinished))?;
        self.fs.rename(&unfinished, path).map_err(Error::io("rename", &unfinished))
    }

    /// All bytes of a file; `None` where there is none.
    ///
    /// # Errors
    /// Where it can't be read.
    pub fn read(&self, path: &Path) -> Result<Option<Vec<u8>>> {
        if self.fs.metadata(path).map_err(Error::io("look at", path))?.is_none() {
            return Ok(None);
        }
        let handle = self.fs.open(path, OpenMode::Read).map_err(Error::io("open", path))?;
        let len = handle.metadata().map_err(Error::io("look at", path))?.len;
        let mut bytes = vec![0; num::index(len)];
        let count = handle.read_at(&mut bytes, 0).map_err(Error::io("read", path))?;
        bytes.truncate(count);
        Ok(Some(bytes))
    }

    /// Writes what a range gave.
    ///
    /// # Errors
    /// Where a file can't be written.
    pub fn write_range(&self, summary: &RangeSummary, units: &[u8], entries: &[u8]) -> Result<()> {
        self.fs.create_dir_all(self.folder).map_err(Error::io("make the folder", self.folder))?;
        self.write(&self.path(summary.from, "units"), units)?;
        self.write(&self.path(summary.from, "entries"), entries)?;
        let bytes = summary.to_bytes(crc32fast::hash(units), crc32fast::hash(entries));
        self.write(&self.path(summary.from, "range"), &bytes)
    }

    /// A range's summary; `None` where the range is not staged, or not whole.
    ///
    /// # Errors
    /// Where a file can't be read.
    pub fn summary(&self, from: u64) -> Result<Option<RangeSummary>> {
        Ok(self.summary_and_sums(from)?.map(|(summary, _, _)| summary))
    }

    fn summary_and_sums(&self, from: u64) -> Result<Option<(RangeSummary, u32, u32)>> {
        let bytes = self.read(&self.path(from, "range"))?.and_then(without_sum);
        Ok(bytes.and_then(|bytes| RangeSummary::read(&bytes)).filter(|(summary, _, _)| summary.from == from))
    }

    /// Whether a range is staged, and its files whole.
    ///
    /// # Errors
    /// Where a file can't be read.
    pub fn whole_summary(&self, from: u64) -> Result<Option<RangeSummary>> {
        let Some((summary, units_sum, entries_sum)) = self.summary_and_sums(from)? else { return Ok(None) };
        let is_whole = |kind, sum| {
            self.read(&self.path(from, kind))
                .map(|bytes| bytes.is_some_and(|bytes| crc32fast::hash(&bytes) == sum))
        };
        Ok((is_whole("units", units_sum)? && is_whole("entries", entries_sum)?).then_some(summary))
    }

    /// A range's summary and units, checked.
    ///
    /// # Errors
    /// Where they are not there, or not whole.
    pub fn units(&self, from: u64) -> Result<(RangeSummary, Vec<u8>)> {
        let path = self.path(from, "units");
        match (self.summary_and_sums(from)?, self.read(&path)?) {
            (Some((summary, sum, _)), Some(units)) if crc32fast::hash(&units) == sum => Ok((summary, units)),
            _ => Err(damaged(path)),
        }
    }

    /// Writes where a range's units go.
    ///
    /// # Errors
    /// Where the file can't be written.
    pub fn write_places(&self, from: u64, places: &[Place]) -> Result<()> {
        let mut bytes = Vec::new();
        places.iter().for_each(|place| place.write(&mut bytes));
        self.write(&self.path(from, "places"), &with_sum(bytes))
    }

    /// Where a range's units go.
    ///
    /// # Errors
    /// Where the file is not there, or not whole.
    pub fn places(&self, from: u64) -> Result<Vec<Place>> {
        let path = self.path(from, "places");
        let bytes = self.read(&path)?.and_then(without_sum).ok_or_else(|| damaged(path))?;
        let mut reader = FieldReader::new(&bytes);
        Ok(std::iter::from_fn(|| Place::read(&mut reader)).collect())
    }
}

/// A work file that is not what was written.
pub(super) fn damaged(path: PathBuf) -> Error {
    Error::Layout {
        path,
        expected: "a whole work file of this rebuild".into(),
        found: "none, or other bytes: remove the folder to begin again".into(),
    }
}
