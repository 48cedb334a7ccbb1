//! A selection as a stream of record batches.

use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, Schema};

use super::build::{BatchBuilder, ROWS_AT_ONCE};
use super::schema::Columns;
use crate::selection::Cursor;

/// How large batches become.
#[derive(Debug, Clone, Copy)]
pub struct BatchOptions {
    /// Most messages.
    pub max_messages: usize,
    /// About how many bytes of records.
    pub max_bytes: u64,
}

impl Default for BatchOptions {
    fn default() -> Self {
        Self { max_messages: 65_536, max_bytes: 8 << 20 }
    }
}

/// The messages of a cursor, batch by batch.
#[derive(Debug)]
pub struct MessageReader {
    cursor: Cursor,
    columns: Columns,
    options: BatchOptions,
    schema: Arc<Schema>,
    is_done: bool,
}

impl MessageReader {
    /// A reader of what a cursor has left.
    #[must_use]
    pub fn new(cursor: Cursor, columns: Columns, options: BatchOptions) -> Self {
        let schema = columns.schema();
        Self { cursor, columns, options, schema, is_done: false }
    }
}

impl MessageReader {
    fn next_batch(&mut self) -> Result<Option<RecordBatch>, ArrowError> {
        let mut builder = BatchBuilder::new(&self.columns, Arc::clone(&self.schema));
        let BatchOptions { max_messages: mut messages_left, max_bytes: mut bytes_left } = self.options;
        let mut is_empty = true;
        while messages_left > 0 && bytes_left > 0 {
            // Few at a time: they are in the processor's cache still when the columns are built.
            let found = self.cursor.next_messages(messages_left.min(ROWS_AT_ONCE), bytes_left);
            let found = found.map_err(|error| ArrowError::ExternalError(Box::new(error)))?;
            if found.is_empty() {
                break;
            }
            is_empty = false;
            builder.append(&found)?;
            messages_left -= found.len();
            bytes_left = bytes_left.saturating_sub(found.size());
        }
        if is_empty { Ok(None) } else { builder.finish().map(Some) }
    }
}

impl Iterator for MessageReader {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_done {
            return None;
        }
        let batch = self.next_batch().transpose();
        self.is_done = !matches!(batch, Some(Ok(_)));
        batch
    }
}

impl RecordBatchReader for MessageReader {
    fn schema(&self) -> Arc<Schema> {
        Arc::clone(&self.schema)
    }
}
