//! Timed messages: delivered at a time that is told with each, near or far.
//!
//! They wait in queue 0 of a topic of their own, whose units have the times of delivery, so that a
//! look at all of them reads twenty bytes of each. Which of them are delivered stands in the log
//! itself, in queue 1 of that topic, behind what was delivered: a crash that takes the one takes the
//! other, a slave has it as its master does, and where the log's files go that have it, what it
//! speaks of is gone too.

use super::delivery::{Due, MAX_BATCH_SIZE};
use super::progress::{Progress, TimedKey};
use super::window::Window;
use super::{Undeliverable, due_time};
use crate::commit_log::read::RecordReader;
use crate::commit_log::topic_queue::QueueRef;
use crate::commit_log::{Bodies, Wait};
use crate::consume_queue::ConsumeQueue;
use crate::dispatch::{TIMED_TOPIC, parse};
use crate::error::Result;
use crate::format::cq_unit::CqUnit;
use crate::format::host::Host;
use crate::format::message::decode_record;
use crate::format::properties::{self, DELIVER_AT, REAL_QID, REAL_TOPIC};
use crate::format::timed_progress::TimedProgress;
use crate::num;
use crate::store::{NewMessage, Properties, PutRefusal, PutStep, Store};
use crate::sync::Mutex;

/// Where messages wait.
pub(super) const WAITING: QueueRef<'static> = QueueRef { topic: TIMED_TOPIC, queue_id: 0 };
/// Where it stands which of them are delivered.
pub(crate) const PROGRESS: QueueRef<'static> = QueueRef { topic: TIMED_TOPIC, queue_id: 1 };
/// What a record of progress has as properties: nobody waits for it.
const PROGRESS_PROPERTIES: &[u8] = b"WAIT\x01false";
/// Units that are read at a time.
const UNITS_AT_ONCE: usize = 16 << 10;
/// Records of progress, or of what can't be read, that are tried before all are given up.
const PROGRESS_TRIES: usize = 16;
/// What a delivered message does not have.
const NOT_DELIVERED: [&[u8]; 3] = [DELIVER_AT, REAL_TOPIC, REAL_QID];

/// What is known of timed messages while they are delivered.
#[derive(Debug, Default)]
pub(crate) struct TimedMessages {
    state: Mutex<Option<State>>,
}

#[derive(Debug)]
struct State {
    progress: Progress,
    window: Window,
    waiting_count: u64,
    /// Whether something was delivered that no record tells of yet.
    is_changed: bool,
}

/// What a pass has done.
#[derive(Debug, Default)]
pub struct TimedPass {
    /// Messages that were put to their topics.
    pub delivered_count: u64,
    /// When the first message that waits is due, in milliseconds; `None` where none waits.
    pub next_due_ms: Option<i64>,
    /// Messages that can't be delivered at all, and were passed over. They stay where they are.
    pub undeliverable: Vec<Undeliverable>,
    /// Why the store took no more; the next pass tries again.
    pub refusal: Option<PutRefusal>,
}

impl Store {
    /// Delivers timed messages that are due, at most about so many, in the order of their times.
    ///
    /// # Errors
    /// Where queue or log can't be read; nothing was delivered then.
    pub fn deliver_timed(&self, max_count: usize) -> Result<TimedPass> {
        self.check_writable()?;
        let Some(queue) = self.queues().get(WAITING) else { return Ok(TimedPass::default()) };
        let mut guard = self.timed().state.lock();
        let now_ms = self.now_ms();
        let (state, keys, due) =
            self.while_open(|| self.find_due_timed(&mut guard, &queue, now_ms, max_count))?;
        let delivery = self.deliver(&due, &NOT_DELIVERED);
        let stopped_at = due.get(delivery.done_count).map(|due| due.queue_offset);
        for key in keys.into_iter().take_while(|key| Some(key.queue_offset) != stopped_at) {
            state.progress.delivered(key);
            state.window.remove(key);
            state.waiting_count = state.waiting_count.saturating_sub(1);
            state.is_changed = true;
        }
        let next_due_ms = if state.window.is_used_up() { Some(now_ms) } else { state.next_due_ms() };
        Ok(TimedPass {
            delivered_count: delivery.delivered_count,
            next_due_ms,
            undeliverable: delivery.undeliverable,
            refusal: delivery.refusal,
        })
    }

    fn find_due_timed<'s>(
        &self,
        found: &'s mut Option<State>,
        queue: &ConsumeQueue,
        now_ms: i64,
        max_count: usize,
    ) -> Result<(&'s mut State, Vec<TimedKey>, Vec<Due>)> {
        let is_known = found.as_ref().map_or(Ok(false), |known| is_of(&known.progress, queue))?;
        // What was delivered since it was written is in memory alone: a failure to read must not lose that.
        let known = found.take_if(|_| is_known);
        let state = match known {
            Some(known) => found.insert(known),
            None => found.insert(self.load_timed(queue)?),
        };
        self.look_at_new(state, queue)?;
        if state.window.is_used_up() {
            self.fill_window(state, queue)?;
        }
        let (keys, due) = self.read_due(state, queue, now_ms, max_count)?;
        Ok((state, keys, due))
    }

    /// Writes what was delivered into the log, where that is more than it tells of; in the other case
    /// why the store did not take it.
    ///
    /// # Errors
    /// Where the queue can't be read.
    pub fn persist_timed(&self, host: Host) -> Result<Option<PutRefusal>> {
        let Some(queue) = self.queues().get(WAITING) else { return Ok(None) };
        let mut guard = self.timed().state.lock();
        let Some(state) = guard.as_mut().filter(|state| state.is_changed) else { return Ok(None) };
        self.while_open(|| self.advance_first(&mut state.progress, &queue))?;
        if let Some(refusal) = self.put_progress(&state.progress, host) {
            return Ok(Some(refusal));
        }
        state.is_changed = false;
        Ok(None)
    }

    /// Puts a record of progress; gives why the store did not take it.
    pub(super) fn put_progress(&self, progress: &Progress, host: Host) -> Option<PutRefusal> {
        let body = progress.stored().to_bytes();
        let message = NewMessage {
            topic: PROGRESS.topic,
            queue_id: PROGRESS.queue_id,
            flag: 0,
            sys_flag: 0,
            born_timestamp: self.now_ms(),
            born_host: host,
            store_host: host,
            reconsume_times: 0,
            prepared_transaction_offset: 0,
            body: &body,
            properties: Properties::Raw(PROGRESS_PROPERTIES),
        };
        match self.put_due(&[message], &mut Vec::new(), Wait::Block) {
            PutStep::Refused(refusal) => Some(refusal),
            _ => None,
        }
    }

    /// Forgets what is known of timed messages: who delivers them next reads it from the log.
    pub fn forget_timed(&self) {
        *self.timed().state.lock() = None;
    }

    /// How many timed messages wait, and when the first of them is due; `None` while none are
    /// delivered.
    #[must_use]
    pub fn timed_waiting(&self) -> Option<(u64, Option<i64>)> {
        self.timed().state.lock().as_ref().map(|state| (state.waiting_count, state.next_due_ms()))
    }

    /// Where the first timed message stands in the log that is not delivered, whoever delivers them.
    ///
    /// # Errors
    /// Where queue or log can't be read; where the store is closed.
    pub fn first_waiting_timed(&self) -> Result<Option<u64>> {
        self.while_open(|| self.find_first_waiting_timed())
    }

    fn find_first_waiting_timed(&self) -> Result<Option<u64>> {
        self.catch_up_for_room()?;
        let Some(queue) = self.queues().get(WAITING) else { return Ok(None) };
        let mut guard = self.timed().state.lock();
        let first = match guard.as_mut() {
            Some(state) if is_of(&state.progress, &queue)? => {
                self.advance_first(&mut state.progress, &queue)?;
                state.progress.first()
            }
            _ => {
                let mut progress = self.stored_progress(&queue)?;
                self.advance_first(&mut progress, &queue)?;
                progress.first()
            }
        };
        drop(guard);
        self.first_needed(&[(queue.topic().to_owned(), queue.queue_id(), first)])
    }

    fn load_timed(&self, queue: &ConsumeQueue) -> Result<State> {
        let progress = self.stored_progress(queue)?;
        let window = Window::new(self.config().max_timed_in_memory);
        let mut state = State { progress, window, waiting_count: 0, is_changed: false };
        self.fill_window(&mut state, queue)?;
        Ok(state)
    }

    /// The newest progress that the log tells of this queue, not of one that is gone or was copied.
    fn stored_progress(&self, queue: &ConsumeQueue) -> Result<Progress> {
        let found = self.newest_progress(|progress| is_of(progress, queue))?;
        Ok(found.map(|(_, progress)| progress).unwrap_or_default())
    }

    /// The newest progress that the log tells and that counts, with its offset in its queue.
    pub(super) fn newest_progress(
        &self,
        counts: impl Fn(&Progress) -> Result<bool>,
    ) -> Result<Option<(u64, Progress)>> {
        let Some(told) = self.queues().get(PROGRESS) else { return Ok(None) };
        let mut records = self.log().records();
        let indices = told.min_offset_in_queue()..told.max_offset_in_queue();
        let mut tried = 0;
        for index in indices.rev() {
            if tried == PROGRESS_TRIES {
                break;
            }
            tried += 1;
            let Some(unit) = told.unit(index)? else { continue };
            let Some(found) = self.record_of(&mut records, &told, &unit, index)? else { continue };
            let Some(record) = found.slice() else { continue };
            let Some(record) = decode_record(&record) else { continue };
            let is_own = record.topic == PROGRESS.topic;
            let Some(stored) = is_own.then(|| TimedProgress::read(record.body)).flatten() else {
                // Somebody else put it there: any number of those say nothing.
                tried -= 1;
                continue;
            };
            let progress = Progress::of(&stored);
            if counts(&progress)? {
                return Ok(Some((index, progress)));
            }
        }
        Ok(None)
    }

    /// Takes in what came to the queue since it was looked at.
    fn look_at_new(&self, state: &mut State, queue: &ConsumeQueue) -> Result<()> {
        let (from, end) = (state.progress.scanned_to(), queue.max_offset_in_queue());
        if from >= end {
            return Ok(());
        }
        let (mut earliest, mut count) = (None::<TimedKey>, 0);
        self.timed_keys(queue, from, end, |key| {
            earliest = earliest.into_iter().chain([key]).min();
            count += 1;
            state.window.insert(key);
            true
        })?;
        state.progress.scanned(end, earliest, place_of_last(queue, end)?);
        state.waiting_count += count;
        Ok(())
    }

    /// Looks at everything that waits for those that are due first.
    fn fill_window(&self, state: &mut State, queue: &ConsumeQueue) -> Result<()> {
        let (mut window, mut count) = (Window::new(self.config().max_timed_in_memory), 0);
        let progress = &state.progress;
        let mut first = None;
        self.timed_keys(queue, progress.first(), progress.scanned_to(), |key| {
            if !progress.is_delivered(key) {
                first = first.or(Some(key.queue_offset));
                count += 1;
                window.insert(key);
            }
            true
        })?;
        state.progress.set_first(first.unwrap_or_else(|| state.progress.scanned_to()));
        (state.window, state.waiting_count) = (window, count);
        Ok(())
    }

    /// Passes over what is delivered at the queue's front.
    fn advance_first(&self, progress: &mut Progress, queue: &ConsumeQueue) -> Result<()> {
        let mut first = None;
        self.timed_keys(queue, progress.first(), progress.scanned_to(), |key| {
            first = (!progress.is_delivered(key)).then_some(key.queue_offset);
            first.is_none()
        })?;
        progress.set_first(first.unwrap_or_else(|| progress.scanned_to()));
        Ok(())
    }

    /// Tells the messages of a part of the queue, until no more are wanted.
    pub(super) fn timed_keys(
        &self,
        queue: &ConsumeQueue,
        from: u64,
        to: u64,
        mut each: impl FnMut(TimedKey) -> bool,
    ) -> Result<()> {
        let mut records = self.log().records_with(Bodies::Unwanted);
        let mut index = from.max(queue.min_offset_in_queue());
        while index < to {
            let units = queue.units(index, num::index(to - index).min(UNITS_AT_ONCE))?;
            if units.is_empty() {
                // Its file went with an expired log file meanwhile, or is missing.
                index = queue.next_behind_missing(index);
            }
            for unit in &units {
                let due_ms = timed_due_ms(&mut records, queue, unit)?;
                if due_ms.is_some_and(|due_ms| !each(TimedKey { due_ms, queue_offset: index })) {
                    return Ok(());
                }
                index += 1;
            }
        }
        Ok(())
    }

    /// The messages that are due now, and the records of those that can be read.
    fn read_due(
        &self,
        state: &State,
        queue: &ConsumeQueue,
        now_ms: i64,
        max_count: usize,
    ) -> Result<(Vec<TimedKey>, Vec<Due>)> {
        let (mut keys, mut due, mut size) = (Vec::new(), Vec::new(), 0);
        let mut records = self.log().records();
        for key in state.window.iter().take_while(|key| key.due_ms <= now_ms).take(max_count) {
            if size >= MAX_BATCH_SIZE {
                break;
            }
            keys.push(key);
            let queue_offset = key.queue_offset;
            let Some(unit) = queue.unit(queue_offset)? else { continue };
            if let Some(one) = self.due_of(&mut records, queue, &unit, queue_offset)? {
                size += one.record.len();
                due.push(one);
            }
        }
        Ok((keys, due))
    }
}

impl State {
    fn next_due_ms(&self) -> Option<i64> {
        self.window.first().map(|key| key.due_ms)
    }
}

/// When a unit's message is due: at once where that cannot be known. `None` where there is no message.
fn timed_due_ms(records: &mut RecordReader<'_>, queue: &ConsumeQueue, unit: &CqUnit) -> Result<Option<i64>> {
    let Some((offset, size)) = unit.place() else { return Ok(None) };
    if let Some(due_ms) = queue.tags_code(unit)?.and_then(due_time) {
        return Ok(Some(due_ms));
    }
    let Some((window, at)) = records.find(offset, size)? else { return Ok(None) };
    let record = decode_record(window.get(at..at + size as usize).unwrap_or_default());
    let deliver_at = record.and_then(|record| parse(properties::find(record.properties, DELIVER_AT)?));
    Ok(Some(deliver_at.unwrap_or(i64::MIN)))
}

/// Whether progress is that of a queue: the last message that was looked at is there, or expired.
pub(super) fn is_of(progress: &Progress, queue: &ConsumeQueue) -> Result<bool> {
    let scanned_to = progress.scanned_to();
    if scanned_to > queue.max_offset_in_queue() {
        return Ok(false);
    }
    let is_there = scanned_to > queue.min_offset_in_queue();
    Ok(!is_there || place_of_last(queue, scanned_to)? == progress.last_physical_offset())
}

/// Where the record of the last message below an offset of a queue stands in the log.
pub(super) fn place_of_last(queue: &ConsumeQueue, end: u64) -> Result<u64> {
    let unit = end.checked_sub(1).map(|last| queue.unit(last)).transpose()?.flatten();
    Ok(unit.and_then(|unit| num::from_java_long(unit.physical_offset)).unwrap_or(0))
}
