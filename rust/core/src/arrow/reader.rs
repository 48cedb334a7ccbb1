//! A selection as a stream of record batches.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, Schema};

use super::build::{BatchBuilder, ROWS_AT_ONCE, Room};
use super::memory::Memory;
use super::schema::Columns;
use crate::error::Error;
use crate::num;
use crate::selection::{Cursor, Part};
use crate::side_by_side::side_by_side;
use crate::store::GotMessages;

/// So much of inflated bodies ends a batch, whatever its messages take in the log.
const MOST_INFLATED: usize = 64 << 20;

/// How large batches become, and how many are made at once.
#[derive(Debug, Clone, Copy)]
pub struct BatchOptions {
    /// Most messages.
    pub max_messages: usize,
    /// About how many bytes of records.
    pub max_bytes: u64,
    /// Most batches that are made side by side, where it is known beforehand which messages are in which.
    pub max_threads: usize,
}

impl Default for BatchOptions {
    fn default() -> Self {
        Self { max_messages: 65_536, max_bytes: 8 << 20, max_threads: 1 }
    }
}

/// The messages of a cursor, batch by batch.
#[derive(Debug)]
pub struct MessageReader {
    cursor: Cursor,
    columns: Columns,
    options: BatchOptions,
    schema: Arc<Schema>,
    memory: Memory,
    /// What the last batch took that was made by going on with the cursor.
    room: Room,
    /// What the last such batch left of the messages that it took from the cursor.
    rest: Option<Rest>,
    /// Batches that were made and not given yet.
    made: VecDeque<Result<RecordBatch, ArrowError>>,
    is_done: bool,
}

impl MessageReader {
    /// A reader of what a cursor has left.
    #[must_use]
    pub fn new(cursor: Cursor, columns: Columns, options: BatchOptions) -> Self {
        let schema = columns.schema();
        let (memory, room, made) = (Memory::default(), Room::default(), VecDeque::new());
        Self { cursor, columns, options, schema, memory, room, rest: None, made, is_done: false }
    }

    /// Makes the next batches.
    fn make(&mut self) {
        if self.rest.is_some() {
            return self.make_one();
        }
        let mut parts = Vec::with_capacity(self.options.max_threads);
        let mut outcome = Ok(());
        while parts.len() < self.options.max_threads.max(1) {
            match self.cursor.take_part(self.options.max_messages, self.options.max_bytes) {
                Ok(Some(part)) if part.is_empty() => break,
                Ok(Some(part)) => parts.push(part),
                Ok(None) => return self.make_one(),
                Err(error) => {
                    outcome = Err(external(error));
                    break;
                }
            }
        }
        self.is_done = parts.is_empty();
        let made = side_by_side(parts, self.options.max_threads, |part| self.batches_of(part));
        self.made.extend(made.into_iter().flatten().chain(outcome.err().map(Err)));
    }

    /// One as a rule, none where none of its messages can be given.
    fn batches_of(&self, part: Part) -> Vec<Result<RecordBatch, ArrowError>> {
        let Part { mut cursor, count: mut left, bytes } = part;
        let mut room =
            Room { rows: left, bytes: num::index(bytes.min(self.options.max_bytes.saturating_mul(2))) };
        let limits = BatchOptions { max_messages: usize::MAX, max_bytes: u64::MAX, ..self.options };
        let (mut rest, mut made) = (None, Vec::new());
        while left > 0 {
            match batch(&mut cursor, &mut rest, self.builder(room), limits) {
                Ok(None) => break,
                Ok(Some((batch, taken))) => {
                    left = left.saturating_sub(taken.rows);
                    room = Room::default();
                    made.extend(Some(Ok(batch)).filter(has_rows));
                }
                Err(error) => {
                    made.push(Err(error));
                    break;
                }
            }
        }
        made
    }

    fn builder(&self, room: Room) -> BatchBuilder {
        BatchBuilder::new(&self.columns, Arc::clone(&self.schema), room, &self.memory)
    }

    /// Makes a batch of what the cursor comes to next.
    fn make_one(&mut self) {
        let builder = self.builder(self.room);
        match batch(&mut self.cursor, &mut self.rest, builder, self.options) {
            Ok(Some((batch, room))) => {
                self.room = room;
                self.made.extend(Some(Ok(batch)).filter(has_rows));
            }
            Ok(None) => self.is_done = true,
            Err(error) => self.made.push_back(Err(error)),
        }
    }
}

/// Messages that a cursor gave, and the first of them that is in no batch yet.
type Rest = (GotMessages, usize);

/// A batch of what is left of the messages before and of a cursor's next ones, and the room that it took; `None` at
/// the end.
fn batch(
    cursor: &mut Cursor,
    rest: &mut Option<Rest>,
    mut builder: BatchBuilder,
    limits: BatchOptions,
) -> Result<Option<(RecordBatch, Room)>, ArrowError> {
    let BatchOptions { max_messages: mut messages_left, max_bytes: mut bytes_left, .. } = limits;
    let mut taken = Room::default();
    while messages_left > 0 && bytes_left > 0 && builder.inflated_size() < MOST_INFLATED {
        let (found, from) = match rest.take() {
            Some(rest) => rest,
            // Few at a time: they are in the processor's cache still when the columns are built.
            None => (cursor.next_messages(messages_left.min(ROWS_AT_ONCE), bytes_left).map_err(external)?, 0),
        };
        if found.is_empty() {
            break;
        }
        let to = builder.append(&found, from..found.len(), MOST_INFLATED)?;
        builder.uninflated().iter().for_each(|bad| cursor.refuse(bad));
        let size = found.size_of(from..to);
        messages_left = messages_left.saturating_sub(to - from);
        bytes_left = bytes_left.saturating_sub(size);
        taken = Room { rows: taken.rows + (to - from), bytes: taken.bytes + num::index(size) };
        if to < found.len() {
            *rest = Some((found, to));
        }
    }
    if taken.rows == 0 { Ok(None) } else { Ok(Some((builder.finish()?, taken))) }
}

/// One has none where no message is left of it: whoever reads may take that for the end.
fn has_rows(batch: &Result<RecordBatch, ArrowError>) -> bool {
    batch.as_ref().is_ok_and(|batch| batch.num_rows() > 0)
}

fn external(error: Error) -> ArrowError {
    ArrowError::ExternalError(Box::new(error))
}

impl Iterator for MessageReader {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.made.is_empty() && !self.is_done {
            self.make();
        }
        let batch = self.made.pop_front();
        if matches!(batch, Some(Err(_))) {
            self.made.clear();
            self.is_done = true;
        }
        batch
    }
}

impl RecordBatchReader for MessageReader {
    fn schema(&self) -> Arc<Schema> {
        Arc::clone(&self.schema)
    }
}
