//! Building a record batch: some messages at a time, and of those a column at a time.
//!
//! The messages that are taken at a time are few enough that what was decoded of them is still in the
//! processor's cache when the last column is built.

use std::ops::{Deref, Range};
use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_schema::{ArrowError, Schema};

use super::columns::{ColumnBuilder, column_builder};
use super::memory::Memory;
use super::schema::{Column, Columns};
use crate::commit_log::Bodies;
use crate::format::body::{inflate, is_compressed};
use crate::format::message::{Record, decode_record};
use crate::format::properties::{self, DispatchProperties};
use crate::mmap::slice::Slice;
use crate::num;
use crate::selection::Uninflated;
use crate::store::{GotMessage, GotMessages};

/// How many messages are decoded before the columns are built.
pub(super) const ROWS_AT_ONCE: usize = 128;
/// So much of inflated bodies is kept for the columns at the most, or as much as one message has.
const INFLATED_AT_ONCE: usize = 8 << 20;

/// How much room a batch is begun with; it grows where it is too little.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Room {
    /// Messages.
    pub(super) rows: usize,
    /// Bytes of their bodies.
    pub(super) bytes: usize,
}

/// A message with its record decoded.
pub(super) struct Row<'a> {
    pub(super) record: Record<'a>,
    /// Empty where no column needs them.
    pub(super) properties: DispatchProperties<'a>,
    /// The same, among the pairs of all rows.
    pairs: Range<usize>,
    /// What the record lies in, and where.
    pub(super) window: &'a Slice,
    pub(super) at: usize,
    /// Its body, where it is wanted and a client compressed it.
    pub(super) inflated: Option<Vec<u8>>,
}

/// Name and value of a property.
pub(super) type Pair<'a> = (&'a [u8], &'a [u8]);

/// Some messages with their records decoded.
pub(super) struct Rows<'a> {
    rows: Vec<Row<'a>>,
    /// The properties of all of them.
    pairs: Vec<Pair<'a>>,
    with_properties: bool,
    with_bodies: bool,
    /// Bytes of bodies that were inflated.
    inflated_size: usize,
}

impl<'a> Deref for Rows<'a> {
    type Target = [Row<'a>];

    fn deref(&self) -> &[Row<'a>] {
        &self.rows
    }
}

impl<'a> Rows<'a> {
    fn with_room(rows: usize, with_properties: bool, with_bodies: bool) -> Self {
        let rows = Vec::with_capacity(rows);
        Self { rows, pairs: Vec::new(), with_properties, with_bodies, inflated_size: 0 }
    }

    /// Adds a message; none for bytes that are none, which only 4.9.3 gives out. Its properties are taken
    /// apart here, once for all columns, and its body inflates before any column has the message.
    ///
    /// # Errors
    /// Its body does not inflate.
    fn push(&mut self, message: GotMessage<'a>) -> Result<(), Uninflated> {
        let (window, at) = message.window();
        let Some(record) = decode_record(message.bytes()) else { return Ok(()) };
        let inflated = if self.with_bodies { inflated(&record)? } else { None };
        self.inflated_size += inflated.as_ref().map_or(0, Vec::len);
        let first = self.pairs.len();
        let mut found = DispatchProperties::default();
        if self.with_properties {
            for (name, value) in properties::pairs(record.properties) {
                found.take(name, value);
                self.pairs.push((name, value));
            }
        }
        let pairs = first..self.pairs.len();
        self.rows.push(Row { record, properties: found, pairs, window, at, inflated });
        Ok(())
    }

    /// Whether the columns are to take them before more come.
    const fn are_many(&self) -> bool {
        self.rows.len() >= ROWS_AT_ONCE || self.inflated_size >= INFLATED_AT_ONCE
    }

    fn clear(&mut self) {
        self.inflated_size = 0;
        self.rows.clear();
        self.pairs.clear();
    }

    /// A row's properties as they are stored.
    pub(super) fn pairs_of(&self, row: &Row<'a>) -> &[Pair<'a>] {
        self.pairs.get(row.pairs.clone()).unwrap_or_default()
    }
}

/// A record's body, where a client compressed it.
fn inflated(record: &Record<'_>) -> Result<Option<Vec<u8>>, Uninflated> {
    if !is_compressed(record.sys_flag) {
        return Ok(None);
    }
    inflate(record.body, record.sys_flag).map(Some).map_err(|fault| {
        let from = num::from_java_long(record.physical_offset).unwrap_or(0);
        Uninflated { from, to: record.next_offset(from), flag: record.sys_flag, fault }
    })
}

/// A record batch under way.
pub(super) struct BatchBuilder {
    schema: Arc<Schema>,
    columns: Vec<Box<dyn ColumnBuilder>>,
    with_properties: bool,
    with_bodies: bool,
    row_count: usize,
    inflated_size: usize,
    uninflated: Vec<Uninflated>,
}

impl BatchBuilder {
    pub(super) fn new(columns: &Columns, schema: Arc<Schema>, room: Room, memory: &Memory) -> Self {
        let builder = |column: &Column| column_builder(*column, columns, room, memory);
        let builders = columns.columns.iter().map(builder).collect();
        let with_properties = columns.columns.iter().any(|column| column.is_of_properties());
        let with_bodies = columns.columns.contains(&Column::Body);
        let (row_count, inflated_size, uninflated) = (0, 0, Vec::new());
        Self { schema, columns: builders, with_properties, with_bodies, row_count, inflated_size, uninflated }
    }

    /// Adds some of the messages, but for those whose bodies do not inflate; gives the one behind the last that it took.
    /// Once so much is inflated it takes no more: what 128 messages become may be thousands of times what they take in
    /// the log.
    ///
    /// # Errors
    /// Where a column becomes larger than Arrow's offsets reach.
    pub(super) fn append(
        &mut self,
        messages: &GotMessages,
        some: Range<usize>,
        most_inflated: usize,
    ) -> Result<usize, ArrowError> {
        let room = some.len().min(ROWS_AT_ONCE);
        let mut rows = Rows::with_room(room, self.with_properties, self.with_bodies);
        for at in some.clone() {
            let Some(message) = messages.get(at) else { continue };
            if let Err(bad) = rows.push(message) {
                self.uninflated.push(bad);
            } else if rows.are_many() {
                self.take(&mut rows)?;
                if self.inflated_size >= most_inflated {
                    return Ok(at + 1);
                }
            }
        }
        self.take(&mut rows)?;
        Ok(some.end)
    }

    fn take(&mut self, rows: &mut Rows<'_>) -> Result<(), ArrowError> {
        self.columns.iter_mut().try_for_each(|column| column.append(rows))?;
        self.row_count += rows.len();
        self.inflated_size += rows.inflated_size;
        rows.clear();
        Ok(())
    }

    /// Bytes of bodies that were inflated: what the messages take in the log says little of those.
    pub(super) const fn inflated_size(&self) -> usize {
        self.inflated_size
    }

    /// The messages that were left out since the last call.
    pub(super) fn uninflated(&mut self) -> Vec<Uninflated> {
        std::mem::take(&mut self.uninflated)
    }

    /// The batch.
    ///
    /// # Errors
    /// Where the columns do not fit together.
    pub(super) fn finish(self) -> Result<RecordBatch, ArrowError> {
        let arrays = self.columns.into_iter().map(ColumnBuilder::finish).collect::<Result<_, _>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(self.row_count));
        RecordBatch::try_new_with_options(self.schema, arrays, &options)
    }
}

/// The messages as a record batch.
///
/// # Errors
/// Where a compressed body can't be inflated, or a column becomes larger than Arrow's offsets reach.
pub fn record_batch(messages: &GotMessages, columns: &Columns) -> Result<RecordBatch, ArrowError> {
    let room = Room { rows: messages.len(), bytes: num::index(messages.size()) };
    let mut builder = BatchBuilder::new(columns, columns.schema(), room, &Memory::default());
    // Who got them may not have looked at them.
    let are_read = columns.bodies() == Bodies::Read;
    for from in (0..messages.len()).step_by(ROWS_AT_ONCE) {
        let some = from..messages.len().min(from + ROWS_AT_ONCE);
        if are_read {
            messages.prefetch(some.clone());
        }
        builder.append(messages, some, usize::MAX)?;
    }
    // Who has the messages in hand can leave it out, or take it as it is stored.
    if let Some(Uninflated { from, fault, .. }) = builder.uninflated().first() {
        return Err(ArrowError::ExternalError(format!("the body at {from}: {fault}").into()));
    }
    builder.finish()
}
