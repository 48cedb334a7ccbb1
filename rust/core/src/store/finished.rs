//! Appending finished records: what replay and import bring from another log.
//!
//! Their fields are kept but for offsets, among them those in light queues; hosts, times and offsets in
//! their own queues are given anew where they are not kept. A blank among them ends the file, so that the records of a log give
//! that log again: where a batch did not fit any more, only the blank says so.

use std::iter;

use hashbrown::HashMap;

use super::Store;
use super::admit::Checked;
use super::prepare;
use super::put::{FurtherQueues, PutRefusal, refused};
use crate::commit_log::topic_queue::{QueueKey, QueueRef, TopicQueueTable};
use crate::commit_log::{Appended, NewRecord, QueueOffset, StoreTime, Wait};
use crate::dispatch::{TIMED_TOPIC, TRANS_OP_HALF_TOPIC, split_java};
use crate::format::host::Host;
use crate::format::message::{self, Check, Decoded, MAX_PROPERTIES_LENGTH, RecordFields};
use crate::format::properties::{self, DispatchProperties};
use crate::format::record_crc;
use crate::format::sys_flag;
use crate::num;
use crate::schedule::timed;

/// What is kept of finished records, and what they get instead.
#[derive(Debug, Clone, Default)]
pub struct Finishing<'a> {
    /// Where they are stored; `None` keeps their own.
    pub store_host: Option<Host>,
    /// Whether they keep their store times.
    pub keep_times: bool,
    /// Whether they keep their offsets in their own queues: a queue goes on at a record's offset, and
    /// a record whose offset the queue has passed is refused.
    pub keep_offsets: bool,
    /// Another topic than their own.
    pub topic: Option<&'a [u8]>,
    /// Whether records that speak of places in another log are left out; refused where not.
    pub leaves_out_places: bool,
}

/// Where a finished record stood in its log.
#[derive(Clone, Copy, Default)]
struct Stood {
    queue_offset: i64,
    physical_offset: i64,
}

/// What a finished record asks of the log.
enum Finished<'a> {
    /// To append it.
    Record(NewRecord<'a>),
    /// To append it with its offsets in these further queues.
    Multi(NewRecord<'a>, Vec<&'a [u8]>),
    /// To go on in the next file.
    EndOfFile,
}

impl Store {
    /// Appends finished records: only offsets, times and hosts are given anew, the times only
    /// where they are not kept. Records before one that is refused are in the log: `done` holds them.
    /// Gives the offset up to which the call has to wait for the disk, where it has to.
    ///
    /// # Errors
    /// A refusal of the record behind those in `done`.
    pub fn append_records(
        &self,
        records: &[&[u8]],
        how: &Finishing<'_>,
        done: &mut Vec<Appended>,
    ) -> Checked<Option<u64>> {
        self.check_store_status()?;
        let finished = records.iter().map(|bytes| self.finished(bytes, how));
        let mut run = Vec::new();
        let mut kept = KeptOffsets::default();
        for (mut finished, stood) in finished.collect::<Checked<Vec<_>>>()? {
            let speaker = match &finished {
                Finished::Record(record) | Finished::Multi(record, _) => {
                    Some(record.fields.topic).filter(|_| speaks_of_places(&record.fields, how))
                }
                Finished::EndOfFile => None,
            };
            if let Some(topic) = speaker {
                // Where it comes to stand is known once those before it are in the log.
                self.append_run(&mut run, done)?;
                let comes_to = match &finished {
                    Finished::Record(record) => self.comes_to(&record.fields, stood.physical_offset),
                    // How long it is here nobody knows before it is appended.
                    _ => false,
                };
                if !comes_to {
                    how.leaves_out(topic)?;
                    continue;
                }
            }
            if let (true, Finished::Record(record) | Finished::Multi(record, _)) =
                (how.keep_offsets, &mut finished)
            {
                match kept.next(self, &record.fields, stood.queue_offset) {
                    Ok(queue_offset) => record.queue_offset = queue_offset,
                    Err(refusal) => {
                        self.append_run(&mut run, done)?;
                        return Err(refusal);
                    }
                }
            }
            match finished {
                Finished::Record(record) if speaker.is_some() => {
                    let fields = record.fields;
                    if !self.append_where_it_stood(record, stood.physical_offset, done)? {
                        how.leaves_out(fields.topic)?;
                        kept.forget(&fields);
                    }
                }
                Finished::Record(record) => run.push(record),
                Finished::EndOfFile => {
                    self.append_run(&mut run, done)?;
                    self.log.end_file(Wait::Block).map_err(refused)?;
                }
                Finished::Multi(record, names) => {
                    self.append_run(&mut run, done)?;
                    done.push(self.append_to_further_queues(&record, &names)?);
                }
            }
        }
        self.append_run(&mut run, done)?;
        let end = done.last().map(Appended::end_offset);
        Ok(end.and_then(|end| self.ask_for_flush(end, true)))
    }

    fn append_run(&self, run: &mut Vec<NewRecord<'_>>, done: &mut Vec<Appended>) -> Checked<()> {
        let outcome = self.log.append_all(run.drain(..), done, Wait::Block);
        outcome.map_err(refused)
    }

    /// Appends a record where it comes to the place that it had. Somebody may have put since it was looked at: it is looked at
    /// once more while nobody can, where the append asks for the record. Gives whether it came there.
    fn append_where_it_stood(
        &self,
        record: NewRecord<'_>,
        physical_offset: i64,
        done: &mut Vec<Appended>,
    ) -> Checked<bool> {
        let before = done.len();
        let comes_to = |record: &NewRecord<'_>| self.comes_to(&record.fields, physical_offset);
        let outcome = self.log.append_all(iter::once(record).filter(comes_to), done, Wait::Block);
        outcome.map_err(refused)?;
        let appended = done.get(before);
        debug_assert!(appended.is_none_or(|at| num::java_long(at.wrote_offset) == physical_offset));
        Ok(appended.is_some())
    }

    fn append_to_further_queues(&self, record: &NewRecord<'_>, names: &[&[u8]]) -> Checked<Appended> {
        let further = FurtherQueues::new(&self.config, names.iter().copied(), record.fields.queue_id);
        let encode = |table: &TopicQueueTable| {
            let offsets = further.find_offsets(table);
            properties::replace(
                record.fields.properties,
                properties::INNER_MULTI_QUEUE_OFFSET,
                offsets.as_bytes(),
            )
        };
        let advance = |table: &mut TopicQueueTable| further.go_on(table);
        self.log
            .append_with_properties(record, further.queues(), Wait::Block, encode, advance)
            .map_err(refused)
    }

    fn finished<'a>(&self, bytes: &'a [u8], how: &Finishing<'a>) -> Checked<(Finished<'a>, Stood)> {
        let record = match message::decode(bytes, Check::BodyCrc) {
            Ok(Decoded::Message(record)) => record,
            Ok(Decoded::Blank { .. }) => return Ok((Finished::EndOfFile, Stood::default())),
            Err(fault) => return Err(PutRefusal::illegal("record", bytes.len(), fault.to_string())),
        };
        let topic = how.topic.unwrap_or(record.topic);
        // Whole records of timed messages are kept as others are; none is made of another message.
        if how.topic.is_some() {
            self.admission().check_put_topic(topic)
        } else {
            self.admission().check_topic(topic)
        }?;
        let (properties, had_crc) = record_crc::without(record.properties);
        let fields = RecordFields {
            body_crc: record.body_crc,
            queue_id: record.queue_id,
            flag: record.flag,
            sys_flag: record.sys_flag,
            born_timestamp: record.born_timestamp,
            born_host: record.born_host,
            store_host: how.store_host.unwrap_or(record.store_host),
            reconsume_times: record.reconsume_times,
            prepared_transaction_offset: record.prepared_transaction_offset,
            body: record.body,
            topic,
            properties,
            append_crc: had_crc || prepare::needs_crc(&self.config, properties),
        };
        let properties_size = fields.properties_size();
        if properties_size > MAX_PROPERTIES_LENGTH {
            let reason =
                format!("they have more than {MAX_PROPERTIES_LENGTH} bytes with the record's checksum");
            return Err(PutRefusal::illegal("properties", properties_size, reason));
        }
        let store_time =
            if how.keep_times { StoreTime::Kept(record.store_timestamp) } else { StoreTime::Now };
        let new = NewRecord { fields: fields.with_host_flags(), store_time, queue_offset: QueueOffset::Next };
        let names = self.further_queues(&fields);
        let finished = if names.is_empty() { Finished::Record(new) } else { Finished::Multi(new, names) };
        let stood = Stood { queue_offset: record.queue_offset, physical_offset: record.physical_offset };
        Ok((finished, stood))
    }

    /// Whether a record that is appended now stands where it stood in its own log: then what it speaks of is here too,
    /// as in a log that is given again from its begin.
    fn comes_to(&self, fields: &RecordFields<'_>, physical_offset: i64) -> bool {
        num::java_long(self.log.next_place(num::offset(fields.record_size()))) == physical_offset
    }

    /// The further queues that a record has offsets in.
    fn further_queues<'a>(&self, fields: &RecordFields<'a>) -> Vec<&'a [u8]> {
        let found = DispatchProperties::of(fields.properties);
        match (found.multi_dispatch, found.multi_queue_offset) {
            (Some(names), Some(_))
                if self.config.enable_multi_dispatch && sys_flag::enters_consume_queue(fields.sys_flag) =>
            {
                split_java(names)
            }
            _ => Vec::new(),
        }
    }
}

impl Finishing<'_> {
    /// Leaves out a record that speaks of places in another log.
    ///
    /// # Errors
    /// Where none is to be left out.
    fn leaves_out(&self, topic: &[u8]) -> Checked<()> {
        if self.leaves_out_places { Ok(()) } else { Err(of_other_places(topic)) }
    }
}

/// Whether a record says something of others by where they stand in its own log: which prepared messages have ended, by
/// their offsets in their queue, and which timed ones are delivered. Elsewhere other messages stand there. Who keeps the
/// queues' offsets has the same prepared messages there.
fn speaks_of_places(fields: &RecordFields<'_>, how: &Finishing<'_>) -> bool {
    match fields.topic {
        TRANS_OP_HALF_TOPIC => !how.keep_offsets,
        TIMED_TOPIC => fields.queue_id == timed::PROGRESS.queue_id,
        _ => false,
    }
}

fn of_other_places(topic: &[u8]) -> PutRefusal {
    let reason = "it says of messages of another log, by where they stand there, that they are done with: leave it out";
    PutRefusal::illegal("topic", String::from_utf8_lossy(topic), reason)
}

/// Where queues go on that keep the offsets of what is appended, ahead of what is appended yet.
#[derive(Default)]
struct KeptOffsets(HashMap<QueueKey, i64>);

impl KeptOffsets {
    /// The offset that a record keeps. Whether its queue has given it is for the append to say, while nobody else
    /// puts; here, whether the queue can go on so far ahead.
    fn next(&mut self, store: &Store, fields: &RecordFields<'_>, queue_offset: i64) -> Checked<QueueOffset> {
        if !sys_flag::enters_consume_queue(fields.sys_flag) {
            return Ok(QueueOffset::Next);
        }
        let queue = QueueRef { topic: fields.topic, queue_id: fields.queue_id };
        let next = self.0.get(&queue).copied().unwrap_or_else(|| store.log.next_queue_offset(queue));
        if !store.queues.place_rule().can_pass_over(next, queue_offset) {
            let reason = format!("its queue goes on at {next}, and cannot pass over so many offsets");
            return Err(PutRefusal::illegal("queueOffset", queue_offset, reason));
        }
        self.0.insert(queue.into(), queue_offset + 1);
        Ok(QueueOffset::Kept(queue_offset))
    }

    /// A record was not appended after all, and those before it are in the log.
    fn forget(&mut self, fields: &RecordFields<'_>) {
        self.0.remove(&QueueRef { topic: fields.topic, queue_id: fields.queue_id });
    }
}
