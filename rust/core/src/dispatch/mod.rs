//! Dispatch: from the records of the log to units of the queues and entries of the index.
//!
//! One pass walks the log from where the last one stopped to its end; where that is much, several threads
//! find out what the records give, and one puts it where it belongs. Source: `ReputMessageService`,
//! `CommitLogDispatcherBuildConsumeQueue` and `CommitLogDispatcherBuildIndex`.

mod ahead;
mod bad_places;
mod derive;
mod staged;

use std::ops::ControlFlow;
use std::sync::Arc;

use crate::commit_log::CommitLog;
use crate::commit_log::in_parts;
use crate::commit_log::scan::{self, ScanEnd};
use crate::commit_log::topic_queue::QueueRef;
use crate::config::StoreConfig;
use crate::consume_queue::table::QueueTable;
use crate::consume_queue::{ConsumeQueue, NewUnit};
use crate::error::{Error, Result};
use crate::format::java_string::decode;
use crate::format::message::{Check, Record, RecordFault};
use crate::index::IndexService;
use crate::num;
use crate::sync::{AtomicBool, AtomicI64, AtomicU64, Mutex, Ordering, RwLock, TurnMutex};

pub use ahead::DerivedAhead;
pub(crate) use ahead::{is_known_ahead, stage};
use bad_places::{Searched, is_under_way};
pub(crate) use derive::{Derived, derive, parse};
pub use derive::{further_places, is_light, multi_queues, split_java, tags_code, tags_code_fits};
pub(crate) use staged::Staged;

/// Where delayed messages wait.
pub const SCHEDULE_TOPIC: &[u8] = b"SCHEDULE_TOPIC_XXXX";
/// Where timed messages wait, in queue 0. In queue 1 stands which of them are delivered.
pub const TIMED_TOPIC: &[u8] = b"MQSTORE_TIMED_TOPIC";
/// Where prepared messages of transactions wait.
pub const TRANS_HALF_TOPIC: &[u8] = b"RMQ_SYS_TRANS_HALF_TOPIC";

/// Where prepared messages go that nobody could decide on.
pub const TRANS_CHECK_MAX_TIME_TOPIC: &[u8] = b"TRANS_CHECK_MAX_TIME_TOPIC";

/// Where it is noted which prepared messages have ended.
pub const TRANS_OP_HALF_TOPIC: &[u8] = b"RMQ_SYS_TRANS_OP_HALF_TOPIC";

/// Whether a topic holds messages until they are delivered: its units have the times of that where others have tags.
pub(crate) fn holds_waiting(topic: &[u8]) -> bool {
    [SCHEDULE_TOPIC, TIMED_TOPIC].contains(&topic)
}

/// Whether a topic's queues stay where they are, messages or none: of those that wait, and of transactions, it stands
/// elsewhere how far they are done with.
pub(crate) fn keeps_its_queues(topic: &[u8]) -> bool {
    holds_waiting(topic) || [TRANS_HALF_TOPIC, TRANS_OP_HALF_TOPIC].contains(&topic)
}

/// Arrivals that wait to be fetched; older ones go when nobody fetches them.
const MAX_ARRIVALS: usize = 1 << 20;

/// What dispatch reads from and writes to.
#[derive(Debug, Clone, Copy)]
pub struct DispatchTargets<'a> {
    /// The options.
    pub config: &'a StoreConfig,
    /// Where records come from.
    pub log: &'a CommitLog,
    /// Where units go.
    pub queues: &'a QueueTable,
    /// Where keys go; `None` without an index.
    pub index: Option<&'a IndexService>,
}

/// A message that has become visible in its queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arrival {
    /// The topic.
    pub topic: Arc<str>,
    /// The queue.
    pub queue_id: i32,
    /// The queue's end behind the message.
    pub max_offset: i64,
    /// The tag's hash.
    pub tags_code: i64,
    /// When it was stored, in milliseconds.
    pub store_timestamp: i64,
}

/// A part of the log that holds no record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gap {
    /// Where it begins.
    pub from: u64,
    /// Where records go on.
    pub to: u64,
    /// What is wrong at its begin; `None` where a file is missing.
    pub fault: Option<RecordFault>,
}

/// How far dispatch is, and what it saw.
#[derive(Debug, Default)]
pub struct Dispatcher {
    /// Every record below is dispatched.
    reput_from_offset: AtomicU64,
    /// Store time of the last dispatched message; stored after the position.
    store_timestamp: AtomicI64,
    /// Behind where the last dispatched record begins, 0 where none is; stored after the position.
    last_record: AtomicU64,
    message_count: AtomicU64,
    listening: AtomicBool,
    /// Held by the pass that is under way.
    passing: TurnMutex<()>,
    /// Whether the store is closed: no further pass begins.
    is_ended: AtomicBool,
    arrivals: Mutex<Vec<Arrival>>,
    gaps: Mutex<Vec<Gap>>,
    /// Where records stand that do not belong where they say, in order.
    strangers: RwLock<Vec<u64>>,
    /// Whether there are any, which each record is asked for.
    has_strangers: AtomicBool,
    searched: Mutex<Searched>,
    /// Whether the log may end inside of a record whose rest comes: a slave's, also for who reads beside it.
    ends_anywhere: bool,
}

/// The queues that the last records went to, by their lowest bits: those of a topic take turns.
#[derive(Default)]
struct LastQueues([Option<Arc<ConsumeQueue>>; LAST_QUEUES]);

const LAST_QUEUES: usize = 8;

impl Dispatcher {
    /// One of a log that may end inside of a record, or of one that does not.
    #[must_use]
    pub fn new(ends_anywhere: bool) -> Self {
        Self { ends_anywhere, ..Self::default() }
    }

    /// Every record below this offset is dispatched.
    #[must_use]
    pub fn reput_from_offset(&self) -> u64 {
        self.reput_from_offset.load(Ordering::Acquire)
    }

    /// Sets where dispatch goes on.
    pub fn set_reput_from_offset(&self, offset: u64) {
        self.reput_from_offset.store(offset, Ordering::Release);
    }

    /// Store time of the last dispatched message.
    #[must_use]
    pub fn store_timestamp(&self) -> i64 {
        self.store_timestamp.load(Ordering::Acquire)
    }

    /// Where the last dispatched record stands, of those since the store was opened.
    #[must_use]
    pub fn last_record(&self) -> Option<u64> {
        self.last_record.load(Ordering::Acquire).checked_sub(1)
    }

    /// Messages dispatched since the store was opened.
    #[must_use]
    pub fn message_count(&self) -> u64 {
        self.message_count.load(Ordering::Relaxed)
    }

    /// Keeps arrivals from now on, or no longer.
    pub fn set_listening(&self, listening: bool) {
        self.listening.store(listening, Ordering::Release);
        if !listening {
            self.arrivals.lock().clear();
        }
    }

    /// The arrivals since the last call.
    #[must_use]
    pub fn take_arrivals(&self) -> Vec<Arrival> {
        std::mem::take(&mut *self.arrivals.lock())
    }

    /// Parts of the log that dispatch passed over.
    #[must_use]
    pub fn gaps(&self) -> Vec<Gap> {
        self.gaps.lock().clone()
    }

    /// Lets dispatch go on earlier.
    pub(crate) fn go_back(&self, from: u64) {
        self.reput_from_offset.fetch_min(from, Ordering::AcqRel);
        self.gaps.lock().retain(|gap| gap.from < from);
        // Other records may be there now.
        *self.searched.lock() = Searched::default();
    }

    /// Records that were found to say another place than they have: they are passed over.
    pub(crate) fn add_strangers(&self, found: &[Gap]) {
        let is_stranger = |gap: &&Gap| matches!(gap.fault, Some(RecordFault::Misplaced { .. }));
        let mut strangers = self.strangers.write();
        strangers.extend(found.iter().filter(is_stranger).map(|gap| gap.from));
        strangers.sort_unstable();
        self.has_strangers.store(!strangers.is_empty(), Ordering::Release);
    }

    /// Forgets those from an offset on, where other records may be now.
    pub(crate) fn forget_strangers(&self, from: u64) {
        self.strangers.write().retain(|&stranger| stranger < from);
    }

    /// Whether the record at an offset is one of those.
    #[must_use]
    pub(crate) fn is_stranger(&self, offset: u64) -> bool {
        self.has_strangers.load(Ordering::Acquire) && self.strangers.read().binary_search(&offset).is_ok()
    }

    /// Dispatches up to the log's end, or up to the confirm offset. Gives how many messages.
    ///
    /// # Errors
    /// Where the log can't be read, or queue or index can't be written: the record at which it stopped, and
    /// the part of the log where several threads derive them, is dispatched again by the next pass, which
    /// changes nothing that is there already.
    pub fn pass(&self, targets: DispatchTargets<'_>) -> Result<u64> {
        self.pass_with(targets, DerivedAhead::default())
    }

    /// As [`Dispatcher::pass`]; then calls a function, before anything more is dispatched.
    ///
    /// # Errors
    /// As for [`Dispatcher::pass`]; those of the function.
    pub(crate) fn pass_and_then<T>(
        &self,
        targets: DispatchTargets<'_>,
        then: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let _one_at_a_time = self.passing.lock();
        self.pass_once(targets, DerivedAhead::default())?;
        then()
    }

    /// Lets no further pass begin: the store is closed.
    pub(crate) fn end(&self) {
        self.is_ended.store(true, Ordering::Release);
    }

    /// Calls a function while nothing is dispatched.
    pub(crate) fn between_passes<T>(&self, then: impl FnOnce() -> T) -> T {
        let _one_at_a_time = self.passing.lock();
        then()
    }

    fn pass_once(&self, targets: DispatchTargets<'_>, ahead: DerivedAhead) -> Result<u64> {
        if self.is_ended.load(Ordering::Acquire) {
            return Err(Error::Closed);
        }
        let before = self.message_count();
        let mut position = self.reput_from_offset();
        // The end first: a slave's log that begins anywhere has its end there before it has a file, and what lies
        // before that file is missing nowhere.
        let end = self.limit(targets);
        let Some(min) = targets.log.min_offset() else { return Ok(0) };
        let begun_at = targets.log.take_begun_at().filter(|&begun_at| begun_at < position);
        if position < min || begun_at.is_some() {
            position = min;
            self.set_reput_from_offset(position);
        }
        let outcome = self
            .put_ahead(targets, ahead, position, end)
            .and_then(|position| self.walk_in_parts(targets, position, end))
            .and_then(|position| self.walk(targets, position, end, &mut LastQueues::default()));
        if let Some(index) = targets.index {
            index.write_header();
        }
        outcome.map(|()| self.message_count() - before)
    }

    fn limit(&self, targets: DispatchTargets<'_>) -> u64 {
        let end = targets.log.max_offset();
        if !targets.config.duplication_enable {
            return end;
        }
        num::from_java_long(targets.log.confirm_offset()).map_or(0, |confirmed| end.min(confirmed))
    }

    /// Dispatches what several threads derive, up to the first place that holds no record. Gives where that
    /// is.
    fn walk_in_parts(&self, targets: DispatchTargets<'_>, from: u64, end: u64) -> Result<u64> {
        let walk = in_parts::Walk {
            files: targets.log.files(),
            from,
            to: end,
            limit: targets.log.max_offset(),
            check: Check::Structure,
            parts: targets.config.walked_parts,
        };
        let derive = |staged: &mut Staged, offset: u64, record: &Record<'_>| {
            if self.is_stranger(offset) {
                staged.begin(offset, record);
            } else {
                stage(targets.config, offset, record, staged)?;
            }
            Ok(ControlFlow::Continue(()))
        };
        let reached = in_parts::walk(walk, derive, |_, staged: Staged| staged.put_into(self, targets))?;
        // The blank that ends a file may not all be there yet.
        if reached <= end {
            self.set_reput_from_offset(reached);
        }
        Ok(reached)
    }

    /// Says that everything before an offset is dispatched, where the last of it stands and when it was stored, and how many
    /// messages that are.
    fn reached(&self, offset: u64, last: u64, store_timestamp: i64, message_count: u64) {
        self.reput_from_offset.store(offset, Ordering::Release);
        self.store_timestamp.store(store_timestamp, Ordering::Release);
        self.last_record.store(last + 1, Ordering::Release);
        self.message_count.fetch_add(message_count, Ordering::Relaxed);
    }

    fn walk(&self, targets: DispatchTargets<'_>, from: u64, end: u64, last: &mut LastQueues) -> Result<()> {
        let mut position = from;
        while position < end {
            let log_end = targets.log.max_offset();
            let reached =
                scan::scan(targets.log.files(), position, log_end, Check::Structure, |offset, record, _| {
                    if offset >= end {
                        return Ok(ControlFlow::Break(()));
                    }
                    if !self.is_stranger(offset) {
                        self.dispatch(targets, offset, record, last)?;
                    }
                    self.reached(record.next_offset(offset), offset, record.store_timestamp, 1);
                    Ok(ControlFlow::Continue(()))
                })?;
            let next = match reached {
                // The blank that ends a file, as far as the master has sent it.
                ScanEnd::Reached(offset) if offset > log_end => return Ok(()),
                ScanEnd::Reached(offset) | ScanEnd::Stopped(offset) => {
                    self.set_reput_from_offset(offset);
                    return Ok(());
                }
                ScanEnd::Fault { offset, fault } if is_under_way(targets, offset, fault, log_end)? => {
                    return Ok(());
                }
                ScanEnd::Fault { offset, fault } => self.pass_over(targets, offset, Some(fault))?,
                ScanEnd::Missing(offset) => self.pass_over(targets, offset, None)?,
            };
            let Some(next) = next else { return Ok(()) };
            position = next;
        }
        Ok(())
    }

    fn dispatch(
        &self,
        targets: DispatchTargets<'_>,
        offset: u64,
        record: &Record<'_>,
        last: &mut LastQueues,
    ) -> Result<()> {
        derive(targets.config, offset, record, &mut ToStore { dispatcher: self, targets, last })
    }

    fn is_listening(&self) -> bool {
        self.listening.load(Ordering::Acquire)
    }

    fn arrived(&self, queue: QueueRef<'_>, new: NewUnit) {
        if !self.is_listening() {
            return;
        }
        let mut arrivals = self.arrivals.lock();
        if arrivals.len() >= MAX_ARRIVALS {
            arrivals.drain(..MAX_ARRIVALS / 2);
        }
        arrivals.push(Arrival {
            topic: decode(queue.topic).into(),
            queue_id: queue.queue_id,
            max_offset: new.cq_offset.saturating_add(1),
            tags_code: new.unit.tags_code,
            store_timestamp: new.store_timestamp,
        });
    }
}

/// Dispatch of one record after the other into the queues and the index of a store.
struct ToStore<'a> {
    dispatcher: &'a Dispatcher,
    targets: DispatchTargets<'a>,
    last: &'a mut LastQueues,
}

impl ToStore<'_> {
    fn put(&self, queue: QueueRef<'_>, found: &Arc<ConsumeQueue>, new: NewUnit) -> Result<()> {
        self.targets.queues.put(found, new)?;
        self.dispatcher.arrived(queue, new);
        Ok(())
    }
}

impl Derived for ToStore<'_> {
    fn put_unit(&mut self, queue: QueueRef<'_>, new: NewUnit) -> Result<()> {
        if let Some(found) = self.last.find(queue) {
            return self.put(queue, found, new);
        }
        let found = self.targets.queues.get_or_make(queue)?;
        self.put(queue, &found, new)?;
        self.last.keep(found);
        Ok(())
    }

    fn put_light_unit(&mut self, queue: QueueRef<'_>, new: NewUnit) -> Result<()> {
        let found = self.targets.queues.get_or_make(queue)?;
        self.targets.queues.put_light(&found, new)?;
        self.dispatcher.arrived(queue, new);
        Ok(())
    }

    fn put_keys(
        &mut self,
        hashes: impl Iterator<Item = u32>,
        offset: u64,
        store_timestamp: i64,
    ) -> Result<()> {
        let Some(index) = self.targets.index else { return Ok(()) };
        index.build_index(hashes, offset, store_timestamp)
    }
}

impl LastQueues {
    fn find(&self, queue: QueueRef<'_>) -> Option<&Arc<ConsumeQueue>> {
        let is_it = |last: &&Arc<ConsumeQueue>| {
            last.queue_id() == queue.queue_id && last.topic().as_bytes() == queue.topic
        };
        self.0.get(Self::place(queue.queue_id))?.as_ref().filter(is_it)
    }

    fn keep(&mut self, last: Arc<ConsumeQueue>) {
        if let Some(place) = self.0.get_mut(Self::place(last.queue_id())) {
            *place = Some(last);
        }
    }

    const fn place(queue_id: i32) -> usize {
        num::int_as_bits(queue_id) as usize % LAST_QUEUES
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::cq_unit::CqUnit;

    #[test]
    fn what_is_dispatched_again_is_passed_over_once() {
        let dispatcher = Dispatcher::default();
        for from in [100, 200, 300] {
            dispatcher.gaps.lock().push(Gap { from, to: from + 50, fault: None });
        }
        dispatcher.set_reput_from_offset(400);
        dispatcher.go_back(200);
        let begins = || dispatcher.gaps().iter().map(|gap| gap.from).collect::<Vec<_>>();
        assert_eq!((dispatcher.reput_from_offset(), begins()), (200, vec![100]));
        dispatcher.go_back(300);
        assert_eq!(
            (dispatcher.reput_from_offset(), begins()),
            (200, vec![100]),
            "it is before there already"
        );
    }

    #[test]
    fn arrivals_that_nobody_fetches_go_the_oldest_first() {
        let dispatcher = Dispatcher::default();
        dispatcher.set_listening(true);
        let count = (1 << 20) + 3;
        for cq_offset in 0..num::java_long(num::offset(count)) {
            let unit = CqUnit { physical_offset: 0, size: 100, tags_code: 0 };
            let new = NewUnit { unit, cq_offset, store_timestamp: 0, filter_bit_map: None };
            dispatcher.arrived(QueueRef { topic: b"t", queue_id: 0 }, new);
        }
        let arrivals = dispatcher.take_arrivals();
        assert_eq!(arrivals.len(), (1 << 19) + 3);
        let begin = 1 << 19;
        let expected = begin + 1..=num::java_long(num::offset(count));
        assert!(arrivals.iter().map(|arrival| arrival.max_offset).eq(expected));
        assert_eq!(dispatcher.take_arrivals(), []);
    }
}
