//! Where the messages of a selection are to be looked for.

use std::ops::Range;
use std::sync::Arc;

use hashbrown::HashMap;

use super::{FoundBy, QueueRange, Selection};
use crate::commit_log::Bodies;
use crate::commit_log::topic_queue::QueueRef;
use crate::consume_queue::table::LMQ_PREFIX;
use crate::consume_queue::{Boundary, ConsumeQueue};
use crate::error::Result;
use crate::format::be;
use crate::format::java_string;
use crate::format::message::{SYS_FLAG_AT, store_timestamp_at};
use crate::index::{IndexService, KeyQuery};
use crate::mmap::mapped_file::MappedFile;
use crate::num;
use crate::store::Store;

/// Units that are counted at a time.
const UNITS_AT_ONCE: usize = 1 << 16;
/// Units that are read at a time to see which messages a part has.
const UNITS_OF_A_PART: usize = 1024;
/// As much of a record as its store time needs.
const HEAD_SIZE: u64 = 128;

/// Units at both ends of a range of time whose messages say themselves whether they are in it: one time that is damaged moves
/// an end by less.
const UNSURE_UNITS: u64 = 2;

/// A queue's units that are still to be looked at.
#[derive(Debug)]
pub(super) struct Span {
    pub(super) queue: Arc<ConsumeQueue>,
    pub(super) next: u64,
    pub(super) end: u64,
}

/// Where to look, and how far one has got.
#[derive(Debug)]
pub(super) enum Plan {
    /// At these offsets of the log, in order.
    Offsets(std::vec::IntoIter<u64>),
    /// Through these units, queue after queue.
    Units(std::vec::IntoIter<Span>, Option<Span>),
    /// Through the log.
    Log { next: u64, end: u64 },
}

impl Plan {
    pub(super) fn of(selection: &Selection, store: &Store) -> Result<Self> {
        if let Some(places) = &selection.places {
            let mut places = places.clone();
            places.sort_unstable();
            places.dedup();
            return Ok(Self::Offsets(places.into_iter()));
        }
        // Keys are indexed under the topic of their message, not under the further queues that it names.
        let is_indexed = |range: &QueueRange| !range.topic.starts_with(LMQ_PREFIX);
        let is_indexed = selection.queues.iter().flatten().all(is_indexed);
        if let (Some(keys), Some(index)) = (&selection.keys, store.index().filter(|_| is_indexed)) {
            return Ok(Self::Offsets(by_keys(selection, keys, index, store)?.into_iter()));
        }
        if let Some(queues) = &selection.queues {
            return Ok(Self::Units(spans(selection, queues, store)?.into_iter(), None));
        }
        let (from, to) = log_range(selection, store)?;
        Ok(Self::Log { next: from, end: to })
    }
}

/// Units that were taken out of a plan, and what their messages take.
pub(super) struct PlanPart {
    pub(super) plan: Plan,
    pub(super) count: usize,
    pub(super) bytes: u64,
}

impl Plan {
    /// Takes the units of the next messages out of it, at most so many and of about as many bytes.
    /// `None` where it does not go by units.
    pub(super) fn take_part(
        &mut self,
        store: &Store,
        max_count: usize,
        max_bytes: u64,
        mut pass_over_missing: impl FnMut(&mut Span),
    ) -> Result<Option<PlanPart>> {
        let Self::Units(spans, current) = self else { return Ok(None) };
        let mut taken: Vec<Span> = Vec::new();
        let (mut count, mut bytes) = (0, 0);
        while count < max_count && bytes < max_bytes {
            let Some(span) = current.as_mut().filter(|span| span.next < span.end) else {
                *current = spans.next();
                if current.is_none() {
                    break;
                }
                continue;
            };
            let wanted = num::index(span.end - span.next).min(UNITS_OF_A_PART).min(max_count - count);
            let units = store.units(&span.queue, span.next, wanted)?;
            if units.is_empty() {
                pass_over_missing(span);
                continue;
            }
            let first = span.next;
            for unit in &units {
                if bytes >= max_bytes {
                    break;
                }
                span.next += 1;
                if let Some((_, size)) = unit.place() {
                    count += 1;
                    bytes += u64::from(size);
                }
            }
            match taken.last_mut().filter(|last| Arc::ptr_eq(&last.queue, &span.queue) && last.end == first) {
                Some(last) => last.end = span.next,
                None => taken.push(Span { queue: Arc::clone(&span.queue), next: first, end: span.next }),
            }
        }
        Ok(Some(PlanPart { plan: Self::Units(taken.into_iter(), None), count, bytes }))
    }
}

/// The offsets that the index has for the keys. Without topics, every topic that the log has is tried: the index hashes
/// topic and key together. So it is where a topic's queues may have messages of other topics.
fn by_keys(selection: &Selection, keys: &[String], index: &IndexService, store: &Store) -> Result<Vec<u64>> {
    let mut topics: Vec<String> = match &selection.queues {
        Some(queues) if !store.config().enable_multi_dispatch => {
            queues.iter().map(|range| range.topic.clone()).collect()
        }
        _ => topics_of(store).into_iter().chain(selection.topics_of_keys.iter().cloned()).collect(),
    };
    topics.sort_unstable();
    topics.dedup();
    let mut offsets = Vec::new();
    let (begin, end) = selection.sorted_times();
    for topic in &topics {
        for key in keys {
            let query = KeyQuery {
                topic: topic.as_bytes(),
                key: key.as_bytes(),
                max_num: usize::MAX,
                begin: begin.unwrap_or(i64::MIN),
                end: end.unwrap_or(i64::MAX),
            };
            let found = index.query(&query, |_| Ok(Some(())))?;
            offsets.extend(found.into_iter().map(|(offset, ())| offset));
        }
    }
    offsets.sort_unstable();
    offsets.dedup();
    Ok(offsets)
}

/// The topics of a store's queues, of those too that were removed while the log has their messages.
fn topics_of(store: &Store) -> Vec<String> {
    let mut topics: Vec<String> = store.queues().all().iter().map(|queue| queue.topic().to_owned()).collect();
    let removed = store.config().removed_queues.queues();
    topics.extend(removed.iter().map(|queue| java_string::decode(&queue.topic).into_owned()));
    topics
}

/// As [`Selection::places_of_keys`].
pub(super) fn places_of_keys(selection: &Selection, store: &Store) -> Result<Vec<u64>> {
    store.catch_up()?;
    let Some((keys, index)) = selection.keys.as_ref().zip(store.index()) else { return Ok(Vec::new()) };
    let there = store.first_offset()..store.log().max_offset();
    let mut offsets = by_keys(selection, keys, index, store)?;
    offsets.retain(|offset| there.contains(offset));
    Ok(offsets)
}

/// The queues' units that can be selected: offsets and times are known to the queue.
fn spans(selection: &Selection, queues: &[QueueRange], store: &Store) -> Result<Vec<Span>> {
    // Units of a part were planned by who knows them.
    store.beside_openings(|| spans_now(selection, queues, store), |_| store.is_part())
}

fn spans_now(selection: &Selection, queues: &[QueueRange], store: &Store) -> Result<Vec<Span>> {
    let mut found = Vec::new();
    let mut planned = HashMap::new();
    let (first_time, last_time) = selection.sorted_times();
    for range in queues {
        for queue in queues_of(range, store) {
            let mut next = range.from.unwrap_or(0).max(queue.min_offset_in_queue());
            let mut end = range.to.unwrap_or(u64::MAX).min(queue.max_offset_in_queue());
            if let Some(begin) = first_time {
                let first = queue.offset_by_time(store.log(), begin, Boundary::Lower)?.index;
                next = next.max(first.saturating_sub(UNSURE_UNITS));
            }
            if let Some(last) = last_time {
                let behind = last.saturating_add(1);
                let behind = queue.offset_by_time(store.log(), behind, Boundary::Lower)?.index;
                end = end.min(behind.saturating_add(UNSURE_UNITS));
            }
            if let Some(from) = selection.from_phy_offset {
                next = next.max(queue.first_unit_at(from)?);
            }
            if let Some(to) = selection.to_phy_offset {
                end = end.min(queue.first_unit_at(to)?);
            }
            let of_queue: &mut Vec<Range<u64>> = planned.entry(Arc::as_ptr(&queue)).or_default();
            for Range { start: next, end } in outside_of(of_queue, next..end) {
                of_queue.push(next..end);
                found.push(Span { queue: Arc::clone(&queue), next, end });
            }
        }
    }
    Ok(found)
}

/// What of a range lies in none of others, which have nothing in common.
fn outside_of(others: &[Range<u64>], range: Range<u64>) -> Vec<Range<u64>> {
    let mut others: Vec<_> =
        others.iter().filter(|other| other.start < range.end && range.start < other.end).collect();
    others.sort_unstable_by_key(|other| other.start);
    let mut found = Vec::new();
    let mut next = range.start;
    for other in others {
        if next < other.start {
            found.push(next..other.start);
        }
        next = next.max(other.end);
    }
    if next < range.end {
        found.push(next..range.end);
    }
    found
}

fn queues_of(range: &QueueRange, store: &Store) -> Vec<Arc<ConsumeQueue>> {
    match range.queue_id {
        Some(queue_id) => {
            let key = QueueRef { topic: range.topic.as_bytes(), queue_id };
            store.queues().get(key).into_iter().collect()
        }
        None => store.queues().of_topic(&range.topic),
    }
}

/// The part of the log that can hold selected messages: whole files are left out by the store times of their first two
/// messages, where those run forwards. One of them may be damaged.
pub(super) fn log_range(selection: &Selection, store: &Store) -> Result<(u64, u64)> {
    let log = store.log();
    let mut from = store.first_offset().max(selection.from_phy_offset.unwrap_or(0));
    let mut to = log.max_offset().min(selection.to_phy_offset.unwrap_or(u64::MAX));
    let (first_time, last_time) = selection.sorted_times();
    if first_time.is_none() && last_time.is_none() {
        return Ok((from, to));
    }
    let files = log.files().files();
    let (mut earlier, mut later) = (Vec::with_capacity(files.len()), Vec::with_capacity(files.len()));
    for file in files.iter() {
        let (first, second) = first_store_timestamps(file)?.unwrap_or((i64::MAX, i64::MAX));
        earlier.push(first.min(second));
        later.push(first.max(second));
    }
    if !earlier.is_sorted() || !later.is_sorted() {
        return Ok((from, to));
    }
    if let Some(begin) = first_time {
        let first_behind = later.partition_point(|&time| time < begin);
        let start = files.get(first_behind.saturating_sub(1));
        from = from.max(start.map_or(0, |file| file.file_from_offset()));
    }
    if let Some(end) = last_time {
        let first_behind = earlier.partition_point(|&time| time <= end);
        to = to.min(files.get(first_behind).map_or(u64::MAX, |file| file.file_from_offset()));
    }
    Ok((from, to))
}

/// The store times of a file's first two messages, of a single one twice; `None` where it begins with none.
fn first_store_timestamps(file: &Arc<MappedFile>) -> Result<Option<(i64, i64)>> {
    let Some((size, first)) = head_at(file, 0)? else { return Ok(None) };
    let second = head_at(file, size)?.map_or(first, |(_, second)| second);
    Ok(Some((first, second)))
}

/// Size and store time of a message in a file.
fn head_at(file: &Arc<MappedFile>, position: u64) -> Result<Option<(u64, i64)>> {
    if position + HEAD_SIZE > file.file_size() {
        return Ok(None);
    }
    // Its writer may have removed it since it was listed.
    let Some(head) = file.slice_if_there(position, HEAD_SIZE)? else { return Ok(None) };
    let time =
        be::i32_at(&head, SYS_FLAG_AT).and_then(|sys_flag| be::i64_at(&head, store_timestamp_at(sys_flag)));
    let size = be::i32_at(&head, 0).and_then(num::from_java_int);
    Ok(time.filter(|&time| time > 0).map(|time| (size.map_or(0, u64::from), time)))
}

/// Counts what units alone decide, but for a few at the ends of a range of time; `None` where the messages have to be looked
/// at.
pub(super) fn count_units(selection: &Selection, store: &Store) -> Result<Option<u64>> {
    let Some(queues) = selection.queues.as_ref().filter(|_| selection.is_by_units()) else { return Ok(None) };
    let mut count = 0;
    for span in spans(selection, queues, store)? {
        count += count_span(selection, store, &span)?;
    }
    Ok(Some(count))
}

fn count_span(selection: &Selection, store: &Store, span: &Span) -> Result<u64> {
    let min_offset = store.first_offset();
    let unsure = |bound: Option<i64>| bound.map_or(0, |_| 2 * UNSURE_UNITS);
    let sure = span.next.saturating_add(unsure(selection.begin_timestamp))
        ..span.end.saturating_sub(unsure(selection.end_timestamp));
    let mut records = store.log().records_with(Bodies::Unwanted);
    let mut next = span.next;
    let mut count = 0;
    while next < span.end {
        let wanted = num::index(span.end - next).min(UNITS_AT_ONCE);
        let units = store.units(&span.queue, next, wanted)?;
        if units.is_empty() {
            next = span.queue.next_behind_missing(next);
            continue;
        }
        for (unit, index) in units.iter().zip(next..) {
            let Some((offset, _)) = unit.place().filter(|&(offset, _)| offset >= min_offset) else {
                continue;
            };
            if sure.contains(&index) {
                count += 1;
            } else if let Some(found) = store.record_of(&mut records, &span.queue, unit, index)? {
                let found_by = FoundBy::Unit { queue: &span.queue, index };
                let takes = |record| selection.takes(store, &record, offset, found_by);
                count += u64::from(found.decoded().is_some_and(takes));
            }
        }
        next += num::offset(units.len());
    }
    Ok(count)
}
