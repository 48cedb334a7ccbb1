//! A consume queue: the messages of one topic's queue, as units of twenty bytes that point into the
//! log. Source: `ConsumeQueue`.

mod ext;
mod in_files;
mod known_times;
pub mod listing;
mod lookup;
mod place;
mod recover;
mod refuted;
mod rejected;
mod store_times;
pub mod table;
mod tailed_files;
mod unit_reader;

use std::sync::Arc;

use crate::commit_log::topic_queue::QueueRef;
use crate::error::Result;
use crate::filter::bit_map::FilterBitMap;
use crate::format::cq_ext_unit::{CqExtUnit, is_ext_addr};
use crate::format::cq_unit::{CQ_STORE_UNIT_SIZE, CqUnit};
use crate::fs::FileSystem;
use crate::mmap::file_queue::Listing;
use crate::mmap::mapped_file::MappedFile;
use crate::num;
use crate::sync::{AtomicBool, AtomicI64, AtomicU64, Mutex, Ordering};

pub use lookup::{Boundary, FoundByTime};
pub(crate) use place::{PlaceRule, UnitPlace};
pub use rejected::{RejectReason, Rejected, RejectedUnits};

use ext::ConsumeQueueExt;
pub(crate) use ext::FILE_SIZES as EXT_FILE_SIZES;
use known_times::KnownTimes;
use tailed_files::{Found, TailedFiles};

const UNIT: u64 = CQ_STORE_UNIT_SIZE as u64;
/// Units that are read first from a place on, and most that are read at a time. Most queues are short, and what
/// is not written of a file costs as much to read as what is.
const FIRST_CHUNK: usize = 64;
const MAX_CHUNK: usize = 16 << 10;
/// A tail of this size is written to the files at once.
const SPILL_SIZE: usize = 16 << 10;

/// A queue.
#[derive(Debug)]
pub struct ConsumeQueue {
    topic: Box<str>,
    queue_id: i32,
    compat: bool,
    state: Mutex<State>,
    /// Index of the first unit whose message is still in the log.
    min_offset: AtomicU64,
    /// Index behind the last unit.
    max_offset: AtomicU64,
    /// Where the record of the last unit ends in the log; -1 before the first.
    max_physic_offset: AtomicI64,
    /// Index behind the last unit that was there when it was opened.
    loaded_end: u64,
    /// Bytes of the records that were dispatched to it since it was opened.
    dispatched_size: AtomicU64,
    /// Times that look-ups by time have read.
    known_times: KnownTimes,
    /// Whether it is on the table's list of queues with something to spill.
    listed: AtomicBool,
}

#[derive(Debug)]
struct State {
    units: TailedFiles,
    ext: Option<ConsumeQueueExt>,
    /// The offset of the last message, where that is one before the queue's end.
    doubting: Option<i64>,
}

/// What became of a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PutUnit {
    /// Appended.
    Appended,
    /// It was there already.
    Repeated,
    /// The queue has another message at its offset, or it is at another one: it is not served.
    OutOfPlace,
}

/// A unit to append.
#[derive(Debug, Clone, Copy)]
pub struct NewUnit {
    /// What it holds.
    pub unit: CqUnit,
    /// Its index, as the record says.
    pub cq_offset: i64,
    /// Store time of the message, for the extension.
    pub store_timestamp: i64,
    /// Which groups' filters the message passes, for the extension.
    pub filter_bit_map: Option<FilterBitMap>,
}

impl ConsumeQueue {
    fn new(topic: &str, queue_id: i32, compat: bool, units: TailedFiles, ext: Option<TailedFiles>) -> Self {
        let loaded_end = units.end() / UNIT;
        let ext = ext.map(ConsumeQueueExt::new);
        Self {
            topic: topic.into(),
            queue_id,
            compat,
            state: Mutex::new(State { units, ext, doubting: None }),
            min_offset: AtomicU64::new(0),
            max_offset: AtomicU64::new(loaded_end),
            max_physic_offset: AtomicI64::new(-1),
            loaded_end,
            dispatched_size: AtomicU64::new(0),
            known_times: KnownTimes::default(),
            listed: AtomicBool::new(false),
        }
    }

    /// The topic.
    #[must_use]
    pub fn topic(&self) -> &str {
        &self.topic
    }

    /// The queue's number.
    #[must_use]
    pub const fn queue_id(&self) -> i32 {
        self.queue_id
    }

    /// Topic and number.
    #[must_use]
    pub const fn name(&self) -> QueueRef<'_> {
        QueueRef { topic: self.topic.as_bytes(), queue_id: self.queue_id }
    }

    /// Index of the first unit whose message is still in the log.
    #[must_use]
    pub fn min_offset_in_queue(&self) -> u64 {
        self.min_offset.load(Ordering::Acquire)
    }

    /// Index behind the last unit.
    #[inline]
    #[must_use]
    pub fn max_offset_in_queue(&self) -> u64 {
        self.max_offset.load(Ordering::Acquire)
    }

    /// Index behind the last unit that was there when it was opened: those from it on were dispatched
    /// since.
    #[inline]
    #[must_use]
    pub const fn loaded_end(&self) -> u64 {
        self.loaded_end
    }

    /// Bytes of the records that were dispatched to it since it was opened.
    #[must_use]
    pub fn dispatched_size(&self) -> u64 {
        self.dispatched_size.load(Ordering::Relaxed)
    }

    /// Units from the first whose message is still in the log on.
    #[must_use]
    pub fn message_total_in_queue(&self) -> u64 {
        self.max_offset_in_queue().saturating_sub(self.min_offset_in_queue())
    }

    /// Where the record of the last unit ends in the log; -1 before the first.
    #[must_use]
    pub fn max_physic_offset(&self) -> i64 {
        self.max_physic_offset.load(Ordering::Acquire)
    }

    /// Appends a unit in the log's order. Source: `putMessagePositionInfo`.
    ///
    /// # Errors
    /// Where the files can't take what no longer has room in memory; the unit is kept all the same. Where it shows that the
    /// queue's last unit is another place's, which has to go first ([`Error::UnitRefuted`]).
    pub fn put(&self, new: NewUnit) -> Result<PutUnit> {
        self.put_unit(new, true)
    }

    /// Appends units in the log's order, as [`ConsumeQueue::put`], or as [`ConsumeQueue::put_light`]. Tells of each that is out
    /// of place.
    ///
    /// # Errors
    /// As there; all are put then, but for those behind an old file that can't be removed.
    pub fn put_all(
        &self,
        all: impl Iterator<Item = NewUnit>,
        is_light: bool,
        mut out_of_place: impl FnMut(&NewUnit),
    ) -> Result<()> {
        let mut state = self.state.lock();
        for new in all {
            if self.append(&mut state, new, !is_light)? == PutUnit::OutOfPlace {
                out_of_place(&new);
            }
        }
        spill_much(&mut state)
    }

    fn put_unit(&self, new: NewUnit, with_ext: bool) -> Result<PutUnit> {
        let mut state = self.state.lock();
        let outcome = self.append(&mut state, new, with_ext)?;
        spill_much(&mut state)?;
        Ok(outcome)
    }

    fn append(&self, state: &mut State, new: NewUnit, with_ext: bool) -> Result<PutUnit> {
        if new.unit.end() <= self.max_physic_offset() {
            return Ok(PutUnit::Repeated);
        }
        if self.begins_anew(new.cq_offset) {
            self.remove_units(state)?;
        }
        let current = (!state.units.is_empty()).then(|| state.units.end() / UNIT);
        let rule = PlaceRule { units_in_file: state.units.file_size() / UNIT, compat: self.compat };
        let Some(place) = rule.place(new.cq_offset, current) else {
            self.check_not_refuted(state, new.cq_offset)?;
            return Ok(if self.compat { PutUnit::Repeated } else { PutUnit::OutOfPlace });
        };
        state.doubting = None;
        let mut blanks_from = place.blanks_from;
        if current.is_none() {
            // An empty queue may end anywhere. Where nothing is written, no file has to begin at its begin.
            blanks_from = if state.units.is_memory_only() { place.index } else { blanks_from };
            state.units.begin_at(blanks_from * UNIT);
            self.min_offset.store(place.index, Ordering::Release);
        }
        (blanks_from..place.index).for_each(|_| state.units.append(&CqUnit::PRE_BLANK.to_bytes()));
        let mut unit = new.unit;
        if let Some(ext) = state.ext.as_mut().filter(|_| with_ext) {
            let ext_unit = CqExtUnit {
                tags_code: unit.tags_code,
                msg_store_time: new.store_timestamp,
                filter_bit_map: new.filter_bit_map.map_or_else(Vec::new, |map| map.to_vec()),
            };
            unit.tags_code = ext.put(&ext_unit).unwrap_or(unit.tags_code);
        }
        state.units.append(&unit.to_bytes());
        self.max_physic_offset.store(unit.end(), Ordering::Release);
        self.max_offset.store(state.units.end() / UNIT, Ordering::Release);
        // Who has the lock is alone: no instruction has to be locked for it.
        let size = num::from_java_int(unit.size).unwrap_or(0);
        self.dispatched_size.store(self.dispatched_size() + u64::from(size), Ordering::Relaxed);
        let is_in_place = num::java_long(place.index) == new.cq_offset || self.compat;
        Ok(if is_in_place { PutUnit::Appended } else { PutUnit::OutOfPlace })
    }

    /// Whether a message is the first of a queue that was removed once all of its messages were gone, and whose files a
    /// power cut brought back, or a reader still has: nothing else tells of that.
    fn begins_anew(&self, cq_offset: i64) -> bool {
        let end = self.max_offset_in_queue();
        !self.compat && cq_offset == 0 && end > 0 && self.min_offset_in_queue() == end
    }

    /// Appends a unit of a message of another topic: those have no part in the extension.
    /// Source: `doDispatchLmqQueue`.
    ///
    /// # Errors
    /// As for [`ConsumeQueue::put`].
    pub fn put_light(&self, new: NewUnit) -> Result<PutUnit> {
        self.put_unit(new, false)
    }

    /// Units from an index on, at most `count` and at most to the end of their file, as in 4.9.3.
    /// Empty where there are none. Source: `getIndexBuffer`.
    ///
    /// # Errors
    /// Where the file can't be read.
    pub fn units(&self, from: u64, count: usize) -> Result<Vec<CqUnit>> {
        if from < self.min_offset_in_queue() {
            return Ok(Vec::new());
        }
        self.raw_units(from, count)
    }

    fn raw_units(&self, from: u64, count: usize) -> Result<Vec<CqUnit>> {
        let Some(offset) = from.checked_mul(UNIT) else { return Ok(Vec::new()) };
        let found = self.state.lock().units.find(offset, num::offset(count).saturating_mul(UNIT));
        let read = |bytes: &[u8]| {
            let mut units = Vec::with_capacity(bytes.len() / CQ_STORE_UNIT_SIZE);
            units.extend(bytes.chunks_exact(CQ_STORE_UNIT_SIZE).filter_map(CqUnit::read));
            units
        };
        Ok(match found {
            None => Vec::new(),
            Some(Found::InTail(bytes)) => read(&bytes),
            Some(Found::InFile(file, position, len)) => {
                file.slice_if_there(position, len)?.map_or_else(Vec::new, |bytes| read(&bytes))
            }
        })
    }

    /// The first index from another one on whose unit is not known to be a hole of its file, or the first of the next file.
    ///
    /// # Errors
    /// Where the file can't be read.
    pub fn next_data(&self, index: u64) -> Result<u64> {
        let found = index.checked_mul(UNIT).and_then(|offset| self.state.lock().units.find(offset, UNIT));
        let Some(Found::InFile(file, position, _)) = found else { return Ok(index) };
        let data = file.next_data(position)?;
        Ok(data.map_or_else(|| self.roll_next_file(index), |data| (file.file_from_offset() + data) / UNIT))
    }

    /// The unit at an index.
    ///
    /// # Errors
    /// Where the file can't be read.
    pub fn unit(&self, index: u64) -> Result<Option<CqUnit>> {
        let Some(offset) = index.checked_mul(UNIT) else { return Ok(None) };
        let found = self.state.lock().units.find(offset, UNIT);
        read_unit(found)
    }

    /// The index at which the file behind the one of `index` begins.
    #[must_use]
    pub fn roll_next_file(&self, index: u64) -> u64 {
        let units_in_file = self.state.lock().units.file_size() / UNIT;
        index + units_in_file - index % units_in_file
    }

    /// Where units go on behind an index that has none: with the first whose message is still in the log, or
    /// with the next file that is there where this one is missing. 4.9.3 goes on with the next file in either case, and
    /// so passes over messages where files go while it reads.
    #[must_use]
    pub fn next_behind_missing(&self, index: u64) -> u64 {
        let min = self.min_offset_in_queue();
        if index < min { min } else { self.next_there(self.roll_next_file(index)) }
    }

    /// The first index from another one on that lies in a file or in memory: any number of files can be missing, by
    /// the name of the next one.
    fn next_there(&self, index: u64) -> u64 {
        index.checked_mul(UNIT).map_or(index, |offset| self.state.lock().units.next_there(offset) / UNIT)
    }

    fn has_all_files(&self) -> bool {
        self.state.lock().units.has_all_files()
    }

    /// The tag's hash of a unit, whether it is in the unit or in the extension. `None` where the
    /// extension does not have it.
    ///
    /// # Errors
    /// Where the extension can't be read.
    pub fn tags_code(&self, unit: &CqUnit) -> Result<Option<i64>> {
        if !is_ext_addr(unit.tags_code) {
            return Ok(Some(unit.tags_code));
        }
        let state = self.state.lock();
        // A store that is looked at without its extension has nothing to tell by.
        let Some(ext) = &state.ext else { return Ok(None) };
        Ok(ext.get(unit.tags_code)?.map(|unit| unit.tags_code))
    }

    /// The unit's part in the extension.
    ///
    /// # Errors
    /// Where the extension can't be read.
    pub fn ext(&self, address: i64) -> Result<Option<CqExtUnit>> {
        self.state.lock().ext.as_ref().map_or(Ok(None), |ext| ext.get(address))
    }

    /// The queue's files, oldest first.
    #[must_use]
    pub fn files(&self) -> Arc<Vec<Arc<MappedFile>>> {
        self.state.lock().units.files().files()
    }

    /// Closes all files, those of the extension too, until they are used again.
    pub(super) fn close_files(&self) {
        let state = self.state.lock();
        state.units.close_files();
        if let Some(ext) = &state.ext {
            ext.units.close_files();
        }
    }

    /// Bytes that are in memory only.
    #[must_use]
    pub fn tail_len(&self) -> usize {
        self.state.lock().units.tail_len()
    }

    /// Writes what is in memory to the files. Gives whether there was something.
    ///
    /// # Errors
    /// Where a file can't be made or written.
    pub fn spill(&self) -> Result<bool> {
        spill(&mut self.state.lock())
    }

    /// Lets go of units in memory that the files, which another process writes, hold by now.
    ///
    /// # Errors
    /// Where a file can't be read.
    pub fn adopt_files(&self, fs: &dyn FileSystem) -> Result<()> {
        let mut state = self.state.lock();
        let listing = Listing::read(fs, state.units.files().paths())?;
        state.units.adopt(&listing, CQ_STORE_UNIT_SIZE)?;
        if let Some(ext) = &mut state.ext {
            let listing = Listing::read(fs, ext.units.files().paths())?;
            ext.units.adopt(&listing, 1)?;
        }
        Ok(())
    }

    /// In a store that is only read: lets go of all units once all of their messages are gone. The next message begins
    /// where it says, however far that is: what came in between and went again was never seen.
    pub fn forget_gone(&self, min_phy_offset: u64) {
        if self.max_physic_offset() > num::java_long(min_phy_offset) {
            return;
        }
        let mut state = self.state.lock();
        state.units.forget_all();
        self.min_offset.store(state.units.end() / UNIT, Ordering::Release);
    }

    /// Removes files that lie wholly before the log's first message, and moves the first offset.
    /// Gives how many were removed.
    ///
    /// # Errors
    /// Where a file can't be read or removed.
    pub fn delete_expired_file(&self, min_phy_offset: u64) -> Result<usize> {
        let first_alive = self.first_unit_at(min_phy_offset)?;
        let deleted = self.state.lock().units.delete_before(first_alive * UNIT)?;
        self.correct_min_offset(min_phy_offset)?;
        Ok(deleted)
    }

    /// Removes the queue's files and all units.
    ///
    /// # Errors
    /// Where a file can't be removed.
    pub fn destroy(&self) -> Result<()> {
        self.remove_units(&mut self.state.lock())
    }

    fn remove_units(&self, state: &mut State) -> Result<()> {
        self.max_physic_offset.store(-1, Ordering::Release);
        self.min_offset.store(0, Ordering::Release);
        self.max_offset.store(0, Ordering::Release);
        state.units.destroy()?;
        state.ext.as_mut().map_or(Ok(()), |ext| ext.units.destroy())
    }

    /// Removes files of the extension that are there though the queue is new: a crash took its own.
    fn discard_orphaned_ext(&self) -> Result<()> {
        let mut state = self.state.lock();
        let has_files = |units: &TailedFiles| !units.is_empty() || units.has_half_made();
        state.ext.as_mut().filter(|ext| has_files(&ext.units)).map_or(Ok(()), |ext| ext.units.destroy())
    }

    /// Has all that is written of the queue's files read, so that the first look-ups find them in memory. Does nothing
    /// for files that are not mapped.
    ///
    /// # Errors
    /// Where a file can't be opened or mapped.
    pub fn warm_up(&self) -> Result<()> {
        for file in self.files().iter().filter(|file| !file.is_read()) {
            file.fetch()?;
        }
        Ok(())
    }
}

/// The unit at an index, for who has the queue's lock.
fn unit_in(state: &State, index: u64) -> Result<Option<CqUnit>> {
    read_unit(index.checked_mul(UNIT).and_then(|offset| state.units.find(offset, UNIT)))
}

fn read_unit(found: Option<Found>) -> Result<Option<CqUnit>> {
    Ok(match found {
        None => None,
        Some(Found::InTail(bytes)) => CqUnit::read(&bytes),
        Some(Found::InFile(file, position, len)) => {
            file.slice_if_there(position, len)?.and_then(|bytes| CqUnit::read(&bytes))
        }
    })
}

fn spill_much(state: &mut State) -> Result<()> {
    if state.units.tail_len() < SPILL_SIZE { Ok(()) } else { spill(state).map(drop) }
}

/// The extension goes first: a unit on disk never points at nothing.
fn spill(state: &mut State) -> Result<bool> {
    let mut spilled = false;
    if let Some(ext) = &mut state.ext {
        spilled |= ext.units.spill()?;
    }
    Ok(state.units.spill()? | spilled)
}
