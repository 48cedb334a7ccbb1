//! The bodies of a record batch: copied end to end, or as views into the files.

use std::sync::Arc;

use arrow_array::builder::BinaryViewBuilder;
use arrow_array::{ArrayRef, BinaryArray};
use arrow_buffer::Buffer;
use arrow_schema::ArrowError;
use bytes::Bytes;

use super::build::{Room, Row, Rows};
use super::columns::ColumnBuilder;
use super::memory::Memory;
use super::schema::BodyType;
use super::texts::{Ends, check_size};
use crate::mmap::slice::Slice;

/// Bodies up to this size are copied into the view itself.
const INLINE_VIEW_SIZE: usize = 12;

pub(super) fn body_builder(
    body: BodyType,
    inflated: bool,
    room: Room,
    memory: &Memory,
) -> Box<dyn ColumnBuilder> {
    match body {
        BodyType::Binary => {
            let (bytes, ends) = (memory.take(room.bytes), Ends::with_room(room.rows));
            Box::new(Copies { bytes, ends, memory: memory.clone(), inflated })
        }
        BodyType::BinaryView => {
            let bodies = Vec::with_capacity(room.rows);
            Box::new(Views { windows: Vec::new(), bodies, inflated, inflated_size: 0 })
        }
    }
}

/// What a client compressed, where a column has it as it was before.
fn inflated_of<'r>(row: &'r Row<'_>, inflated: bool) -> Option<&'r Vec<u8>> {
    row.inflated.as_ref().filter(|_| inflated)
}

struct Copies {
    bytes: Vec<u8>,
    ends: Ends,
    memory: Memory,
    inflated: bool,
}

impl ColumnBuilder for Copies {
    fn append(&mut self, rows: &Rows<'_>) -> Result<(), ArrowError> {
        for row in rows.iter() {
            match inflated_of(row, self.inflated) {
                Some(body) => {
                    // Some messages can be a thousand times what they take in the log.
                    check_size(self.bytes.len() + body.len())?;
                    self.bytes.extend_from_slice(body);
                }
                None => self.bytes.extend_from_slice(row.record.body),
            }
            self.ends.push(self.bytes.len());
        }
        check_size(self.bytes.len())
    }

    fn finish(self: Box<Self>) -> Result<ArrayRef, ArrowError> {
        Ok(Arc::new(BinaryArray::try_new(self.ends.into_offsets(), self.memory.lend(self.bytes), None)?))
    }
}

/// Views into the files' mappings. A batch's messages lie in one or two of them; each gives one
/// buffer, which reaches from its first message to its last.
struct Views {
    windows: Vec<Window>,
    bodies: Vec<Body>,
    inflated: bool,
    inflated_size: usize,
}

/// A mapping, and the part of it that the bodies take.
struct Window {
    whole: Slice,
    start: usize,
    end: usize,
}

enum Body {
    /// Where it begins in a window, and its size.
    In {
        window: usize,
        at: usize,
        len: usize,
    },
    Copied(Vec<u8>),
}

impl Views {
    /// The window of a row, which reaches as far as its body now.
    fn window_of(&mut self, row: &Row<'_>, start: usize, end: usize) -> usize {
        match self.windows.last_mut().filter(|last| last.whole.has_same_owner(row.window)) {
            Some(last) => (last.start, last.end) = (last.start.min(start), last.end.max(end)),
            None => self.windows.push(Window { whole: row.window.whole(), start, end }),
        }
        self.windows.len() - 1
    }
}

impl ColumnBuilder for Views {
    fn append(&mut self, rows: &Rows<'_>) -> Result<(), ArrowError> {
        for row in rows.iter() {
            let len = row.record.body.len();
            let body = match inflated_of(row, self.inflated) {
                Some(body) => {
                    self.inflated_size += body.len();
                    check_size(self.inflated_size)?;
                    Body::Copied(body.clone())
                }
                None if len <= INLINE_VIEW_SIZE => Body::Copied(row.record.body.to_vec()),
                None => {
                    let at = row.at + row.record.body_at();
                    Body::In { window: self.window_of(row, at, at + len), at, len }
                }
            };
            self.bodies.push(body);
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<ArrayRef, ArrowError> {
        let mut builder = BinaryViewBuilder::with_capacity(self.bodies.len());
        let mut blocks = Vec::with_capacity(self.windows.len());
        for Window { whole, start, end } in &self.windows {
            let slice = whole.sub(*start, end - start);
            blocks.push(
                slice.map(|slice| (builder.append_block(Buffer::from(Bytes::from_owner(slice))), start)),
            );
        }
        for body in &self.bodies {
            match body {
                Body::Copied(bytes) => builder.append_value(bytes),
                Body::In { window, at, len } => {
                    let place = blocks.get(*window).copied().flatten().and_then(|(block, start)| {
                        Some((block, u32::try_from(at - start).ok()?, u32::try_from(*len).ok()?))
                    });
                    let (block, at, len) = place.ok_or_else(out_of_reach)?;
                    builder.try_append_view(block, at, len)?;
                }
            }
        }
        Ok(Arc::new(builder.finish()))
    }
}

fn out_of_reach() -> ArrowError {
    ArrowError::MemoryError("bodies of one batch lie further apart than a view reaches, 4 GiB".into())
}
