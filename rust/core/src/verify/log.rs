//! Every record of a range: structure, body, order in its queue, its units.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use hashbrown::HashMap;

use super::store_times::{Disorder, StoreTimes};
use super::{Finding, FindingKind, Findings};
use crate::commit_log::scan;
use crate::commit_log::topic_queue::{QueueKey, QueueRef};
use crate::consume_queue::NewUnit;
use crate::consume_queue::table::QueueTable;
use crate::dispatch::{Derived, TIMED_TOPIC, derive};
use crate::error::Result;
use crate::format::cq_ext_unit::is_ext_addr;
use crate::format::cq_unit::CqUnit;
use crate::format::java_string::decode;
use crate::format::message::{Check, Record, RecordFault, decode_record};
use crate::format::sys_flag;
use crate::log_view::{LogView, Stop};
use crate::num;

/// Units of a queue that are read at a time, at least and at most.
const UNITS_AT_ONCE: (usize, usize) = (8, 512);
/// Queues share about so many units that are kept, so that many of them do not take much memory.
const KEPT_UNITS: usize = 1 << 18;
const HOUR_MS: i64 = 3_600_000;
/// Clocks of clients are not behind those of brokers by more.
const MAX_CLOCK_SKEW_MS: i64 = 24 * HOUR_MS;

/// Messages and bytes of records.
pub type Sum = (u64, u64);

/// How many messages there are of what.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Totals {
    /// By topic.
    pub by_topic: BTreeMap<String, Sum>,
    /// By the hour in which they were stored, counted from 1970.
    pub by_hour: BTreeMap<i64, Sum>,
    /// By the address that they came from.
    pub by_host: BTreeMap<String, Sum>,
    /// By the power of two that their records' size lies at or above.
    pub by_size: BTreeMap<u32, Sum>,
}

/// The offsets that a range has of one queue: what lies between two ranges shows when they are put
/// together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueSpan {
    /// The topic.
    pub topic: String,
    /// The queue.
    pub queue_id: i32,
    /// The first offset, and where its record stands.
    pub first: (u64, u64),
    /// The largest offset, and where the last record stands.
    pub last: (u64, u64),
    /// Whether the last record's offset is one that was there before it.
    pub is_behind: bool,
}

/// What a range holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogChecked {
    /// Where the walk came to: the next range's begin, where that was a record.
    pub reached: u64,
    /// Where the log begins, where the walk met files at its begin that were removed meanwhile; times and spans are
    /// those from there on.
    pub begins_anew: Option<u64>,
    /// Records.
    pub record_count: u64,
    /// Keys under which they are to be found.
    pub key_count: u64,
    /// Units that were looked for.
    pub unit_count: u64,
    /// Store times of the first and the last record.
    pub times: Option<(i64, i64)>,
    /// What is wrong.
    pub findings: Findings,
    /// By queue.
    pub spans: Vec<QueueSpan>,
    /// Totals.
    pub totals: Totals,
}

/// Checks the records from `from`, a record's begin, up to the first at or behind `to`.
///
/// # Errors
/// Where log or queues can't be read.
pub fn check_log(view: &LogView, queues: &QueueTable, from: u64, to: u64) -> Result<LogChecked> {
    let mut checker = Checker {
        view,
        queues,
        spans: HashMap::new(),
        store_times: StoreTimes::new(from <= view.min_offset()),
        done: LogChecked::default(),
    };
    let mut sums = Sums::default();
    let mut position = from;
    while position < to {
        let stop = view.walk(position, to, |offset, record, bytes| {
            checker.record(offset, record, bytes)?;
            sums.add(record);
            Ok(())
        })?;
        let (bad, fault) = match stop {
            Stop::Reached(offset) => {
                position = offset;
                break;
            }
            Stop::Expired => {
                position = view.min_offset();
                checker.begin_anew(position);
                continue;
            }
            Stop::Bad(bad, fault) => (bad, fault),
        };
        position = bad;
        if bad >= to {
            break;
        }
        position = view.next_valid(bad, fault)?.unwrap_or(view.end());
        let said =
            fault.map_or_else(|| "expected a file of the log, found none".into(), |fault| fault.to_string());
        checker.bad_record(bad, position, &said);
    }
    checker.look_ahead(position)?;
    let mut done = checker.done;
    done.reached = position;
    done.spans = checker.spans.into_values().map(|seen| seen.span).collect();
    done.spans.sort_by(|a, b| (&a.topic, a.queue_id).cmp(&(&b.topic, b.queue_id)));
    done.totals = sums.totals();
    Ok(done)
}

/// What cannot be of fields that nothing else tells of; `None` where all can.
fn oddity(record: &Record<'_>, bytes: &[u8]) -> Option<&'static str> {
    let is_port = |port: i32| (0..=i32::from(u16::MAX)).contains(&port);
    let born_behind = record.born_timestamp.saturating_sub(record.store_timestamp);
    if record.sys_flag & !sys_flag::KNOWN != 0 {
        Some("expected a system flag of known bits alone, found others")
    } else if record.prepared_transaction_offset < 0 {
        Some("expected an offset of its prepared half, found a negative number")
    } else if record.reconsume_times < 0 {
        Some("expected a number of reconsume times, found a negative one")
    } else if record.born_timestamp < 0 || born_behind > MAX_CLOCK_SKEW_MS {
        Some("expected it to be born before it was stored, or little behind, found a time far off")
    } else if !is_port(record.born_host.port) || !is_port(record.store_host.port) {
        Some("expected ports of 16 bits, found another number")
    } else if record.queue_id < 0 {
        Some("expected a queue of at least 0, found a negative one")
    } else if record.properties.is_empty() && !bytes.ends_with(&[0, 0]) {
        Some("expected a length of its properties, found a negative one, which is read as none")
    } else {
        None
    }
}

/// A queue's units that were read last.
#[derive(Debug)]
struct Seen {
    span: QueueSpan,
    first_unit: u64,
    units: Vec<CqUnit>,
}

struct Checker<'a> {
    view: &'a LogView,
    queues: &'a QueueTable,
    spans: HashMap<QueueKey, Seen>,
    store_times: StoreTimes,
    done: LogChecked,
}

impl Checker<'_> {
    fn path(&self, offset: u64) -> String {
        let file = self.view.files().find(offset);
        file.map_or_else(String::new, |file| file.path().to_string_lossy().into_owned())
    }

    /// What went before the log's begin now says nothing of what is behind it.
    fn begin_anew(&mut self, begin: u64) {
        self.spans.clear();
        self.store_times = StoreTimes::new(true);
        self.done.times = None;
        self.done.begins_anew = Some(begin);
    }

    fn bad_record(&mut self, from: u64, to: u64, fault: &str) {
        let path = self.path(from);
        self.done.findings.add(FindingKind::BadRecord, || Finding {
            kind: FindingKind::BadRecord,
            path,
            topic: None,
            queue_id: None,
            queue_offset: None,
            phy_offset: Some(from),
            detail: format!("{fault}; {} bytes up to {to} hold no record", to - from),
        });
    }

    fn record(&mut self, offset: u64, record: &Record<'_>, bytes: &[u8]) -> Result<()> {
        self.done.record_count += 1;
        let time = record.store_timestamp;
        let (first, _) = self.done.times.unwrap_or((time, time));
        if let Err(fault) = record.check_content(bytes) {
            let is_whole = matches!(fault, RecordFault::RecordCrc { .. });
            let kind = if is_whole { FindingKind::RecordChanged } else { FindingKind::BadBody };
            self.tell(kind, offset, record, || fault.to_string());
        }
        if let Some(detail) = oddity(record, bytes) {
            self.tell(FindingKind::RecordOdd, offset, record, || detail.into());
        }
        let disorder = self.store_times.next(offset, time);
        self.tell_disorder(disorder)?;
        self.done.times = Some((first, time));
        derive(self.view.config(), offset, record, self)
    }

    /// Steps back behind this range's records are decided here, by the next three records.
    fn look_ahead(&mut self, from: u64) -> Result<()> {
        let mut count = 0;
        let outcome =
            scan::scan(self.view.files(), from, self.view.end(), Check::Structure, |offset, record, _| {
                count += 1;
                let time = record.store_timestamp;
                let is_last = count == 3;
                let disorder = if is_last {
                    self.store_times.decide(Some(time))
                } else {
                    self.store_times.next(offset, time)
                };
                self.tell_disorder(disorder)?;
                let is_enough = is_last || (count == 2 && !self.store_times.is_undecided());
                Ok(if is_enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
            });
        match outcome {
            Err(error) if !self.view.follows_removal(&error)? => return Err(error),
            _ => {}
        }
        let disorder = self.store_times.decide(None);
        self.tell_disorder(disorder)
    }

    fn tell_disorder(&mut self, disorder: Option<Disorder>) -> Result<()> {
        let Some(Disorder { kind, offset, detail }) = disorder else { return Ok(()) };
        // It may be the record before the one that shows it.
        let Some(bytes) = self.view.log().select_one_message_by_offset(offset)? else { return Ok(()) };
        if let Some(record) = decode_record(&bytes) {
            self.tell(kind, offset, &record, || detail);
        }
        Ok(())
    }

    fn tell(&mut self, kind: FindingKind, offset: u64, record: &Record<'_>, detail: impl FnOnce() -> String) {
        let path = self.path(offset);
        self.done.findings.add(kind, || Finding {
            kind,
            path,
            topic: Some(decode(record.topic).into_owned()),
            queue_id: Some(record.queue_id),
            queue_offset: super::place(record.queue_offset),
            phy_offset: Some(offset),
            detail: detail(),
        });
    }

    fn unit(&mut self, queue: QueueRef<'_>, new: NewUnit) -> Result<()> {
        let Some(index) = num::from_java_long(new.cq_offset) else { return Ok(()) };
        let phy_offset = num::from_java_long(new.unit.physical_offset).unwrap_or(0);
        self.done.unit_count += 1;
        let mut wrong = Vec::new();
        if let Some(seen) = self.spans.get_mut(&queue) {
            let (last, last_at) = seen.span.last;
            if index > last + 1 {
                let missing = index - last - 1;
                wrong.push((FindingKind::OffsetGap, format!("{missing} offsets before it are in no record")));
            }
            // A record may name a queue twice, which has one unit of it.
            if (index, phy_offset) != (last, last_at) {
                let was_behind = std::mem::replace(&mut seen.span.is_behind, index <= last);
                if seen.span.is_behind && !was_behind {
                    // Once for all that follow on it: a queue that began anew has each again.
                    wrong
                        .push((FindingKind::OffsetRepeated, format!("expected {}, found {index}", last + 1)));
                }
            }
            seen.span.last = (index.max(last), phy_offset);
        } else {
            let topic = decode(queue.topic).into_owned();
            let place = (index, phy_offset);
            let span =
                QueueSpan { topic, queue_id: queue.queue_id, first: place, last: place, is_behind: false };
            self.spans.insert(queue.into(), Seen { span, first_unit: 0, units: Vec::new() });
        }
        if self.view.is_dispatched(phy_offset)
            && let Some(fault) = self.unit_fault(queue, index, new)?
            && !self.view.is_expired(phy_offset)?
        {
            wrong.push((FindingKind::UnitMissing, fault));
        }
        for (kind, detail) in wrong {
            let topic = decode(queue.topic).into_owned();
            // What lies between two offsets is the queue's, and of no file of the log: where that is divided does not matter.
            let path = match kind {
                FindingKind::UnitMissing => self.path(phy_offset),
                _ => self.queue_folder(&topic, queue.queue_id),
            };
            self.done.findings.add(kind, || Finding {
                kind,
                path,
                topic: Some(topic),
                queue_id: Some(queue.queue_id),
                queue_offset: Some(index),
                phy_offset: Some(phy_offset),
                detail,
            });
        }
        Ok(())
    }

    fn queue_folder(&self, topic: &str, queue_id: i32) -> String {
        self.view.config().queue_folder(topic, queue_id).to_string_lossy().into_owned()
    }

    /// What stands in the queue in place of a unit; `None` where it is the unit.
    fn unit_fault(&mut self, queue: QueueRef<'_>, index: u64, new: NewUnit) -> Result<Option<String>> {
        let decoded = decode(queue.topic);
        let as_text = QueueRef { topic: decoded.as_bytes(), queue_id: queue.queue_id };
        let (least, most) = UNITS_AT_ONCE;
        let wanted = (KEPT_UNITS / self.spans.len().max(1)).clamp(least, most);
        let Some(seen) = self.spans.get_mut(&queue) else { return Ok(None) };
        let cached = |seen: &Seen| {
            let at = usize::try_from(index.checked_sub(seen.first_unit)?).ok()?;
            seen.units.get(at).copied()
        };
        let found = match cached(seen) {
            Some(found) => Some(found),
            None => {
                let Some(files) = self.queues.get(as_text) else {
                    return Ok(Some("the queue has no files".into()));
                };
                (seen.first_unit, seen.units) = (index, files.units(index, wanted)?);
                cached(seen)
            }
        };
        let Some(found) = found else { return Ok(Some("the queue's files end before it".into())) };
        let CqUnit { physical_offset, size, tags_code } = found;
        let is_same = physical_offset == new.unit.physical_offset
            && size == new.unit.size
            && (tags_code == new.unit.tags_code
                || is_ext_addr(tags_code)
                // Of these there are two that are right: the check of the queue knows them.
                || queue.topic == TIMED_TOPIC);
        if is_same {
            return Ok(None);
        }
        Ok(Some(if found.is_written() {
            let wanted = new.unit;
            format!(
                "expected a unit for {} of {} bytes with tags code {}, found one for {physical_offset} of \
                 {size} bytes with tags code {tags_code}",
                wanted.physical_offset, wanted.size, wanted.tags_code
            )
        } else {
            "there is no unit".into()
        }))
    }
}

impl Derived for Checker<'_> {
    fn put_unit(&mut self, queue: QueueRef<'_>, new: NewUnit) -> Result<()> {
        self.unit(queue, new)
    }

    fn put_light_unit(&mut self, queue: QueueRef<'_>, new: NewUnit) -> Result<()> {
        self.unit(queue, new)
    }

    fn put_keys(&mut self, hashes: impl Iterator<Item = u32>, _: u64, _: i64) -> Result<()> {
        self.done.key_count += num::offset(hashes.count());
        Ok(())
    }
}

/// Totals under keys as the records have them.
#[derive(Debug, Default)]
struct Sums {
    by_topic: HashMap<Box<[u8]>, Sum>,
    by_hour: HashMap<i64, Sum>,
    by_host: HashMap<std::net::IpAddr, Sum>,
    by_size: HashMap<u32, Sum>,
}

impl Sums {
    fn add(&mut self, record: &Record<'_>) {
        let add = |sum: &mut Sum| {
            sum.0 += 1;
            sum.1 += u64::from(record.total_size);
        };
        match self.by_topic.get_mut(record.topic) {
            Some(sum) => add(sum),
            None => add(self.by_topic.entry(record.topic.into()).or_default()),
        }
        add(self.by_hour.entry(record.store_timestamp.div_euclid(HOUR_MS)).or_default());
        add(self.by_host.entry(record.born_host.ip).or_default());
        add(self.by_size.entry(record.total_size.max(1).ilog2()).or_default());
    }

    fn totals(self) -> Totals {
        let mut totals = Totals { by_hour: self.by_hour.into_iter().collect(), ..Totals::default() };
        totals.by_size = self.by_size.into_iter().collect();
        totals.by_host = self.by_host.into_iter().map(|(host, sum)| (host.to_string(), sum)).collect();
        for (topic, (count, size)) in self.by_topic {
            let sum = totals.by_topic.entry(decode(&topic).into_owned()).or_default();
            *sum = (sum.0 + count, sum.1 + size);
        }
        totals
    }
}
