//! What is rewritten and encoded of a message before the log takes it.
//!
//! Source: `MessageExtEncoder`; the rewrite of delayed messages in `CommitLog.asyncPutMessage`.

use std::borrow::Cow;
use std::ops::Range;

use super::admit::{Admission, Checked, check_further_queues};
use super::put::{BatchMessage, NewMessage, Properties, PutRefusal};
use crate::commit_log::{NewRecord, QueueOffset, StoreTime};
use crate::config::StoreConfig;
use crate::consume_queue::table::QueueTable;
use crate::dispatch::{
    SCHEDULE_TOPIC, TIMED_TOPIC, TRANS_CHECK_MAX_TIME_TOPIC, TRANS_HALF_TOPIC, parse, split_java,
};
use crate::format::batch::BatchItem;
use crate::format::java_hash_map::JavaHashMap;
use crate::format::message::{self, RecordFields};
use crate::format::{properties, sys_flag};
use crate::status::PutMessageStatus;

/// What a message gets that would have no properties while multi-dispatch is on: 4.9.3's start hangs
/// on a record without any.
const LEAST_PROPERTIES: &[u8] = b"WAIT\x01true";

/// Most bytes of an offset as text, and the comma behind it.
const OFFSET_SIZE: usize = 20;

impl Admission<'_> {
    /// What is written for a message: a delayed one goes to the schedule topic, one of further
    /// queues gets their offsets under the lock. Its property string is appended to `encoded`.
    pub(super) fn prepare<'a>(
        &self,
        message: &NewMessage<'a>,
        encoded: &mut Vec<u8>,
    ) -> Checked<Prepared<'a>> {
        let begin = encoded.len();
        if let Properties::Client(client) = &message.properties
            && !self.config.enable_multi_dispatch
        {
            // Nothing in them asks for more.
            client.encode_into(encoded);
            return self.prepared(message, None, begin, encoded, 0);
        }
        let further = self.further_names(&message.properties);
        check_further_queues(&further)?;
        let elsewhere = match self.rewritten(message)? {
            Some(rewritten) => {
                properties::encode_into(&rewritten.properties, encoded);
                // A message that waits goes to further queues when it is delivered.
                let waits = match rewritten.topic {
                    TIMED_TOPIC => true,
                    SCHEDULE_TOPIC => !self.config.compat,
                    _ => false,
                };
                let multi = if waits { None } else { self.multi(|| rewritten.properties) };
                Some((rewritten.topic, rewritten.queue_id, multi))
            }
            None => {
                message.properties.encode_into(encoded);
                // A prepared one when it is committed; what nobody decided on never is.
                let is_prepared = [TRANS_HALF_TOPIC, TRANS_CHECK_MAX_TIME_TOPIC].contains(&message.topic);
                let multi = if is_prepared && !self.config.compat {
                    None
                } else {
                    self.multi(|| message.properties.to_map())
                };
                multi.map(|multi| (message.topic, message.queue_id, Some(multi)))
            }
        };
        let is_multi = matches!(elsewhere, Some((_, _, Some(_))));
        if !is_multi && let Some(own) = encoded.get(begin..).and_then(|own| self.without_old_offsets(own)) {
            encoded.truncate(begin);
            encoded.extend_from_slice(&own);
        }
        if self.config.enable_multi_dispatch && encoded.len() == begin {
            encoded.extend_from_slice(LEAST_PROPERTIES);
        }
        if is_multi && !self.config.compat && self.is_lmq_number_exceeded() {
            let status = PutMessageStatus::LmqConsumeQueueNumExceeded;
            let max = self.config.max_lmq_consume_queue_num;
            return Err(PutRefusal::new(
                status,
                "maxLmqConsumeQueueNum",
                max,
                "there are more light queues already",
            ));
        }
        let elsewhere =
            elsewhere.map(|(topic, queue_id, multi)| Box::new(Elsewhere { topic, queue_id, multi }));
        self.prepared(message, elsewhere, begin, encoded, further.len())
    }

    /// A message whose properties were encoded, once it is seen to fit.
    #[inline]
    fn prepared<'a>(
        &self,
        message: &NewMessage<'a>,
        elsewhere: Option<Box<Elsewhere<'a>>>,
        begin: usize,
        encoded: &[u8],
        further_count: usize,
    ) -> Checked<Prepared<'a>> {
        let append_crc = match &message.properties {
            Properties::Client(client) if client.is_plain() => self.config.enabled_append_prop_crc,
            _ => needs_crc(self.config, encoded.get(begin..).unwrap_or_default()),
        };
        let prepared = Prepared {
            elsewhere,
            properties: begin..encoded.len(),
            body_crc: message::body_crc(message.body),
            append_crc,
            wait_store_msg_ok: waits(&message.properties),
        };
        let fields = prepared.record(message, encoded).fields;
        let added_later = added_later(fields.topic, further_count);
        self.check_sizes(&fields, added_later)?;
        if fields.topic != message.topic {
            self.check_fits_file(&RecordFields { topic: message.topic, ..fields }, added_later)?;
        }
        Ok(prepared)
    }

    /// The properties without offsets in further queues, which a message has that was stored before: dispatch would
    /// believe them. `None` where there are none, or nobody would.
    fn without_old_offsets(&self, encoded: &[u8]) -> Option<Vec<u8>> {
        if !self.config.enable_multi_dispatch || self.config.compat {
            return None;
        }
        match properties::without(encoded, properties::INNER_MULTI_QUEUE_OFFSET) {
            Cow::Borrowed(_) => None,
            Cow::Owned(own) => Some(own),
        }
    }

    /// The names of further queues in properties, where the store has such.
    fn further_names<'p>(&self, properties: &'p Properties<'_>) -> Vec<&'p [u8]> {
        if !self.config.enable_multi_dispatch {
            return Vec::new();
        }
        find(properties, properties::INNER_MULTI_DISPATCH).map(split_java).unwrap_or_default()
    }

    /// The further queues that properties name, where the store has such.
    fn multi<'a>(&self, properties: impl FnOnce() -> JavaHashMap<'a>) -> Option<Multi<'a>> {
        if self.config.enable_multi_dispatch { multi_dispatch(properties()) } else { None }
    }

    /// What becomes of a message that is not to be got at once; `None` for others.
    fn rewritten<'a>(&self, message: &NewMessage<'a>) -> Checked<Option<Rewritten<'a>>> {
        if !sys_flag::enters_consume_queue(message.sys_flag) || message.topic == TIMED_TOPIC {
            return Ok(None);
        }
        if matches!(message.properties, Properties::Client(_)) {
            return Ok(None);
        }
        let level = delay_level(&message.properties)?;
        let deliver_at = self.deliver_at(&message.properties, level)?;
        if level <= 0 && deliver_at.is_none() {
            return Ok(None);
        }
        if message.topic == SCHEDULE_TOPIC {
            let reason = "a delayed message would come back to this topic for ever";
            return Err(PutRefusal::illegal("topic", String::from_utf8_lossy(SCHEDULE_TOPIC), reason));
        }
        let mut map = message.properties.to_map();
        let (topic, queue_id) = match deliver_at {
            Some(deliver_at) if deliver_at <= self.clock.now_ms() => {
                map.remove(properties::DELIVER_AT);
                return Ok(Some(Rewritten {
                    topic: message.topic,
                    queue_id: message.queue_id,
                    properties: map,
                }));
            }
            Some(deliver_at) => {
                map.put(properties::DELIVER_AT, deliver_at.to_string().into_bytes());
                (TIMED_TOPIC, 0)
            }
            None if self.config.delay_levels_ms.is_empty() => {
                let reason = "there are no levels to delay a message by";
                return Err(PutRefusal::illegal("messageDelayLevel", "", reason));
            }
            None => {
                let level = level.min(self.config.max_delay_level());
                map.put(properties::DELAY, level.to_string().into_bytes());
                if let Some(due_ms) = self.due_by_clock(level) {
                    map.put(properties::DELIVER_AT, due_ms.to_string().into_bytes());
                }
                (SCHEDULE_TOPIC, level - 1)
            }
        };
        map.put(properties::REAL_TOPIC, message.topic);
        map.put(properties::REAL_QID, message.queue_id.to_string().into_bytes());
        Ok(Some(Rewritten { topic, queue_id, properties: map }))
    }

    /// When a delayed message is due, where its store time will not say so: the log's time is ahead of a clock that
    /// was set back.
    fn due_by_clock(&self, level: i32) -> Option<i64> {
        let now = self.clock.now_ms();
        let is_ahead = self.log.is_some_and(|log| log.last_store_timestamp() > now);
        (is_ahead && !self.config.compat).then(|| self.config.deliver_timestamp(level, now))
    }

    /// When a message is to be delivered, where it says so.
    fn deliver_at(&self, given: &Properties<'_>, level: i32) -> Checked<Option<i64>> {
        let Some(value) = find(given, properties::DELIVER_AT) else { return Ok(None) };
        let bad = |reason: &str| PutRefusal::illegal("deliver_at", String::from_utf8_lossy(value), reason);
        let deliver_at: i64 = parse(value).ok_or_else(|| bad("expected a time in milliseconds"))?;
        if self.config.compat {
            return Err(bad("4.9.3 has delay levels alone, and compat=True what it has"));
        }
        if level > 0 {
            return Err(bad("the message has a delay level too"));
        }
        let max_ms = self.config.max_deliver_distance_ms;
        if deliver_at.saturating_sub(self.clock.now_ms()) > max_ms {
            return Err(bad(&format!("it is farther ahead than max_deliver_distance_ms, {max_ms}")));
        }
        Ok(Some(deliver_at))
    }

    /// What is written for a delayed message whose time is up: its properties as they are, its level
    /// among them. Where it goes to further queues 4.9.3 encodes them again without the level.
    pub(super) fn prepare_due<'a>(&self, message: &NewMessage<'a>, encoded: &mut Vec<u8>) -> Prepared<'a> {
        let begin = encoded.len();
        let mut map = message.properties.to_map();
        properties::encode_into(&map, encoded);
        map.remove(properties::DELAY);
        let multi = self.multi(|| map).map(|multi| Elsewhere {
            topic: message.topic,
            queue_id: message.queue_id,
            multi: Some(multi),
        });
        Prepared {
            elsewhere: multi.map(Box::new),
            properties: begin..encoded.len(),
            body_crc: message::body_crc(message.body),
            append_crc: needs_crc(self.config, encoded.get(begin..).unwrap_or_default()),
            wait_store_msg_ok: false,
        }
    }

    fn is_lmq_number_exceeded(&self) -> bool {
        let lmq_count = self.queues.map_or(0, QueueTable::lmq_count);
        self.config.enable_lmq && lmq_count > self.config.max_lmq_consume_queue_num
    }

    /// Gives the merged properties of each message, and whether the put waits for the disk.
    pub(super) fn prepare_batch(&self, batch: &BatchMessage<'_>) -> Checked<(Vec<Vec<u8>>, bool)> {
        let shared = &batch.shared;
        self.check_message(shared)?;
        if sys_flag::transaction_value(shared.sys_flag) != sys_flag::TRANSACTION_NOT_TYPE {
            return Err(PutRefusal::illegal(
                "sysFlag",
                shared.sys_flag,
                "a batch takes part in no transaction",
            ));
        }
        if delay_level(&shared.properties)? > 0 {
            return Err(PutRefusal::illegal("delayTimeLevel", "of a batch", "a batch cannot be delayed"));
        }
        let is_timed =
            |item: &BatchItem<'_>| properties::find(item.properties, properties::DELIVER_AT).is_some();
        if find(&shared.properties, properties::DELIVER_AT).is_some() || batch.items.iter().any(is_timed) {
            return Err(PutRefusal::illegal("deliver_at", "of a batch", "a batch cannot be delayed"));
        }
        let own = shared.properties.encode();
        let mut total = 0;
        let mut merged = Vec::with_capacity(batch.items.len());
        for item in &batch.items {
            let mut all = properties::without(item.properties, properties::CRC32).into_owned();
            if !all.is_empty() && !own.is_empty() && all.last() != Some(&properties::PROPERTY_SEPARATOR) {
                all.push(properties::PROPERTY_SEPARATOR);
            }
            all.extend_from_slice(&own);
            if let Some(own) = self.without_old_offsets(&all) {
                all = own;
            }
            if self.config.enable_multi_dispatch && all.is_empty() {
                all.extend_from_slice(LEAST_PROPERTIES);
            }
            let fields = RecordFields {
                body: item.body,
                ..fields(shared, shared.topic, shared.queue_id, &all, needs_crc(self.config, &all))
            };
            self.check_sizes(&fields, 0)?;
            total += fields.record_size();
            merged.push(all);
        }
        if total > self.config.max_message_size as usize {
            let reason = format!("the batch has {total} bytes");
            return Err(PutRefusal::illegal("maxMessageSize", self.config.max_message_size, reason));
        }
        if merged.is_empty() {
            return Err(PutRefusal::illegal("batch", "no message", "a batch has at least one message"));
        }
        Ok((merged, waits(&shared.properties)))
    }
}

/// Where a message goes that is not to be got at once, and with what properties.
struct Rewritten<'a> {
    topic: &'a [u8],
    queue_id: i32,
    properties: JavaHashMap<'a>,
}

/// What is written for a message beside what it says itself. Small: a call may put thousands.
pub(super) struct Prepared<'a> {
    elsewhere: Option<Box<Elsewhere<'a>>>,
    /// Where its property string stands in what was encoded.
    properties: Range<usize>,
    body_crc: i32,
    /// Whether the record has a checksum.
    append_crc: bool,
    pub(super) wait_store_msg_ok: bool,
}

/// Where a message goes that does not simply go to its queue.
struct Elsewhere<'a> {
    topic: &'a [u8],
    queue_id: i32,
    multi: Option<Multi<'a>>,
}

/// The further queues of a message, and its properties as they are without their offsets.
pub(super) struct Multi<'a> {
    pub(super) names: Vec<Vec<u8>>,
    pub(super) properties: JavaHashMap<'a>,
}

impl<'a> Prepared<'a> {
    /// Whether something else is written than the message that was given, which can depend on the time.
    pub(super) const fn is_rewritten(&self) -> bool {
        self.elsewhere.is_some()
    }

    /// Whether it waits in another topic before it comes to its own.
    #[inline]
    pub(super) fn waits_elsewhere(&self, message: &NewMessage<'_>) -> bool {
        self.elsewhere.as_ref().is_some_and(|elsewhere| elsewhere.topic != message.topic)
    }

    /// The further queues that it goes to.
    pub(super) fn multi(&self) -> Option<&Multi<'a>> {
        self.elsewhere.as_ref()?.multi.as_ref()
    }

    /// The record of the message that was prepared.
    #[inline]
    pub(super) fn record<'r>(&'r self, message: &NewMessage<'r>, encoded: &'r [u8]) -> NewRecord<'r> {
        let (topic, queue_id) = match &self.elsewhere {
            None => (message.topic, message.queue_id),
            Some(elsewhere) => (elsewhere.topic, elsewhere.queue_id),
        };
        let properties = encoded.get(self.properties.clone()).unwrap_or_default();
        let mut fields = fields(message, topic, queue_id, properties, self.append_crc);
        fields.body_crc = self.body_crc;
        NewRecord { fields, store_time: StoreTime::Now, queue_offset: QueueOffset::Next }
    }
}

/// The fields of a message's record; its body's CRC is left to be filled in.
#[inline]
pub(super) fn fields<'a>(
    message: &NewMessage<'a>,
    topic: &'a [u8],
    queue_id: i32,
    properties: &'a [u8],
    append_crc: bool,
) -> RecordFields<'a> {
    RecordFields {
        body_crc: 0,
        queue_id,
        flag: message.flag,
        sys_flag: message.sys_flag,
        born_timestamp: message.born_timestamp,
        born_host: message.born_host,
        store_host: message.store_host,
        reconsume_times: message.reconsume_times,
        prepared_transaction_offset: message.prepared_transaction_offset,
        body: message.body,
        topic,
        properties,
        append_crc,
    }
    .with_host_flags()
}

/// Whether a record with these properties has a checksum: by it alone recovery tells zeros in them from what a power cut
/// left.
pub(super) fn needs_crc(config: &StoreConfig, properties: &[u8]) -> bool {
    config.enabled_append_prop_crc || memchr::memchr(0, properties).is_some()
}

fn find<'p>(properties: &'p Properties<'_>, name: &[u8]) -> Option<&'p [u8]> {
    match properties {
        Properties::Raw(raw) => properties::find(raw, name),
        Properties::Map(map) => map.get(name),
        Properties::Client(client) => {
            client.pairs().find(|(found, _)| *found == name).map(|(_, value)| value)
        }
    }
}

/// Source: `Message.getDelayTimeLevel`.
fn delay_level(properties: &Properties<'_>) -> Checked<i32> {
    let Some(level) = find(properties, properties::DELAY) else { return Ok(0) };
    let text = String::from_utf8_lossy(level);
    text.parse().map_err(|_| PutRefusal::illegal("DELAY", text, "a delay level is a number"))
}

/// Whether a put of a message with these properties waits for the disk, where puts do.
/// Source: `Message.isWaitStoreMsgOK`.
pub(super) fn waits(properties: &Properties<'_>) -> bool {
    let wait = match properties {
        Properties::Client(client) => client.wait(),
        _ => find(properties, properties::WAIT),
    };
    wait.is_none_or(|wait| wait.eq_ignore_ascii_case(b"true"))
}

/// Bytes that the properties of a message have more, at the most, once it does not wait in its topic any more: its
/// offsets in further queues.
fn added_later(topic: &[u8], further_count: usize) -> usize {
    if further_count == 0 || !matches!(topic, SCHEDULE_TOPIC | TIMED_TOPIC | TRANS_HALF_TOPIC) {
        return 0;
    }
    properties::INNER_MULTI_QUEUE_OFFSET.len() + 2 + further_count * OFFSET_SIZE
}

fn multi_dispatch(map: JavaHashMap<'_>) -> Option<Multi<'_>> {
    let names = map.get(properties::INNER_MULTI_DISPATCH)?;
    if names.trim_ascii().is_empty() {
        return None;
    }
    let names = split_java(names).into_iter().map(<[u8]>::to_vec).collect();
    Some(Multi { names, properties: map })
}
