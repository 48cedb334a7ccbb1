//! Going through the messages of a selection, some at a time.

use std::ops::ControlFlow;
use std::sync::Arc;

use super::plan::{Plan, Span};
use super::{FoundBy, Selection};
use crate::commit_log::scan::{self, ScanEnd};
use crate::error::Result;
use crate::mmap::slice::Slice;
use crate::num;
use crate::store::query::decode_record;
use crate::store::{GotMessages, Store};

/// Bytes of records that are looked for at a time, unless said otherwise.
pub const CHUNK_SIZE: u64 = 8 << 20;
/// Units that are read at a time.
const UNITS_AT_ONCE: usize = 1024;

/// A place in a selection's messages.
#[derive(Debug)]
pub struct Cursor {
    store: Arc<Store>,
    selection: Selection,
    plan: Plan,
    left: u64,
}

/// The messages that were found so far, and how many more fit.
struct Chunk {
    messages: GotMessages,
    max_count: usize,
    bytes_left: u64,
}

impl Chunk {
    fn is_full(&self) -> bool {
        self.messages.len() >= self.max_count || self.bytes_left == 0
    }

    fn push(&mut self, window: &Slice, at: usize, len: usize, queue_offset: u64) {
        self.bytes_left = self.bytes_left.saturating_sub(num::offset(len));
        self.messages.push(window, at, len, queue_offset);
    }
}

impl Cursor {
    pub(super) fn new(store: Arc<Store>, selection: Selection) -> Result<Self> {
        store.catch_up()?;
        let plan = Plan::of(&selection, &store)?;
        let left = selection.limit.unwrap_or(u64::MAX);
        Ok(Self { store, selection, plan, left })
    }

    /// The store.
    #[must_use]
    pub const fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// The next messages: at most so many, and about as many bytes of records; none at the end.
    ///
    /// # Errors
    /// Where index, queues or log can't be read.
    pub fn next_messages(&mut self, max_count: usize, max_bytes: u64) -> Result<GotMessages> {
        let max_count = max_count.min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let mut chunk = Chunk { messages: GotMessages::default(), max_count, bytes_left: max_bytes.max(1) };
        if max_count == 0 {
            return Ok(chunk.messages);
        }
        match &mut self.plan {
            Plan::Offsets(offsets) => take_offsets(&self.store, &self.selection, offsets, &mut chunk)?,
            Plan::Units(spans, current) => {
                take_units(&self.store, &self.selection, spans, current, &mut chunk)?;
            }
            Plan::Log { next, end } => {
                *next = take_log(&self.store, &self.selection, *next, *end, &mut chunk)?;
            }
        }
        self.left -= num::offset(chunk.messages.len());
        Ok(chunk.messages)
    }
}

fn take_offsets(
    store: &Store,
    selection: &Selection,
    offsets: &mut std::vec::IntoIter<u64>,
    chunk: &mut Chunk,
) -> Result<()> {
    while !chunk.is_full() {
        let Some(offset) = offsets.next() else { break };
        let Some(bytes) = store.record_at(offset)? else { continue };
        let Some(record) = decode_record(&bytes) else { continue };
        if selection.takes(&record, offset, FoundBy::Offset) {
            let queue_offset = num::from_java_long(record.queue_offset).unwrap_or(0);
            chunk.push(&bytes, 0, bytes.len(), queue_offset);
        }
    }
    Ok(())
}

fn take_units(
    store: &Store,
    selection: &Selection,
    spans: &mut std::vec::IntoIter<Span>,
    current: &mut Option<Span>,
    chunk: &mut Chunk,
) -> Result<()> {
    let mut records = store.log().records();
    while !chunk.is_full() {
        let Some(span) = current.as_mut().filter(|span| span.next < span.end) else {
            *current = spans.next();
            if current.is_none() {
                break;
            }
            continue;
        };
        let wanted =
            num::index(span.end - span.next).min(UNITS_AT_ONCE).min(chunk.max_count.saturating_mul(2));
        let units = span.queue.units(span.next, wanted)?;
        if units.is_empty() {
            // Its first file went with an expired log file meanwhile.
            span.next =
                span.queue.min_offset_in_queue().max(span.queue.roll_next_file(span.next)).min(span.end);
            continue;
        }
        for unit in &units {
            if chunk.is_full() {
                break;
            }
            let index = span.next;
            span.next += 1;
            if let Some(tags) = &selection.tags
                && span.queue.tags_code(unit)?.is_some_and(|code| !tags.matches_code(code))
            {
                continue;
            }
            let Some(found) = store.record_of(&mut records, &span.queue, unit, index)? else { continue };
            let Some((offset, _)) = unit.place() else { continue };
            let bytes = || found.window.get(found.at..found.at + found.len);
            let Some(record) = found.record.or_else(|| decode_record(bytes()?)) else { continue };
            if selection.takes(&record, offset, FoundBy::Unit) {
                chunk.push(found.window, found.at, found.len, index);
            }
        }
    }
    Ok(())
}

/// Gives where to go on. Damaged parts are passed over.
fn take_log(store: &Store, selection: &Selection, from: u64, end: u64, chunk: &mut Chunk) -> Result<u64> {
    let files = store.log().files();
    let mut next = from;
    while next < end && !chunk.is_full() {
        let readable = store.log().max_offset();
        let check = store.check_of_served(next);
        let reached = scan::scan_windows(files, next, readable, check, |offset, record, window, at| {
            if chunk.is_full() || offset >= end {
                return Ok(ControlFlow::Break(()));
            }
            if selection.takes(record, offset, FoundBy::Offset) {
                let queue_offset = num::from_java_long(record.queue_offset).unwrap_or(0);
                chunk.push(window, at, record.total_size as usize, queue_offset);
            }
            Ok(ControlFlow::Continue(()))
        })?;
        next = match reached {
            ScanEnd::Reached(offset) => offset.max(next),
            ScanEnd::Stopped(offset) => return Ok(offset),
            ScanEnd::Fault { offset, .. } | ScanEnd::Missing(offset) => {
                scan::next_record(files, offset + 1, end)?.unwrap_or(end)
            }
        };
        if matches!(reached, ScanEnd::Reached(_)) {
            break;
        }
    }
    Ok(next)
}
