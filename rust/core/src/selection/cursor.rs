//! Going through the messages of a selection, some at a time.

use std::ops::ControlFlow;
use std::sync::Arc;

use super::heads::MOST_OUTSIDE;
use super::plan::{Plan, PlanPart, Span};
use super::{BadRanges, FoundBy, Selection};
use crate::commit_log::Bodies;
use crate::commit_log::scan::{self, ScanEnd};
use crate::consume_queue::ConsumeQueue;
use crate::dispatch::{Gap, holds_waiting};
use crate::error::Result;
use crate::format::body::BodyFault;
use crate::format::cq_unit::CqUnit;
use crate::format::message::{self, Check, Record, RecordFault, decode_record};
use crate::interrupt;
use crate::mmap::slice::Slice;
use crate::num;
use crate::store::{GotMessages, Store, Witness};

/// Bytes of records that are looked for at a time, unless said otherwise.
pub const CHUNK_SIZE: u64 = 8 << 20;
/// Units that are read at a time.
const UNITS_AT_ONCE: usize = 1024;

/// A place in a selection's messages.
#[derive(Debug)]
pub struct Cursor {
    store: Arc<Store>,
    selection: Selection,
    bodies: Bodies,
    plan: Plan,
    left: u64,
    bad: BadRanges,
}

/// A message whose body does not inflate.
#[derive(Debug)]
pub(crate) struct Uninflated {
    /// Where it begins.
    pub(crate) from: u64,
    /// Where it ends.
    pub(crate) to: u64,
    /// Its system flag.
    pub(crate) flag: i32,
    /// What is wrong with the body.
    pub(crate) fault: BodyFault,
}

/// What the messages are looked for with.
#[derive(Clone, Copy)]
pub(super) struct Search<'a> {
    pub(super) store: &'a Store,
    pub(super) selection: &'a Selection,
    pub(super) bodies: Bodies,
    bad: &'a BadRanges,
}

/// The messages that were found so far, and how many more fit.
struct Chunk {
    messages: GotMessages,
    max_count: usize,
    bytes_left: u64,
}

impl Chunk {
    fn is_full(&self) -> bool {
        self.messages.len() >= self.max_count || self.bytes_left == 0
    }

    fn push(&mut self, window: &Slice, at: usize, len: usize, queue_offset: u64) {
        self.bytes_left = self.bytes_left.saturating_sub(num::offset(len));
        self.messages.push(window, at, len, queue_offset);
    }
}

impl Cursor {
    pub(super) fn new(store: Arc<Store>, selection: Selection, bodies: Bodies) -> Result<Self> {
        Arc::clone(&store).while_open(|| Self::planned(store, selection, bodies))
    }

    fn planned(store: Arc<Store>, selection: Selection, bodies: Bodies) -> Result<Self> {
        store.catch_up()?;
        let mut plan = Plan::of(&selection, &store)?;
        if let (Plan::Log { next, end }, Some(_)) = (&mut plan, selection.from_phy_offset)
            && !store.is_part()
        {
            // Who selects may name any byte, in a body too, where what looks like a record is none. Who opened a part
            // knows where records begin.
            *next = store.boundary_at(*next)?.min((*end).max(*next));
        }
        let left = selection.limit.unwrap_or(u64::MAX);
        let bad = BadRanges::default();
        if let (Plan::Log { next, .. }, Some(from)) = (&plan, selection.from_phy_offset)
            && from < store.first_offset()
        {
            bad.gone(from, *next, "the log begins behind it");
        }
        Ok(Self { store, selection, bodies, plan, left, bad })
    }

    /// Where it puts what gave no message: what is damaged, and what is no longer there. Who wants all of it asks before
    /// the first messages: only so much is kept until then.
    #[must_use]
    pub fn bad_ranges(&self) -> BadRanges {
        self.bad.asked_for()
    }

    /// The store.
    #[must_use]
    pub const fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// The next messages: at most so many, and about as many bytes of records; none at the end.
    ///
    /// # Errors
    /// Where index, queues or log can't be read, or the store was closed meanwhile.
    pub fn next_messages(&mut self, max_count: usize, max_bytes: u64) -> Result<GotMessages> {
        let store = Arc::clone(&self.store);
        store.while_open(|| self.find_next(max_count, max_bytes))
    }

    fn find_next(&mut self, max_count: usize, max_bytes: u64) -> Result<GotMessages> {
        let max_count = max_count.min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let mut chunk = Chunk { messages: GotMessages::default(), max_count, bytes_left: max_bytes.max(1) };
        if max_count == 0 {
            return Ok(chunk.messages);
        }
        let search =
            Search { store: &self.store, selection: &self.selection, bodies: self.bodies, bad: &self.bad };
        match &mut self.plan {
            Plan::Offsets(offsets) => search.take_offsets(offsets, &mut chunk)?,
            Plan::Units(spans, current) => search.take_units(spans, current, &mut chunk)?,
            Plan::Log { next, end } => *next = search.take_log(*next, *end, &mut chunk)?,
        }
        self.left -= num::offset(chunk.messages.len());
        Ok(chunk.messages)
    }

    /// A message that it gave is none for who wants its body, which does not inflate: as one that is damaged, it is told and
    /// does not count.
    pub(crate) fn refuse(&mut self, bad: &Uninflated) {
        let Uninflated { from, to, flag, ref fault } = *bad;
        self.store.found_damaged(Gap { from, to, fault: Some(RecordFault::Compression { flag }) });
        self.bad.damaged(from, to, fault);
        self.left = self.left.saturating_add(1);
    }
}

impl Cursor {
    /// Takes the next messages out of it, at most so many and of about as many bytes, to be gone through
    /// elsewhere, also beside it. `None` where that saves nothing: where only looking at the messages tells
    /// which are selected, or where they are not in memory.
    ///
    /// # Errors
    /// Where queues can't be read.
    pub fn take_part(&mut self, max_count: usize, max_bytes: u64) -> Result<Option<Part>> {
        if !self.selection.takes_most_units() || !self.store.log().files().is_mapped() {
            return Ok(None);
        }
        let search =
            Search { store: &self.store, selection: &self.selection, bodies: self.bodies, bad: &self.bad };
        let part = self.store.while_open(|| {
            self.plan.take_part(&self.store, max_count, max_bytes, |span| search.pass_over_missing(span))
        })?;
        Ok(part.map(|PlanPart { plan, count, bytes }| {
            let (store, selection, bad) = (Arc::clone(&self.store), self.selection.clone(), self.bad.clone());
            let cursor = Self { store, selection, bodies: self.bodies, plan, left: u64::MAX, bad };
            Part { cursor, count, bytes }
        }))
    }
}

/// Some of a cursor's messages.
#[derive(Debug)]
pub struct Part {
    /// Goes through them.
    pub cursor: Cursor,
    /// How many there are, but for those that are damaged.
    pub count: usize,
    /// Bytes of their records.
    pub bytes: u64,
}

impl Part {
    /// Whether there were no more.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }
}

impl Search<'_> {
    fn take_offsets(&self, offsets: &mut std::vec::IntoIter<u64>, chunk: &mut Chunk) -> Result<()> {
        while !chunk.is_full() {
            let Some(offset) = offsets.next() else { break };
            // What is not selected fills no chunk.
            interrupt::check()?;
            let Some(bytes) = self.store.record_at_with(offset, self.bodies)? else {
                if self.selection.places.is_some() {
                    self.report_place(offset)?;
                } else {
                    self.store.find_damage(offset)?;
                }
                continue;
            };
            let Some(record) = decode_record(&bytes) else { continue };
            if self.selection.takes(self.store, &record, offset, FoundBy::Offset) {
                let queue_offset = num::from_java_long(record.queue_offset).unwrap_or(0);
                chunk.push(&bytes, 0, bytes.len(), queue_offset);
            }
        }
        Ok(())
    }

    fn take_units(
        &self,
        spans: &mut std::vec::IntoIter<Span>,
        current: &mut Option<Span>,
        chunk: &mut Chunk,
    ) -> Result<()> {
        let mut records = self.store.log().records_with(self.bodies);
        let mut heads = self.looks_at_heads().then(|| self.store.log().records_with(Bodies::Unwanted));
        while !chunk.is_full() {
            let Some(span) = current.as_mut().filter(|span| span.next < span.end) else {
                *current = spans.next();
                if current.is_none() {
                    break;
                }
                continue;
            };
            interrupt::check()?;
            // Where units are left out more are read than fit.
            let fits = chunk.max_count - chunk.messages.len();
            let wanted =
                if self.selection.takes_every_unit() { fits } else { chunk.max_count.saturating_mul(2) };
            let wanted = num::index(span.end - span.next).min(UNITS_AT_ONCE).min(wanted);
            let units = self.store.units(&span.queue, span.next, wanted)?;
            if units.is_empty() {
                self.pass_over_missing(span);
                continue;
            }
            self.store.fetch(&mut records, units.iter().take(chunk.max_count))?;
            let tags = self.selection.tags.as_ref().filter(|_| !holds_waiting(span.queue.topic().as_bytes()));
            for unit in &units {
                if chunk.is_full() {
                    break;
                }
                let index = span.next;
                span.next += 1;
                if let Some(tags) = tags
                    && span.queue.tags_code(unit)?.is_some_and(|code| !tags.matches_code(code))
                {
                    continue;
                }
                if let Some(heads) = &mut heads
                    && !self.has_to_read(heads, &span.queue, unit, index)?
                {
                    continue;
                }
                let Some(found) = self.store.record_of(&mut records, &span.queue, unit, index)? else {
                    self.report_unit(&span.queue, unit, index)?;
                    continue;
                };
                let Some((offset, _)) = unit.place() else { continue };
                let found_by = FoundBy::Unit { queue: &span.queue, index };
                let takes = |record| self.selection.takes(self.store, &record, offset, found_by);
                if self.selection.takes_every_unit() || found.decoded().is_some_and(takes) {
                    chunk.push(found.window, found.at, found.len, index);
                }
            }
        }
        Ok(())
    }

    /// The file of a span's next units went with an expired log file.
    fn pass_over_missing(&self, span: &mut Span) {
        let next = span.queue.next_behind_missing(span.next).min(span.end);
        let (topic, queue_id) = (span.queue.topic(), span.queue.queue_id());
        let units = format!("the units {} to {next} of {topic} {queue_id} are gone", span.next);
        let first = self.store.first_offset();
        self.bad.gone(first, first, &units);
        span.next = next;
    }

    /// Says why a unit's record was not given.
    pub(super) fn report_unit(&self, queue: &ConsumeQueue, unit: &CqUnit, index: u64) -> Result<()> {
        let Some((offset, size)) = unit.place() else { return Ok(()) };
        let end = offset + u64::from(size);
        let unit_of = format!("unit {index} of {} {}", queue.topic(), queue.queue_id());
        if offset < self.store.first_offset() {
            self.bad.gone(offset, end, &format!("the record of {unit_of} is gone with its log file"));
            return Ok(());
        }
        let reason = match self.store.log().get_message(offset, size)? {
            Some(bytes) => match message::decode(&bytes, self.store.check_with(self.bodies, offset)) {
                Ok(_) => "the record there is another's".into(),
                Err(fault) => fault.to_string(),
            },
            None => "it stands at no place of the log".into(),
        };
        self.bad.damaged(offset, end, &format!("{unit_of}: {reason}"));
        Ok(())
    }

    /// Says why no record was given at a place that was named.
    fn report_place(&self, offset: u64) -> Result<()> {
        if offset < self.store.first_offset() {
            self.bad.gone(offset, offset, "the record is gone with its log file");
            return Ok(());
        }
        let bytes = self.store.log().select_one_message_by_offset(offset)?;
        let end = offset + bytes.as_ref().map_or(0, |bytes| num::offset(bytes.len()));
        let reason = match bytes
            .map(|bytes| message::decode(&bytes, self.store.check_with(self.bodies, offset)).err())
        {
            Some(Some(fault)) => fault.to_string(),
            _ => "no record begins there".into(),
        };
        self.bad.damaged(offset, end, &reason);
        Ok(())
    }

    /// Says that a part of the log is damaged, to who goes through it and in what the store tells of itself.
    fn damaged(&self, gap: Gap, reason: &impl ToString) {
        self.store.found_damaged(gap);
        self.bad.damaged(gap.from, gap.to, reason);
    }

    /// Gives where to go on. Damaged parts are passed over, and files that a reader's writer has removed since they were
    /// listed.
    fn take_log(&self, from: u64, end: u64, chunk: &mut Chunk) -> Result<u64> {
        let mut next = from;
        loop {
            match self.walk_log(&mut next, end, chunk) {
                Err(error) if self.store.follows_removal(&error) => self.store.refresh().map(drop)?,
                outcome => return outcome,
            }
        }
    }

    /// As [`Search::take_log`]; `next` is where it has got where it fails.
    fn walk_log(&self, next: &mut u64, end: u64, chunk: &mut Chunk) -> Result<u64> {
        let Search { store, selection, bodies, bad } = *self;
        let files = store.log().files();
        let mut witness = Witness::default();
        let most_outside = if self.looks_at_heads() { MOST_OUTSIDE } else { usize::MAX };
        while *next < end && !chunk.is_full() {
            if self.looks_at_heads() {
                *next = self.first_in_time(*next, end)?;
            }
            let from = *next;
            let mut outside = 0;
            let readable = store.log().max_offset();
            let wanted = end.min(readable);
            let check = store.check_with(bodies, from);
            let reached =
                scan::scan_windows(files, from, readable, check, bodies, |offset, record, window, at| {
                    if chunk.is_full() || offset >= end || outside == most_outside {
                        return Ok(ControlFlow::Break(()));
                    }
                    if witness.is_misplaced(store, record, offset)? {
                        let Record { queue_id, queue_offset, .. } = *record;
                        let fault = RecordFault::Misplaced { queue_id, queue_offset };
                        let to = record.next_offset(offset);
                        self.damaged(Gap { from: offset, to, fault: Some(fault) }, &fault);
                    } else if selection.takes(store, record, offset, FoundBy::Offset) {
                        let queue_offset = num::from_java_long(record.queue_offset).unwrap_or(0);
                        chunk.push(window, at, record.total_size as usize, queue_offset);
                    }
                    outside = if selection.takes_time_of(record) { 0 } else { outside + 1 };
                    *next = record.next_offset(offset);
                    Ok(ControlFlow::Continue(()))
                })?;
            *next = match reached {
                // Who planned a part knew the log to go on.
                ScanEnd::Reached(offset) if store.is_part() && offset < wanted => {
                    bad.gone(offset, wanted, "a log file is missing");
                    wanted
                }
                ScanEnd::Reached(offset) => return Ok(offset.max(*next)),
                ScanEnd::Stopped(offset) if outside == most_outside => offset,
                ScanEnd::Stopped(offset) => return Ok(offset),
                // What begins at the end or behind it is somebody else's.
                ScanEnd::Fault { offset, .. } | ScanEnd::Missing(offset) if offset >= end => return Ok(end),
                ScanEnd::Fault { offset, fault } => {
                    let behind = scan::next_valid(files, offset, Some(fault), u64::MAX)?.unwrap_or(readable);
                    self.damaged(Gap { from: offset, to: behind, fault: Some(fault) }, &fault);
                    behind
                }
                ScanEnd::Missing(offset) => {
                    let behind = scan::next_valid(files, offset, None, u64::MAX)?.unwrap_or(readable);
                    bad.gone(offset, behind, "a log file is missing");
                    behind
                }
            };
        }
        Ok(*next)
    }
}

/// As [`Selection::position_behind`]. Files that a reader's writer has removed since they were listed are passed over.
pub(super) fn position_behind(selection: &Selection, store: &Store, max_count: u64) -> Result<u64> {
    let (mut next, end) = super::plan::log_range(selection, store)?;
    let mut left = max_count;
    loop {
        match store.while_open(|| walk_past(selection, store, &mut next, end, &mut left)) {
            Err(error) if store.follows_removal(&error) => store.refresh().map(drop)?,
            outcome => return outcome.map(|()| next.min(end)),
        }
    }
}

/// Walks on from `next` until a count of selected messages is used up; both say how far it has got where it fails.
fn walk_past(selection: &Selection, store: &Store, next: &mut u64, end: u64, left: &mut u64) -> Result<()> {
    let files = store.log().files();
    while *next < end && *left > 0 {
        let (from, readable) = (*next, store.log().max_offset());
        let reached = scan::scan(files, from, readable, Check::Structure, |offset, record, _| {
            if offset >= end || *left == 0 {
                return Ok(ControlFlow::Break(()));
            }
            *left -= u64::from(selection.takes(store, record, offset, FoundBy::Offset));
            *next = record.next_offset(offset);
            Ok(ControlFlow::Continue(()))
        })?;
        match reached.reached() {
            Ok(offset) => {
                *next = offset;
                break;
            }
            Err((bad, fault)) => *next = scan::next_valid(files, bad, fault, u64::MAX)?.unwrap_or(end),
        }
    }
    Ok(())
}
