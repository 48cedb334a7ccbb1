//! Walking a range of the log and keeping what dispatch makes of it.

use hashbrown::HashMap;

use super::segment::{QueueRuns, RangeSummary, Run, WorkFiles};
use crate::commit_log::topic_queue::{QueueKey, QueueRef};
use crate::consume_queue::NewUnit;
use crate::dispatch::{Derived, derive};
use crate::error::Result;
use crate::format::java_string;
use crate::log_view::{LogView, Stop};
use crate::num;

/// What a range is to give.
#[derive(Debug, Clone, Default)]
pub struct StageOptions {
    /// Only units of queues of these topics; `None` for all.
    pub topics: Option<Vec<String>>,
    /// Whether index entries are wanted.
    pub with_index: bool,
}

/// Walks the records from `from`, a record's begin, up to the first at or behind `to`, and writes to
/// work files what dispatch makes of them. A range that is staged already is not walked again. `None`, and no work
/// files, where the log's first files went meanwhile with the range's begin: the log begins further on now.
///
/// # Errors
/// Where the log can't be read or a work file not be written.
pub fn stage(
    view: &LogView,
    work: WorkFiles<'_>,
    from: u64,
    to: u64,
    options: &StageOptions,
) -> Result<Option<RangeSummary>> {
    if let Some(summary) = work.whole_summary(from)?.filter(|known| known.reached >= to) {
        return Ok(Some(summary));
    }
    let mut staged = Staged::new(options);
    let Some((reached, gaps)) = walk(view, from, to, &mut staged)? else { return Ok(None) };
    let units = staged.units();
    let summary = RangeSummary {
        from,
        reached,
        record_count: staged.record_count,
        entry_count: staged.entry_count,
        last_record_entry_count: staged.last_record_entry_count,
        last_store_timestamp: staged.last_store_timestamp,
        queues: staged.queues.into_iter().map(|queue| queue.runs).collect(),
        gaps,
    };
    work.write_range(&summary, &units, &staged.entries)?;
    Ok(Some(summary))
}

/// Where a walk came to, and what it passed over on its way.
type Walked = (u64, Vec<(u64, u64)>);

/// As dispatch does, the walk goes on behind what is no record with the next one that checks out, wherever that is. `None` where
/// it comes to files that went from the log's begin.
fn walk(view: &LogView, from: u64, to: u64, staged: &mut Staged<'_>) -> Result<Option<Walked>> {
    let mut position = from;
    let mut gaps = Vec::new();
    while position < to {
        let stop = view.walk(position, to, |offset, record, _| {
            derive(view.config(), offset, record, staged)?;
            staged.record_count += 1;
            Ok(())
        })?;
        let (bad, fault) = match stop {
            Stop::Reached(offset) => return Ok(Some((offset, gaps))),
            Stop::Expired => return Ok(None),
            Stop::Bad(bad, _) if bad >= to => return Ok(Some((bad, gaps))),
            Stop::Bad(bad, fault) => (bad, fault),
        };
        position = view.next_valid(bad, fault)?.unwrap_or(view.end());
        gaps.push((bad, position));
    }
    Ok(Some((position, gaps)))
}

/// A queue's units.
struct StagedQueue {
    runs: QueueRuns,
    units: Vec<u8>,
    last_end: i64,
}

/// What a range has given so far.
struct Staged<'a> {
    options: &'a StageOptions,
    queues: Vec<StagedQueue>,
    known: HashMap<QueueKey, Option<usize>>,
    entries: Vec<u8>,
    record_count: u64,
    entry_count: u64,
    last_record_entry_count: u64,
    last_store_timestamp: i64,
}

impl<'a> Staged<'a> {
    fn new(options: &'a StageOptions) -> Self {
        Self {
            options,
            queues: Vec::new(),
            known: HashMap::new(),
            entries: Vec::new(),
            record_count: 0,
            entry_count: 0,
            last_record_entry_count: 0,
            last_store_timestamp: 0,
        }
    }

    /// The units of all queues, queue after queue. What is copied is let go of on the way.
    fn units(&mut self) -> Vec<u8> {
        let size = self.queues.iter().map(|queue| queue.units.len()).sum();
        let mut all = Vec::with_capacity(size);
        for queue in &mut self.queues {
            all.extend_from_slice(&std::mem::take(&mut queue.units));
        }
        all
    }

    /// A queue that is wanted. A topic that is no UTF-8 has the queue of the text that Java makes of it.
    fn queue(&mut self, queue: QueueRef<'_>) -> Option<&mut StagedQueue> {
        let at = if let Some(known) = self.known.get(&queue) {
            *known
        } else {
            let at = self.find_or_make(queue);
            self.known.insert(queue.into(), at);
            at
        };
        self.queues.get_mut(at?)
    }

    fn find_or_make(&mut self, queue: QueueRef<'_>) -> Option<usize> {
        let topic = java_string::decode(queue.topic);
        if self.options.topics.as_ref().is_some_and(|wanted| wanted.iter().all(|name| *name != topic)) {
            return None;
        }
        if topic.as_bytes() != queue.topic {
            let decoded = QueueRef { topic: topic.as_bytes(), queue_id: queue.queue_id };
            if let Some(known) = self.known.get(&decoded) {
                return *known;
            }
            self.known.insert(decoded.into(), Some(self.queues.len()));
        }
        let runs = QueueRuns { topic: topic.into_owned(), queue_id: queue.queue_id, runs: Vec::new() };
        self.queues.push(StagedQueue { runs, units: Vec::new(), last_end: -1 });
        Some(self.queues.len() - 1)
    }

    fn put(&mut self, queue: QueueRef<'_>, new: NewUnit, with_ext: bool) {
        let Some(queue) = self.queue(queue) else { return };
        let cq_offset = num::from_java_long(new.cq_offset).unwrap_or(0);
        let repeats = new.unit.end() <= queue.last_end;
        queue.last_end = new.unit.end();
        queue.units.extend_from_slice(&new.unit.to_bytes());
        queue.units.extend_from_slice(&new.store_timestamp.to_be_bytes());
        match queue.runs.runs.last_mut() {
            // A unit that repeats its record's stays alone: the fold leaves it out, and not those behind it.
            Some(run)
                if run.with_ext == with_ext
                    && !(repeats || run.repeats)
                    && run.cq_offset + run.count == cq_offset =>
            {
                run.count += 1;
            }
            _ => queue.runs.runs.push(Run { cq_offset, count: 1, with_ext, repeats }),
        }
    }
}

impl Derived for Staged<'_> {
    fn put_unit(&mut self, queue: QueueRef<'_>, new: NewUnit) -> Result<()> {
        self.put(queue, new, true);
        Ok(())
    }

    fn put_light_unit(&mut self, queue: QueueRef<'_>, new: NewUnit) -> Result<()> {
        self.put(queue, new, false);
        Ok(())
    }

    fn put_keys(
        &mut self,
        hashes: impl Iterator<Item = u32>,
        offset: u64,
        store_timestamp: i64,
    ) -> Result<()> {
        self.last_store_timestamp = store_timestamp;
        self.last_record_entry_count = 0;
        if !self.options.with_index {
            return Ok(());
        }
        for hash in hashes {
            self.entries.extend_from_slice(&hash.to_be_bytes());
            self.entries.extend_from_slice(&offset.to_be_bytes());
            self.entries.extend_from_slice(&store_timestamp.to_be_bytes());
            self.last_record_entry_count += 1;
        }
        self.entry_count += self.last_record_entry_count;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::cq_unit::CqUnit;

    #[test]
    fn what_repeats_its_records_unit_takes_no_other_with_it() {
        let options = StageOptions { topics: None, with_index: false };
        let mut staged = Staged::new(&options);
        let queue = QueueRef { topic: b"%LMQ%a", queue_id: 0 };
        // The first record names the queue twice.
        for (physical_offset, cq_offset) in [(0, 0), (0, 0), (100, 1), (200, 2)] {
            let unit = CqUnit { physical_offset, size: 100, tags_code: 0 };
            staged.put(queue, NewUnit { unit, cq_offset, store_timestamp: 1, filter_bit_map: None }, false);
        }
        let runs = |queue: &StagedQueue| {
            queue.runs.runs.iter().map(|run| (run.cq_offset, run.count, run.repeats)).collect::<Vec<_>>()
        };
        let found: Vec<_> = staged.queues.iter().map(runs).collect();
        assert_eq!(found, [[(0, 1, false), (0, 1, true), (1, 2, false)]]);
    }
}
