//! Looking up messages by key, by time and by place in the log.

use super::{Mode, Store};
use crate::commit_log::Bodies;
use crate::commit_log::read::RecordReader;
use crate::commit_log::scan::check_record;
use crate::consume_queue::Boundary;
use crate::dispatch::Gap;
use crate::error::{Error, Result};
use crate::format::cq_unit::CqUnit;
use crate::format::message::{self, BLANK_MAGIC_CODE, Decoded, Record, RecordFault, decode_record};
use crate::format::properties::DispatchProperties;
use crate::format::sys_flag;
use crate::index::{KeyFinder, KeyQuery};
use crate::mmap::slice::Slice;
use crate::num;

/// How often 4.9.3 looks again when nothing came out.
const COMPAT_ROUNDS: usize = 3;

impl Store {
    /// Messages by a key, oldest first: the newest ones where there are more than asked for.
    /// Source: `queryMessage`.
    ///
    /// # Errors
    /// Where the store is closed, or index or log can't be read.
    pub fn query_message(&self, query: &KeyQuery<'_>) -> Result<Vec<Slice>> {
        self.while_open(|| self.find_by_key(query))
    }

    fn find_by_key(&self, query: &KeyQuery<'_>) -> Result<Vec<Slice>> {
        self.catch_up()?;
        let Some(index) = &self.index else { return Ok(Vec::new()) };
        if self.config.compat {
            return self.query_message_compat(query);
        }
        let mut records = self.log.records();
        let mut found = Vec::new();
        let finder = KeyFinder::new(index, query.topic);
        let begin = finder.begin();
        records.set_slow(finder.is_slow());
        finder.find(None, query, finder.hash(query.key), &mut found, |offset| {
            self.record_with_key(&mut records, offset, query)
        })?;
        if let Some(begin) = begin {
            finder.took(begin, 1);
        }
        found.sort_unstable_by_key(|(offset, _)| *offset);
        let record = |(offset, size)| {
            Ok(records.find(offset, size)?.and_then(|(window, at)| window.sub(at, size as usize)))
        };
        found.into_iter().map(record).filter_map(Result::transpose).collect()
    }

    /// The size of the record at an offset, if that has topic, key and time of a query.
    pub(super) fn record_with_key(
        &self,
        records: &mut RecordReader<'_>,
        offset: u64,
        query: &KeyQuery<'_>,
    ) -> Result<Option<u32>> {
        let Some((window, at, len)) = records.find_record(offset)? else {
            self.find_damage(offset)?;
            return Ok(None);
        };
        let bytes = window.get(at..at + len).unwrap_or_default();
        let is_asked_for = |record: &Record<'_>| {
            (query.begin..=query.end).contains(&record.store_timestamp)
                && record.topic == query.topic
                && DispatchProperties::of(record.properties).index_keys().any(|key| key == query.key)
        };
        let record = self.checked_record(bytes, offset, Bodies::Wanted)?;
        if record.is_none() {
            self.find_damage(offset)?;
        }
        // The index has what a queue had that was removed; that the queue itself no longer gives.
        let is_removed = |record: &Record<'_>| {
            sys_flag::enters_consume_queue(record.sys_flag)
                && self.config.removed_queues.queue_of(offset, record).is_none()
        };
        let wanted = record.filter(|record| is_asked_for(record) && !is_removed(record));
        Ok(wanted.map(|record| record.total_size))
    }

    pub(super) fn query_message_compat(&self, query: &KeyQuery<'_>) -> Result<Vec<Slice>> {
        let Some(index) = &self.index else { return Ok(Vec::new()) };
        let mut found = Vec::new();
        let mut last_query_msg_time = query.end;
        for _ in 0..COMPAT_ROUNDS {
            let round = KeyQuery { end: last_query_msg_time, ..*query };
            let mut offsets = index.query_offset_compat(&round, self.config.max_msgs_num_batch)?.phy_offsets;
            if offsets.is_empty() {
                break;
            }
            offsets.sort_unstable();
            for (at, offset) in offsets.into_iter().enumerate() {
                let Some(record) = self.log.select_one_message_by_offset(offset)? else { continue };
                if at == 0
                    && let Some(first) = decode_record(&record)
                {
                    last_query_msg_time = first.store_timestamp;
                }
                found.push(record);
            }
            if !found.is_empty() || last_query_msg_time < query.begin {
                break;
            }
        }
        Ok(found)
    }

    /// The record that begins at an offset of the log; `None` where none does. Never bytes that are
    /// not a record: its structure, own offset and body are checked, and that the queues lead to it from
    /// nowhere else than it says.
    ///
    /// # Errors
    /// Where the log can't be read.
    pub fn record_at(&self, offset: u64) -> Result<Option<Slice>> {
        self.record_at_with(offset, Bodies::Wanted)
    }

    /// As [`Store::record_at`], with or without the body; without it the body's CRC does not count.
    ///
    /// # Errors
    /// Where the log can't be read.
    pub fn record_at_with(&self, offset: u64, bodies: Bodies) -> Result<Option<Slice>> {
        self.while_open(|| {
            let Some(bytes) = self.log.select_one_message_with(offset, bodies)? else { return Ok(None) };
            let is_record = self.checked_record(&bytes, offset, bodies)?.is_some();
            Ok(is_record.then_some(bytes))
        })
    }

    /// Remembers what is wrong at a place of the log where the index has a record, of whatever key. What is behind
    /// the log's end, or gone with its first files, is not wrong.
    ///
    /// # Errors
    /// Where the log can't be read.
    pub(crate) fn find_damage(&self, offset: u64) -> Result<()> {
        let Some(bytes) = self.log.get_data(offset)? else { return Ok(()) };
        let fault = match message::decode(&bytes, self.check_of_served(offset)) {
            Ok(Decoded::Message(Record { queue_id, queue_offset, .. })) => {
                RecordFault::Misplaced { queue_id, queue_offset }
            }
            Ok(Decoded::Blank { .. }) => RecordFault::MagicCode { found: num::int_as_bits(BLANK_MAGIC_CODE) },
            Err(fault) => fault,
        };
        let size = bytes.first_chunk().map_or(0, |size| u64::from(u32::from_be_bytes(*size)));
        let to = offset + size.min(num::offset(bytes.len()));
        self.found_damaged(Gap { from: offset, to, fault: Some(fault) });
        Ok(())
    }

    /// What is in the bytes at an offset, if that is a message that may be given out.
    #[inline]
    fn checked_record<'b>(&self, bytes: &'b [u8], offset: u64, bodies: Bodies) -> Result<Option<Record<'b>>> {
        Ok(match message::decode(bytes, self.check_with(bodies, offset)) {
            Ok(Decoded::Message(record)) if self.config.compat => Some(record),
            Ok(Decoded::Message(record)) => {
                let is_it = check_record(&record, offset).is_ok() && !self.is_misplaced(&record, offset)?;
                is_it.then_some(record)
            }
            _ => None,
        })
    }

    /// The offset in a queue that a time stands for. Source: `getOffsetInQueueByTime`.
    ///
    /// # Errors
    /// Where the store is closed, or queue or log can't be read.
    pub fn get_offset_in_queue_by_time(
        &self,
        topic: &str,
        queue_id: i32,
        timestamp: i64,
        boundary: Boundary,
    ) -> Result<u64> {
        self.while_open(|| {
            self.catch_up()?;
            let Some(queue) = self.find_consume_queue(topic, queue_id) else { return Ok(0) };
            if !self.config.compat || boundary != Boundary::Nearest {
                let look = || queue.offset_by_time(&self.log, timestamp, boundary);
                return Ok(self.beside_openings(look, |found| found.is_whole)?.index);
            }
            if self.mode == Mode::ReadWrite {
                // It goes by the times of files.
                queue.spill()?;
            }
            queue.offset_by_time_compat(&self.log, timestamp)
        })
    }

    /// The offset in a queue that each of many times stands for. They are looked up in their order:
    /// times next to each other are found by way of the same messages.
    ///
    /// # Errors
    /// As for [`Store::get_offset_in_queue_by_time`].
    pub fn get_offsets_in_queue_by_time(
        &self,
        topic: &str,
        queue_id: i32,
        timestamps: &[i64],
        boundary: Boundary,
    ) -> Result<Vec<u64>> {
        let mut in_order: Vec<(i64, usize)> =
            timestamps.iter().enumerate().map(|(at, &time)| (time, at)).collect();
        in_order.sort_unstable();
        let mut offsets = vec![0; timestamps.len()];
        let mut last = None;
        for (time, at) in in_order {
            let offset = match last {
                Some((known, offset)) if known == time => offset,
                _ => self.get_offset_in_queue_by_time(topic, queue_id, time, boundary)?,
            };
            last = Some((time, offset));
            if let Some(place) = offsets.get_mut(at) {
                *place = offset;
            }
        }
        Ok(offsets)
    }

    /// Store time of the message at a queue's offset; -1 where there is none.
    /// Source: `getMessageStoreTimeStamp`.
    ///
    /// # Errors
    /// Where queue or log can't be read.
    pub fn get_message_store_timestamp(&self, topic: &str, queue_id: i32, offset: u64) -> Result<i64> {
        self.while_open(|| {
            let Some(queue) = self.find_consume_queue(topic, queue_id) else { return Ok(-1) };
            let units = self.units(&queue, offset, 1)?;
            match units.first().and_then(CqUnit::place) {
                Some((offset, size)) => self.log.pickup_store_timestamp(offset, size),
                None => Ok(-1),
            }
        })
    }

    /// Store time of a queue's first message; -1 where it has none. Source: `getEarliestMessageTime`.
    ///
    /// # Errors
    /// Where queue or log can't be read.
    pub fn get_earliest_message_time_in_queue(&self, topic: &str, queue_id: i32) -> Result<i64> {
        let queue = self.find_consume_queue(topic, queue_id);
        let first = queue.map_or(0, |queue| queue.min_offset_in_queue());
        self.get_message_store_timestamp(topic, queue_id, first)
    }

    /// Store time of the log's first message; -1 where it has none. 4.9.3 answers -1 too where less
    /// than twice `maxMessageSize` follows in the first file.
    ///
    /// # Errors
    /// Where the log can't be read.
    pub fn get_earliest_message_time(&self) -> Result<i64> {
        self.while_open(|| {
            let Some(min) = self.log.min_offset() else { return Ok(-1) };
            let size = self.config.max_message_size.saturating_mul(2);
            if self.config.compat {
                return self.log.pickup_store_timestamp(min, size);
            }
            Ok(match self.record_at(min)? {
                Some(bytes) => decode_record(&bytes).map_or(-1, |record| record.store_timestamp),
                None => -1,
            })
        })
    }

    /// Where the record of a queue's offset stands in the log; 0 where there is none, as in 4.9.3.
    /// Source: `getCommitLogOffsetInQueue`.
    ///
    /// # Errors
    /// Where the queue can't be read.
    pub fn get_commit_log_offset_in_queue(&self, topic: &str, queue_id: i32, offset: u64) -> Result<i64> {
        self.while_open(|| {
            let Some(queue) = self.find_consume_queue(topic, queue_id) else { return Ok(0) };
            Ok(self.units(&queue, offset, 1)?.first().map_or(0, |unit| unit.physical_offset))
        })
    }

    /// Bytes of the log from an offset on, to the end of its file. Source: `getCommitLogData`.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] where the log holds nothing there; where it can't be read.
    pub fn get_commit_log_data(&self, offset: u64) -> Result<Slice> {
        self.while_open(|| {
            self.log.get_data(offset)?.ok_or_else(|| Error::OutOfRange {
                offset,
                min: self.log.min_offset().unwrap_or(0),
                max: self.log.max_offset(),
            })
        })
    }

    /// The log's first offset as an offset; 0 where it has no file.
    #[must_use]
    pub fn first_offset(&self) -> u64 {
        num::from_java_long(self.min_phy_offset()).unwrap_or(0)
    }
}
