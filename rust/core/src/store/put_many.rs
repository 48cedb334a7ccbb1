//! Putting many messages in one call.
//!
//! A message is made when it is looked at, once before the lock and once under it, and what is kept of it in
//! between is small: thousands of messages with all that is known of them would not stay in the cache.

use std::borrow::Cow;
use std::time::Instant;

use super::Store;
use super::admit::Checked;
use super::prepare::{Prepared, waits};
use super::put::{NewMessage, PutRefusal, PutStep, size_of_all};
use crate::commit_log::{AppendRefusal, Appended, Wait};

/// Bytes of a message's property string that room is made for at first.
const PROPERTIES_SIZE: usize = 48;

/// Messages that are put in one call.
pub trait Messages {
    /// How many.
    fn count(&self) -> usize;

    /// One of them, which always is the same; `None` behind the last.
    fn message(&self, at: usize) -> Option<Cow<'_, NewMessage<'_>>>;

    /// One of them, of which the properties are not looked at.
    fn without_properties(&self, at: usize) -> Option<Cow<'_, NewMessage<'_>>> {
        self.message(at)
    }
}

impl Messages for [NewMessage<'_>] {
    fn count(&self) -> usize {
        self.len()
    }

    fn message(&self, at: usize) -> Option<Cow<'_, NewMessage<'_>>> {
        self.get(at).map(Cow::Borrowed)
    }
}

/// Who else appends waits for so many records of a call at most.
const RECORDS_AT_ONCE: usize = 4096;

/// What is written for messages of a call, and their property strings one behind the other.
#[derive(Default)]
struct Many<'a> {
    prepared: Vec<Prepared<'a>>,
    encoded: Vec<u8>,
}

impl Store {
    /// Puts messages one after another; others may come between them now and then. All are checked before the first is put;
    /// those that are in the log are in `done`, and a call that has to be repeated goes on behind
    /// them.
    pub fn put_many(
        &self,
        messages: &(impl Messages + ?Sized),
        done: &mut Vec<Appended>,
        wait: Wait,
    ) -> PutStep<()> {
        let begin = Instant::now();
        // A call that is repeated waits for what it put before, too.
        let done_waits =
            (0..done.len()).map_while(|at| messages.message(at)).any(|message| waits(&message.properties));
        let admission = self.admission();
        let step = self.append_many(messages, done, wait, done_waits, |message, encoded| {
            admission.check_message(message)?;
            admission.prepare(message, encoded)
        });
        if matches!(step, PutStep::Refused(_)) && !done.is_empty() {
            let (count, size) = size_of_all(done);
            self.stats.put(begin, count, size);
        } else {
            self.count(begin, &step, |()| size_of_all(done));
        }
        step
    }

    /// Puts delayed messages whose time is up to their own topics, as [`Store::put_many`] does. What
    /// is checked of a new message was checked of these before they had to wait.
    pub(crate) fn put_due(
        &self,
        messages: &[NewMessage<'_>],
        done: &mut Vec<Appended>,
        wait: Wait,
    ) -> PutStep<()> {
        self.append_many(messages, done, wait, false, |message, encoded| {
            Ok(self.admission().prepare_due(message, encoded))
        })
    }

    fn append_many<'a, M: Messages + ?Sized>(
        &self,
        messages: &'a M,
        done: &mut Vec<Appended>,
        wait: Wait,
        done_waits: bool,
        prepare: impl Fn(&NewMessage<'a>, &mut Vec<u8>) -> Checked<Prepared<'a>>,
    ) -> PutStep<()> {
        let first = done.len();
        let prepare_all = || {
            let count = messages.count().saturating_sub(first);
            let mut many = Many {
                prepared: Vec::with_capacity(count),
                encoded: Vec::with_capacity(count * PROPERTIES_SIZE),
            };
            for at in first..messages.count() {
                let Some(message) = messages.message(at) else { break };
                let prepared = prepare(&message, &mut many.encoded);
                many.prepared.push(prepared.map_err(|refusal| PutRefusal { at: Some(at), ..refusal })?);
            }
            Ok(many)
        };
        let many = match self.check_store_status().and_then(|()| prepare_all()) {
            Ok(many) => many,
            Err(refusal) => return PutStep::Refused(refusal),
        };
        let waits = done_waits || many.prepared.iter().any(|prepared| prepared.wait_store_msg_ok);
        let wait = wait.read_again(|| self.now_ms());
        let outcome = self.append_all_prepared(messages, &many, done, wait);
        let end = done.last().map_or(0, Appended::end_offset);
        if !matches!(outcome, Ok(()) | Err(AppendRefusal::WouldBlock)) && !done.is_empty() {
            // Nobody waits for those before the one that is refused, and they are in the log.
            self.log.request_flush(end);
        }
        self.step(outcome, waits, |()| end)
    }

    fn append_all_prepared(
        &self,
        messages: &(impl Messages + ?Sized),
        many: &Many<'_>,
        done: &mut Vec<Appended>,
        wait: Wait,
    ) -> Result<(), AppendRefusal> {
        let first = done.len();
        let rest = |from: usize| {
            let prepared = many.prepared.get(from..).unwrap_or_default();
            let rest = (first + from..).zip(prepared);
            rest.filter_map(|(at, prepared)| Some((messages.without_properties(at)?, prepared)))
        };
        if many.prepared.iter().any(Prepared::is_rewritten) {
            rest(0).try_for_each(|(message, prepared)| self.admit_delivery(&message, prepared, wait))?;
        }
        if many.prepared.iter().all(|prepared| prepared.multi().is_none()) {
            for from in (0..many.prepared.len()).step_by(RECORDS_AT_ONCE) {
                let records = rest(from).take(RECORDS_AT_ONCE);
                let records = records.map(|(message, prepared)| prepared.record(&message, &many.encoded));
                self.log.append_all(records, done, wait)?;
            }
            return Ok(());
        }
        // Messages of further queues depend on each other's offsets: one at a time.
        rest(0).try_for_each(|(message, prepared)| {
            done.push(self.append_prepared(&message, prepared, &many.encoded, wait)?);
            Ok(())
        })
    }
}
