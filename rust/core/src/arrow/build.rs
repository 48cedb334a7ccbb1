//! Building a record batch: some messages at a time, and of those a column at a time.
//!
//! The messages that are taken at a time are few enough that what was decoded of them is still in the
//! processor's cache when the last column is built.

use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_schema::{ArrowError, Schema};

use super::columns::{ColumnBuilder, column_builder};
use super::schema::Columns;
use crate::format::message::Record;
use crate::format::properties::DispatchProperties;
use crate::mmap::slice::Slice;
use crate::store::query::decode_record;
use crate::store::{GotMessage, GotMessages};

/// How many messages are decoded before the columns are built.
pub(super) const ROWS_AT_ONCE: usize = 128;

/// A message with its record decoded.
pub(super) struct Row<'a> {
    pub(super) record: Record<'a>,
    /// Empty where no column needs them.
    pub(super) properties: DispatchProperties<'a>,
    /// What the record lies in, and where.
    pub(super) window: &'a Slice,
    pub(super) at: usize,
}

impl<'a> Row<'a> {
    fn of(message: GotMessage<'a>, with_properties: bool) -> Option<Self> {
        let (window, at) = message.window();
        let record = decode_record(message.bytes())?;
        let properties =
            if with_properties { DispatchProperties::of(record.properties) } else { Default::default() };
        Some(Self { record, properties, window, at })
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
    pub(super) fn new(columns: &Columns, schema: Arc<Schema>) -> Self {
        let builders = columns.columns.iter().map(|column| column_builder(*column, columns)).collect();
        let with_properties = columns.columns.iter().any(|column| column.is_of_properties());
        Self { schema, columns: builders, with_properties, row_count: 0 }
    }

    /// Adds messages.
    ///
    /// # Errors
    /// Where a compressed body can't be inflated, or a column becomes larger than Arrow's offsets reach.
    pub(super) fn append(&mut self, messages: &GotMessages) -> Result<(), ArrowError> {
        let mut messages = messages.iter();
        let mut rows = Vec::with_capacity(ROWS_AT_ONCE);
        loop {
            let some = messages.by_ref().take(ROWS_AT_ONCE);
            rows.extend(some.filter_map(|message| Row::of(message, self.with_properties)));
            if rows.is_empty() {
                return Ok(());
            }
            self.columns.iter_mut().try_for_each(|column| column.append(&rows))?;
            self.row_count += rows.len();
            rows.clear();
        }
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
    let mut builder = BatchBuilder::new(columns, columns.schema());
    builder.append(messages)?;
    builder.finish()
}
