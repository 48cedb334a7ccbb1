//! Records to which a unit of a queue leads that they do not agree with: they stand elsewhere than they say, or the file does.

use hashbrown::HashMap;

use super::queues::unit_fits;
use super::strangers::Claim;
use crate::commit_log::CommitLog;
use crate::commit_log::topic_queue::QueueRef;
use crate::consume_queue::ConsumeQueue;
use crate::consume_queue::table::QueueTable;
use crate::error::Result;
use crate::format::cq_unit::CqUnit;
use crate::format::message::{Record, decode_record};
use crate::interrupt;
use crate::num;

/// Adds those of some suspects to which a unit leads that their record does not agree with.
///
/// After a crash a suspect comes from every queue whose units were all in memory. So the units of each queue
/// are gone through once for all of them; these are for records that the walk has come by as well.
pub(super) fn add_those_elsewhere(
    log: &CommitLog,
    queues: &QueueTable,
    suspects: &[Claim],
    strangers: &mut Vec<Claim>,
) -> Result<()> {
    let Some(least) = suspects.iter().map(|suspect| suspect.phy_offset).min() else { return Ok(()) };
    let suspects: HashMap<u64, &Claim> = suspects.iter().map(|claim| (claim.phy_offset, claim)).collect();
    for queue in queues.all() {
        interrupt::check()?;
        let mut previous = None;
        queue.units_in_files().each_from(least, |index, unit| {
            let Some(place) = unit.place() else { return Ok(()) };
            let Some(&suspect) = suspects.get(&place.0) else { return Ok(()) };
            // Of several units for a record the first counts, as where one is looked up.
            if previous.replace(place.0) == Some(place.0) || place.1 != suspect.size {
                return Ok(());
            }
            if let Some(bytes) = log.get_message(place.0, place.1)?
                && let Some(record) = decode_record(&bytes)
                && leads_elsewhere(log, queues, &queue, (index, unit), &record)?
            {
                strangers.push(*suspect);
            }
            Ok(())
        })?;
    }
    Ok(())
}

/// Whether the files of any queue have a unit for a record that the record does not agree with.
///
/// # Errors
/// Where a file can't be read.
pub(crate) fn any_leads_elsewhere(log: &CommitLog, queues: &QueueTable, record: &Record<'_>) -> Result<bool> {
    let Some(place) = num::from_java_long(record.physical_offset) else { return Ok(false) };
    for queue in queues.all() {
        if let Some((index, unit)) = queue.units_in_files().first_at(place)?
            && leads_elsewhere(log, queues, &queue, (index, &unit), record)?
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether a queue's unit is one for a record that the record does not agree with.
fn leads_elsewhere(
    log: &CommitLog,
    queues: &QueueTable,
    queue: &ConsumeQueue,
    (index, unit): (u64, &CqUnit),
    record: &Record<'_>,
) -> Result<bool> {
    let place = num::from_java_long(record.physical_offset).map(|offset| (offset, record.total_size));
    if unit.place() != place || unit_fits(queue, unit, index, record) {
        return Ok(false);
    }
    // Of a queue that is not there no files can be in another's place: its records became its own by damage.
    let Some(own) = queues.get_decoded(QueueRef { topic: record.topic, queue_id: record.queue_id }) else {
        return Ok(true);
    };
    Ok(!is_moved_with_others(log, queue, record, index)? && !has_anothers_unit(log, &own, record)?)
}

/// Whether the place of a record in its own queue has the unit of a record that belongs elsewhere: then that file is another
/// queue's, as after a swap, and that the record's unit is elsewhere tells of the file as well.
fn has_anothers_unit(log: &CommitLog, own: &ConsumeQueue, record: &Record<'_>) -> Result<bool> {
    let Some(index) = num::from_java_long(record.queue_offset) else { return Ok(false) };
    let Some(unit) = own.units_in_files().unit(index)? else { return Ok(false) };
    let Some((offset, size)) = unit.place() else { return Ok(false) };
    let Some(bytes) = log.get_message(offset, size)? else { return Ok(false) };
    Ok(decode_record(&bytes).is_some_and(|other| !unit_fits(own, &unit, index, &other)))
}

/// Whether a record's unit stands elsewhere than the record says with others of the record's queue: one next to it is as
/// far from its place. So it is where 4.9.3 closed a gap in the offsets, and in a file that is another queue's; either
/// tells of the file, and nothing of the record.
fn is_moved_with_others(
    log: &CommitLog,
    queue: &ConsumeQueue,
    record: &Record<'_>,
    index: u64,
) -> Result<bool> {
    let gap_of = |queue_offset: i64, index: u64| queue_offset.checked_sub(num::java_long(index));
    let gap = gap_of(record.queue_offset, index);
    let units = queue.units_in_files();
    for next_to_it in [index.checked_add(1), index.checked_sub(1)].into_iter().flatten() {
        let Some((offset, size)) = units.unit(next_to_it)?.and_then(|unit| unit.place()) else { continue };
        let Some(bytes) = log.get_message(offset, size)? else { continue };
        if let Some(other) = decode_record(&bytes)
            && (other.queue_id, other.topic) == (record.queue_id, record.topic)
            && gap_of(other.queue_offset, next_to_it) == gap
        {
            return Ok(true);
        }
    }
    Ok(false)
}
