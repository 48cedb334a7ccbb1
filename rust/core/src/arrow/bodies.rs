//! The bodies of a record batch: copied end to end, or as views into the files.

use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_array::builder::{BinaryBuilder, BinaryViewBuilder};
use arrow_buffer::Buffer;
use arrow_schema::ArrowError;
use bytes::Bytes;

use super::build::Row;
use super::columns::ColumnBuilder;
use super::schema::BodyType;
use crate::format::body::{inflate, is_compressed};
use crate::mmap::slice::Slice;
use crate::num;

/// Bodies up to this size are copied into the view itself.
const INLINE_VIEW_SIZE: usize = 12;

pub(super) fn body_builder(body: BodyType, inflated: bool) -> Box<dyn ColumnBuilder> {
    match body {
        BodyType::Binary => Box::new(Copies { builder: BinaryBuilder::new(), inflated, size: 0 }),
        BodyType::BinaryView => Box::new(Views { windows: Vec::new(), bodies: Vec::new(), inflated }),
    }
}

fn inflate_where(row: &Row<'_>, inflated: bool) -> Result<Option<Vec<u8>>, ArrowError> {
    if !inflated || !is_compressed(row.record.sys_flag) {
        return Ok(None);
    }
    let body = inflate(row.record.body, row.record.sys_flag);
    body.map(Some).map_err(|fault| {
        ArrowError::ExternalError(format!("the body at {}: {fault}", row.record.physical_offset).into())
    })
}

struct Copies {
    builder: BinaryBuilder,
    inflated: bool,
    size: u64,
}

impl ColumnBuilder for Copies {
    fn append(&mut self, rows: &[Row<'_>]) -> Result<(), ArrowError> {
        for row in rows {
            let inflated = inflate_where(row, self.inflated)?;
            let body = inflated.as_deref().unwrap_or(row.record.body);
            self.size += num::offset(body.len());
            if i32::try_from(self.size).is_err() {
                return Err(ArrowError::MemoryError(
                    "bodies of one batch pass 2 GiB: take fewer messages a batch".into(),
                ));
            }
            self.builder.append_value(body);
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<ArrayRef, ArrowError> {
        Ok(Arc::new(self.builder.finish()))
    }
}

/// Views into the files' mappings. A batch's messages lie in one or two of them; each gives one
/// buffer, which reaches from its first message to its last.
struct Views {
    windows: Vec<Window>,
    bodies: Vec<Body>,
    inflated: bool,
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
    fn append(&mut self, rows: &[Row<'_>]) -> Result<(), ArrowError> {
        for row in rows {
            let len = row.record.body.len();
            let body = match inflate_where(row, self.inflated)? {
                Some(body) => Body::Copied(body),
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
