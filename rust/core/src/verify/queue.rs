//! Every unit of a part of a queue, against the record it points at.

use super::{Finding, FindingKind, Findings};
use crate::consume_queue::ConsumeQueue;
use crate::dispatch::{tags_code, tags_code_fits};
use crate::error::Result;
use crate::format::cq_ext_unit::is_ext_addr;
use crate::format::cq_unit::CqUnit;
use crate::format::message::{self, Check, Decoded};
use crate::format::properties::DispatchProperties;
use crate::log_view::LogView;
use crate::num;
use crate::recovery::queues::unit_fits;

/// Units that are read at a time.
const UNITS_AT_ONCE: usize = 4096;

/// What a part of a queue holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueueChecked {
    /// Units that are messages of the log.
    pub unit_count: u64,
    /// Units whose records are gone with expired files.
    pub expired_count: u64,
    /// Units that only fill a file.
    pub blank_count: u64,
    /// What is wrong.
    pub findings: Findings,
}

struct Checker<'a> {
    view: &'a LogView,
    queue: &'a ConsumeQueue,
    previous: Option<u64>,
    has_ended: bool,
    done: QueueChecked,
}

/// Checks the units from index `from` up to `to`.
///
/// # Errors
/// Where log or queue can't be read.
pub fn check_queue(view: &LogView, queue: &ConsumeQueue, from: u64, to: u64) -> Result<QueueChecked> {
    let before = if from > 0 { queue.unit(from - 1)? } else { None };
    let mut checker = Checker {
        view,
        queue,
        previous: before.and_then(|unit| unit.place()).map(|(offset, _)| offset),
        has_ended: before.is_some_and(|unit| !unit.is_written()),
        done: QueueChecked::default(),
    };
    let mut index = from;
    while index < to {
        let count = UNITS_AT_ONCE.min(num::index(to - index));
        let units = queue.units(index, count)?;
        if units.is_empty() {
            break;
        }
        for unit in &units {
            checker.unit(unit, index)?;
            index += 1;
        }
        // Behind its end a queue is a hole, as a rule: to read it takes memory, and time, for each of its pages.
        if !units.iter().any(CqUnit::is_written) {
            index = queue.next_data(index)?.max(index);
        }
    }
    Ok(checker.done)
}

impl Checker<'_> {
    fn unit(&mut self, unit: &CqUnit, index: u64) -> Result<()> {
        if !unit.is_written() {
            self.has_ended = true;
            return Ok(());
        }
        // A live writer adds units between one look and the next.
        if self.has_ended && super::place(unit.physical_offset).is_none_or(|at| self.view.is_dispatched(at)) {
            self.tell(FindingKind::UnitStray, unit, index, "expected nothing behind the queue's end".into());
        }
        let Some((offset, size)) = unit.place() else {
            self.done.blank_count += 1;
            return Ok(());
        };
        match self.previous.replace(offset) {
            Some(previous) if previous == offset => {
                self.tell(FindingKind::UnitRepeated, unit, index, "as the unit before it".into());
            }
            Some(previous) if previous > offset => {
                self.tell(
                    FindingKind::UnitOrder,
                    unit,
                    index,
                    format!("the unit before it is for {previous}"),
                );
            }
            _ => {}
        }
        if offset < self.view.min_offset() {
            self.done.expired_count += 1;
            return Ok(());
        }
        self.done.unit_count += 1;
        if offset.saturating_add(u64::from(size)) > self.view.end() {
            if self.view.is_written()? {
                return Ok(());
            }
            let end = self.view.end();
            self.tell(FindingKind::UnitDangling, unit, index, format!("the log ends at {end}"));
            return Ok(());
        }
        let Some((kind, detail)) = self.fault(unit, index, offset, size)? else { return Ok(()) };
        if self.view.is_expired(offset)? {
            // Since it was asked above.
            self.done.unit_count -= 1;
            self.done.expired_count += 1;
        } else {
            self.tell(kind, unit, index, detail);
        }
        Ok(())
    }

    fn fault(
        &self,
        unit: &CqUnit,
        index: u64,
        offset: u64,
        size: u32,
    ) -> Result<Option<(FindingKind, String)>> {
        let wrong = |detail: String| Ok(Some((FindingKind::UnitWrong, detail)));
        let Some(bytes) = self.view.log().get_message(offset, size)? else {
            return wrong("the log has no such bytes".into());
        };
        let record = match message::decode(&bytes, Check::Structure) {
            Ok(Decoded::Message(record)) => record,
            Ok(Decoded::Blank { .. }) => {
                return wrong("expected a record, found the blank at a file's end".into());
            }
            Err(fault) => return wrong(fault.to_string()),
        };
        if !unit_fits(self.queue, unit, index, &record) {
            return wrong(format!(
                "found the record of topic {:?}, queue {}, offset {}, {} bytes",
                String::from_utf8_lossy(record.topic),
                record.queue_id,
                record.queue_offset,
                record.total_size
            ));
        }
        let properties = DispatchProperties::of(record.properties);
        let expected = tags_code(self.view.config(), &record, &properties);
        let fits = |code| tags_code_fits(self.view.config(), &record, &properties, code);
        if is_ext_addr(unit.tags_code) && expected != unit.tags_code {
            return Ok(match self.queue.ext(unit.tags_code)? {
                // A store that is looked at without its extension has nothing to compare with.
                _ if !self.view.config().enable_consume_queue_ext => None,
                Some(ext) if fits(ext.tags_code) && ext.msg_store_time == record.store_timestamp => None,
                Some(ext) => Some((
                    FindingKind::ExtWrong,
                    format!(
                        "expected tags code {expected} and store time {}, found {} and {}",
                        record.store_timestamp, ext.tags_code, ext.msg_store_time
                    ),
                )),
                None => Some((FindingKind::ExtWrong, "the extension has no such unit".into())),
            });
        }
        if !fits(unit.tags_code) {
            return wrong(format!("expected tags code {expected}, found {}", unit.tags_code));
        }
        Ok(None)
    }

    fn tell(&mut self, kind: FindingKind, unit: &CqUnit, index: u64, detail: String) {
        let position = index.saturating_mul(20);
        let files = self.queue.files();
        let file = files.iter().find(|file| file.contains(position));
        let path = file.map_or_else(String::new, |file| file.path().to_string_lossy().into_owned());
        let (topic, queue_id) = (self.queue.topic().to_owned(), self.queue.queue_id());
        let phy_offset = super::place(unit.physical_offset);
        self.done.findings.add(kind, || Finding {
            kind,
            path,
            topic: Some(topic),
            queue_id: Some(queue_id),
            queue_offset: Some(index),
            phy_offset,
            detail,
        });
    }
}
