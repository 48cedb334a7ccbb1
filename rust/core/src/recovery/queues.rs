//! How far the queues go.

use super::log_end::LogEnd;
use super::{Recovered, StoreState, short_queues, since_closed};
use crate::checkpoint::LastPositions;
use crate::config::StoreConfig;
use crate::consume_queue::ConsumeQueue;
use crate::consume_queue::table::LMQ_PREFIX;
use crate::dispatch::further_places;
use crate::error::Result;
use crate::format::cq_unit::CqUnit;
use crate::format::message::{Record, decode_record};
use crate::format::properties::DispatchProperties;
use crate::num;
use crate::side_by_side::each_of_many;

/// What was found of the queues.
#[derive(Debug, Clone, Copy, Default)]
pub struct QueueEnds {
    /// Where dispatch has to begin.
    pub dispatch_from: u64,
    /// Whether something stands behind the end of a queue that has to go, or, after an unclean stop, may.
    pub is_cut: bool,
}

impl QueueEnds {
    /// Dispatch begins with what queues lost, where they lost something: what ended them may not be zeros, and stand behind what
    /// dispatch puts there.
    fn back_to(self, lost: Option<u64>) -> Self {
        match lost {
            Some(lost) => Self { dispatch_from: self.dispatch_from.min(lost), is_cut: true },
            None => self,
        }
    }
}

/// Sets the queues' ends. Gives where dispatch has to begin.
///
/// After a clean stop a queue ends where its last unit does that agrees with the log, and is dispatched from there
/// where the log has more of it. After an unclean one only units of records below the point up to which the
/// last writer knew the queues to be on the disk are kept: the rest is dispatched again. A light queue's that the options
/// would not make again is kept as far as it agrees with the log, as in 4.9.3.
///
/// # Errors
/// Where queue or log can't be read.
pub fn recover(of: Recovered<'_>, end: &LogEnd) -> Result<QueueEnds> {
    let min_offset = of.log.min_offset().unwrap_or(0);
    let since_closed = || since_closed::first_lost(of, end.log_end);
    let mut ends = match of.state {
        StoreState::Closed => {
            recover_short(of, end, recover_closed(of, end.log_end)?)?.back_to(since_closed())
        }
        StoreState::Live { dispatched, .. } => {
            // Units come in while one queue after the other is read.
            let found = recover_closed(of, end.log_end)?;
            QueueEnds { dispatch_from: found.dispatch_from.min(dispatched), ..found }
        }
        StoreState::Crashed => recover_older(of, end, recover_crashed(of, end)?)?.back_to(since_closed()),
    };
    ends.dispatch_from = ends.dispatch_from.max(min_offset).min(end.log_end);
    Ok(ends)
}

/// Dispatch begins where the last record ends that has a unit; earlier for a queue that lost files.
pub(super) fn recover_closed(of: Recovered<'_>, log_end: u64) -> Result<QueueEnds> {
    let min_offset = of.log.min_offset().unwrap_or(0);
    let all = each_of_many(&of.queues.all(), of.is_remote, |queue| {
        let found = recover_closed_queue(of, queue, log_end)?;
        queue.find_min_offset(min_offset)?;
        Ok(found)
    })?;
    let reached = all.iter().map(|found| found.reached).max().unwrap_or(0);
    let dispatch_from = all.iter().filter_map(|found| found.of_damaged).fold(reached, u64::min);
    Ok(QueueEnds { dispatch_from, is_cut: all.iter().any(|found| found.is_cut) })
}

/// What was found of one queue.
#[derive(Debug)]
struct ClosedEnd {
    /// Behind the last record that has a unit.
    reached: u64,
    /// Where its messages are looked for again, where it lost some.
    of_damaged: Option<u64>,
    is_cut: bool,
}

fn recover_closed_queue(of: Recovered<'_>, queue: &ConsumeQueue, log_end: u64) -> Result<ClosedEnd> {
    if let Some(removed) = forget_removed(of, queue)? {
        return Ok(ClosedEnd { reached: 0, of_damaged: Some(removed), is_cut: true });
    }
    let lost = queue.recover_clean(|unit, index| agrees(of, queue, unit, index))?;
    let is_cut = lost | queue.cut_behind(log_end)?;
    let reached = queue.reached();
    Ok(ClosedEnd { reached, of_damaged: lost.then_some(reached), is_cut })
}

/// Dispatch begins at the first record that lost its unit, where a queue lost its end.
fn recover_short(of: Recovered<'_>, end: &LogEnd, found: QueueEnds) -> Result<QueueEnds> {
    let Some(walked) = &end.told.queues else { return Ok(found) };
    Ok(found.back_to(short_queues::first_lost(of, walked, end.log_end)?))
}

/// Dispatch begins where queues end that lack units from before the walk.
fn recover_older(of: Recovered<'_>, end: &LogEnd, found: QueueEnds) -> Result<QueueEnds> {
    let Some(walked) = &end.told.queues else { return Ok(found) };
    let known = found.dispatch_from.max(of.log.min_offset().unwrap_or(0));
    Ok(found.back_to(short_queues::first_before_walk(of, walked, known, end.walked_from)?))
}

/// Gives up to where the queues are known to be whole.
fn recover_crashed(of: Recovered<'_>, end: &LogEnd) -> Result<QueueEnds> {
    let known = match of.positions {
        LastPositions::Never => end.walked_from,
        LastPositions::Lost => 0,
        LastPositions::Known(positions) => positions.queues.min(end.walked_from),
    };
    let min_offset = of.log.min_offset().unwrap_or(0);
    let earlier = each_of_many(&of.queues.all(), of.is_remote, |queue| {
        let is_made_again = is_made_again(of.config, queue);
        let believed_to = if is_made_again { known } else { end.log_end };
        let earlier = match forget_removed(of, queue)? {
            None => queue
                .recover_up_to(believed_to, |unit, index| agrees_or_was_lost(of, queue, unit, index))?
                .filter(|_| is_made_again),
            removed => removed,
        };
        queue.find_min_offset(min_offset)?;
        Ok(earlier)
    })?;
    let dispatch_from = earlier.into_iter().flatten().fold(known, u64::min);
    Ok(QueueEnds { dispatch_from, is_cut: true })
}

/// Lets go of the units of a removed queue that still has some: something kept its removal from being finished, or
/// a Java store dispatched its messages again. Gives where its last record stands, behind which others may be its.
fn forget_removed(of: Recovered<'_>, queue: &ConsumeQueue) -> Result<Option<u64>> {
    let Some(last) = of.config.removed_queues.last_of(queue.name()) else { return Ok(None) };
    let first = queue.units_in_files().first_at(0)?.and_then(|(_, unit)| unit.place());
    if first.is_none_or(|(offset, _)| offset > last) {
        return Ok(None);
    }
    queue.forget_units()?;
    Ok(Some(last))
}

/// Whether a unit agrees with the log. One whose record is gone with an expired file cannot be held
/// against it, and stays.
pub(super) fn agrees(of: Recovered<'_>, queue: &ConsumeQueue, unit: &CqUnit, index: u64) -> Result<bool> {
    let Some((offset, size)) = unit.place() else { return Ok(unit.is_blank()) };
    if of.log.min_offset().is_none_or(|min| offset < min) {
        return Ok(true);
    }
    let Some(bytes) = of.log.get_message(offset, size)? else { return Ok(false) };
    Ok(decode_record(&bytes).is_some_and(|record| unit_fits(queue, unit, index, &record)))
}

/// As [`agrees`]; a power cut may have taken the record too, as long as it would have its place in the log's files.
fn agrees_or_was_lost(of: Recovered<'_>, queue: &ConsumeQueue, unit: &CqUnit, index: u64) -> Result<bool> {
    let is_behind = unit.place().is_some_and(|(offset, _)| offset >= of.log.max_offset());
    if is_behind {
        let files_end = of.log.files().last().map_or(0, |last| last.end_offset());
        return Ok(unit.end() <= num::java_long(files_end));
    }
    agrees(of, queue, unit, index)
}

/// Whether a record is the one that a unit of a queue stands for: place, size, topic, queue and
/// queue offset; for a message that was dispatched to further queues, the entry for this one. That the unit is there
/// says that the store had such queues, whatever options it is opened with.
#[must_use]
pub fn unit_fits(queue: &ConsumeQueue, unit: &CqUnit, index: u64, record: &Record<'_>) -> bool {
    let index = num::java_long(index);
    if record.physical_offset != unit.physical_offset
        || num::from_java_int(unit.size) != Some(record.total_size)
    {
        return false;
    }
    let topic = queue.topic().as_bytes();
    let is_own = record.queue_id == queue.queue_id() && topic_equals(record.topic, topic);
    if is_own && record.queue_offset == index {
        return true;
    }
    let has_number = record.queue_id == queue.queue_id() || (queue.queue_id() == 0 && is_named_light(queue));
    has_number
        && further_places(&DispatchProperties::of(record.properties))
            .into_iter()
            .any(|(name, offset)| name == topic && offset == index)
}

fn is_named_light(queue: &ConsumeQueue) -> bool {
    queue.topic().starts_with(LMQ_PREFIX)
}

/// Whether dispatch with these options would make a queue's units again. Of further queues those of other names are
/// not told from queues of their own.
fn is_made_again(config: &StoreConfig, queue: &ConsumeQueue) -> bool {
    (config.enable_multi_dispatch && config.enable_lmq) || !is_named_light(queue)
}

/// Whether a record's topic is the queue's, whose name is text: bytes that are none were replaced.
fn topic_equals(stored: &[u8], topic: &[u8]) -> bool {
    stored == topic || crate::format::java_string::decode(stored).as_bytes() == topic
}
