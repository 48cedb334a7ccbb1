//! Queues that were removed while the log still has their messages.
//!
//! The log says nothing of a removal, and the queue that is used again begins at 0. So whoever dispatches
//! the log once more, after a crash or in a rebuild, has to know which records were the removed queue's:
//! those up to its last one. 4.9.3 does not: the old messages come back and the new ones, whose
//! offsets the queue has already, are in no queue any more.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use hashbrown::HashMap;

use crate::commit_log::scan::{self, ScanEnd};
use crate::commit_log::topic_queue::{QueueKey, QueueRef};
use crate::config_file;
use crate::error::Result;
use crate::format::java_string;
use crate::format::message::{Check, Record, decode_record};
use crate::format::removed_queues::{self as format, LastMessage, RemovedQueue};
use crate::format::sys_flag;
use crate::fs::FileSystem;
use crate::mmap::file_queue::{FileQueue, Stray};
use crate::mmap::mapped_file::MappedFile;
use crate::num;
use crate::repair::filler::is_filler;
use crate::sync::{AtomicBool, AtomicU32, Ordering, RwLock};

/// The removed queues of a store.
#[derive(Debug, Default)]
pub struct RemovedQueues {
    removals: RwLock<Removals>,
    /// Whether there is one: mostly there is none, and each record is asked about.
    is_any: AtomicBool,
    /// Whether one was on the list whose last record the log has no more, or the list is not whole.
    is_cut: AtomicBool,
    /// CRC-32 of the file as it was read last, unless it named a record that a reader beside the writer had yet
    /// to see.
    read_crc: AtomicU32,
}

/// The last messages that queues had when they were removed, oldest first. All of them count: a crash can
/// take the last one, whose queue had been removed before.
type Removals = HashMap<QueueKey, Vec<LastMessage>>;

/// Where a store keeps them.
#[must_use]
pub fn path(own_dir: &Path) -> PathBuf {
    own_dir.join("removed_queues")
}

impl RemovedQueues {
    /// Reads a store's. One does not count where the log was cut before its last record: it ends there, or something else
    /// was put there since. One whose last record is damaged counts, and one where a repair has filled what was left of it.
    /// Gives the file where it is not whole: nothing in it counts then.
    ///
    /// # Errors
    /// Where the file is there and can't be read, or the log can't be.
    pub fn load(&self, fs: &dyn FileSystem, own_dir: &Path, log: &FileQueue) -> Result<Option<Stray>> {
        let path = path(own_dir);
        let Some(bytes) = config_file::read(fs, &path)? else { return Ok(None) };
        let expected = "a list of removed queues that is whole".into();
        let stray = Stray { path, expected, found: "one with other bytes".into() };
        Ok((!self.take(&bytes, log)?).then_some(stray))
    }

    /// Goes by a list from now on; gives whether it is whole.
    fn take(&self, bytes: &[u8], log: &FileQueue) -> Result<bool> {
        let Some(mut queues) = format::read(bytes) else {
            self.is_cut.store(true, Ordering::Release);
            return Ok(false);
        };
        queues.sort_by_key(|queue| queue.last.physical_offset);
        let mut removals = Removals::new();
        let mut is_cut = false;
        for queue in queues {
            if log.min_offset().is_some_and(|min| queue.last.physical_offset < min) {
                continue;
            }
            if !is_void(log, &queue.last)? {
                let key = QueueKey { topic: queue.topic.into(), queue_id: queue.queue_id };
                removals.entry(key).or_default().push(queue.last);
            } else {
                is_cut = true;
            }
        }
        if is_cut {
            self.is_cut.store(true, Ordering::Release);
        } else {
            self.read_crc.store(crc32fast::hash(bytes), Ordering::Release);
        }
        self.set(removals);
        Ok(true)
    }

    /// Reads a store's again, which somebody else writes. Gives the queues that were removed since.
    ///
    /// # Errors
    /// As for [`RemovedQueues::load`].
    pub fn reload(&self, fs: &dyn FileSystem, own_dir: &Path, log: &FileQueue) -> Result<Vec<QueueKey>> {
        let Some(bytes) = config_file::read(fs, &path(own_dir))? else { return Ok(Vec::new()) };
        if crc32fast::hash(&bytes) == self.read_crc.load(Ordering::Acquire) {
            return Ok(Vec::new());
        }
        let before = self.removals.read().clone();
        self.take(&bytes, log)?;
        let after = self.removals.read();
        let is_new = |(queue, of_queue): &(&QueueKey, &Vec<LastMessage>)| {
            before.get(*queue).and_then(|of_queue| of_queue.last()) != of_queue.last()
        };
        Ok(after.iter().filter(is_new).map(|(queue, _)| queue.clone()).collect())
    }

    fn set(&self, removals: Removals) {
        self.is_any.store(!removals.is_empty(), Ordering::Release);
        *self.removals.write() = removals;
    }

    /// The queue that the record at an offset of the log is in; `None` where it is in none, or was removed with it.
    #[inline]
    #[must_use]
    pub fn queue_of<'a>(&self, offset: u64, record: &Record<'a>) -> Option<QueueRef<'a>> {
        let queue = QueueRef { topic: record.topic, queue_id: record.queue_id };
        let is_in_queue = sys_flag::enters_consume_queue(record.sys_flag) && !self.covers(queue, offset);
        is_in_queue.then_some(queue)
    }

    /// Whether a queue was removed behind the record at an offset of the log, so that this one is not in it.
    #[inline]
    #[must_use]
    pub fn covers(&self, queue: QueueRef<'_>, offset: u64) -> bool {
        self.last_of(queue).is_some_and(|last| offset <= last)
    }

    /// Where the last record of a queue stands that was removed.
    #[inline]
    #[must_use]
    pub fn last_of(&self, queue: QueueRef<'_>) -> Option<u64> {
        if !self.is_any.load(Ordering::Acquire) {
            return None;
        }
        let topic = java_string::decode(queue.topic);
        let queue = QueueRef { topic: topic.as_bytes(), queue_id: queue.queue_id };
        self.removals.read().get(&queue)?.last().map(|last| last.physical_offset)
    }

    /// The queues.
    #[must_use]
    pub fn queues(&self) -> Vec<QueueKey> {
        self.removals.read().keys().cloned().collect()
    }

    /// Forgets removals whose last record the log has no more: it was cut before it.
    pub fn forget_behind(&self, log_end: u64) {
        if self.is_any.load(Ordering::Acquire) {
            let before = self.removals.read().clone();
            let after = retain(before.clone(), |last| last.physical_offset < log_end);
            if after != before {
                self.is_cut.store(true, Ordering::Release);
                // A reader beside the writer has yet to see that record.
                self.read_crc.store(0, Ordering::Release);
            }
            self.set(after);
        }
    }

    /// Whether some are forgotten: what the log has of their messages belongs to the queues again, and has to
    /// be dispatched.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.is_cut.load(Ordering::Acquire)
    }

    /// Adds removals, and brings the list to the disk without those whose records are gone with the log's first
    /// files.
    ///
    /// # Errors
    /// Where the file can't be written; nothing has changed then.
    pub fn add(
        &self,
        fs: &dyn FileSystem,
        own_dir: &Path,
        added: Vec<(QueueKey, LastMessage)>,
        min_offset: u64,
    ) -> Result<()> {
        let mut removals = self.removals.read().clone();
        for (queue, last) in added {
            removals.entry(queue).or_default().push(last);
        }
        let removals = retain(removals, |last| last.physical_offset >= min_offset);
        let added = config_file::swap(fs, &path(own_dir), &to_bytes(&removals));
        if added.is_ok() {
            self.set(removals);
        } else {
            // It may have failed when the list had its name already: the next opening would take the queues away.
            let _already_failing = self.write_back(fs, own_dir);
        }
        added
    }

    /// Brings the list to the disk, where there is one that says something else.
    ///
    /// # Errors
    /// Where the file can't be read or written.
    pub fn write_back(&self, fs: &dyn FileSystem, own_dir: &Path) -> Result<()> {
        let path = path(own_dir);
        let bytes = to_bytes(&self.removals.read());
        match config_file::read(fs, &path)? {
            Some(found) if found != bytes => config_file::swap(fs, &path, &bytes),
            _ => Ok(()),
        }
    }
}

fn retain(mut removals: Removals, stays: impl Fn(&LastMessage) -> bool) -> Removals {
    removals.retain(|_, of_queue| {
        of_queue.retain(&stays);
        !of_queue.is_empty()
    });
    removals
}

/// The list in the log's order; light queues can have the same last message.
fn to_bytes(removals: &Removals) -> Vec<u8> {
    let of_queue = |(key, of_queue): (&QueueKey, &Vec<LastMessage>)| {
        let removed = |&last| RemovedQueue { topic: key.topic.to_vec(), queue_id: key.queue_id, last };
        of_queue.iter().map(removed).collect::<Vec<_>>()
    };
    let mut queues: Vec<_> = removals.iter().flat_map(of_queue).collect();
    queues.sort_unstable_by(|a, b| {
        let order = |queue: &RemovedQueue| (queue.last.physical_offset, queue.queue_id);
        order(a).cmp(&order(b)).then_with(|| a.topic.cmp(&b.topic))
    });
    format::to_bytes(&queues)
}

/// Whether the log was cut before a removed queue's last record. A hole says nothing of that, and neither does what fills one.
fn is_void(log: &FileQueue, last: &LastMessage) -> Result<bool> {
    let place = last.physical_offset;
    if log.last().is_none_or(|file| place >= file.end_offset()) {
        return Ok(true);
    }
    if is_in_log(log, last)? {
        return Ok(false);
    }
    let Some(file) = log.find(place) else { return Ok(false) };
    match whole_at(log, place, file.end_offset())? {
        Some(is_filler) => Ok(!is_filler),
        None => is_covered(log, &file, place),
    }
}

/// Whether a record of somebody's, or the blank behind one, goes over a place of a file.
fn is_covered(log: &FileQueue, file: &MappedFile, place: u64) -> Result<bool> {
    let (mut from, to) = (file.file_from_offset(), file.end_offset());
    loop {
        let mut before = None;
        let end = scan::scan(log, from, to, Check::Structure, |offset, record, _| {
            if offset >= place {
                return Ok(ControlFlow::Break(()));
            }
            before = Some((offset, record.next_offset(offset), is_filler(record)));
            Ok(ControlFlow::Continue(()))
        })?;
        if let Some((offset, next, _)) = before
            && next >= place
        {
            return Ok(next > place && whole_at(log, offset, to)? == Some(false));
        }
        match end {
            ScanEnd::Fault { offset, fault } if offset < place => {
                match scan::next_valid(log, offset, Some(fault), to)?.filter(|&next| next < place) {
                    Some(next) => from = next,
                    None => return Ok(false),
                }
            }
            // A blank: behind what fills a hole it is a part of that.
            ScanEnd::Reached(_) => return Ok(before.is_none_or(|(_, _, is_filler)| !is_filler)),
            _ => return Ok(false),
        }
    }
}

/// Whether a record that checks out fills a hole; `None` where there is none.
fn whole_at(log: &FileQueue, offset: u64, file_end: u64) -> Result<Option<bool>> {
    let mut found = None;
    scan::scan(log, offset, file_end, Check::BodyCrc, |_, record, _| {
        found = Some(is_filler(record));
        Ok(ControlFlow::Break(()))
    })?;
    Ok(found)
}

/// Whether the record stands there, whatever its body is by now.
fn is_in_log(log: &FileQueue, last: &LastMessage) -> Result<bool> {
    let Some(file) = log.find(last.physical_offset) else { return Ok(false) };
    // Retention may have removed it just now.
    let position = last.physical_offset - file.file_from_offset();
    let Some(bytes) = file.slice_if_there(position, u64::from(last.size))? else { return Ok(false) };
    Ok(decode_record(&bytes).is_some_and(|record| {
        record.physical_offset == num::java_long(last.physical_offset)
            && record.total_size == last.size
            && record.store_timestamp == last.store_timestamp
    }))
}
