//! Putting many messages in one call.

use std::borrow::Cow;
use std::sync::Arc;

use mqstore_core::commit_log::{Appended, Wait};
use mqstore_core::format::properties::DELIVER_AT;
use mqstore_core::num;
use mqstore_core::status::PutMessageStatus;
use mqstore_core::store::{Messages, NewMessage, Properties, PutStep};
use mqstore_core::unique_key::UniqueKey;
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::arguments::{Body, Keys, PropertyMap, TimeMs};
use crate::errors;
use crate::given;
use crate::per_message::{Bodies, KeysOfEach, PerMessage, Tags};
use crate::put::{Extras, properties_of};
use crate::results::PutMessageResult;
use crate::store::{Round, Store};

/// Calls with fewer bytes of bodies than this are tried with the GIL held.
const SMALL_CALL_SIZE: usize = 64 << 10;

/// Whether there are as many as bodies, where there is one for each.
fn check_count(name: &str, found: Option<usize>, count: usize) -> PyResult<()> {
    match found.filter(|&found| found != count) {
        None => Ok(()),
        Some(found) => {
            Err(PyValueError::new_err(format!("{name}: expected {count}, one for each body, found {found}")))
        }
    }
}

#[pymethods]
impl Store {
    /// Puts messages of one topic, one after another, in one call.
    ///
    /// Args:
    ///     topic: The topic.
    ///     bodies: The bodies.
    ///     keys: The keys of each.
    ///     tags: One tag for all, or the tag of each.
    ///     queue_id: One queue for all; the topic's queues take turns by default.
    ///     properties: Properties that all have, or those of each.
    ///     flag: The user's flag, of all.
    ///     deliver_at: When all can be got, or each: see :meth:`put`.
    ///     born_timestamp: When they were made: see :meth:`put`.
    ///     wait_store_msg_ok: Whether, with synchronous flush, the call waits for the disk.
    ///     unique_key: Whether each gets a unique key, where ``properties`` has none.
    ///
    /// Raises:
    ///     TypeError: something has another type; where it is in a list, its place there is named.
    ///     ValueError: there are not as many keys, tags, properties or times as bodies.
    ///     PutError: as for :meth:`put`; its ``result`` says which messages are stored.
    #[pyo3(signature = (
        topic, bodies, *, keys=None, tags=None, queue_id=None, properties=None, flag=0, deliver_at=None,
        born_timestamp=None, wait_store_msg_ok=true, unique_key=true
    ))]
    #[allow(clippy::too_many_arguments)] // what the messages of a call share
    fn put_many(
        slf: &Bound<'_, Self>,
        #[pyo3(from_py_with = given::topic)] topic: &str,
        bodies: Bodies,
        keys: Option<KeysOfEach>,
        tags: Option<PerMessage<Tags>>,
        #[pyo3(from_py_with = given::queue_id)] queue_id: Option<i32>,
        properties: Option<PerMessage<PropertyMap>>,
        #[pyo3(from_py_with = given::flag)] flag: i32,
        deliver_at: Option<PerMessage<TimeMs>>,
        #[pyo3(from_py_with = given::born_timestamp)] born_timestamp: Option<TimeMs>,
        #[pyo3(from_py_with = given::wait_store_msg_ok)] wait_store_msg_ok: bool,
        #[pyo3(from_py_with = given::unique_key)] unique_key: bool,
    ) -> PyResult<PutMessageResult> {
        let (result, wait_for) = Self::_put_many_begin(
            slf,
            topic,
            bodies,
            keys,
            tags,
            queue_id,
            properties,
            flag,
            deliver_at,
            born_timestamp,
            wait_store_msg_ok,
            unique_key,
        )?;
        slf.get().confirmed(slf.py(), result, wait_for)
    }

    /// As `put_many`, without waiting for the disk: gives the offset that has to get there too.
    #[pyo3(signature = (
        topic, bodies, keys=None, tags=None, queue_id=None, properties=None, flag=0, deliver_at=None,
        born_timestamp=None, wait_store_msg_ok=true, unique_key=true
    ))]
    #[allow(clippy::too_many_arguments)] // as `put_many`
    fn _put_many_begin(
        slf: &Bound<'_, Self>,
        #[pyo3(from_py_with = given::topic)] topic: &str,
        bodies: Bodies,
        keys: Option<KeysOfEach>,
        tags: Option<PerMessage<Tags>>,
        #[pyo3(from_py_with = given::queue_id)] queue_id: Option<i32>,
        properties: Option<PerMessage<PropertyMap>>,
        #[pyo3(from_py_with = given::flag)] flag: i32,
        deliver_at: Option<PerMessage<TimeMs>>,
        #[pyo3(from_py_with = given::born_timestamp)] born_timestamp: Option<TimeMs>,
        #[pyo3(from_py_with = given::wait_store_msg_ok)] wait_store_msg_ok: bool,
        #[pyo3(from_py_with = given::unique_key)] unique_key: bool,
    ) -> PyResult<(PutMessageResult, Option<u64>)> {
        let many = PutMany {
            topic,
            bodies: bodies.0,
            keys: keys.map(|keys| keys.0),
            tags,
            queue_id,
            properties,
            flag,
            deliver_at,
            born_timestamp,
            wait_store_msg_ok,
            unique_key,
        };
        many.begin(slf)
    }
}

/// The arguments of a `put_many`.
struct PutMany<'a> {
    topic: &'a str,
    bodies: Vec<Body>,
    keys: Option<Vec<Option<Keys>>>,
    tags: Option<PerMessage<Tags>>,
    queue_id: Option<i32>,
    properties: Option<PerMessage<PropertyMap>>,
    flag: i32,
    deliver_at: Option<PerMessage<TimeMs>>,
    born_timestamp: Option<TimeMs>,
    wait_store_msg_ok: bool,
    unique_key: bool,
}

/// What the messages of a call are made from.
struct Parts<'a> {
    put: &'a PutMany<'a>,
    store: &'a Store,
    queues: Queues,
    now_ms: i64,
    /// One each, or none.
    unique_keys: Vec<UniqueKey>,
    none: PropertyMap,
}

/// Which queues the messages of a call go to.
enum Queues {
    One(i32),
    InTurn { round: Arc<Round>, first: i32 },
}

impl Queues {
    fn of(&self, at: usize) -> i32 {
        match self {
            Self::One(queue_id) => *queue_id,
            Self::InTurn { round, first } => round.at(first.wrapping_add(num::java_int(at))),
        }
    }
}

impl Messages for Parts<'_> {
    fn count(&self) -> usize {
        self.put.bodies.len()
    }

    fn message(&self, at: usize) -> Option<Cow<'_, NewMessage<'_>>> {
        let put = self.put;
        let extras = Extras {
            keys: put.keys.as_ref().and_then(|keys| keys.get(at)?.as_ref()).map(Keys::as_str),
            tags: put.tags.as_ref().and_then(|tags| tags.of(at)).map(Tags::as_str),
            unique_key: self.unique_keys.get(at),
            given: put.properties.as_ref().and_then(|given| given.of(at)).unwrap_or(&self.none),
            delay_time_level: 0,
            deliver_at: put.deliver_at.as_ref().and_then(|times| times.of(at)).copied(),
            wait_store_msg_ok: put.wait_store_msg_ok,
        };
        let bare = self.bare(at)?;
        Some(Cow::Owned(NewMessage { properties: properties_of(&extras), ..bare }))
    }

    fn without_properties(&self, at: usize) -> Option<Cow<'_, NewMessage<'_>>> {
        self.bare(at).map(Cow::Owned)
    }
}

impl Parts<'_> {
    fn bare(&self, at: usize) -> Option<NewMessage<'_>> {
        Some(NewMessage {
            topic: self.put.topic.as_bytes(),
            queue_id: self.queues.of(at),
            flag: self.put.flag,
            sys_flag: 0,
            born_timestamp: self.put.born_timestamp.map_or(self.now_ms, |born| born.0),
            born_host: self.store.born_host,
            store_host: self.store.store_host,
            reconsume_times: 0,
            prepared_transaction_offset: 0,
            body: self.put.bodies.get(at)?.as_slice(),
            properties: Properties::Raw(&[]),
        })
    }
}

impl PutMany<'_> {
    fn begin(&self, slf: &Bound<'_, Store>) -> PyResult<(PutMessageResult, Option<u64>)> {
        let (py, this) = (slf.py(), slf.get());
        let count = self.bodies.len();
        check_count("keys", self.keys.as_ref().map(Vec::len), count)?;
        check_count("tags", self.tags.as_ref().and_then(PerMessage::count), count)?;
        check_count("properties", self.properties.as_ref().and_then(PerMessage::count), count)?;
        check_count("deliver_at", self.deliver_at.as_ref().and_then(PerMessage::count), count)?;
        let have_time = || self.properties.as_ref().is_some_and(|given| given.any(|one| one.has(DELIVER_AT)));
        Store::know_timed_topic(slf, || self.deliver_at.is_some() || have_time())?;
        let round = Store::round_of(slf, self.topic)?;
        let queues = match self.queue_id {
            Some(_) => Queues::One(round.queue(self.queue_id)?),
            None => Queues::InTurn { first: round.take(count), round },
        };
        let now_ms = this.core.now_ms();
        let keyed = if self.unique_key { count } else { 0 };
        let unique_keys = (0..keyed).map(|_| this.unique_keys.next(now_ms)).collect();
        let parts =
            Parts { put: self, store: this, queues, now_ms, unique_keys, none: PropertyMap::default() };
        let mut done = Vec::with_capacity(count);
        let outcome = put_all(py, this, &parts, &mut done);
        match outcome {
            PutStep::Done(appended) => {
                let result = PutMessageResult::stored(PutMessageStatus::PutOk, done, this.store_host);
                Ok((result, appended.wait_for))
            }
            PutStep::Refused(refusal) => {
                // What no log file has room for is found out where it is appended.
                let is_illegal = refusal.status == PutMessageStatus::MessageIllegal;
                let at = refusal.at.or(is_illegal.then_some(done.len()));
                let error = errors::refused_of_many(py, at, &refusal);
                let result = PutMessageResult::refused_behind(&refusal, done, this.store_host);
                error.value(py).setattr("result", result.into_bound_py_any(py)?)?;
                Err(error)
            }
            PutStep::WouldBlock => Err(PyValueError::new_err("the engine did not wait")),
        }
    }
}

fn put_all(py: Python<'_>, store: &Store, parts: &Parts<'_>, done: &mut Vec<Appended>) -> PutStep<()> {
    let size: usize = parts.put.bodies.iter().map(|body| body.as_slice().len()).sum();
    if size <= SMALL_CALL_SIZE {
        match store.core.put_many(parts, done, Wait::Try { now_ms: parts.now_ms }) {
            PutStep::WouldBlock => {}
            step => return step,
        }
    }
    py.detach(|| store.core.put_many(parts, done, Wait::Block))
}
