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
use crate::format::message::Record;
use crate::format::properties::{self, DispatchProperties};
use crate::mmap::slice::Slice;
use crate::num;
use crate::store::query::decode_record;
use crate::store::{GotMessage, GotMessages};

/// How many messages are decoded before the columns are built.
pub(super) const ROWS_AT_ONCE: usize = 128;

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
}

/// Name and value of a property.
pub(super) type Pair<'a> = (&'a [u8], &'a [u8]);

/// Some messages with their records decoded.
pub(super) struct Rows<'a> {
    rows: Vec<Row<'a>>,
    /// The properties of all of them.
    pairs: Vec<Pair<'a>>,
    with_properties: bool,
}

impl<'a> Deref for Rows<'a> {
    type Target = [Row<'a>];

    fn deref(&self) -> &[Row<'a>] {
        &self.rows
    }
}

impl<'a> Rows<'a> {
    fn with_room(rows: usize, with_properties: bool) -> Self {
        Self { rows: Vec::with_capacity(rows), pairs: Vec::new(), with_properties }
    }

    /// Adds a message; none for bytes that are none, which only 4.9.3 gives out. Its properties are taken
    /// apart here, once for all columns.
    fn push(&mut self, message: GotMessage<'a>) {
        let (window, at) = message.window();
        let Some(record) = decode_record(message.bytes()) else { return };
        let first = self.pairs.len();
        let mut found = DispatchProperties::default();
        if self.with_properties {
            for (name, value) in properties::pairs(record.properties) {
                found.take(name, value);
                self.pairs.push((name, value));
            }
        }
        let pairs = first..self.pairs.len();
        self.rows.push(Row { record, properties: found, pairs, window, at });
    }

    fn clear(&mut self) {
        self.rows.clear();
        self.pairs.clear();
    }

    /// A row's properties as they are stored.
    pub(super) fn pairs_of(&self, row: &Row<'a>) -> &[Pair<'a>] {
        self.pairs.get(row.pairs.clone()).unwrap_or_default()
    }
}

/// A record batch under way.
pub(super) struct BatchBuilder {
    schema: Arc<Schema>,
    columns: Vec<Box<dyn ColumnBuilder>>,
    with_properties: bool,
    row_count: usize,
}

impl BatchBuilder {
    pub(super) fn new(columns: &Columns, schema: Arc<Schema>, room: Room, memory: &Memory) -> Self {
        let builder = |column: &Column| column_builder(*column, columns, room, memory);
        let builders = columns.columns.iter().map(builder).collect();
        let with_properties = columns.columns.iter().any(|column| column.is_of_properties());
        Self { schema, columns: builders, with_properties, row_count: 0 }
    }

    /// Adds messages.
    ///
    /// # Errors
    /// Where a compressed body can't be inflated, or a column becomes larger than Arrow's offsets reach.
    pub(super) fn append(&mut self, messages: &GotMessages) -> Result<(), ArrowError> {
        let mut messages = messages.iter().peekable();
        let mut rows = Rows::with_room(ROWS_AT_ONCE, self.with_properties);
        while messages.peek().is_some() {
            messages.by_ref().take(ROWS_AT_ONCE).for_each(|message| rows.push(message));
            self.columns.iter_mut().try_for_each(|column| column.append(&rows))?;
            self.row_count += rows.len();
            rows.clear();
        }
        Ok(())
    }

    /// Bytes of bodies that were inflated: what the messages take in the log says little of those.
    pub(super) fn inflated_size(&self) -> usize {
        self.columns.iter().map(|column| column.inflated_size()).sum()
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
    builder.append(messages)?;
    builder.finish()
}
