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
use pyo3::pybacked::PyBackedStr;

use crate::arguments::{Body, Keys, PropertyMap, TimeMs};
use crate::errors;
use crate::put::{Extras, properties_of};
use crate::results::PutMessageResult;
use crate::store::{Round, Store};

/// Calls with fewer bytes of bodies than this are tried with the GIL held.
const SMALL_CALL_SIZE: usize = 64 << 10;

/// One tag for all messages, or one for each.
#[derive(FromPyObject)]
pub enum Tags {
    One(PyBackedStr),
    Each(Vec<Option<PyBackedStr>>),
}

impl Tags {
    fn of(&self, at: usize) -> Option<&str> {
        match self {
            Self::One(tags) => Some(tags),
            Self::Each(each) => each.get(at).and_then(|tags| tags.as_deref()),
        }
    }

    fn fits(&self, count: usize) -> bool {
        match self {
            Self::One(_) => true,
            Self::Each(each) => each.len() == count,
        }
    }
}

/// Properties that all messages have, or those of each.
#[derive(FromPyObject)]
pub enum Given {
    One(PropertyMap),
    Each(Vec<PropertyMap>),
}

impl Default for Given {
    fn default() -> Self {
        Self::One(PropertyMap::default())
    }
}

impl Given {
    fn of(&self, at: usize) -> Option<&PropertyMap> {
        match self {
            Self::One(given) => Some(given),
            Self::Each(each) => each.get(at),
        }
    }

    /// Whether a message has a property.
    fn has(&self, name: &[u8]) -> bool {
        match self {
            Self::One(given) => given.has(name),
            Self::Each(each) => each.iter().any(|given| given.has(name)),
        }
    }

    fn fits(&self, count: usize) -> bool {
        match self {
            Self::One(_) => true,
            Self::Each(each) => each.len() == count,
        }
    }
}

/// When all messages are delivered, or each.
#[derive(FromPyObject)]
pub enum DeliverAt {
    One(TimeMs),
    Each(Vec<Option<TimeMs>>),
}

impl DeliverAt {
    fn of(&self, at: usize) -> Option<TimeMs> {
        match self {
            Self::One(time) => Some(*time),
            Self::Each(each) => each.get(at).copied().flatten(),
        }
    }

    fn fits(&self, count: usize) -> bool {
        match self {
            Self::One(_) => true,
            Self::Each(each) => each.len() == count,
        }
    }
}

fn check_length(name: &str, fits: bool, count: usize) -> PyResult<()> {
    if fits {
        Ok(())
    } else {
        Err(PyValueError::new_err(format!("expected as many {name} as bodies: {count}")))
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
    ///     ValueError: there are not as many keys, tags, properties or times as bodies.
    ///     PutError: as for :meth:`put`; its ``result`` says which messages are stored.
    #[pyo3(signature = (
        topic, bodies, *, keys=None, tags=None, queue_id=None, properties=None, flag=0, deliver_at=None,
        born_timestamp=None, wait_store_msg_ok=true, unique_key=true
    ))]
    #[allow(clippy::too_many_arguments)] // what the messages of a call share
    fn put_many(
        slf: &Bound<'_, Self>,
        topic: &str,
        bodies: Vec<Body>,
        keys: Option<Vec<Option<Keys>>>,
        tags: Option<Tags>,
        queue_id: Option<i32>,
        properties: Option<Given>,
        flag: i32,
        deliver_at: Option<DeliverAt>,
        born_timestamp: Option<TimeMs>,
        wait_store_msg_ok: bool,
        unique_key: bool,
    ) -> PyResult<PutMessageResult> {
        let given = properties.unwrap_or_default();
        let many = PutMany {
            topic,
            bodies,
            keys,
            tags,
            queue_id,
            given,
            flag,
            deliver_at,
            born_timestamp,
            wait_store_msg_ok,
            unique_key,
        };
        let (result, wait_for) = many.begin(slf)?;
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
        topic: &str,
        bodies: Vec<Body>,
        keys: Option<Vec<Option<Keys>>>,
        tags: Option<Tags>,
        queue_id: Option<i32>,
        properties: Option<Given>,
        flag: i32,
        deliver_at: Option<DeliverAt>,
        born_timestamp: Option<TimeMs>,
        wait_store_msg_ok: bool,
        unique_key: bool,
    ) -> PyResult<(PutMessageResult, Option<u64>)> {
        let given = properties.unwrap_or_default();
        let many = PutMany {
            topic,
            bodies,
            keys,
            tags,
            queue_id,
            given,
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
    tags: Option<Tags>,
    queue_id: Option<i32>,
    given: Given,
    flag: i32,
    deliver_at: Option<DeliverAt>,
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
            tags: put.tags.as_ref().and_then(|tags| tags.of(at)),
            unique_key: self.unique_keys.get(at),
            given: put.given.of(at).unwrap_or(&self.none),
            delay_time_level: 0,
            deliver_at: put.deliver_at.as_ref().and_then(|times| times.of(at)),
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
        check_length("keys", self.keys.as_ref().is_none_or(|keys| keys.len() == count), count)?;
        check_length("tags", self.tags.as_ref().is_none_or(|tags| tags.fits(count)), count)?;
        check_length("properties", self.given.fits(count), count)?;
        check_length("deliver_at", self.deliver_at.as_ref().is_none_or(|times| times.fits(count)), count)?;
        Store::know_timed_topic(slf, || self.deliver_at.is_some() || self.given.has(DELIVER_AT))?;
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
        let result = PutMessageResult::stored(PutMessageStatus::PutOk, done, this.store_host);
        match outcome {
            PutStep::Done(appended) => Ok((result, appended.wait_for)),
            PutStep::Refused(refusal) => {
                let error = errors::refusal_to_py(py, &refusal);
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
