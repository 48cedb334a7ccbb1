//! Queues whose folder, or whose topic's, somebody has given another name, or put in another one's place.
//!
//! What is in such a folder leads to records that say another queue, and each could be one that was damaged. All of a queue
//! are not: where none of its units leads to a record of its own, and all to records of one that has no folder, at the
//! offsets that these say, the folder is that one's. Who only reads the store does not believe as much.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::believed::is_gone;
use super::holes::Hole;
use crate::consume_queue::ConsumeQueue;
use crate::consume_queue::table::QueueTable;
use crate::error::Result;
use crate::format::cq_unit::CqUnit;
use crate::format::java_string;
use crate::format::message::decode_record;
use crate::interrupt;
use crate::log_view::LogView;
use crate::num;
use crate::recovery::queues::unit_fits;

/// So many records at the least tell whose a folder is: a single one can be what is damaged.
const LEAST_RECORDS: u64 = 2;

/// What a queue's units lead to.
#[derive(Debug, PartialEq, Eq)]
enum LeadsTo {
    /// A record of its own, or of several queues, or of one that has a folder.
    Others,
    /// No record that there is.
    Nothing,
    /// So many records, all of a queue that has no folder.
    Queue { topic: String, queue_id: i32, count: u64 },
}

/// Takes the queues out of a table whose folders are another queue's: nothing in them tells of a record.
///
/// # Errors
/// Where log or queues can't be read.
pub(super) fn leave_out(view: &LogView, queues: &QueueTable, holes: &[Hole]) -> Result<()> {
    let mut topics: BTreeMap<String, Vec<(Arc<ConsumeQueue>, LeadsTo)>> = BTreeMap::new();
    for queue in queues.all() {
        let leads_to = leads_to(view, queues, holes, &queue)?;
        topics.entry(queue.topic().to_owned()).or_default().push((queue, leads_to));
    }
    for of_topic in topics.values() {
        let is_renamed = is_renamed(of_topic);
        for (queue, leads_to) in of_topic {
            let is_another = matches!(leads_to, LeadsTo::Queue { count, .. } if *count >= LEAST_RECORDS);
            if is_another || is_renamed {
                queues.leave_out(queue);
            }
        }
    }
    Ok(())
}

/// Whether the folder of a whole topic is another's: of queues with a record each several tell together.
fn is_renamed(of_topic: &[(Arc<ConsumeQueue>, LeadsTo)]) -> bool {
    let (mut sum, mut name) = (0, None);
    for (queue, leads_to) in of_topic {
        match leads_to {
            LeadsTo::Nothing => {}
            LeadsTo::Queue { topic, queue_id, count }
                if *queue_id == queue.queue_id() && name.is_none_or(|name| name == topic) =>
            {
                (sum, name) = (sum + count, Some(topic));
            }
            LeadsTo::Others | LeadsTo::Queue { .. } => return false,
        }
    }
    sum >= LEAST_RECORDS
}

fn leads_to(view: &LogView, queues: &QueueTable, holes: &[Hole], queue: &ConsumeQueue) -> Result<LeadsTo> {
    let units = queue.units_in_files();
    let Some((first, _)) = units.first_at(view.min_offset())? else { return Ok(LeadsTo::Nothing) };
    let mut found = LeadsTo::Nothing;
    for index in first.. {
        interrupt::check()?;
        let Some(unit) = units.unit(index)?.filter(CqUnit::is_written) else { break };
        let Some((offset, size)) = unit.place() else { continue };
        if is_gone(view, holes, offset) {
            continue;
        }
        let Some(bytes) = view.log().get_message(offset, size)? else { continue };
        let Some(record) = decode_record(&bytes) else { continue };
        if record.physical_offset != num::java_long(offset) || record.total_size != size {
            continue;
        }
        let Some(own) = view.config().removed_queues.queue_of(offset, &record) else { continue };
        let topic = java_string::decode(own.topic);
        let has_folder = queues.get_decoded(own).is_some();
        let is_its_place = record.queue_offset == num::java_long(index);
        if has_folder || !is_its_place || unit_fits(queue, &unit, index, &record) {
            return Ok(LeadsTo::Others);
        }
        match &mut found {
            LeadsTo::Nothing => {
                found = LeadsTo::Queue { topic: topic.into(), queue_id: record.queue_id, count: 1 };
            }
            LeadsTo::Queue { topic: known, queue_id, count }
                if *known == topic && *queue_id == record.queue_id =>
            {
                *count += 1;
            }
            LeadsTo::Others | LeadsTo::Queue { .. } => return Ok(LeadsTo::Others),
        }
    }
    Ok(found)
}
