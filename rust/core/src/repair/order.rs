//! Records that dispatch would not put where they say, since others of their queue stand before them with later offsets.
//!
//! So it is where a file of the log is another store's, or was copied over another one: each of its records checks out, and
//! which of two says its place rightly is not to be seen from either. Dispatch would keep those that come first, leave
//! out or move the others, and the next opening would find them where they do not belong. Of each such queue the records
//! that stay are the most that follow each other in the order of their offsets, those before all that have their units.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, ControlFlow, Range};

use hashbrown::HashMap;

use super::holes::Hole;
use crate::commit_log::scan::{self, ScanEnd};
use crate::commit_log::topic_queue::{QueueKey, QueueRef};
use crate::consume_queue::PlaceRule;
use crate::consume_queue::table::QueueTable;
use crate::dispatch::Gap;
use crate::error::Result;
use crate::format::message::{Check, Record, RecordFault};
use crate::log_view::LogView;
use crate::num;

/// Records of a queue that follow each other in the log with one offset after the other.
#[derive(Debug, Clone, Copy)]
struct Run {
    first: u64,
    /// The offset behind its last one.
    end: u64,
    /// Whether the queue's files lead to them.
    has_units: bool,
    stays: bool,
}

/// Records with their units, and all records: what counts of several that could stay.
type Weight = (u64, u64);

/// The runs of a queue, in the log's order.
#[derive(Debug, Default)]
struct Runs {
    runs: Vec<Run>,
    end: Option<u64>,
    is_in_order: bool,
}

/// The records between a log's holes that have to go so that dispatch puts all others where they say.
///
/// # Errors
/// Where log or queues can't be read.
pub(super) fn out_of_order(view: &LogView, queues: &QueueTable, holes: &[Hole]) -> Result<Vec<Gap>> {
    let rule = PlaceRule { units_in_file: queues.units_in_file(), compat: false };
    let mut seen: HashMap<QueueKey, Runs> = HashMap::new();
    each(view, holes, |_, record, queue| {
        let runs = match seen.get_mut(&queue) {
            Some(runs) => runs,
            None => seen.entry(queue.into()).or_insert(Runs { is_in_order: true, ..Runs::default() }),
        };
        let place = rule.place(record.queue_offset, runs.end);
        let is_put = place.is_some_and(|place| num::java_long(place.index) == record.queue_offset);
        runs.is_in_order &= is_put;
        if let Some(place) = place {
            runs.end = Some(place.index + 1);
        }
        runs.add(offset_of(record), false, &BTreeSet::new());
        Ok(())
    })?;
    seen.retain(|_, runs| !runs.is_in_order);
    if seen.is_empty() {
        return Ok(Vec::new());
    }
    let mut divided = divide(view, queues, holes, &seen)?;
    for runs in divided.values_mut() {
        runs.choose(rule);
    }
    those_that_go(view, holes, &divided)
}

/// The runs of some queues, divided where others of the queue begin or end, and by whether they have their units.
fn divide(
    view: &LogView,
    queues: &QueueTable,
    holes: &[Hole],
    seen: &HashMap<QueueKey, Runs>,
) -> Result<HashMap<QueueKey, Runs>> {
    let bounds_of = |runs: &Runs| runs.runs.iter().flat_map(|run| [run.first, run.end]).collect();
    let bounds: HashMap<QueueKey, BTreeSet<u64>> =
        seen.iter().map(|(key, runs)| (key.clone(), bounds_of(runs))).collect();
    let mut divided: HashMap<QueueKey, Runs> =
        seen.keys().map(|key| (key.clone(), Runs::default())).collect();
    each(view, holes, |offset, record, queue| {
        let (Some(runs), Some(bounds)) = (divided.get_mut(&queue), bounds.get(&queue)) else { return Ok(()) };
        let index = offset_of(record);
        let unit = match queues.get_decoded(queue) {
            Some(queue) => queue.units_in_files().unit(index)?,
            None => None,
        };
        let has_unit = unit.and_then(|unit| unit.place()) == Some((offset, record.total_size));
        runs.add(index, has_unit, bounds);
        Ok(())
    })?;
    Ok(divided)
}

/// The records of runs that do not stay.
fn those_that_go(view: &LogView, holes: &[Hole], divided: &HashMap<QueueKey, Runs>) -> Result<Vec<Gap>> {
    let mut found = Vec::new();
    let mut cursors: HashMap<QueueKey, (usize, u64)> =
        divided.keys().map(|key| (key.clone(), (0, 0))).collect();
    each(view, holes, |offset, record, queue| {
        let (Some(runs), Some((at, count))) = (divided.get(&queue), cursors.get_mut(&queue)) else {
            return Ok(());
        };
        let Some(run) = runs.runs.get(*at) else { return Ok(()) };
        if !run.stays {
            found.push(misplaced(offset, record));
        }
        *count += 1;
        if *count == run.end - run.first {
            (*at, *count) = (*at + 1, 0);
        }
        Ok(())
    })?;
    Ok(found)
}

/// A record that has to go, since it would not be put where it says.
pub(super) fn misplaced(offset: u64, record: &Record<'_>) -> Gap {
    let Record { queue_id, queue_offset, .. } = *record;
    let fault = Some(RecordFault::Misplaced { queue_id, queue_offset });
    Gap { from: offset, to: record.next_offset(offset), fault }
}

/// Visits the records between holes that are in a queue.
fn each(
    view: &LogView,
    holes: &[Hole],
    mut visit: impl FnMut(u64, &Record<'_>, QueueRef<'_>) -> Result<()>,
) -> Result<()> {
    each_record(view, holes, view.min_offset()..view.end(), |offset, record| {
        if let Some(queue) = view.config().removed_queues.queue_of(offset, record) {
            visit(offset, record, queue)?;
        }
        Ok(ControlFlow::Continue(()))
    })
}

/// Visits the records between holes in a range, until it is told to stop. What does not check out is in a hole by now.
pub(super) fn each_record(
    view: &LogView,
    holes: &[Hole],
    range: Range<u64>,
    mut visit: impl FnMut(u64, &Record<'_>) -> Result<ControlFlow<()>>,
) -> Result<()> {
    let mut position = range.start;
    let behind_all = (range.end, range.end);
    for (from, to) in holes.iter().map(|hole| (hole.from, hole.to)).chain([behind_all]) {
        let from = from.min(range.end);
        while position < from {
            let visit = |offset, record: &Record<'_>, _: &[u8]| visit(offset, record);
            let (bad, fault) = match scan::scan(view.files(), position, from, Check::Structure, visit)? {
                ScanEnd::Reached(_) => break,
                ScanEnd::Stopped(_) => return Ok(()),
                ScanEnd::Missing(offset) => (offset, None),
                ScanEnd::Fault { offset, fault } => (offset, Some(fault)),
            };
            position = scan::next_valid(view.files(), bad, fault, from)?.unwrap_or(from);
        }
        position = position.max(to);
    }
    Ok(())
}

/// The offset that a record says; one that none can have is later than all.
pub(super) fn offset_of(record: &Record<'_>) -> u64 {
    num::from_java_long(record.queue_offset).unwrap_or(u64::MAX - 1)
}

impl Runs {
    /// Adds the queue's next record.
    fn add(&mut self, index: u64, has_unit: bool, bounds: &BTreeSet<u64>) {
        match self.runs.last_mut() {
            Some(last) if last.end == index && last.has_units == has_unit && !bounds.contains(&index) => {
                last.end += 1;
            }
            _ => self.runs.push(Run { first: index, end: index + 1, has_units: has_unit, stays: false }),
        }
    }

    /// Chooses the runs that stay: those of most weight of which each is within reach behind the one before it.
    fn choose(&mut self, rule: PlaceRule) {
        // By where they end the best of the chains that do not end later, each with its weight and last run.
        let mut best: BTreeMap<u64, (Weight, usize)> = BTreeMap::new();
        let mut before: Vec<Option<usize>> = Vec::with_capacity(self.runs.len());
        for (at, run) in self.runs.iter().enumerate() {
            let is_put = |end| {
                let place = rule.place(num::java_long(run.first), end);
                place.is_some_and(|place| place.index == run.first)
            };
            let chain = best.range(..=run.first).next_back();
            let chain = chain.filter(|(end, _)| is_put(Some(**end))).map(|(_, chain)| *chain);
            before.push(chain.map(|(_, last)| last));
            if chain.is_none() && !is_put(None) {
                continue;
            }
            let (with_units, all) = chain.map_or((0, 0), |(weight, _)| weight);
            let count = run.end - run.first;
            let weight = (with_units + if run.has_units { count } else { 0 }, all + count);
            let ending_earlier = best.range(..=run.end).next_back();
            if ending_earlier.is_some_and(|(_, (other, _))| *other >= weight) {
                continue;
            }
            let behind = (Bound::Included(run.end), Bound::Unbounded);
            let worse = best.range(behind).take_while(|(_, (other, _))| *other <= weight);
            let worse: Vec<u64> = worse.map(|(end, _)| *end).collect();
            for end in worse {
                best.remove(&end);
            }
            best.insert(run.end, (weight, at));
        }
        let mut next = best.last_key_value().map(|(_, (_, last))| *last);
        while let Some(at) = next {
            if let Some(run) = self.runs.get_mut(at) {
                run.stays = true;
            }
            next = before.get(at).copied().flatten();
        }
    }
}
