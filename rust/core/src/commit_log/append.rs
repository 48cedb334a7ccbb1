//! Appending: the one place where messages enter the log.
//!
//! A record is written straight into its file's mapping, piece by piece, and becomes visible with
//! the store of one position; many of them are gathered first (`append_many.rs`). Everything that can
//! take long (a new file, space, another writer's lock) is refused with [`AppendRefusal::WouldBlock`] to
//! a caller that asks with [`Wait::Try`]; it asks again with [`Wait::Block`] when it may wait. Source:
//! `CommitLog.asyncPutMessage` and `DefaultAppendMessageCallback`.

use std::path::PathBuf;
use std::sync::Arc;

use super::CommitLog;
use super::active_file::ActiveFile;
use super::topic_queue::{QueueRef, TopicQueueTable};
use crate::error::{Error, Result};
use crate::format::message::{self, END_FILE_MIN_BLANK_LENGTH, MAX_PROPERTIES_LENGTH, Place, RecordFields};
use crate::format::sys_flag;
use crate::num;
use crate::sync::Ordering;

/// What the append lock guards.
#[derive(Debug, Default)]
pub(super) struct Appender {
    pub(super) active: Option<Arc<ActiveFile>>,
    pub(super) topic_queues: TopicQueueTable,
    last_store_timestamp: i64,
    /// Whether the store is closed: the lock of its folder goes, and nobody may write to it any more.
    is_sealed: bool,
    /// Memory for the records of one call.
    pub(super) run_bytes: Vec<u8>,
}

impl Appender {
    pub(super) fn reset(&mut self, store_timestamp: i64) {
        self.active = None;
        self.last_store_timestamp = store_timestamp;
    }
}

/// Whether an append may wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// For the lock, a new file, space on the disk.
    Block,
    /// For nothing.
    Try {
        /// The store's clock a moment ago: what is appended without a wait has this time.
        now_ms: i64,
    },
}

impl Wait {
    /// Whether what would take long is to be refused.
    pub(super) const fn is_try(self) -> bool {
        matches!(self, Self::Try { .. })
    }

    /// The same, by what the clock says now: what was decided by a reading of it is not stored at an earlier time.
    pub(crate) fn read_again(self, now_ms: impl FnOnce() -> i64) -> Self {
        match self {
            Self::Try { .. } => Self::Try { now_ms: now_ms() },
            Self::Block => Self::Block,
        }
    }
}

/// Where a record's store time comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreTime {
    /// The clock, under the lock.
    Now,
    /// The record had one before.
    Kept(i64),
}

/// The queue offset that a record gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueOffset {
    /// The one behind the last that its queue gave.
    Next,
    /// The one that it had before: its queue goes on there.
    Kept(i64),
}

/// Why nothing was appended.
#[derive(Debug, thiserror::Error)]
pub enum AppendRefusal {
    /// Only with [`Wait::Try`]: ask again and wait.
    #[error("the append would have to wait")]
    WouldBlock,
    /// The record, or the batch as a whole, fits no log file.
    #[error("{size} bytes and the 8 that end a file do not fit a log file of {file_size} bytes")]
    FitsNoFile {
        /// Bytes of the record or the batch.
        size: u64,
        /// Bytes of a log file.
        file_size: u64,
    },
    /// The properties became too long when the further queues' offsets were added.
    #[error("properties have at most {MAX_PROPERTIES_LENGTH} bytes, these have {size}")]
    Properties {
        /// Bytes.
        size: usize,
    },
    /// The record was to keep an offset that its queue has given already.
    #[error("its queue goes on at {next}: renumber the offsets, or import into a new store")]
    QueueOffset {
        /// What it was to keep.
        kept: i64,
        /// What comes next in the queue.
        next: i64,
    },
    /// The topic's folder is another topic's too.
    #[error(
        "the file system has another topic's folder, or no folder, as {folder:?}: topics whose names it does not tell apart \
         cannot be in one store"
    )]
    OtherTopic {
        /// The topic.
        topic: String,
        /// What would be its folder.
        folder: PathBuf,
    },
    /// No file or folder could be made, or no space reserved.
    #[error(transparent)]
    NoSpace(Error),
    /// The store takes no messages.
    #[error(transparent)]
    Unavailable(Error),
}

/// A record to append.
#[derive(Debug, Clone, Copy)]
pub struct NewRecord<'a> {
    /// What is in it.
    pub fields: RecordFields<'a>,
    /// Its store time.
    pub store_time: StoreTime,
    /// Its queue offset, if it is in a queue.
    pub queue_offset: QueueOffset,
}

/// Where a record went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Appended {
    /// Its physical offset.
    pub wrote_offset: u64,
    /// Its size.
    pub wrote_bytes: u32,
    /// Its store time, in milliseconds.
    pub store_timestamp: i64,
    /// Its queue offset.
    pub logics_offset: i64,
}

impl Appended {
    pub(super) fn at(place: Place, record: &NewRecord<'_>) -> Self {
        Self {
            wrote_offset: place.physical_offset,
            wrote_bytes: num::int_as_bits(num::java_int(record.fields.record_size())),
            store_timestamp: place.store_timestamp,
            logics_offset: place.queue_offset,
        }
    }

    /// Where its record ends in the log.
    #[must_use]
    pub const fn end_offset(&self) -> u64 {
        self.wrote_offset + self.wrote_bytes as u64
    }
}

impl CommitLog {
    /// Appends one record.
    ///
    /// # Errors
    /// An [`AppendRefusal`]; nothing was appended then.
    pub fn append(&self, record: &NewRecord<'_>, wait: Wait) -> Result<Appended, AppendRefusal> {
        self.with_appender(wait, |appender, now| {
            self.reserve(appender, num::offset(record.fields.record_size()), wait)?;
            self.write_record(appender, record, now, wait)
        })
    }

    /// Sees to it that dispatch will have a folder for a topic; 4.9.3 finds out behind the acknowledgement.
    ///
    /// # Errors
    /// An [`AppendRefusal`] where it can't be made, or the file system takes another topic's for it.
    pub(crate) fn admit_topic(&self, topic: &[u8], wait: Wait) -> Result<(), AppendRefusal> {
        if self.config.compat {
            return Ok(());
        }
        self.topic_folders.make(self.files.file_system(), topic, wait)
    }

    /// Appends one record whose properties depend on the next offsets of `further` queues: `encode` gives them
    /// under the lock, and `advance` moves those offsets once the record is in the log.
    ///
    /// # Errors
    /// An [`AppendRefusal`]; nothing was appended then.
    pub fn append_with_properties(
        &self,
        base: &NewRecord<'_>,
        further: &[QueueRef<'_>],
        wait: Wait,
        encode: impl FnOnce(&TopicQueueTable) -> Vec<u8>,
        advance: impl FnOnce(&mut TopicQueueTable),
    ) -> Result<Appended, AppendRefusal> {
        self.with_appender(wait, |appender, now| {
            let topic_queues = &appender.topic_queues;
            let mut new = further.iter().filter(|queue| !topic_queues.contains(**queue));
            new.try_for_each(|queue| self.admit_topic(queue.topic, wait))?;
            let properties = encode(topic_queues);
            let fields = RecordFields { properties: &properties, ..base.fields };
            if fields.properties_size() > MAX_PROPERTIES_LENGTH {
                return Err(AppendRefusal::Properties { size: fields.properties_size() });
            }
            let record = NewRecord { fields, ..*base };
            self.reserve(appender, num::offset(record.fields.record_size()), wait)?;
            let appended = self.write_record(appender, &record, now, wait)?;
            advance(&mut appender.topic_queues);
            Ok(appended)
        })
    }

    /// Ends the file in which the log's end lies: the next record begins a new one. Does nothing
    /// where it would anyway.
    ///
    /// # Errors
    /// An [`AppendRefusal`] where the next file can't be had; the file goes on then.
    pub fn end_file(&self, wait: Wait) -> Result<(), AppendRefusal> {
        self.with_appender(wait, |appender, _| {
            let wrote = self.wrote_offset();
            if self.position(wrote) == 0 {
                return Ok(());
            }
            let next = match &appender.active {
                Some(full) => self.end_early(full, wrote, wait)?,
                None => self.open_active(wrote, self.files.file_size(), wait)?,
            };
            appender.active = Some(next);
            Ok(())
        })
    }

    /// Waits for the append that is under way, and refuses every later one.
    pub fn seal(&self) {
        self.appender.lock().is_sealed = true;
    }

    pub(super) fn with_appender<T>(
        &self,
        wait: Wait,
        append: impl FnOnce(&mut Appender, i64) -> Result<T, AppendRefusal>,
    ) -> Result<T, AppendRefusal> {
        let mut appender = match wait {
            Wait::Try { .. } => self.appender.try_lock().ok_or(AppendRefusal::WouldBlock)?,
            Wait::Block => self.appender.lock(),
        };
        if appender.is_sealed {
            return Err(AppendRefusal::Unavailable(Error::Closed));
        }
        self.poison.check().map_err(AppendRefusal::Unavailable)?;
        let now = match wait {
            // Another thread may have appended since: its time is the least then, which `compat` does not see to.
            Wait::Try { now_ms } if !self.config.compat => now_ms,
            _ => self.clock.now_ms(),
        };
        self.begin_time_in_lock.store(now, Ordering::Relaxed);
        let outcome = append(&mut appender, now);
        self.begin_time_in_lock.store(0, Ordering::Relaxed);
        outcome
    }

    /// Makes room for `size` bytes and the blank behind them: rolls to the next file where the
    /// current one has none, and sees to it that blocks are reserved before they are written.
    pub(super) fn reserve(
        &self,
        appender: &mut Appender,
        size: u64,
        wait: Wait,
    ) -> Result<(), AppendRefusal> {
        let file_size = self.files.file_size();
        let needed = size + END_FILE_MIN_BLANK_LENGTH as u64;
        if needed > file_size {
            return Err(AppendRefusal::FitsNoFile { size, file_size });
        }
        let wrote = self.wrote_offset();
        let Some(active) = &appender.active else {
            let opened = self.open_active(wrote, needed, wait)?;
            self.go_on_in(appender, opened);
            return self.reserve(appender, size, wait);
        };
        let next = if wrote + needed <= active.end_offset() {
            match self.reserve_blocks(active, wrote + needed, wait) {
                Err(refusal) if self.may_go_elsewhere(active, &refusal) => {
                    self.end_early(active, wrote, wait)?
                }
                outcome => return outcome,
            }
        } else {
            let next = self.next_active(active.end_offset(), wait).inspect_err(|refusal| {
                // The buffer that is missing comes back once all of this file is committed.
                if matches!(refusal, AppendRefusal::NoSpace(Error::Option { .. })) {
                    self.fill_blank(active, wrote);
                }
            })?;
            self.fill_blank(active, wrote);
            next
        };
        let active = self.go_on_in(appender, next);
        self.reserve_blocks(active, active.file_from_offset() + needed, wait)
    }

    /// Appends to a file from now on, which the log's end may lie before.
    fn go_on_in<'a>(&self, appender: &'a mut Appender, active: Arc<ActiveFile>) -> &'a Arc<ActiveFile> {
        if self.wrote_offset() < active.file_from_offset() {
            self.publish(active.file_from_offset());
        }
        appender.active.insert(active)
    }

    /// Whether a record for which a file's disk has no room can have some of another disk. A file without any record is not ended:
    /// each put would leave one more where no disk has room.
    fn may_go_elsewhere(&self, active: &ActiveFile, refusal: &AppendRefusal) -> bool {
        let is_full = matches!(refusal, AppendRefusal::NoSpace(error) if error.is_disk_full());
        is_full && self.files.has_several_paths() && self.wrote_offset() > active.file_from_offset()
    }

    /// Ends a file before it is full. Gives the one behind it, in a folder that has room.
    fn end_early(&self, full: &ActiveFile, wrote: u64, wait: Wait) -> Result<Arc<ActiveFile>, AppendRefusal> {
        self.reserve_blocks(full, wrote + END_FILE_MIN_BLANK_LENGTH as u64, wait)?;
        let next = self.next_active(full.end_offset(), wait)?;
        self.fill_blank(full, wrote);
        Ok(next)
    }

    /// Where a record of so many bytes would stand that is appended now.
    pub(crate) fn next_place(&self, size: u64) -> u64 {
        let (end, file_size) = (self.wrote_offset(), self.files.file_size());
        let fits = end % file_size + size + END_FILE_MIN_BLANK_LENGTH as u64 <= file_size;
        if fits { end } else { end.next_multiple_of(file_size) }
    }

    /// The file in which the log's end lies, opened for the first append after the store was.
    pub(super) fn open_active(
        &self,
        wrote: u64,
        needed: u64,
        wait: Wait,
    ) -> Result<Arc<ActiveFile>, AppendRefusal> {
        if wait.is_try() {
            return Err(AppendRefusal::WouldBlock);
        }
        let Some(file) = self.files.find(wrote) else {
            let file_size = self.files.file_size();
            return self.next_active(wrote.next_multiple_of(file_size), wait);
        };
        let active = self.activate(&file).map_err(AppendRefusal::NoSpace)?;
        if wrote + needed <= active.end_offset() {
            return Ok(active);
        }
        self.end_early(&active, wrote, wait)
    }

    /// Writes the blank into what is left of a file and moves the position behind it.
    fn fill_blank(&self, full: &ActiveFile, wrote: u64) {
        let remaining = num::index(full.end_offset().saturating_sub(wrote));
        if remaining >= END_FILE_MIN_BLANK_LENGTH {
            full.write(self.position(wrote), &message::blank(remaining));
        }
        self.publish(full.end_offset());
    }

    fn write_record(
        &self,
        appender: &mut Appender,
        record: &NewRecord<'_>,
        now: i64,
        wait: Wait,
    ) -> Result<Appended, AppendRefusal> {
        let begin = self.wrote_offset();
        let place = self.place(appender, record, now, begin, wait)?;
        let Some(active) = &appender.active else { return Err(AppendRefusal::WouldBlock) };
        let mut at = self.position(begin);
        record.fields.write(place, |bytes| {
            active.write(at, bytes);
            at += bytes.len();
        });
        active.set_by_call(false);
        let appended = Appended::at(place, record);
        let next = appended.end_offset();
        self.publish_with_time(next, appended.store_timestamp);
        // The next record, which is likely to be as long, finds its place fetched when it comes.
        active.prefetch_to_write(self.position(next), record.fields.record_size());
        Ok(appended)
    }

    /// What a record that goes to an offset says of its place. Its queue goes on behind it.
    pub(super) fn place(
        &self,
        appender: &mut Appender,
        record: &NewRecord<'_>,
        now: i64,
        wrote_offset: u64,
        wait: Wait,
    ) -> Result<Place, AppendRefusal> {
        let store_timestamp = match record.store_time {
            // Look-ups by time search sorted times, and recovery finds its file by them.
            StoreTime::Now if self.config.compat => now,
            StoreTime::Now => now.max(appender.last_store_timestamp),
            StoreTime::Kept(time) => time,
        };
        let fields = &record.fields;
        let queue = QueueRef { topic: fields.topic, queue_id: fields.queue_id };
        let in_queue = sys_flag::enters_consume_queue(fields.sys_flag);
        let mut no_offset = 0;
        let next_offset = if in_queue {
            appender.topic_queues.next_offset_mut(queue, || self.admit_topic(queue.topic, wait))?
        } else {
            &mut no_offset
        };
        if let QueueOffset::Kept(kept) = record.queue_offset {
            if kept < *next_offset {
                return Err(AppendRefusal::QueueOffset { kept, next: *next_offset });
            }
            *next_offset = kept;
        }
        let queue_offset = *next_offset;
        *next_offset += 1;
        appender.last_store_timestamp = store_timestamp;
        Ok(Place { queue_offset, physical_offset: wrote_offset, store_timestamp })
    }

    pub(super) fn publish(&self, wrote: u64) {
        self.positions.wrote.store(wrote, Ordering::Release);
        if self.transient.is_none()
            && let Some(published) = self.published()
        {
            published.set_wrote(wrote);
        }
    }

    pub(super) fn publish_with_time(&self, wrote: u64, store_timestamp: i64) {
        self.publish(wrote);
        self.positions.store_timestamp.store(store_timestamp, Ordering::Release);
    }
}
