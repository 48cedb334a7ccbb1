//! Texts of a record batch while it is built.

use arrow_array::StringArray;
use arrow_buffer::{NullBuffer, NullBufferBuilder, OffsetBuffer};
use arrow_schema::ArrowError;

use crate::format::java_string;
use crate::num;

/// Where the values of a column begin that lie end to end, and where the last one ends.
pub(super) struct Ends(Vec<i32>);

impl Ends {
    pub(super) fn with_room(rows: usize) -> Self {
        let mut ends = Vec::with_capacity(rows + 1);
        ends.push(0);
        Self(ends)
    }

    /// A value ends at a size. One that is too large shows in [`check_size`], which comes before the array.
    #[inline]
    pub(super) fn push(&mut self, size: usize) {
        self.0.push(num::java_int(size));
    }

    pub(super) fn into_offsets(self) -> OffsetBuffer<i32> {
        OffsetBuffer::new(self.0.into())
    }
}

/// # Errors
/// Where a column becomes larger than Arrow's offsets reach.
pub(super) fn check_size(size: usize) -> Result<(), ArrowError> {
    if i32::try_from(size).is_ok() {
        return Ok(());
    }
    Err(ArrowError::MemoryError("a column of one batch passes 2 GiB: take fewer messages a batch".into()))
}

/// Texts end to end.
pub(super) struct Texts {
    bytes: Vec<u8>,
    ends: Ends,
}

impl Texts {
    pub(super) fn with_room(rows: usize) -> Self {
        Self { bytes: Vec::new(), ends: Ends::with_room(rows) }
    }

    /// Adds a text as it is stored.
    #[inline]
    pub(super) fn push(&mut self, stored: &[u8]) {
        if stored.is_ascii() {
            self.bytes.extend_from_slice(stored);
        } else {
            self.bytes.extend_from_slice(java_string::decode(stored).as_bytes());
        }
        self.ends.push(self.bytes.len());
    }

    /// Adds a text that is put together from two.
    #[inline]
    pub(super) fn push_both(&mut self, first: &[u8], second: &[u8]) {
        self.bytes.extend_from_slice(first);
        self.bytes.extend_from_slice(second);
        self.ends.push(self.bytes.len());
    }

    /// Adds what stands where there is none.
    #[inline]
    pub(super) fn push_empty(&mut self) {
        self.ends.push(self.bytes.len());
    }

    pub(super) const fn size(&self) -> usize {
        self.bytes.len()
    }

    /// How many there are.
    pub(super) const fn len(&self) -> usize {
        self.ends.0.len() - 1
    }

    /// # Errors
    /// Where they are larger than Arrow's offsets reach.
    pub(super) fn into_array(self, nulls: Option<NullBuffer>) -> Result<StringArray, ArrowError> {
        check_size(self.bytes.len())?;
        StringArray::try_new(self.ends.into_offsets(), self.bytes.into(), nulls)
    }
}

/// Texts of which messages next to each other mostly have the same.
#[derive(Default)]
pub(super) struct RepeatedTexts {
    /// The text of each run, end to end.
    texts: String,
    runs: Vec<Run>,
}

struct Run {
    /// Where its text ends in that of all.
    end: usize,
    rows: usize,
    is_null: bool,
}

impl RepeatedTexts {
    /// Adds the last one again; `false` where there is none.
    #[inline]
    pub(super) fn repeat(&mut self) -> bool {
        let last = self.runs.last_mut();
        last.map(|last| last.rows += 1).is_some()
    }

    /// Adds another one; null where there is none.
    pub(super) fn push(&mut self, text: Option<&str>) {
        self.texts.push_str(text.unwrap_or_default());
        self.runs.push(Run { end: self.texts.len(), rows: 1, is_null: text.is_none() });
    }

    /// # Errors
    /// Where they are larger than Arrow's offsets reach.
    pub(super) fn into_array(self) -> Result<StringArray, ArrowError> {
        if let [Run { rows, is_null, .. }] = *self.runs {
            check_size(self.texts.len().saturating_mul(rows))?;
            return Ok(if is_null {
                StringArray::new_null(rows)
            } else {
                StringArray::new_repeated(&self.texts, rows)
            });
        }
        let mut texts = Texts::with_room(self.runs.iter().map(|run| run.rows).sum());
        let mut nulls = NullBufferBuilder::new(0);
        let mut begin = 0;
        for run in &self.runs {
            let text = self.texts.as_bytes().get(begin..run.end).unwrap_or_default();
            check_size(texts.size() + text.len().saturating_mul(run.rows))?;
            (0..run.rows).for_each(|_| texts.push_both(text, &[]));
            match run.is_null {
                true => nulls.append_n_nulls(run.rows),
                false => nulls.append_n_non_nulls(run.rows),
            }
            begin = run.end;
        }
        texts.into_array(nulls.finish())
    }
}
