//! Where each range's units and entries go: over the summaries alone, in the log's order.

use std::collections::BTreeMap;

use hashbrown::HashMap;

use super::fill::IndexPlan;
use super::queue_fold::{Changes, Part, QueueFold};
use super::segment::{Place, RangeSummary, Run, STAGED_UNIT_SIZE, WorkFiles, damaged};
use crate::config::StoreConfig;
use crate::consume_queue::PlaceRule;
use crate::error::Result;
use crate::format::cq_unit::{CQ_STORE_UNIT_SIZE, CqUnit};
use crate::num;

/// What a rebuild will write.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Folded {
    /// Ranges that do not begin where the one before it came to, and where that is. The log has to be
    /// staged from there, and the fold made again; nothing else is told until there is none.
    pub broken: Vec<(u64, u64)>,
    /// Queues.
    pub queue_count: u64,
    /// Units that are messages.
    pub unit_count: u64,
    /// Records.
    pub record_count: u64,
    /// Index entries.
    pub entry_count: u64,
    /// Names of the index files, in their order.
    pub index_names: Vec<String>,
    /// Parts of the log that hold no record, or one that says another place than it has: begin and end.
    pub gaps: Vec<(u64, u64)>,
}

/// Decides where the units of staged ranges go, given by where they begin, and writes that beside
/// them, once each range begins where the one before it came to.
///
/// # Errors
/// Where a work file is not there or can't be written.
pub fn fold(config: &StoreConfig, work: WorkFiles<'_>, ranges: &[u64], with_index: bool) -> Result<Folded> {
    let rule = PlaceRule {
        units_in_file: config.mapped_file_size_consume_queue / num::offset(CQ_STORE_UNIT_SIZE),
        compat: config.compat,
    };
    let mut queues: HashMap<(String, i32), QueueFold> = HashMap::new();
    let mut folded = Folded::default();
    let mut plan = IndexPlan::default();
    folded.broken = broken(work, ranges)?;
    if !folded.broken.is_empty() {
        return Ok(folded);
    }
    for &from in ranges {
        let summary = work.summary(from)?.ok_or_else(|| damaged(work.path(from, "range")))?;
        folded.record_count += summary.record_count;
        folded.gaps.extend(&summary.gaps);
        let changes = fold_range(rule, config.enable_consume_queue_ext, &summary, &mut queues);
        folded.unit_count += changes.placed.iter().map(|(_, place)| place.count).sum::<u64>();
        folded.unit_count -= changes.taken_back.iter().map(|(_, place)| place.count).sum::<u64>();
        folded.gaps.extend(misplaced(work, &changes)?);
        write_places(work, from, &changes)?;
        plan.add(&summary);
    }
    folded.gaps.sort_unstable();
    folded.queue_count = num::offset(queues.len());
    if with_index {
        folded.entry_count = plan.entry_count();
        folded.index_names = plan.names(work, config.index_shape)?;
        plan.write(work)?;
    }
    Ok(folded)
}

/// The first of them is certain: all before it follow each other from the log's begin on. What comes
/// of the others shows in the next round, so that each round brings the chain further.
fn broken(work: WorkFiles<'_>, ranges: &[u64]) -> Result<Vec<(u64, u64)>> {
    let mut broken = Vec::new();
    let mut expected: Option<u64> = None;
    for &from in ranges {
        if let Some(reached) = expected.filter(|&reached| reached != from) {
            broken.push((from, reached));
        }
        let summary = work.summary(from)?.ok_or_else(|| damaged(work.path(from, "range")))?;
        expected = Some(summary.reached);
    }
    Ok(broken)
}

fn fold_range(
    rule: PlaceRule,
    has_ext: bool,
    summary: &RangeSummary,
    queues: &mut HashMap<(String, i32), QueueFold>,
) -> Changes {
    let mut changes = Changes::default();
    let mut first = 0;
    for (queue, runs) in (0..).zip(&summary.queues) {
        let state = queues.entry((runs.topic.clone(), runs.queue_id)).or_default();
        for run in &runs.runs {
            let behind = first + run.count;
            // A unit with offset 0 goes to the queue's end, so those behind it are asked for anew.
            let alone = if run.cq_offset == 0 { 1 } else { run.count };
            let rest = Run { cq_offset: run.cq_offset + alone, count: run.count - alone, ..*run };
            let parts = [(first, Run { count: alone, ..*run }), (first + alone, rest)];
            for (first, run) in parts.into_iter().filter(|(_, run)| run.count > 0) {
                state.put(rule, has_ext, Part { from: summary.from, queue, first, run }, &mut changes);
            }
            first = behind;
        }
    }
    changes
}

/// Writes where a range's units go, and changes that of the ranges before it whose units are taken back or placed after all.
fn write_places(work: WorkFiles<'_>, from: u64, changes: &Changes) -> Result<()> {
    let mut all: BTreeMap<u64, Vec<Place>> = BTreeMap::from([(from, Vec::new())]);
    for &(of, place) in &changes.placed {
        all.entry(of).or_default().push(place);
    }
    for &(of, _) in &changes.taken_back {
        all.entry(of).or_default();
    }
    for (of, mut places) in all {
        if of != from {
            places.splice(0..0, work.places(of)?);
        }
        places.retain(|place| !changes.taken_back.contains(&(of, *place)));
        work.write_places(of, &places)?;
    }
    Ok(())
}

/// Where in the log the records stand whose units are taken back, or elsewhere than they say.
fn misplaced(work: WorkFiles<'_>, changes: &Changes) -> Result<Vec<(u64, u64)>> {
    let mut by_range: BTreeMap<u64, Vec<&Place>> = BTreeMap::new();
    for (from, place) in changes.taken_back.iter().chain(&changes.displaced) {
        by_range.entry(*from).or_default().push(place);
    }
    let mut found = Vec::new();
    for (from, places) in by_range {
        let (_, units) = work.units(from)?;
        for place in places {
            let staged = units.chunks_exact(STAGED_UNIT_SIZE);
            let those = staged.skip(num::index(place.first)).take(num::index(place.count));
            let records = those.filter_map(|bytes| CqUnit::read(bytes)?.place());
            found.extend(records.map(|(begin, size)| (begin, begin + u64::from(size))));
        }
    }
    Ok(found)
}
