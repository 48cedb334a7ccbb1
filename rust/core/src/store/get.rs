//! Getting messages by topic, queue and offset.
//!
//! Every record is held against the unit that points at it before it is given out. Source:
//! `DefaultMessageStore.getMessage`.

use std::time::Instant;

use super::{GotMessages, Store, Subscription};
use crate::commit_log::Bodies;
use crate::commit_log::read::RecordReader;
use crate::commit_log::topic_queue::QueueRef;
use crate::config::TransferLimit;
use crate::consume_queue::{ConsumeQueue, RejectReason};
use crate::dispatch::Gap;
use crate::error::{Error, Result};
use crate::format::cq_unit::{CQ_STORE_UNIT_SIZE, CqUnit};
use crate::format::message::{self, Check, Decoded, Identity, Record, decode_record, is_whole_record_of};
use crate::interrupt;
use crate::mmap::slice::Slice;
use crate::num;
use crate::recovery::queues::unit_fits;
use crate::status::GetMessageStatus;

/// 4.9.3 looks at no more units than this for one get, in bytes.
const MAX_FILTER_UNITS_SIZE: usize = 16_000;
/// After so many units a get asks whether it is to stop.
const UNITS_BETWEEN_ASKING: usize = 512;
/// So many records are fetched side by side: whole ones still are in the processor's cache when they are looked at.
const FETCHED_AT_ONCE: usize = 64;
/// How many damaged parts of the log are remembered.
const MAX_DAMAGED: usize = 64;

/// What a get gives.
#[derive(Debug)]
pub struct GetMessageResult {
    /// How it ended.
    pub status: GetMessageStatus,
    /// Where the next get goes on.
    pub next_begin_offset: i64,
    /// The queue's first offset.
    pub min_offset: i64,
    /// The queue's end.
    pub max_offset: i64,
    /// The messages.
    pub messages: GotMessages,
    /// Bytes of their records.
    pub buffer_total_size: u64,
    /// Whether they lie so far behind the log's end that a slave had better be asked.
    pub suggest_pulling_from_slave: bool,
}

/// The record of a unit. Small, since one is handed on for each message: what it holds is decoded where that is
/// asked for.
#[derive(Clone, Copy)]
pub(crate) struct FoundRecord<'a> {
    /// What it lies in.
    pub(crate) window: &'a Slice,
    /// Where.
    pub(crate) at: usize,
    /// Its size.
    pub(crate) len: usize,
}

/// What there is of a unit's record.
enum LookedUp<'a> {
    Found(FoundRecord<'a>),
    /// It does not agree with the unit, or that leads nowhere: counted.
    Rejected,
    /// Its log file was removed.
    Gone,
}

impl<'a> FoundRecord<'a> {
    fn bytes(&self) -> &'a [u8] {
        self.window.get(self.at..self.at + self.len).unwrap_or_default()
    }

    /// It decoded; `None` where its bytes are no message, which only 4.9.3 gives out.
    pub(crate) fn decoded(&self) -> Option<Record<'a>> {
        decode_record(self.bytes())
    }

    /// Its bytes, which keep their mapping alive.
    pub(crate) fn slice(&self) -> Option<Slice> {
        self.window.sub(self.at, self.len)
    }
}

/// One get under way.
struct Get<'a> {
    store: &'a Store,
    queue: &'a ConsumeQueue,
    subscription: Option<&'a Subscription>,
    max_msg_nums: usize,
    records: RecordReader<'a>,
    result: GetMessageResult,
    /// Units of records before this are skipped: their log file is gone.
    skip_to: Option<u64>,
    last_physical_offset: u64,
    /// Messages before this lie too far behind the log's end to be in memory.
    in_memory_from: u64,
}

impl Store {
    /// Gets messages of a queue from an offset on, no more than one of 4.9.3's transfers: see
    /// `max_transfer_in_memory`.
    ///
    /// # Errors
    /// Where the store is closed, or queue or log can't be read.
    pub fn get_message(
        &self,
        topic: &str,
        queue_id: i32,
        offset: i64,
        max_msg_nums: usize,
        subscription: Option<&Subscription>,
    ) -> Result<GetMessageResult> {
        let begin = Instant::now();
        let look = || self.find_messages(topic, queue_id, offset, max_msg_nums, subscription);
        // A reader's queue ends early for a moment where another thread goes back behind an opening.
        let has_queue = |found: &GetMessageResult| {
            use GetMessageStatus::{NoMessageInQueue, OffsetOverflowBadly};
            !matches!(found.status, NoMessageInQueue | OffsetOverflowBadly)
        };
        let found = self.while_open(|| self.beside_openings(look, has_queue))?;
        self.stats.get(begin, num::offset(found.messages.len()));
        Ok(found)
    }

    fn find_messages(
        &self,
        topic: &str,
        queue_id: i32,
        offset: i64,
        max_msg_nums: usize,
        subscription: Option<&Subscription>,
    ) -> Result<GetMessageResult> {
        if !self.flags.is_readable() {
            let reason = "the store was told to give out no messages".into();
            return Err(Error::Option {
                option: "runningFlags",
                value: self.flags.bits().to_string(),
                reason,
            });
        }
        let key = QueueRef { topic: topic.as_bytes(), queue_id };
        let mut queue = self.queues.get(key);
        let reached = queue.as_ref().map_or(0, |queue| num::java_long(queue.max_offset_in_queue()));
        let wanted = i64::try_from(max_msg_nums).unwrap_or(i64::MAX);
        if offset.saturating_add(wanted) > reached {
            self.catch_up()?;
            queue = self.queues.get(key);
        }
        let Some(queue) = queue else {
            // 4.9.3 makes a queue of whatever is asked for, which then is an empty one.
            let status = GetMessageStatus::NoMessageInQueue;
            return Ok(self.no_messages(status, self.correct(offset, 0), 0, 0));
        };
        let (min, max) =
            (num::java_long(queue.min_offset_in_queue()), num::java_long(queue.max_offset_in_queue()));
        let (status, next) = if max == 0 {
            (GetMessageStatus::NoMessageInQueue, 0)
        } else if offset < min {
            (GetMessageStatus::OffsetTooSmall, min)
        } else if offset == max {
            (GetMessageStatus::OffsetOverflowOne, offset)
        } else if offset > max {
            (GetMessageStatus::OffsetOverflowBadly, if min == 0 { min } else { max })
        } else {
            let from = num::from_java_long(offset).unwrap_or(0);
            return self.collect(&queue, from, max_msg_nums, subscription);
        };
        Ok(self.no_messages(status, self.correct(offset, next), min, max))
    }

    fn no_messages(
        &self,
        status: GetMessageStatus,
        next: i64,
        min_offset: i64,
        max_offset: i64,
    ) -> GetMessageResult {
        GetMessageResult {
            status,
            next_begin_offset: next,
            min_offset,
            max_offset,
            messages: GotMessages::default(),
            buffer_total_size: 0,
            suggest_pulling_from_slave: false,
        }
    }

    /// A slave leaves offsets as they are, unless told otherwise. Source: `nextOffsetCorrection`.
    fn correct(&self, old: i64, new: i64) -> i64 {
        if self.config.is_slave && !self.config.offset_check_in_slave { old } else { new }
    }

    fn collect(
        &self,
        queue: &ConsumeQueue,
        from: u64,
        max_msg_nums: usize,
        subscription: Option<&Subscription>,
    ) -> Result<GetMessageResult> {
        let (min, max) =
            (num::java_long(queue.min_offset_in_queue()), num::java_long(queue.max_offset_in_queue()));
        let max_units = (MAX_FILTER_UNITS_SIZE / CQ_STORE_UNIT_SIZE).max(max_msg_nums);
        let units =
            if subscription.is_none() { max_msg_nums.min(max_units).saturating_add(1) } else { max_units };
        let mut chunk = self.units(queue, from, units)?;
        if chunk.is_empty() {
            // A reader's queue can end earlier by now.
            let is_behind = from >= queue.max_offset_in_queue();
            let next = if is_behind { from } else { queue.next_behind_missing(from) };
            let next = self.correct(num::java_long(from), num::java_long(next));
            return Ok(self.no_messages(GetMessageStatus::OffsetFoundNull, next, min, max));
        }
        let records = self.log.records();
        let mut get = Get {
            store: self,
            queue,
            subscription,
            max_msg_nums,
            in_memory_from: self.in_memory_from(records.log_end()),
            records,
            result: self.no_messages(GetMessageStatus::NoMatchedMessage, 0, min, max),
            skip_to: None,
            last_physical_offset: 0,
        };
        get.result.messages.reserve(max_msg_nums.min(chunk.len()));
        let mut index = from;
        let mut looked_at = 0;
        'all: loop {
            for units in chunk.chunks(FETCHED_AT_ONCE) {
                if subscription.is_none() && !self.trusts(queue, index, units.first()) {
                    self.fetch(&mut get.records, units.iter())?;
                }
                for unit in units {
                    if looked_at == max_units || !get.take(unit, index)? {
                        break 'all;
                    }
                    index += 1;
                    looked_at += 1;
                    if looked_at.is_multiple_of(UNITS_BETWEEN_ASKING) {
                        interrupt::check()?;
                    }
                }
            }
            // At the end a reader would look for writers that have opened the store since.
            if index.is_multiple_of(self.queues.units_in_file()) || index >= queue.max_offset_in_queue() {
                break;
            }
            chunk = self.units(queue, index, max_units - looked_at)?;
            if chunk.is_empty() {
                break;
            }
        }
        get.result.next_begin_offset = num::java_long(index);
        get.result.suggest_pulling_from_slave = get.last_physical_offset < get.in_memory_from;
        Ok(get.result)
    }

    /// As [`ConsumeQueue::units`]; of a store that is only read also those that its writer, which has opened it since,
    /// makes anew just now.
    ///
    /// # Errors
    /// As for [`ConsumeQueue::units`]; of a part of a store [`Error::MadeAnew`](crate::error::Error::MadeAnew).
    pub fn units(&self, queue: &ConsumeQueue, from: u64, count: usize) -> Result<Vec<CqUnit>> {
        let is_whole = |units: &Vec<CqUnit>| !units.is_empty() && units.iter().all(CqUnit::is_written);
        self.while_open(|| self.beside_openings(|| queue.units(from, count), is_whole))
    }

    /// Before which offset a message lies too far behind the log's end to be in memory still.
    /// Source: `checkInDiskByCommitOffset`.
    fn in_memory_from(&self, log_end: u64) -> u64 {
        let ratio = u64::from(self.config.access_message_in_memory_max_ratio);
        log_end.saturating_sub(total_memory() / 100 * ratio)
    }

    /// Whether the message at a queue's offset lies too far behind the log's end to be in memory.
    ///
    /// # Errors
    /// Where the queue can't be read.
    pub fn check_in_disk_by_consume_offset(&self, topic: &str, queue_id: i32, offset: u64) -> Result<bool> {
        self.while_open(|| {
            let Some(queue) = self.find_consume_queue(topic, queue_id) else { return Ok(false) };
            let unit = self.units(&queue, offset, 1)?;
            let place = unit.first().and_then(CqUnit::place);
            Ok(place.is_some_and(|(offset, _)| offset < self.in_memory_from(self.log.max_offset())))
        })
    }

    /// Remembers a part of the log that holds no record where there should be one.
    pub(crate) fn found_damaged(&self, gap: Gap) {
        let mut known = self.damaged.lock();
        if known.len() < MAX_DAMAGED && !known.contains(&gap) {
            known.push(gap);
        }
    }

    /// What a record at an offset, and all behind it, have to pass to be given out. Bodies that this
    /// process wrote were not read back from anywhere; 4.9.3 leaves all bodies to the consumer.
    pub(crate) fn check_of_served(&self, offset: u64) -> Check {
        if self.config.compat || offset >= self.own_from { Check::Structure } else { Check::BodyCrc }
    }

    /// As [`Store::check_of_served`]; without the body its CRC does not count.
    pub(crate) fn check_with(&self, bodies: Bodies, offset: u64) -> Check {
        if bodies == Bodies::Unwanted { Check::Structure } else { self.check_of_served(offset) }
    }

    /// Has the processor fetch what is read of the records of units.
    pub(crate) fn fetch<'u>(
        &self,
        records: &mut RecordReader<'_>,
        units: impl Iterator<Item = &'u CqUnit>,
    ) -> Result<()> {
        let mut places = units.filter_map(CqUnit::place).peekable();
        let check = places.peek().map(|&(offset, _)| self.check_with(records.bodies(), offset));
        if records.bodies() == Bodies::Read || check == Some(Check::BodyCrc) {
            records.prefetch_whole(places)
        } else {
            records.prefetch(places)
        }
    }

    /// Whether a unit agrees with its record without being held against it: this process made both,
    /// the unit from the record, and read neither back from anywhere. 4.9.3 trusts every unit.
    fn trusts(&self, queue: &ConsumeQueue, index: u64, unit: Option<&CqUnit>) -> bool {
        let is_own = |(offset, _)| offset >= self.own_from && index >= queue.loaded_end();
        self.config.compat || unit.and_then(CqUnit::place).is_some_and(is_own)
    }

    /// The record of a queue's unit, held against it; `None` where they do not agree or it leads nowhere, which is
    /// counted, or where the record is gone.
    ///
    /// # Errors
    /// Where the log can't be read.
    #[inline]
    pub(crate) fn record_of<'r>(
        &self,
        records: &'r mut RecordReader<'_>,
        queue: &ConsumeQueue,
        unit: &CqUnit,
        index: u64,
    ) -> Result<Option<FoundRecord<'r>>> {
        match self.look_up(records, queue, unit, index)? {
            LookedUp::Found(found) => Ok(Some(found)),
            LookedUp::Rejected | LookedUp::Gone => Ok(None),
        }
    }

    #[inline]
    fn look_up<'r>(
        &self,
        records: &'r mut RecordReader<'_>,
        queue: &ConsumeQueue,
        unit: &CqUnit,
        index: u64,
    ) -> Result<LookedUp<'r>> {
        let Some((offset, size)) = unit.place() else { return Ok(LookedUp::Rejected) };
        let bodies = records.bodies();
        let trusted = self.trusts(queue, index, Some(unit));
        let Some((window, at)) = records.find(offset, size)? else {
            if self.config.compat || !self.leads_nowhere(offset, size) {
                return Ok(LookedUp::Gone);
            }
            self.reject(queue, unit, index, RejectReason::AnotherMessage);
            return Ok(LookedUp::Rejected);
        };
        let found = FoundRecord { window, at, len: size as usize };
        let is_it = trusted || self.agrees(found.bytes(), bodies, queue, unit, index);
        Ok(if is_it { LookedUp::Found(found) } else { LookedUp::Rejected })
    }

    /// Whether the record of a unit agrees with it; else that is counted.
    fn agrees(&self, bytes: &[u8], bodies: Bodies, queue: &ConsumeQueue, unit: &CqUnit, index: u64) -> bool {
        let check = self.check_with(bodies, num::from_java_long(unit.physical_offset).unwrap_or(0));
        let identity = Identity {
            topic: queue.topic().as_bytes(),
            queue_id: queue.queue_id(),
            queue_offset: num::java_long(index),
            physical_offset: unit.physical_offset,
        };
        if check == Check::Structure && is_whole_record_of(bytes, &identity) {
            return true;
        }
        let reason = match message::decode(bytes, check) {
            Ok(Decoded::Message(record)) if unit_fits(queue, unit, index, &record) => {
                return true;
            }
            Ok(_) => RejectReason::AnotherMessage,
            Err(fault) => RejectReason::Fault(fault),
        };
        self.reject(queue, unit, index, reason);
        false
    }

    fn reject(&self, queue: &ConsumeQueue, unit: &CqUnit, index: u64, reason: RejectReason) {
        self.queues.rejected().add(queue, num::java_long(index), unit.physical_offset, reason);
    }

    /// Whether a record can't stand at an offset, whatever was removed: not all of it is in a file and before the end.
    fn leads_nowhere(&self, offset: u64, size: u32) -> bool {
        let end = offset.saturating_add(u64::from(size));
        end > self.log.max_offset()
            || self.log.files().find(offset).is_some_and(|file| end > file.end_offset())
    }
}

impl Get<'_> {
    /// Looks at one unit. Gives whether to go on.
    fn take(&mut self, unit: &CqUnit, index: u64) -> Result<bool> {
        if unit.place().is_none() {
            // A blank, which stands for no message: it says nothing of the log behind it.
            return Ok(true);
        }
        let offset = num::from_java_long(unit.physical_offset).unwrap_or(0);
        self.last_physical_offset = offset;
        if self.skip_to.is_some_and(|skip_to| offset < skip_to) {
            return Ok(true);
        }
        let size = num::from_java_int(unit.size).unwrap_or(0);
        if self.is_full(size, offset < self.in_memory_from) {
            return Ok(false);
        }
        if let Some(subscription) = self.subscription {
            let code = self.queue.tags_code(unit)?;
            // A unit whose extension is missing may match: the message itself decides.
            if code.is_some_and(|code| !subscription.matches_code(code)) {
                self.not_matched();
                return Ok(true);
            }
        }
        let found = match self.store.look_up(&mut self.records, self.queue, unit, index)? {
            LookedUp::Found(found) => found,
            LookedUp::Rejected => return Ok(true),
            LookedUp::Gone => {
                self.removed(offset);
                return Ok(true);
            }
        };
        // 4.9.3 compares hashes of tags and leaves the tag itself to the consumer; filters it evaluates.
        if let Some(subscription) = self.subscription
            && (subscription.is_sql() || !self.store.config.compat)
            && !found.decoded().is_some_and(|record| subscription.matches_properties(record.properties))
        {
            self.not_matched();
            return Ok(true);
        }
        self.result.buffer_total_size += u64::from(size);
        self.result.messages.push(found.window, found.at, found.len, index);
        self.result.status = GetMessageStatus::Found;
        self.skip_to = None;
        Ok(true)
    }

    /// What was removed before is not what the get tells of.
    const fn not_matched(&mut self) {
        if self.result.buffer_total_size == 0 {
            self.result.status = GetMessageStatus::NoMatchedMessage;
        }
    }

    fn removed(&mut self, offset: u64) {
        if self.result.buffer_total_size == 0 {
            self.result.status = GetMessageStatus::MessageWasRemoving;
        }
        self.skip_to = Some(self.store.log.roll_next_file(offset));
    }

    /// Source: `isTheBatchFull`.
    fn is_full(&self, size: u32, is_in_disk: bool) -> bool {
        let count = self.result.messages.len();
        if self.result.buffer_total_size == 0 || count == 0 {
            return false;
        }
        let config = &self.store.config;
        let TransferLimit { bytes, count: max_count } =
            if is_in_disk { config.max_transfer_on_disk } else { config.max_transfer_in_memory };
        self.max_msg_nums <= count
            || self.result.buffer_total_size + u64::from(size) > bytes
            || count > max_count.saturating_sub(1)
    }
}

/// Bytes of memory of the machine.
fn total_memory() -> u64 {
    use std::sync::OnceLock;
    static TOTAL: OnceLock<u64> = OnceLock::new();
    *TOTAL.get_or_init(|| nix::sys::sysinfo::sysinfo().map_or(24 << 30, |info| info.ram_total()))
}
