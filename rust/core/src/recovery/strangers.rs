//! Records that are whole and say that they are another queue's, or another place's, than they are.
//!
//! No checksum covers a record's topic, queue and queue offset. A bit that flips there would let dispatch
//! put the message where it does not belong: into another queue, or at another offset, with all the blank
//! units up to it. What tells are the records around it, since the offsets of a queue follow each other,
//! and the units that lie in the queues' files, also those that are dispatched again and not believed.
//! Where neither says that a record belongs elsewhere it stays: a jump of offsets alone can be right. An offset that
//! is missing where the log is damaged, or was repaired, tells nothing of a queue's first record.

use std::ops::{ControlFlow, Range};

use hashbrown::HashMap;

use super::elsewhere::add_those_elsewhere;
use crate::commit_log::CommitLog;
use crate::commit_log::scan::{self, ScanEnd};
use crate::commit_log::topic_queue::{QueueKey, QueueRef};
use crate::consume_queue::PlaceRule;
use crate::consume_queue::table::QueueTable;
use crate::dispatch::Gap;
use crate::error::Result;
use crate::format::cq_unit::CqUnit;
use crate::format::message::{Check, Record, RecordFault, decode_record};
use crate::num;
use crate::removed_queues::RemovedQueues;
use crate::repair::filler::is_filler;

/// A record and where it says that it stands in its queue.
#[derive(Debug, Clone, Copy)]
pub(super) struct Claim {
    pub(super) phy_offset: u64,
    pub(super) size: u32,
    queue_id: i32,
    queue_offset: i64,
}

/// What is known of a queue's order.
#[derive(Debug)]
struct Order {
    /// Its last record.
    last: Claim,
    /// A record that does not follow, until the next one tells which of the two is wrong.
    pending: Option<Claim>,
    /// Its first record, as long as it is the only one that counts.
    first: Option<Claim>,
    /// Two records that say the same place: the one that was taken for it, and the one behind it.
    rivals: Vec<(Claim, Claim)>,
}

/// An offset of a queue that no record has, though records behind it have later ones.
#[derive(Debug, Clone, Copy)]
struct Hole {
    queue_offset: i64,
    /// Where the records before and behind it stand.
    between: (u64, u64),
}

/// What a walk over the log tells of them.
#[derive(Debug, Default)]
pub struct Search {
    orders: HashMap<QueueKey, Order>,
    holes: Vec<Hole>,
    /// Each queue's first record, where its files say nothing of it: nothing tells yet that it belongs elsewhere.
    suspects: Vec<Claim>,
    strangers: Vec<Claim>,
    /// Where records were lost: places that hold none, or one that was put there instead.
    losses: Vec<u64>,
    /// Where records stand that do not count.
    going: Vec<u64>,
}

/// Finds them between two offsets of a log, the first of which is a record's begin or behind one that is bad.
///
/// # Errors
/// Where log or queues can't be read.
pub fn find(log: &CommitLog, queues: &QueueTable, from: u64, to: u64) -> Result<Vec<Gap>> {
    find_among_others(log, queues, from, to, Vec::new())
}

/// As [`find`], without records, in the log's order, of which it is known that they go: those tell nothing of others.
///
/// # Errors
/// As there.
pub(crate) fn find_among_others(
    log: &CommitLog,
    queues: &QueueTable,
    from: u64,
    to: u64,
    going: Vec<u64>,
) -> Result<Vec<Gap>> {
    let mut search = Search { going, ..Search::default() };
    let mut position = from;
    while position < to {
        let end = search.walk(log, queues, position..to)?;
        let Err((bad, fault)) = end.reached() else { break };
        search.losses.push(bad);
        position = scan::next_valid(log.files(), bad, fault, to)?.unwrap_or(to);
    }
    search.finish(log, queues)
}

impl Claim {
    /// That of a record which is in a queue.
    const fn of(offset: u64, record: &Record<'_>) -> Self {
        Self {
            phy_offset: offset,
            size: record.total_size,
            queue_id: record.queue_id,
            queue_offset: record.queue_offset,
        }
    }

    const fn next_queue_offset(&self) -> i64 {
        self.queue_offset.saturating_add(1)
    }
}

/// The records that a part of the log has of each queue, where they follow each other.
#[derive(Debug, Default)]
pub struct Followers {
    spans: HashMap<QueueKey, Span>,
    has_jumps: bool,
    losses: Vec<u64>,
}

/// Records of a queue whose offsets follow each other.
#[derive(Debug)]
struct Span {
    first: Claim,
    second: Option<Claim>,
    last: Claim,
}

impl Followers {
    /// Adds the part's next record.
    pub fn record(&mut self, removed: &RemovedQueues, offset: u64, record: &Record<'_>) {
        if self.has_jumps {
            return;
        }
        if is_filler(record) {
            self.losses.push(offset);
        }
        let Some(queue) = removed.queue_of(offset, record) else { return };
        let claim = Claim::of(offset, record);
        let Some(span) = self.spans.get_mut(&queue) else {
            self.spans.insert(queue.into(), Span { first: claim, second: None, last: claim });
            return;
        };
        self.has_jumps = claim.queue_offset != span.last.next_queue_offset();
        span.second.get_or_insert(claim);
        span.last = claim;
    }
}

impl Search {
    /// Looks at the records between two offsets.
    fn walk(&mut self, log: &CommitLog, queues: &QueueTable, range: Range<u64>) -> Result<ScanEnd> {
        scan::scan(log.files(), range.start, range.end, Check::Structure, |offset, record, _| {
            self.record(queues, offset, record)?;
            Ok(ControlFlow::Continue(()))
        })
    }

    /// Looks at the records of a part without a bad one, of which it is known how they follow each other.
    pub(super) fn part(
        &mut self,
        log: &CommitLog,
        queues: &QueueTable,
        range: Range<u64>,
        followers: Followers,
    ) -> Result<()> {
        if followers.has_jumps {
            self.walk(log, queues, range)?;
            return Ok(());
        }
        self.losses.extend(followers.losses);
        for (key, span) in followers.spans {
            let queue = key.as_ref();
            self.claim(queues, queue, span.first)?;
            let Some(second) = span.second else { continue };
            self.claim(queues, queue, second)?;
            // Behind two that follow each other nothing is open, and the others follow them.
            if let Some(order) = self.orders.get_mut(&queue) {
                order.last = span.last;
            }
        }
        Ok(())
    }

    /// Looks at the next record.
    pub(super) fn record(&mut self, queues: &QueueTable, offset: u64, record: &Record<'_>) -> Result<()> {
        let is_going = self.going.binary_search(&offset).is_ok();
        if is_going || is_filler(record) {
            self.losses.push(offset);
        }
        if is_going {
            return Ok(());
        }
        match queues.removed().queue_of(offset, record) {
            Some(queue) => self.claim(queues, queue, Claim::of(offset, record)),
            None => Ok(()),
        }
    }

    fn claim(&mut self, queues: &QueueTable, queue: QueueRef<'_>, claim: Claim) -> Result<()> {
        if let Some(order) = self.orders.get_mut(&queue) {
            order.take(claim, &mut self.holes, &mut self.strangers);
            return Ok(());
        }
        if !continues_its_files(queues, queue, claim)? {
            self.suspects.push(claim);
        }
        self.orders.insert(
            queue.into(),
            Order { last: claim, pending: None, first: Some(claim), rivals: Vec::new() },
        );
        Ok(())
    }

    /// Gives them, once all records were looked at.
    pub(super) fn finish(mut self, log: &CommitLog, queues: &QueueTable) -> Result<Vec<Gap>> {
        let (mut jumps, mut others) = (Vec::new(), Vec::new());
        let rule = PlaceRule { units_in_file: queues.units_in_file(), compat: false };
        self.losses.sort_unstable();
        for (key, order) in &self.orders {
            self.strangers.extend(order.out_of_reach(rule, queues, key));
            for (taken, other) in &order.rivals {
                // Its unit tells which of the two was there first.
                match (has_its_unit(queues, key, taken)?, has_its_unit(queues, key, other)?) {
                    (false, true) => self.strangers.push(*taken),
                    (true, false) => self.strangers.push(*other),
                    _ => {}
                }
            }
            if let Some(last) = order.pending {
                let between = (order.last.phy_offset, last.phy_offset);
                let hole = Hole { queue_offset: order.expected(), between };
                if hole.is_explained(&self.losses) { &mut others } else { &mut jumps }.push(last);
                if last.queue_offset == order.expected().saturating_add(1) {
                    self.holes.push(hole);
                }
            }
        }
        let (jumped, unknown): (Vec<_>, Vec<_>) =
            jumps.into_iter().partition(|last| self.holes.iter().any(|hole| hole.may_be_of(last)));
        others.extend(unknown);
        self.holes.retain(|hole| !hole.is_explained(&self.losses));
        let (firsts, unknown): (Vec<_>, Vec<_>) =
            self.suspects.into_iter().partition(|first| self.holes.iter().any(|hole| hole.may_be_of(first)));
        others.extend(unknown);
        self.strangers.extend(jumped.into_iter().chain(firsts));
        for (key, order) in &self.orders {
            // Nothing behind a queue's last record tells whether it is another queue's last one.
            if !has_its_unit(queues, key, &order.last)? {
                others.push(order.last);
            }
        }
        add_those_elsewhere(log, queues, &others, &mut self.strangers)?;
        self.strangers.sort_unstable_by_key(|stranger| stranger.phy_offset);
        // One can be told by its own offset, by the order of offsets and by the units of several queues.
        self.strangers.dedup_by_key(|stranger| stranger.phy_offset);
        let gap = |Claim { phy_offset, size, queue_id, queue_offset }: &Claim| Gap {
            from: *phy_offset,
            to: phy_offset + u64::from(*size),
            fault: Some(RecordFault::Misplaced { queue_id: *queue_id, queue_offset: *queue_offset }),
        };
        Ok(self.strangers.iter().map(gap).collect())
    }
}

impl Hole {
    /// Whether a record can be the missing one.
    fn may_be_of(&self, claim: &Claim) -> bool {
        self.queue_offset == claim.queue_offset
            && (self.between.0..self.between.1).contains(&claim.phy_offset)
    }

    /// Whether one of the places in order at which records were lost says where the missing one was.
    fn is_explained(&self, losses: &[u64]) -> bool {
        let next = losses.partition_point(|&loss| loss < self.between.0);
        losses.get(next).is_some_and(|&loss| loss < self.between.1)
    }
}

impl Order {
    /// The offset of its next record.
    const fn expected(&self) -> i64 {
        self.last.next_queue_offset()
    }

    fn take(&mut self, claim: Claim, holes: &mut Vec<Hole>, strangers: &mut Vec<Claim>) {
        let found = claim.queue_offset;
        match self.pending.take() {
            None if found == self.expected() => {}
            None => {
                self.pending = Some(claim);
                return;
            }
            // One that begins anew says the first place again.
            Some(rival) if rival.queue_offset == self.last.queue_offset && rival.queue_offset > 0 => {
                self.rivals.push((self.last, rival));
            }
            // The queue goes on behind the jump: it was one. But one that begins anew begins with 0.
            Some(jump) if found == jump.queue_offset.saturating_add(1) => {
                if let Some(first) = self.first.filter(|_| (1..self.expected()).contains(&jump.queue_offset))
                {
                    strangers.push(first);
                } else if jump.queue_offset == self.expected().saturating_add(1) {
                    let between = (self.last.phy_offset, jump.phy_offset);
                    holes.push(Hole { queue_offset: self.expected(), between });
                }
            }
            // It goes on as if the record were not there, or had the offset that is missing.
            Some(stranger) if found == self.expected() || found == self.expected().saturating_add(1) => {
                strangers.push(stranger);
            }
            // Neither fits: what follows tells.
            Some(other) => {
                self.last = other;
                self.pending = Some(claim);
                return;
            }
        }
        self.last = claim;
        self.first = None;
    }

    /// The record, of the last ones of a queue, that says an offset which no queue reaches: dispatch would put it
    /// somewhere else, and the next opening find it there.
    fn out_of_reach(&self, rule: PlaceRule, queues: &QueueTable, key: &QueueKey) -> Option<Claim> {
        let (claim, end) = match self.first {
            Some(first) => {
                let queue = queues.get_decoded(key.as_ref());
                (first, queue.map(|queue| queue.max_offset_in_queue()).filter(|&end| end > 0))
            }
            None => (self.pending?, num::from_java_long(self.expected())),
        };
        (!rule.is_within_reach(claim.queue_offset, end)).then_some(claim)
    }
}

/// Whether the files of a record's queue have its unit.
fn has_its_unit(queues: &QueueTable, key: &QueueKey, claim: &Claim) -> Result<bool> {
    let queue = queues.get_decoded(key.as_ref());
    let (Some(queue), Some(index)) = (queue, num::from_java_long(claim.queue_offset)) else {
        return Ok(false);
    };
    let unit = queue.units_in_files().unit(index)?;
    Ok(unit.and_then(|unit| unit.place()) == Some((claim.phy_offset, claim.size)))
}

/// Whether a record of the log stands at an offset to which the unit leads that is at the record's place in its queue;
/// gives its size, `None` where no record stands there.
///
/// # Errors
/// Where a file can't be read.
pub(crate) fn record_and_unit_at(
    log: &CommitLog,
    queues: &QueueTable,
    offset: u64,
) -> Result<Option<(u32, bool)>> {
    let Some(bytes) = log.select_one_message_by_offset(offset)? else { return Ok(None) };
    let Some(record) = decode_record(&bytes) else { return Ok(None) };
    let queue = QueueRef { topic: record.topic, queue_id: record.queue_id };
    Ok(Some((record.total_size, has_its_unit(queues, &queue.into(), &Claim::of(offset, &record))?)))
}

/// Whether the files of a record's queue have its unit, or end where it would follow.
fn continues_its_files(queues: &QueueTable, queue: QueueRef<'_>, claim: Claim) -> Result<bool> {
    let queue = queues.get_decoded(queue);
    let (Some(queue), Some(index)) = (queue, num::from_java_long(claim.queue_offset)) else {
        return Ok(false);
    };
    let units = queue.units_in_files();
    match units.unit(index)?.filter(CqUnit::is_written) {
        Some(unit) => Ok(unit.place() == Some((claim.phy_offset, claim.size))),
        None => match index.checked_sub(1) {
            None => Ok(true),
            Some(before) => {
                let before = units.unit(before)?.filter(CqUnit::is_written);
                Ok(before
                    .is_some_and(|unit| unit.is_blank() || unit.end() <= num::java_long(claim.phy_offset)))
            }
        },
    }
}
