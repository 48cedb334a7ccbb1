//! Putting messages: what is checked before the log, and what is rewritten.
//!
//! Source: `DefaultMessageStore.asyncPutMessage`, `CommitLog.asyncPutMessage` and `asyncPutMessages`,
//! `MultiDispatch`.

use std::cell::Cell;
use std::time::{Duration, Instant};

use super::Store;
use super::admit::Checked;
use super::prepare::{Prepared, fields, needs_crc};
use crate::commit_log::topic_queue::{QueueRef, TopicQueueTable};
use crate::commit_log::{AppendRefusal, Appended, NewRecord, QueueOffset, StoreTime, Wait, Waited};
use crate::config::StoreConfig;
use crate::dispatch::is_light;
use crate::error::{Error, Result};
use crate::format::host::Host;
use crate::format::java_hash_map::JavaHashMap;
use crate::format::message::{self, MAX_PROPERTIES_LENGTH, RecordFields};
use crate::format::properties::ClientProperties;
use crate::format::{batch, properties, sys_flag};
use crate::num;
use crate::short_text::has_either;
use crate::status::{AppendMessageStatus, PutMessageStatus};

thread_local! {
    /// Where a thread encodes the properties of a message that it puts: asking for memory each time takes longer.
    static ENCODED: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// A message's properties.
#[derive(Debug, Clone)]
pub enum Properties<'a> {
    /// The string, written as it is.
    Raw(&'a [u8]),
    /// A map, written in the order in which Java's would be.
    Map(JavaHashMap<'a>),
    /// What every message of a client has, and nothing else.
    Client(ClientProperties<'a>),
}

/// A message to put. Source: `MessageExtBrokerInner`.
#[derive(Debug, Clone)]
pub struct NewMessage<'a> {
    /// The topic.
    pub topic: &'a [u8],
    /// The queue.
    pub queue_id: i32,
    /// The user's flag.
    pub flag: i32,
    /// See [`sys_flag`]; the IPv6 bits follow from the hosts.
    pub sys_flag: i32,
    /// When the client made it, in milliseconds.
    pub born_timestamp: i64,
    /// Where the client made it.
    pub born_host: Host,
    /// Where it is stored.
    pub store_host: Host,
    /// How often it was consumed in vain.
    pub reconsume_times: i32,
    /// The offset of its prepared half.
    pub prepared_transaction_offset: i64,
    /// The body as it is stored.
    pub body: &'a [u8],
    /// Its properties.
    pub properties: Properties<'a>,
}

/// The messages of a batch share everything but body, flag and properties.
#[derive(Debug, Clone)]
pub struct BatchMessage<'a> {
    /// What they share; body and flag are not used, its properties are appended to each message's.
    pub shared: NewMessage<'a>,
    /// The messages.
    pub items: Vec<batch::BatchItem<'a>>,
}

impl<'a> Properties<'a> {
    /// What a client sends: its own properties, and what each of its messages has. A unique key among
    /// its own stays.
    #[inline]
    #[must_use]
    pub fn of_client(mut own: JavaHashMap<'a>, client: ClientProperties<'a>) -> Self {
        if own.is_empty() {
            return Self::Client(client);
        }
        for (name, value) in client.pairs() {
            if name != properties::UNIQ_KEY || own.get(name).is_none() {
                own.put(name, value);
            }
        }
        Self::Map(own)
    }

    /// As a map, without the checksum of a record that they were in before.
    #[must_use]
    pub fn to_map(&self) -> JavaHashMap<'a> {
        let mut map = match self {
            Self::Raw(raw) => properties::to_map(raw),
            Self::Map(map) => map.clone(),
            Self::Client(client) => {
                let mut map = JavaHashMap::default();
                client.pairs().for_each(|(name, value)| map.put(name, value));
                return map;
            }
        };
        map.remove(properties::CRC32);
        map
    }

    /// The property string, without the checksum of a record that they were in before.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.encode_into(&mut out);
        out
    }

    /// Appends the property string.
    pub fn encode_into(&self, out: &mut Vec<u8>) {
        match self {
            Self::Raw(raw) => out.extend_from_slice(&properties::without(raw, properties::CRC32)),
            Self::Map(map) if map.get(properties::CRC32).is_some() => {
                properties::encode_into(&self.to_map(), out);
            }
            Self::Map(map) => properties::encode_into(map, out),
            Self::Client(client) => client.encode_into(out),
        }
    }

    /// The separators cannot stand in a name or a value: reading it back would give other properties. What is encoded
    /// already is not looked at.
    ///
    /// # Errors
    /// The refusal that a put of them gets, but with `compat`.
    pub fn check_separators(&self) -> Checked<()> {
        match self {
            Self::Raw(_) => Ok(()),
            Self::Map(map) => check_separators(map.iter()),
            Self::Client(client) if client.is_plain() => Ok(()),
            Self::Client(client) => check_separators(client.pairs()),
        }
    }
}

/// A message that is in the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PutAppended<T> {
    /// Where.
    pub appended: T,
    /// The put has to wait until the log is on the disk, or at a slave, up to here.
    pub wait_for: Option<u64>,
}

/// A message that is not in the log.
#[derive(Debug)]
pub struct PutRefusal {
    /// 4.9.3's status for it.
    pub status: PutMessageStatus,
    /// The status of the append, where it came to that.
    pub append: Option<AppendMessageStatus>,
    /// Why.
    pub reason: Box<Error>,
    /// Which of several messages it is, where that is not the first one that is not in the log.
    pub at: Option<usize>,
}

/// What became of a put that may not wait.
#[derive(Debug)]
pub enum PutStep<T> {
    /// It is in the log.
    Done(PutAppended<T>),
    /// It would have to wait: ask again with [`Wait::Block`].
    WouldBlock,
    /// It is not in the log.
    Refused(PutRefusal),
}

impl PutRefusal {
    pub(super) fn new(
        status: PutMessageStatus,
        option: &'static str,
        value: impl std::fmt::Display,
        reason: impl Into<String>,
    ) -> Self {
        let reason = Error::Option { option, value: value.to_string(), reason: reason.into() };
        Self { status, append: None, reason: Box::new(reason), at: None }
    }

    pub(super) fn illegal(
        option: &'static str,
        value: impl std::fmt::Display,
        reason: impl Into<String>,
    ) -> Self {
        Self::new(PutMessageStatus::MessageIllegal, option, value, reason)
    }
}

/// The further queues of a record, and the offsets that it gets in them.
pub(super) struct FurtherQueues<'a> {
    queues: Vec<QueueRef<'a>>,
    /// Found under the log's lock, before the record is in it.
    offsets: Cell<Vec<i64>>,
}

impl<'a> FurtherQueues<'a> {
    /// Those of a record whose own queue has a number.
    pub(super) fn new(
        config: &StoreConfig,
        names: impl IntoIterator<Item = &'a [u8]>,
        queue_id: i32,
    ) -> Self {
        let queue_of = |topic| {
            let queue_id = if is_light(config, topic) { 0 } else { queue_id };
            QueueRef { topic, queue_id }
        };
        Self { queues: names.into_iter().map(queue_of).collect(), offsets: Cell::default() }
    }

    /// Which they are.
    pub(super) fn queues(&self) -> &[QueueRef<'a>] {
        &self.queues
    }

    /// Finds the offsets, and gives the property that says them.
    pub(super) fn find_offsets(&self, table: &TopicQueueTable) -> String {
        let offsets: Vec<i64> = self.queues.iter().map(|queue| table.next_offset(*queue)).collect();
        let texts: Vec<String> = offsets.iter().map(i64::to_string).collect();
        self.offsets.set(offsets);
        texts.join(",")
    }

    /// Has each queue go on behind the offset that was found. A name may be there twice, or be the record's
    /// own topic: the queue gets one message all the same.
    pub(super) fn go_on(&self, table: &mut TopicQueueTable) {
        for (queue, offset) in self.queues.iter().zip(self.offsets.take()) {
            // The record's own queue may be further, where it kept its offset.
            table.set(*queue, table.next_offset(*queue).max(offset + 1));
        }
    }
}

impl Store {
    /// Puts one message.
    pub fn put_message(&self, message: &NewMessage<'_>, wait: Wait) -> PutStep<Appended> {
        let begin = Instant::now();
        let mut encoded = ENCODED.take();
        let step = self.append_message(message, &mut encoded, wait);
        if encoded.capacity() <= 2 * MAX_PROPERTIES_LENGTH {
            encoded.clear();
            ENCODED.set(encoded);
        }
        self.count(begin, &step, |appended| (1, u64::from(appended.wrote_bytes)));
        step
    }

    fn append_message(
        &self,
        message: &NewMessage<'_>,
        encoded: &mut Vec<u8>,
        wait: Wait,
    ) -> PutStep<Appended> {
        let outcome = self.check_store_status().and_then(|()| {
            let admission = self.admission();
            admission.check_message(message)?;
            admission.prepare(message, encoded)
        });
        let prepared = match outcome {
            Ok(prepared) => prepared,
            Err(refusal) => return PutStep::Refused(refusal),
        };
        let wait = if prepared.is_rewritten() { wait.read_again(|| self.now_ms()) } else { wait };
        let admitted = self.admit_delivery(message, &prepared, wait);
        let outcome = admitted.and_then(|()| self.append_prepared(message, &prepared, encoded, wait));
        self.step(outcome, prepared.wait_store_msg_ok, Appended::end_offset)
    }

    /// Puts a batch: one topic, one queue, in one file, visible at once.
    pub fn put_messages(&self, batch: &BatchMessage<'_>, wait: Wait) -> PutStep<Vec<Appended>> {
        let begin = Instant::now();
        let step = self.append_messages(batch, wait);
        self.count(begin, &step, |appended| size_of_all(appended));
        step
    }

    fn append_messages(&self, batch: &BatchMessage<'_>, wait: Wait) -> PutStep<Vec<Appended>> {
        let outcome = self.check_store_status().and_then(|()| self.admission().prepare_batch(batch));
        let (properties, wait_store_msg_ok) = match outcome {
            Ok(prepared) => prepared,
            Err(refusal) => return PutStep::Refused(refusal),
        };
        let records: Vec<_> = batch
            .items
            .iter()
            .zip(&properties)
            .map(|(item, properties)| {
                let fields = fields(
                    &batch.shared,
                    batch.shared.topic,
                    batch.shared.queue_id,
                    properties,
                    needs_crc(&self.config, properties),
                );
                let fields = RecordFields {
                    flag: item.flag,
                    body: item.body,
                    body_crc: message::body_crc(item.body),
                    prepared_transaction_offset: 0,
                    ..fields
                };
                NewRecord { fields, store_time: StoreTime::Now, queue_offset: QueueOffset::Next }
            })
            .collect();
        let outcome = self.log.append_batch(&records, wait);
        self.step(outcome, wait_store_msg_ok, |appended| appended.last().map_or(0, Appended::end_offset))
    }

    /// Waits until a put's message is on the disk.
    ///
    /// # Errors
    /// Where a flush failed.
    pub fn wait_flushed(&self, offset: u64, timeout: Duration) -> Result<PutMessageStatus> {
        let Waited { is_flushed, own_flush } = self.log.wait_flushed(offset, timeout)?;
        if let Some(flush) = own_flush {
            self.checkpoint.set_physic_msg_timestamp(flush.store_timestamp);
        }
        Ok(if is_flushed { PutMessageStatus::PutOk } else { PutMessageStatus::FlushDiskTimeout })
    }

    /// Lets the flusher and slaves know of messages that were put. Gives the offset up to which the
    /// put has to wait for the disk or for a slave, where it has to.
    pub(crate) fn ask_for_flush(&self, end: u64, wait_store_msg_ok: bool) -> Option<u64> {
        let waits_for_disk = self.config.sync_flush && wait_store_msg_ok;
        if waits_for_disk {
            self.log.request_group_flush(end);
        } else if !self.config.flush_commit_log_timed {
            self.log.request_flush(end);
        }
        let waits_for_slave = wait_store_msg_ok && self.ask_for_transfer();
        (waits_for_disk || waits_for_slave).then_some(end)
    }

    /// Counts a put, once it does not have to be asked for again.
    pub(super) fn count<T>(&self, begin: Instant, step: &PutStep<T>, of: impl FnOnce(&T) -> (u64, u64)) {
        match step {
            PutStep::Done(done) => {
                let (count, size) = of(&done.appended);
                self.stats.put(begin, count, size);
            }
            PutStep::WouldBlock => {}
            PutStep::Refused(_) => self.stats.put_failed(),
        }
    }

    pub(super) fn step<T>(
        &self,
        outcome: Result<T, AppendRefusal>,
        wait_store_msg_ok: bool,
        end: impl Fn(&T) -> u64,
    ) -> PutStep<T> {
        match outcome {
            Ok(appended) => {
                let wait_for = self.ask_for_flush(end(&appended), wait_store_msg_ok);
                PutStep::Done(PutAppended { appended, wait_for })
            }
            Err(AppendRefusal::WouldBlock) => PutStep::WouldBlock,
            Err(refusal) => PutStep::Refused(refused(refusal)),
        }
    }

    /// Sees to it that a message which waits in another topic can be delivered to its own: that could fail for ever.
    #[inline]
    pub(super) fn admit_delivery(
        &self,
        message: &NewMessage<'_>,
        prepared: &Prepared<'_>,
        wait: Wait,
    ) -> Result<(), AppendRefusal> {
        if prepared.waits_elsewhere(message) { self.log.admit_topic(message.topic, wait) } else { Ok(()) }
    }

    /// Source: `MultiDispatch.wrapMultiDispatch` and `updateMultiQueueOffset`.
    pub(super) fn append_prepared(
        &self,
        message: &NewMessage<'_>,
        prepared: &Prepared<'_>,
        encoded: &[u8],
        wait: Wait,
    ) -> Result<Appended, AppendRefusal> {
        let record = prepared.record(message, encoded);
        let Some(multi) = prepared.multi() else { return self.log.append(&record, wait) };
        let names = multi.names.iter().map(|name| &name[..]);
        let further = FurtherQueues::new(&self.config, names, record.fields.queue_id);
        let encode = |table: &TopicQueueTable| {
            let offsets = further.find_offsets(table);
            let mut map = multi.properties.clone();
            map.remove(properties::WAIT);
            map.put(properties::INNER_MULTI_QUEUE_OFFSET, offsets.into_bytes());
            properties::encode(&map)
        };
        let enters_queues = sys_flag::enters_consume_queue(record.fields.sys_flag);
        let advance = |table: &mut TopicQueueTable| {
            if enters_queues {
                further.go_on(table);
            }
        };
        self.log.append_with_properties(&record, further.queues(), wait, encode, advance)
    }
}

pub(super) fn refused(refusal: AppendRefusal) -> PutRefusal {
    let reason = refusal.to_string();
    let (status, append, reason) = match refusal {
        AppendRefusal::FitsNoFile { size, .. } => (
            PutMessageStatus::MessageIllegal,
            Some(AppendMessageStatus::MessageSizeExceeded),
            Error::Option { option: "mappedFileSizeCommitLog", value: format!("{size} bytes"), reason },
        ),
        AppendRefusal::Properties { size } => (
            PutMessageStatus::MessageIllegal,
            Some(AppendMessageStatus::PropertiesSizeExceeded),
            Error::Option { option: "properties", value: format!("{size} bytes"), reason },
        ),
        AppendRefusal::QueueOffset { kept, .. } => (
            PutMessageStatus::MessageIllegal,
            None,
            Error::Option { option: "queueOffset", value: kept.to_string(), reason },
        ),
        AppendRefusal::OtherTopic { topic, .. } => {
            (PutMessageStatus::MessageIllegal, None, Error::Option { option: "topic", value: topic, reason })
        }
        AppendRefusal::NoSpace(error) => (PutMessageStatus::CreateMapedFileFailed, None, error),
        AppendRefusal::Unavailable(error) => (PutMessageStatus::ServiceNotAvailable, None, error),
        AppendRefusal::WouldBlock => {
            (PutMessageStatus::UnknownError, None, Error::Poisoned { operation: "append", reason })
        }
    };
    PutRefusal { status, append, reason: Box::new(reason), at: None }
}

/// How many messages, and bytes of records.
pub(super) fn size_of_all(appended: &[Appended]) -> (u64, u64) {
    (num::offset(appended.len()), appended.iter().map(|one| u64::from(one.wrote_bytes)).sum())
}

fn check_separators<'a>(pairs: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> Checked<()> {
    for (name, value) in pairs {
        if name.is_empty() || has_separator(name) || has_separator(value) {
            let name = String::from_utf8_lossy(name).into_owned();
            return Err(PutRefusal::illegal(
                "properties",
                format!("{name:?}"),
                "empty, or holds U+0001 or U+0002",
            ));
        }
    }
    Ok(())
}

/// Whether one of the two separators stands in a text.
fn has_separator(text: &[u8]) -> bool {
    has_either(text, properties::NAME_VALUE_SEPARATOR, properties::PROPERTY_SEPARATOR)
}
