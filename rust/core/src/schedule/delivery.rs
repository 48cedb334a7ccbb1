//! Putting messages whose time is up to their topics.

use super::Undeliverable;
use super::timeup::message_timeup;
use crate::commit_log::Wait;
use crate::commit_log::read::RecordReader;
use crate::consume_queue::ConsumeQueue;
use crate::error::Result;
use crate::format::cq_unit::CqUnit;
use crate::format::message::decode_record;
use crate::mmap::slice::Slice;
use crate::num;
use crate::status::PutMessageStatus;
use crate::store::{PutRefusal, PutStep, Store};

/// Bytes of records that are put under one lock: more would keep other puts waiting.
pub(super) const MAX_BATCH_SIZE: usize = 1 << 20;

/// A message that is due.
pub(super) struct Due {
    pub(super) queue_offset: u64,
    pub(super) physical_offset: u64,
    pub(super) record: Slice,
}

/// What became of messages that were due.
#[derive(Debug, Default)]
pub(super) struct Delivery {
    /// Of the first so many something became.
    pub(super) done_count: usize,
    /// Messages that were put to their topics.
    pub(super) delivered_count: u64,
    /// Those that can't be, and were passed over.
    pub(super) undeliverable: Vec<Undeliverable>,
    /// Why the store took no more.
    pub(super) refusal: Option<PutRefusal>,
}

impl Store {
    /// The message of a unit, to be delivered; `None` where it can't be read.
    ///
    /// # Errors
    /// Where the log can't be read.
    pub(super) fn due_of(
        &self,
        records: &mut RecordReader<'_>,
        queue: &ConsumeQueue,
        unit: &CqUnit,
        queue_offset: u64,
    ) -> Result<Option<Due>> {
        let record = self.record_of(records, queue, unit, queue_offset)?.and_then(|found| found.slice());
        Ok(record.zip(unit.place()).map(|(record, (physical_offset, _))| Due {
            queue_offset,
            physical_offset,
            record,
        }))
    }

    /// Puts messages to their real topics, in their order, without those of their properties that
    /// are named.
    pub(super) fn deliver(&self, due: &[Due], without: &[&[u8]]) -> Delivery {
        let mut delivery = Delivery::default();
        let (mut messages, mut places) = (Vec::with_capacity(due.len()), Vec::with_capacity(due.len()));
        let mut undeliverable = Vec::new();
        for (at, one) in due.iter().enumerate() {
            let record = decode_record(&one.record).ok_or_else(|| "its record is damaged".to_owned());
            match record.and_then(|record| message_timeup(&record, without)) {
                Ok(message) => {
                    messages.push(message);
                    places.push(at);
                }
                Err(reason) => undeliverable.push((at, one.undeliverable(reason))),
            }
        }
        let (mut messages, mut places) = (messages.as_slice(), places.as_slice());
        delivery.done_count = due.len();
        while !messages.is_empty() {
            let mut done = Vec::with_capacity(messages.len());
            let step = self.put_due(messages, &mut done, Wait::Block);
            delivery.delivered_count += num::offset(done.len());
            let PutStep::Refused(refusal) = step else { break };
            let Some((&stopped_at, rest)) = places.get(done.len()..).and_then(<[usize]>::split_first) else {
                break;
            };
            if refusal.status != PutMessageStatus::MessageIllegal {
                delivery.done_count = stopped_at;
                delivery.refusal = Some(refusal);
                break;
            }
            if let Some(stopped) = due.get(stopped_at) {
                undeliverable.push((stopped_at, stopped.undeliverable(refusal.reason.to_string())));
            }
            messages = messages.get(done.len() + 1..).unwrap_or_default();
            places = rest;
        }
        let done = undeliverable.into_iter().filter(|&(at, _)| at < delivery.done_count);
        delivery.undeliverable = done.map(|(_, one)| one).collect();
        delivery
    }
}

impl Due {
    fn undeliverable(&self, reason: String) -> Undeliverable {
        Undeliverable { queue_offset: self.queue_offset, physical_offset: self.physical_offset, reason }
    }
}
