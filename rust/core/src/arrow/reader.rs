//! A selection as a stream of record batches.

use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, Schema};

use super::build::record_batch;
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
        Self { max_messages: 65_536, max_bytes: 32 << 20 }
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

impl Iterator for MessageReader {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_done {
            return None;
        }
        match self.cursor.next_messages(self.options.max_messages, self.options.max_bytes) {
            Ok(messages) if messages.is_empty() => {
                self.is_done = true;
                None
            }
            Ok(messages) => Some(record_batch(&messages, &self.columns)),
            Err(error) => {
                self.is_done = true;
                Some(Err(ArrowError::ExternalError(Box::new(error))))
            }
        }
    }
}

impl RecordBatchReader for MessageReader {
    fn schema(&self) -> Arc<Schema> {
        Arc::clone(&self.schema)
    }
}
