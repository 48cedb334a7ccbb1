//! Where a log holds no record, and what can stand there instead.

use std::iter;
use std::ops::ControlFlow;

use super::filler::{MIN_FILLER_SIZE, filler};
use super::foreign;
use super::further::Further;
use super::order;
use super::renamed;
use crate::commit_log::scan::{self, ScanEnd, check_topic};
use crate::dispatch::Gap;
use crate::error::Result;
use crate::format::message::{self, Check, END_FILE_MIN_BLANK_LENGTH, RecordFault};
use crate::log_view::LogView;
use crate::num;
use crate::recovery::strangers;

/// The time of a hole before the first record, until that is found.
const BEFORE_ALL: i64 = i64::MIN;
/// Largest record that fills a hole: what every store takes as a message.
const MAX_FILLER_SIZE: u64 = 4 << 20;
/// The blank that ends a file.
const BLANK_SIZE: u64 = END_FILE_MIN_BLANK_LENGTH as u64;

/// A part of the log that holds no record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hole {
    /// Where it begins.
    pub from: u64,
    /// Where records go on.
    pub to: u64,
    /// What is wrong at its begin; `None` where a file is missing.
    pub fault: Option<RecordFault>,
    /// Store time of the record before it, or behind it where there is none before.
    pub store_timestamp: i64,
    /// Where the record before it begins.
    before: Option<u64>,
}

/// What a look at a whole log found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Look {
    /// Its holes, each within one file.
    pub holes: Vec<Hole>,
    /// The topic and number of a queue that the store has, and that these options would not make from the log.
    pub further: Option<(String, i32)>,
}

/// The holes of a log, each within one file. Bodies are checked.
///
/// # Errors
/// Where a file can't be read.
pub fn holes(view: &LogView) -> Result<Vec<Hole>> {
    Ok(look(view)?.holes)
}

/// The holes of a log, and whether its records are in queues that would be lacking if queues were made anew.
///
/// # Errors
/// Where a file can't be read.
pub fn look(view: &LogView) -> Result<Look> {
    let mut found = Vec::new();
    let mut further = Further::of(view);
    let mut position = view.min_offset();
    let (mut first_time, mut time, mut before) = (None, None, None);
    while position < view.end() {
        let end = scan::scan(view.files(), position, view.end(), Check::BodyCrc, |offset, record, _| {
            before = Some(offset);
            time = Some(record.store_timestamp);
            first_time = first_time.or(time);
            further.record(offset, record)?;
            Ok(match check_topic(record.topic) {
                Ok(()) => ControlFlow::Continue(()),
                Err(_) => ControlFlow::Break(()),
            })
        })?;
        let (from, fault) = match end {
            ScanEnd::Reached(_) => break,
            ScanEnd::Stopped(offset) => (offset, None),
            ScanEnd::Fault { offset, fault } => (offset, Some(fault)),
            ScanEnd::Missing(offset) => (offset, None),
        };
        let to = scan::next_valid(view.files(), from, fault, view.end())?.unwrap_or(view.end());
        let store_timestamp = time.unwrap_or(BEFORE_ALL);
        divide(view, &Hole { from, to, fault, store_timestamp, before: before.take() }, &mut found);
        position = to;
    }
    add_strangers(view, &mut found)?;
    let mut found = widen(view, found)?;
    for hole in found.iter_mut().filter(|hole| hole.store_timestamp == BEFORE_ALL) {
        hole.store_timestamp = first_time.unwrap_or(0);
    }
    Ok(Look { holes: found, further: further.found() })
}

/// Topic, queue, queue offset and place of the records in holes and behind the log's end of which the body alone is
/// damaged, by what their heads say.
///
/// # Errors
/// Where a file can't be read.
pub fn lost_by_head(view: &LogView, holes: &[Hole]) -> Result<Vec<(String, i32, i64, u64)>> {
    let mut lost = Vec::new();
    let damaged = holes.iter().filter(|hole| matches!(hole.fault, Some(RecordFault::BodyCrc { .. })));
    let parts = damaged.map(|hole| (hole.from, hole.to)).chain(iter::once((view.end(), u64::MAX)));
    for (from, to) in parts {
        scan::scan(view.files(), from, to, Check::Structure, |offset, record, _| {
            let queue = view.config().removed_queues.queue_of(offset, record);
            if let Some(topic) = queue.and_then(|queue| std::str::from_utf8(queue.topic).ok()) {
                lost.push((topic.to_owned(), record.queue_id, record.queue_offset, offset));
            }
            Ok(ControlFlow::Continue(()))
        })?;
    }
    Ok(lost)
}

/// Records that say another place in the queues than they have are holes too: the queues are made anew from
/// the log, and they would go where they do not belong.
fn add_strangers(view: &LogView, found: &mut Vec<Hole>) -> Result<()> {
    if view.config().compat {
        return Ok(());
    }
    let queues = view.queues()?;
    renamed::leave_out(view, &queues, found)?;
    let of_another_store = foreign::of_another_store(view, &queues, found)?;
    let mut going: Vec<u64> = of_another_store.iter().map(|record| record.from).collect();
    add(view, found, of_another_store)?;
    let out_of_order = order::out_of_order(view, &queues, found)?;
    going.extend(out_of_order.iter().map(|record| record.from));
    going.sort_unstable();
    add(view, found, out_of_order)?;
    let (log, from, to) = (view.log(), view.min_offset(), view.end());
    add(view, found, strangers::find_among_others(log, &queues, from, to, going)?)
}

/// Adds records that have to go.
fn add(view: &LogView, found: &mut Vec<Hole>, records: Vec<Gap>) -> Result<()> {
    for Gap { from, to, fault } in records {
        if !found.iter().any(|hole| (hole.from..hole.to).contains(&from)) {
            let store_timestamp =
                view.log().pickup_store_timestamp(from, u32::try_from(to - from).unwrap_or(0))?;
            found.push(Hole { from, to, fault, store_timestamp, before: None });
        }
    }
    found.sort_by_key(|hole| hole.from);
    Ok(())
}

/// Holes that no record fits into are widened by a record beside them: between two that were put there is none so small,
/// so one of them was found in a damaged one's body. It is the one without a unit, where the units tell.
fn widen(view: &LogView, found: Vec<Hole>) -> Result<Vec<Hole>> {
    let file_size = view.files().file_size();
    if found.iter().all(|hole| hole.has_room(file_size)) {
        return Ok(found);
    }
    let queues = view.queues()?;
    let at = |offset| strangers::record_and_unit_at(view.log(), &queues, offset);
    let mut wide: Vec<Hole> = Vec::new();
    let mut left = found.into_iter().peekable();
    while let Some(mut hole) = left.next() {
        // One at the log's end is cut with it.
        while !hole.has_room(file_size) && hole.to < view.end() {
            if let Some(next) = left.next_if(|next| next.from <= hole.to && !next.begins_file(file_size)) {
                hole.to = hole.to.max(next.to);
                continue;
            }
            let behind = if hole.to.is_multiple_of(file_size) { None } else { at(hole.to)? };
            let before = match hole.before.take().filter(|_| !hole.begins_file(file_size)) {
                Some(from) => at(from)?.map(|(_, has_unit)| (from, has_unit)),
                None => None,
            };
            match (before, behind) {
                (Some((from, false)), Some((_, true)) | None) | (Some((from, true)), None) => {
                    hole.from = from;
                }
                (_, Some((size, _))) => hole.to += u64::from(size),
                (None, None) => break,
            }
        }
        // What was found before it may have been widened up to it.
        match wide.last_mut().filter(|last| hole.from < last.to) {
            Some(last) => last.to = last.to.max(hole.to),
            None => wide.push(hole),
        }
    }
    Ok(wide)
}

/// A hole over several files is one in each.
fn divide(view: &LogView, hole: &Hole, found: &mut Vec<Hole>) {
    let file_size = view.files().file_size();
    let mut from = hole.from;
    while from < hole.to {
        let to = hole.to.min(from - from % file_size + file_size);
        found.push(Hole { from, to, ..hole.clone() });
        from = to;
    }
}

impl Hole {
    /// Whether a record, or the blank that ends a file, fits in.
    const fn has_room(&self, file_size: u64) -> bool {
        self.size() >= MIN_FILLER_SIZE || (self.to.is_multiple_of(file_size) && self.size() >= BLANK_SIZE)
    }

    const fn begins_file(&self, file_size: u64) -> bool {
        self.from.is_multiple_of(file_size)
    }

    /// Its size.
    #[must_use]
    pub const fn size(&self) -> u64 {
        self.to - self.from
    }

    /// What fills it, in a file of this size, one after the other: offsets of the log and the bytes that go there.
    /// Everything else in the hole is the bodies of these records, and what a blank hides.
    pub fn filling(&self, file_size: u64) -> impl Iterator<Item = (u64, Vec<u8>)> {
        let file_end = self.from - self.from % file_size + file_size;
        let ends_file = self.to == file_end && self.size() >= BLANK_SIZE;
        let records_to = match self.size() {
            _ if !ends_file => self.to,
            // A record says, as the blank alone does not, why offsets are missing here.
            size if size >= MIN_FILLER_SIZE + BLANK_SIZE => self.from + MIN_FILLER_SIZE,
            _ => self.from,
        };
        let blank =
            ends_file.then(|| (records_to, message::blank(num::index(self.to - records_to)).to_vec()));
        records(self.from, records_to, self.store_timestamp).chain(blank)
    }
}

fn records(from: u64, to: u64, store_timestamp: i64) -> impl Iterator<Item = (u64, Vec<u8>)> {
    let next = move |&at: &u64| (at < to).then(|| at + filler_size(to - at));
    let starts = iter::successors(Some(from), next).take_while(move |&at| at < to);
    starts.filter_map(move |at| filler(at, filler_size(to - at), store_timestamp).map(|bytes| (at, bytes)))
}

/// Of the record at the begin of a hole: what it leaves over has to be one itself.
fn filler_size(left: u64) -> u64 {
    if left <= MAX_FILLER_SIZE { left } else { MAX_FILLER_SIZE.min(left - MIN_FILLER_SIZE) }
}
