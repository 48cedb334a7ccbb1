//! Where each range's units and entries go: over the summaries alone, in the log's order.

use hashbrown::HashMap;

use super::fill::IndexPlan;
use super::segment::{Place, RangeSummary, Run, WorkFiles, damaged};
use crate::config::StoreConfig;
use crate::consume_queue::{PlaceRule, UnitPlace};
use crate::error::Result;
use crate::format::cq_unit::CQ_STORE_UNIT_SIZE;
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
    /// Parts of the log that hold no record: begin and end.
    pub gaps: Vec<(u64, u64)>,
}

/// A queue, as far as it is folded.
#[derive(Debug, Default)]
struct QueueFold {
    /// Behind the last unit; `None` while there is none.
    end: Option<u64>,
    /// Units in the extension.
    ext_count: u64,
    /// Whether the last record that came to this queue has a unit in it.
    holds_last_record: bool,
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
        let places = fold_range(rule, config.enable_consume_queue_ext, &summary, &mut queues);
        folded.unit_count += places.iter().map(|place| place.count).sum::<u64>();
        work.write_places(from, &places)?;
        plan.add(&summary);
    }
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
) -> Vec<Place> {
    let mut places = Vec::new();
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
                places.extend(state.put(rule, has_ext, queue, first, run));
            }
            first = behind;
        }
    }
    places
}

impl QueueFold {
    /// Places units of consecutive offsets, of which the first ones may be there already.
    fn put(&mut self, rule: PlaceRule, has_ext: bool, queue: u32, first: u64, run: Run) -> Option<Place> {
        if run.repeats && self.holds_last_record {
            return None;
        }
        let skipped = match self.end {
            Some(end) if run.cq_offset != 0 => end.saturating_sub(run.cq_offset).min(run.count),
            _ => 0,
        };
        let count = run.count - skipped;
        self.holds_last_record = count > 0;
        if count == 0 {
            return None;
        }
        let UnitPlace { blanks_from, index } =
            rule.place(num::java_long(run.cq_offset + skipped), self.end)?;
        self.end = Some(index + count);
        let ext_index = (has_ext && run.with_ext).then_some(self.ext_count);
        if ext_index.is_some() {
            self.ext_count += count;
        }
        Some(Place { queue, first: first + skipped, count, blanks_from, index, ext_index })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: PlaceRule = PlaceRule { units_in_file: 4, compat: false };

    /// Placing runs is the same as placing their units one after another.
    #[test]
    fn a_run_is_placed_as_its_units_are() {
        let mut seed = 1_u64;
        let mut random = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % below
        };
        for round in 0..2000 {
            let rule = PlaceRule { compat: round % 2 == 1, ..RULE };
            let mut by_run = QueueFold::default();
            let mut end = None;
            let mut first = 0;
            for _ in 0..random(6) {
                let run = Run {
                    cq_offset: random(12),
                    count: 1 + random(5),
                    with_ext: random(2) == 0,
                    repeats: false,
                };
                let alone = if run.cq_offset == 0 { 1 } else { run.count };
                let rest = Run { cq_offset: run.cq_offset + alone, count: run.count - alone, ..run };
                let mut placed = Vec::new();
                for (at, part) in [(first, Run { count: alone, ..run }), (first + alone, rest)] {
                    if part.count > 0
                        && let Some(place) = by_run.put(rule, true, 0, at, part)
                    {
                        placed.extend((0..place.count).map(|n| (place.first + n, place.index + n)));
                    }
                }
                let mut expected = Vec::new();
                for number in 0..run.count {
                    if let Some(place) = rule.place(num::java_long(run.cq_offset + number), end) {
                        end = Some(place.index + 1);
                        expected.push((first + number, place.index));
                    }
                }
                assert_eq!(placed, expected, "round {round}: {run:?}");
                assert_eq!(by_run.end, end);
                first += run.count;
            }
        }
    }

    #[test]
    fn a_record_that_names_a_queue_twice_has_one_unit_in_it() {
        let mut queue = QueueFold::default();
        let run = Run { cq_offset: 0, count: 1, with_ext: false, repeats: false };
        assert!(queue.put(RULE, false, 0, 0, run).is_some());
        assert_eq!(queue.put(RULE, false, 0, 1, Run { cq_offset: 1, repeats: true, ..run }), None);
        assert_eq!(queue.end, Some(1));
    }
}
