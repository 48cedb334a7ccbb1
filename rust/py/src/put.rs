//! The puts of `mqstore._native.Store`.
//!
//! A put of a small message is tried with the GIL held: it neither waits nor takes longer than giving
//! the GIL away would. What would have to wait, or copies much, is done without it.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use mqstore_core::commit_log::{Appended, Wait};
use mqstore_core::dispatch::TIMED_TOPIC;
use mqstore_core::format::batch;
use mqstore_core::format::host::Host;
use mqstore_core::format::properties::{self as names, ClientProperties};
use mqstore_core::ha::Master;
use mqstore_core::num;
use mqstore_core::status::PutMessageStatus;
use mqstore_core::store::{
    BatchMessage, NewMessage, Properties, PutAppended, PutRefusal, PutStep, Store as CoreStore,
};
use mqstore_core::unique_key::UniqueKey;
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use smallvec::{SmallVec, smallvec};

use crate::arguments::{self, Body, GivenProperties, Keys, PropertyMap, TimeMs};
use crate::errors;
use crate::given::{self, field};
use crate::results::PutMessageResult;
use crate::signals::in_steps;
use crate::store::{Round, Store};

/// Bodies above this are copied without the GIL.
const LARGE_BODY_SIZE: usize = 32 << 10;

/// What a put gave: stored, or refused.
type Outcome<T> = Result<PutAppended<T>, PutRefusal>;

/// Tries a step with the GIL and goes on without it where it would wait.
fn with_or_without_gil<T: Send>(
    py: Python<'_>,
    is_large: bool,
    now_ms: i64,
    step: impl Fn(Wait) -> PutStep<T> + Send + Sync,
) -> Outcome<T> {
    if !is_large {
        match step(Wait::Try { now_ms }) {
            PutStep::Done(done) => return Ok(done),
            PutStep::Refused(refusal) => return Err(refusal),
            PutStep::WouldBlock => {}
        }
    }
    py.detach(|| {
        loop {
            match step(Wait::Block) {
                PutStep::Done(done) => return Ok(done),
                PutStep::Refused(refusal) => return Err(refusal),
                PutStep::WouldBlock => {}
            }
        }
    })
}

impl Store {
    /// Waits for messages that stand in the log from `from` on and end at what is waited for.
    fn wait_confirmed(
        &self,
        py: Python<'_>,
        from: Option<u64>,
        wait_for: Option<u64>,
    ) -> PyResult<PutMessageStatus> {
        let Some(end) = wait_for else { return Ok(PutMessageStatus::PutOk) };
        let confirmation = self.core.confirmation(from.unwrap_or(end)..end, self.sync_flush_timeout);
        in_steps(py, |step| self.core.wait_confirmed(&confirmation, step))
    }

    /// The result of a put that raises, after its wait for the disk and for a slave.
    pub(crate) fn confirmed(
        &self,
        py: Python<'_>,
        result: PutMessageResult,
        wait_for: Option<u64>,
    ) -> PyResult<PutMessageResult> {
        let from = result.wrote_offset();
        self.confirmed_from(py, from, result, wait_for)
    }

    /// As `confirmed`, where messages of the same call stand before those of the result.
    pub(crate) fn confirmed_from(
        &self,
        py: Python<'_>,
        from: Option<u64>,
        result: PutMessageResult,
        wait_for: Option<u64>,
    ) -> PyResult<PutMessageResult> {
        let status = self.wait_confirmed(py, from, wait_for)?;
        if status == PutMessageStatus::PutOk {
            return Ok(result);
        }
        let slave_timeout = self.core.ha_master().map_or(Duration::ZERO, Master::slave_timeout);
        let result = result.into_bound_py_any(py)?;
        Err(errors::unconfirmed(py, status, self.sync_flush_timeout, slave_timeout, result))
    }

    /// The result of a put, after its waits: 4.9.3's way, a status for everything.
    fn result_of<T>(
        &self,
        py: Python<'_>,
        outcome: Outcome<T>,
        store_host: Host,
        all: impl FnOnce(T) -> SmallVec<[Appended; 1]>,
    ) -> PyResult<PutMessageResult> {
        match outcome {
            Ok(done) => {
                let appended = all(done.appended);
                let from = appended.first().map(|first| first.wrote_offset);
                let status = self.wait_confirmed(py, from, done.wait_for)?;
                Ok(PutMessageResult::stored(status, appended, store_host))
            }
            Err(refusal) => Ok(PutMessageResult::refused(&refusal, store_host)),
        }
    }

    /// The queue that a put to a topic goes to: the one that is asked for, or the next one in turn.
    pub(crate) fn queue_for(slf: &Bound<'_, Self>, topic: &str, asked: Option<i32>) -> PyResult<i32> {
        if let Some(round) = slf.get().rounds.read().get(topic) {
            return round.queue(asked);
        }
        Self::round_of(slf, topic)?.queue(asked)
    }

    pub(crate) fn round_of(slf: &Bound<'_, Self>, topic: &str) -> PyResult<Arc<Round>> {
        let this = slf.get();
        if let Some(round) = this.rounds.read().get(topic) {
            return Ok(Arc::clone(round));
        }
        // What is refused must not be a topic of the configuration from then on.
        let admitted = this.core.admit_topic(topic.as_bytes());
        admitted.map_err(|refusal| errors::refusal_to_py(slf.py(), &refusal))?;
        let write_queue_nums: i32 = slf.call_method1("_on_new_topic", (topic,))?.extract()?;
        let mut rounds = this.rounds.write();
        let round = Round { write_queue_nums: write_queue_nums.max(1), next: AtomicI32::new(0) };
        Ok(Arc::clone(rounds.entry(topic.to_owned()).or_insert_with(|| Arc::new(round))))
    }
}

impl Store {
    /// Lets the topic in which timed messages wait be known as others are, where a put is to have one. It has no round:
    /// nobody puts to it.
    pub(crate) fn know_timed_topic(slf: &Bound<'_, Self>, is_wanted: impl FnOnce() -> bool) -> PyResult<()> {
        let is_known = &slf.get().knows_timed_topic;
        if !is_known.load(Ordering::Relaxed) && is_wanted() {
            slf.call_method1("_on_new_topic", (String::from_utf8_lossy(TIMED_TOPIC),))?;
            is_known.store(true, Ordering::Relaxed);
        }
        Ok(())
    }
}

impl Round {
    /// The queue that is asked for, or the next one in turn.
    pub(crate) fn queue(&self, asked: Option<i32>) -> PyResult<i32> {
        match asked {
            Some(queue_id) if queue_id >= 0 => Ok(queue_id),
            Some(queue_id) => Err(errors::negative_queue_id(queue_id)),
            None => Ok(self.next()),
        }
    }

    /// The next one in turn.
    pub(crate) fn next(&self) -> i32 {
        self.at(self.take(1))
    }

    /// The turn of the first of so many messages.
    pub(crate) fn take(&self, count: usize) -> i32 {
        self.next.fetch_add(num::java_int(count), Ordering::Relaxed)
    }

    /// Whose turn it is.
    pub(crate) const fn at(&self, turn: i32) -> i32 {
        turn.rem_euclid(self.write_queue_nums)
    }
}

/// What a put takes beside topic and body.
pub struct Extras<'a> {
    pub keys: Option<&'a str>,
    pub tags: Option<&'a str>,
    pub unique_key: Option<&'a UniqueKey>,
    pub given: &'a PropertyMap,
    pub delay_time_level: i32,
    pub deliver_at: Option<TimeMs>,
    pub wait_store_msg_ok: bool,
}

/// The properties of a message that is put.
#[inline]
pub fn properties_of<'a>(extras: &Extras<'a>) -> Properties<'a> {
    let client = ClientProperties::of(
        extras.keys.map(str::as_bytes),
        extras.unique_key.map(UniqueKey::as_bytes),
        extras.tags.map(str::as_bytes),
        extras.wait_store_msg_ok,
    );
    let is_delayed = extras.delay_time_level > 0 || extras.deliver_at.is_some();
    if extras.given.is_empty() && !is_delayed {
        return Properties::Client(client);
    }
    let properties = Properties::of_client(extras.given.borrow(), client);
    if !is_delayed {
        return properties;
    }
    let mut map = properties.to_map();
    if extras.delay_time_level > 0 {
        map.put(names::DELAY, extras.delay_time_level.to_string().into_bytes());
    }
    if let Some(TimeMs(deliver_at)) = extras.deliver_at {
        map.put(names::DELIVER_AT, deliver_at.to_string().into_bytes());
    }
    Properties::Map(map)
}

#[pymethods]
impl Store {
    /// Puts a message.
    ///
    /// Args:
    ///     topic: The topic; one that is new gets an entry in ``config/topics.json``.
    ///     body: The body.
    ///     keys: The keys by which it can be looked up: several, or one string in which spaces separate them.
    ///     tags: The tag.
    ///     queue_id: The queue; the topic's queues take turns by default.
    ///         A RocketMQ broker serves those below ``readQueueNums`` of ``config/topics.json`` alone.
    ///     properties: Properties of its own; ``keys`` and ``tags`` come before what these have of them.
    ///     flag: The user's flag.
    ///     sys_flag: See :attr:`Message.sys_flag`.
    ///     delay_time_level: The delay level after which it can be got; 0 for at once.
    ///     deliver_at: When it can be got, instead of a level: any time up to ``max_deliver_distance_ms`` ahead;
    ///         at once where that has passed. 4.9.3 does not have this: with ``compat`` it is illegal.
    ///     born_timestamp: When it was made, a ``datetime`` with a time zone or milliseconds; now by default.
    ///     wait_store_msg_ok: Whether, with synchronous flush, the put waits for the disk.
    ///     unique_key: Whether it gets a unique key, in the Java client's form, where ``properties`` has none.
    ///
    /// Raises:
    ///     TypeError: an argument has another type.
    ///     ValueError: a number is out of bounds, or a time has no time zone.
    ///     MessageIllegalError: it cannot be stored.
    ///     FlushDiskTimeoutError: it is stored; the disk did not confirm it in time.
    ///     FlushSlaveTimeoutError: it is stored; as ``SYNC_MASTER``, no slave confirmed it in time.
    ///     SlaveNotAvailableError: it is stored; as ``SYNC_MASTER``, there is no slave near enough.
    ///     ServiceNotAvailableError: the store takes no messages now.
    ///     DiskFullError: there is no space; nothing is stored.
    ///     FlushFailedError: a flush failed before; see there.
    ///     ReadOnlyError: the store was opened to read.
    ///     StoreClosedError: the store is closed.
    #[pyo3(signature = (
        topic, body, *, keys=None, tags=None, queue_id=None, properties=None, flag=0, sys_flag=0,
        delay_time_level=0, deliver_at=None, born_timestamp=None, wait_store_msg_ok=true, unique_key=true
    ))]
    #[allow(clippy::too_many_arguments)] // one call a message: each is a part of it
    fn put(
        slf: &Bound<'_, Self>,
        #[pyo3(from_py_with = given::topic)] topic: &str,
        #[pyo3(from_py_with = given::body)] body: Body,
        #[pyo3(from_py_with = given::keys)] keys: Option<Keys>,
        #[pyo3(from_py_with = given::tags)] tags: Option<&str>,
        #[pyo3(from_py_with = given::queue_id)] queue_id: Option<i32>,
        properties: Option<PropertyMap>,
        #[pyo3(from_py_with = given::flag)] flag: i32,
        #[pyo3(from_py_with = given::sys_flag)] sys_flag: i32,
        #[pyo3(from_py_with = given::delay_time_level)] delay_time_level: i32,
        #[pyo3(from_py_with = given::deliver_at)] deliver_at: Option<TimeMs>,
        #[pyo3(from_py_with = given::born_timestamp)] born_timestamp: Option<TimeMs>,
        #[pyo3(from_py_with = given::wait_store_msg_ok)] wait_store_msg_ok: bool,
        #[pyo3(from_py_with = given::unique_key)] unique_key: bool,
    ) -> PyResult<PutMessageResult> {
        let (result, wait_for) = Self::_put_begin(
            slf,
            topic,
            body,
            keys,
            tags,
            queue_id,
            properties,
            flag,
            sys_flag,
            delay_time_level,
            deliver_at,
            born_timestamp,
            wait_store_msg_ok,
            unique_key,
        )?;
        slf.get().confirmed(slf.py(), result, wait_for)
    }

    /// As `put`, without waiting for the disk: gives the offset that has to get there too. Also by position, which takes
    /// less time than names.
    #[pyo3(signature = (
        topic, body, keys=None, tags=None, queue_id=None, properties=None, flag=0, sys_flag=0,
        delay_time_level=0, deliver_at=None, born_timestamp=None, wait_store_msg_ok=true, unique_key=true
    ))]
    #[allow(clippy::too_many_arguments)] // as `put`
    fn _put_begin(
        slf: &Bound<'_, Self>,
        #[pyo3(from_py_with = given::topic)] topic: &str,
        #[pyo3(from_py_with = given::body)] body: Body,
        #[pyo3(from_py_with = given::keys)] keys: Option<Keys>,
        #[pyo3(from_py_with = given::tags)] tags: Option<&str>,
        #[pyo3(from_py_with = given::queue_id)] queue_id: Option<i32>,
        properties: Option<PropertyMap>,
        #[pyo3(from_py_with = given::flag)] flag: i32,
        #[pyo3(from_py_with = given::sys_flag)] sys_flag: i32,
        #[pyo3(from_py_with = given::delay_time_level)] delay_time_level: i32,
        #[pyo3(from_py_with = given::deliver_at)] deliver_at: Option<TimeMs>,
        #[pyo3(from_py_with = given::born_timestamp)] born_timestamp: Option<TimeMs>,
        #[pyo3(from_py_with = given::wait_store_msg_ok)] wait_store_msg_ok: bool,
        #[pyo3(from_py_with = given::unique_key)] unique_key: bool,
    ) -> PyResult<(PutMessageResult, Option<u64>)> {
        let put = Put {
            topic,
            body,
            keys,
            tags,
            queue_id,
            given: properties.unwrap_or_default(),
            flag,
            sys_flag,
            delay_time_level,
            deliver_at,
            born_timestamp,
            unique_key,
        };
        put.begin(slf, wait_store_msg_ok)
    }

    /// Puts a message given field by field: 4.9.3's `putMessage`.
    #[pyo3(signature = (
        topic, queue_id, body, properties, *, flag, sys_flag, born_timestamp, born_host, store_host,
        reconsume_times, prepared_transaction_offset
    ))]
    #[allow(clippy::too_many_arguments)] // the fields of a message
    fn _put_message(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = given::topic)] topic: &str,
        #[pyo3(from_py_with = field::queue_id)] queue_id: i32,
        #[pyo3(from_py_with = given::body)] body: Body,
        properties: GivenProperties,
        #[pyo3(from_py_with = given::flag)] flag: i32,
        #[pyo3(from_py_with = given::sys_flag)] sys_flag: i32,
        #[pyo3(from_py_with = field::born_timestamp)] born_timestamp: Option<i64>,
        #[pyo3(from_py_with = field::born_host)] born_host: Option<&str>,
        #[pyo3(from_py_with = field::store_host)] store_host: Option<&str>,
        #[pyo3(from_py_with = field::reconsume_times)] reconsume_times: i32,
        #[pyo3(from_py_with = field::prepared_transaction_offset)] prepared_transaction_offset: i64,
    ) -> PyResult<PutMessageResult> {
        let now_ms = self.core.now_ms();
        let message = NewMessage {
            topic: topic.as_bytes(),
            queue_id,
            flag,
            sys_flag,
            born_timestamp: born_timestamp.unwrap_or(now_ms),
            born_host: born_host.map_or(Ok(self.born_host), |host| arguments::host("born_host", host))?,
            store_host: store_host.map_or(Ok(self.store_host), |host| arguments::host("store_host", host))?,
            reconsume_times,
            prepared_transaction_offset,
            body: body.as_slice(),
            properties: properties.borrow(),
        };
        let is_large = message.body.len() > LARGE_BODY_SIZE;
        let outcome = with_or_without_gil(py, is_large, now_ms, |wait| self.core.put_message(&message, wait));
        self.result_of(py, outcome, message.store_host, |appended| smallvec![appended])
    }

    /// Puts a batch in a client's encoding: 4.9.3's `putMessages`.
    #[pyo3(signature = (
        topic, queue_id, body, properties, *, sys_flag, born_timestamp, born_host, store_host, reconsume_times
    ))]
    #[allow(clippy::too_many_arguments)] // the fields of a batch
    fn _put_messages(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = given::topic)] topic: &str,
        #[pyo3(from_py_with = field::queue_id)] queue_id: i32,
        #[pyo3(from_py_with = given::body)] body: Body,
        properties: GivenProperties,
        #[pyo3(from_py_with = given::sys_flag)] sys_flag: i32,
        #[pyo3(from_py_with = field::born_timestamp)] born_timestamp: Option<i64>,
        #[pyo3(from_py_with = field::born_host)] born_host: Option<&str>,
        #[pyo3(from_py_with = field::store_host)] store_host: Option<&str>,
        #[pyo3(from_py_with = field::reconsume_times)] reconsume_times: i32,
    ) -> PyResult<PutMessageResult> {
        let items =
            batch::decode(body.as_slice()).map_err(|fault| errors::record_error(py, &fault.to_string()))?;
        let now_ms = self.core.now_ms();
        let shared = NewMessage {
            topic: topic.as_bytes(),
            queue_id,
            flag: 0,
            sys_flag,
            born_timestamp: born_timestamp.unwrap_or(now_ms),
            born_host: born_host.map_or(Ok(self.born_host), |host| arguments::host("born_host", host))?,
            store_host: store_host.map_or(Ok(self.store_host), |host| arguments::host("store_host", host))?,
            reconsume_times,
            prepared_transaction_offset: 0,
            body: &[],
            properties: properties.borrow(),
        };
        let batch = BatchMessage { shared, items };
        let is_large = body.as_slice().len() > LARGE_BODY_SIZE;
        let outcome = with_or_without_gil(py, is_large, now_ms, |wait| self.core.put_messages(&batch, wait));
        self.result_of(py, outcome, batch.shared.store_host, SmallVec::from_vec)
    }
}

/// The arguments of a put.
struct Put<'a> {
    topic: &'a str,
    body: Body,
    keys: Option<Keys>,
    tags: Option<&'a str>,
    queue_id: Option<i32>,
    given: PropertyMap,
    flag: i32,
    sys_flag: i32,
    delay_time_level: i32,
    deliver_at: Option<TimeMs>,
    born_timestamp: Option<TimeMs>,
    unique_key: bool,
}

impl Put<'_> {
    fn begin(
        &self,
        slf: &Bound<'_, Store>,
        wait_store_msg_ok: bool,
    ) -> PyResult<(PutMessageResult, Option<u64>)> {
        let (py, this) = (slf.py(), slf.get());
        let queue_id = Store::queue_for(slf, self.topic, self.queue_id)?;
        Store::know_timed_topic(slf, || self.deliver_at.is_some() || self.given.has(names::DELIVER_AT))?;
        let now_ms = this.core.now_ms();
        let unique_key = self.unique_key.then(|| this.unique_keys.next(now_ms));
        let extras = Extras {
            keys: self.keys.as_ref().map(Keys::as_str),
            tags: self.tags,
            unique_key: unique_key.as_ref(),
            given: &self.given,
            delay_time_level: self.delay_time_level,
            deliver_at: self.deliver_at,
            wait_store_msg_ok,
        };
        let message = NewMessage {
            topic: self.topic.as_bytes(),
            queue_id,
            flag: self.flag,
            sys_flag: self.sys_flag,
            born_timestamp: self.born_timestamp.map_or(now_ms, |born| born.0),
            born_host: this.born_host,
            store_host: this.store_host,
            reconsume_times: 0,
            prepared_transaction_offset: 0,
            body: self.body.as_slice(),
            properties: properties_of(&extras),
        };
        let is_large = message.body.len() > LARGE_BODY_SIZE;
        let core: &CoreStore = &this.core;
        match with_or_without_gil(py, is_large, now_ms, |wait| core.put_message(&message, wait)) {
            Ok(done) => {
                let result =
                    PutMessageResult::stored(PutMessageStatus::PutOk, [done.appended], this.store_host);
                Ok((result, done.wait_for))
            }
            Err(refusal) => Err(errors::refusal_to_py(py, &refusal)),
        }
    }
}
