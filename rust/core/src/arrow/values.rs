//! The columns of a record batch that somebody gives, by their names, whichever of Arrow's types they have.

use std::ops::Range;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Int8Type, Int16Type, Int32Type, Int64Type, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, Int64Array, OffsetSizeTrait, RecordBatch};
use arrow_array::{
    BinaryArray, BinaryViewArray, LargeBinaryArray, LargeStringArray, StringArray, StringViewArray,
};
use arrow_buffer::NullBuffer;
use arrow_schema::{ArrowError, DataType, TimeUnit};

use crate::num;

/// What is wrong with a batch.
#[derive(Debug, thiserror::Error)]
pub enum BatchFault {
    /// A column that nothing is made of.
    #[error("there is no column {name:?} to write; the columns are {known}")]
    Unknown {
        /// Its name.
        name: String,
        /// The names that there are.
        known: String,
    },
    /// Two columns of one name.
    #[error("the column {0} is there twice")]
    Twice(String),
    /// A column without which nothing works.
    #[error("the column {0} is missing")]
    Missing(&'static str),
    /// A column of another type.
    #[error("column {column}: expected {expected}, found {found}")]
    Type {
        /// Its name.
        column: &'static str,
        /// What it can be.
        expected: &'static str,
        /// What it is.
        found: DataType,
    },
    /// A column whose offsets or texts are not what Arrow says.
    #[error("column {column}: {source}")]
    Broken {
        /// Its name.
        column: String,
        /// What is wrong.
        source: ArrowError,
    },
    /// A value that does not work.
    #[error("row {row}, column {column}: {reason}")]
    Value {
        /// The row, from 0.
        row: u64,
        /// The column.
        column: &'static str,
        /// Why.
        reason: String,
    },
}

/// The columns of a batch that is given.
#[derive(Debug, Clone, Copy)]
pub(super) struct Given<'a> {
    batch: &'a RecordBatch,
    /// The number of the first row among others.
    first_row: u64,
}

impl<'a> Given<'a> {
    /// The columns of a batch, whose content is checked once: offsets within their buffers, texts UTF-8.
    ///
    /// # Errors
    /// A column that is not among those that are known, is there twice, or is broken.
    pub(super) fn of(
        batch: &'a RecordBatch,
        first_row: u64,
        known: &[&'static str],
    ) -> Result<Self, BatchFault> {
        let schema = batch.schema_ref();
        for (field, column) in schema.fields().iter().zip(batch.columns()) {
            if schema.fields().iter().filter(|other| other.name() == field.name()).count() > 1 {
                return Err(BatchFault::Twice(field.name().clone()));
            }
            if !known.contains(&field.name().as_str()) {
                return Err(BatchFault::Unknown { name: field.name().clone(), known: known.join(", ") });
            }
            let checked = column.to_data().validate_full();
            checked.map_err(|source| BatchFault::Broken { column: field.name().clone(), source })?;
        }
        Ok(Self { batch, first_row })
    }

    fn get<T>(
        self,
        column: &'static str,
        expected: &'static str,
        read: impl FnOnce(&ArrayRef) -> Option<T>,
    ) -> Result<Option<T>, BatchFault> {
        let Some(array) = self.batch.column_by_name(column) else { return Ok(None) };
        if array.data_type() == &DataType::Null {
            return Ok(None);
        }
        let found = array.data_type().clone();
        read(array).map(Some).ok_or(BatchFault::Type { column, expected, found })
    }

    pub(super) fn strings(self, column: &'static str) -> Result<Option<Values>, BatchFault> {
        self.get(column, "strings", Values::of_strings)
    }

    pub(super) fn bytes(self, column: &'static str) -> Result<Option<Values>, BatchFault> {
        self.get(column, "binary or strings", Values::of)
    }

    /// One string, or several.
    pub(super) fn texts(self, column: &'static str) -> Result<Option<Texts>, BatchFault> {
        self.get(column, "strings or lists of strings", |array| {
            Values::of_strings(array).map(Texts::One).or_else(|| Lists::of(array).map(Texts::Several))
        })
    }

    pub(super) fn maps(self, column: &'static str) -> Result<Option<Maps>, BatchFault> {
        self.get(column, "maps of strings to strings", Maps::of)
    }

    pub(super) fn integers(self, column: &'static str) -> Result<Option<Int64Array>, BatchFault> {
        self.check_in_range(column)?;
        self.get(column, "integers", integers)
    }

    /// In milliseconds since 1970.
    pub(super) fn times(self, column: &'static str) -> Result<Option<Int64Array>, BatchFault> {
        self.check_in_range(column)?;
        self.refuse::<TimestampSecondType>(column, |seconds| {
            let has_room = seconds.checked_mul(1000).is_some();
            let most = i64::MAX;
            (!has_room).then(|| format!("expected at most {most} ms around 1970, found {seconds} s"))
        })?;
        self.get(column, "timestamps, or integers that are milliseconds", times)
    }

    /// # Errors
    /// A number without sign that Java's `long` does not hold.
    fn check_in_range(self, column: &'static str) -> Result<(), BatchFault> {
        self.refuse::<UInt64Type>(column, |number| {
            let has_room = i64::try_from(number).is_ok();
            (!has_room).then(|| format!("expected at most {}, found {number}", i64::MAX))
        })
    }

    /// # Errors
    /// A value of a column of this type for which there is a reason; its nulls may hold anything.
    fn refuse<T: ArrowPrimitiveType>(
        self,
        column: &'static str,
        reason: impl Fn(T::Native) -> Option<String>,
    ) -> Result<(), BatchFault> {
        let values = self.batch.column_by_name(column).and_then(|array| array.as_primitive_opt::<T>());
        for (row, value) in (self.first_row..).zip(values.into_iter().flatten()) {
            if let Some(reason) = value.and_then(&reason) {
                return Err(BatchFault::Value { row, column, reason });
            }
        }
        Ok(())
    }
}

/// Strings or bytes.
#[derive(Debug)]
pub(super) enum Values {
    Binary(BinaryArray),
    LargeBinary(LargeBinaryArray),
    BinaryView(BinaryViewArray),
    Utf8(StringArray),
    LargeUtf8(LargeStringArray),
    Utf8View(StringViewArray),
    /// Each row's value by its number among others; `None` where it is null.
    Dictionary(Vec<Option<usize>>, Box<Self>),
}

impl Values {
    fn of_strings(array: &ArrayRef) -> Option<Self> {
        Some(match array.data_type() {
            DataType::Utf8 => Self::Utf8(array.as_string().clone()),
            DataType::LargeUtf8 => Self::LargeUtf8(array.as_string().clone()),
            DataType::Utf8View => Self::Utf8View(array.as_string_view().clone()),
            DataType::Dictionary(..) => {
                let dictionary = array.as_any_dictionary_opt()?;
                let values = Self::of_strings(dictionary.values())?;
                let numbers = integers_of(dictionary.keys())?;
                let number = |row| numbers.is_valid(row).then(|| usize::try_from(numbers.value(row)).ok());
                Self::Dictionary(
                    (0..numbers.len()).map(|row| number(row).flatten()).collect(),
                    Box::new(values),
                )
            }
            _ => return None,
        })
    }

    fn of(array: &ArrayRef) -> Option<Self> {
        Some(match array.data_type() {
            DataType::Binary => Self::Binary(array.as_binary().clone()),
            DataType::LargeBinary => Self::LargeBinary(array.as_binary().clone()),
            DataType::BinaryView => Self::BinaryView(array.as_binary_view().clone()),
            _ => return Self::of_strings(array),
        })
    }

    /// A row's value; `None` where it is null.
    pub(super) fn get(&self, row: usize) -> Option<&[u8]> {
        match self {
            Self::Binary(array) => array.is_valid(row).then(|| array.value(row)),
            Self::LargeBinary(array) => array.is_valid(row).then(|| array.value(row)),
            Self::BinaryView(array) => array.is_valid(row).then(|| array.value(row)),
            Self::Utf8(array) => array.is_valid(row).then(|| array.value(row).as_bytes()),
            Self::LargeUtf8(array) => array.is_valid(row).then(|| array.value(row).as_bytes()),
            Self::Utf8View(array) => array.is_valid(row).then(|| array.value(row).as_bytes()),
            Self::Dictionary(numbers, values) => values.get(numbers.get(row).copied().flatten()?),
        }
    }
}

/// Lists of strings.
#[derive(Debug)]
pub(super) struct Lists {
    /// Where each row's values begin, and where the last one's end.
    offsets: Vec<usize>,
    nulls: Option<NullBuffer>,
    values: Values,
}

impl Lists {
    fn of(array: &ArrayRef) -> Option<Self> {
        if let Some(list) = array.as_list_opt::<i32>() {
            let values = Values::of_strings(list.values())?;
            Some(Self { offsets: offsets(list.value_offsets()), nulls: list.nulls().cloned(), values })
        } else {
            let list = array.as_list_opt::<i64>()?;
            let values = Values::of_strings(list.values())?;
            Some(Self { offsets: offsets(list.value_offsets()), nulls: list.nulls().cloned(), values })
        }
    }

    /// A row's values, of which each can be null; none where the list is.
    pub(super) fn get(&self, row: usize) -> impl Iterator<Item = Option<&[u8]>> {
        range(&self.offsets, self.nulls.as_ref(), row).map(|at| self.values.get(at))
    }
}

/// One string, or several.
#[derive(Debug)]
pub(super) enum Texts {
    One(Values),
    Several(Lists),
}

/// Maps of strings to strings.
#[derive(Debug)]
pub(super) struct Maps {
    offsets: Vec<usize>,
    nulls: Option<NullBuffer>,
    names: Values,
    values: Values,
}

impl Maps {
    fn of(array: &ArrayRef) -> Option<Self> {
        let map = array.as_map_opt()?;
        let (names, values) = (Values::of_strings(map.keys())?, Values::of_strings(map.values())?);
        Some(Self { offsets: offsets(map.value_offsets()), nulls: map.nulls().cloned(), names, values })
    }

    /// A row's names and values, of which each can be null; none where the map is.
    pub(super) fn get(&self, row: usize) -> impl Iterator<Item = (Option<&[u8]>, Option<&[u8]>)> {
        range(&self.offsets, self.nulls.as_ref(), row).map(|at| (self.names.get(at), self.values.get(at)))
    }
}

fn offsets<O: OffsetSizeTrait>(given: &[O]) -> Vec<usize> {
    given.iter().map(|offset| offset.as_usize()).collect()
}

fn range(offsets: &[usize], nulls: Option<&NullBuffer>, row: usize) -> Range<usize> {
    if nulls.is_some_and(|nulls| nulls.is_null(row)) {
        return 0..0;
    }
    let at = |row: usize| offsets.get(row).copied().unwrap_or(0);
    at(row)..at(row + 1)
}

/// A row's number; `None` where it is null, or the column is not there.
pub(super) fn number(column: Option<&Int64Array>, row: usize) -> Option<i64> {
    column.filter(|column| column.is_valid(row)).map(|column| column.value(row))
}

fn widened<T: ArrowPrimitiveType>(array: &dyn Array, widen: impl Fn(T::Native) -> i64) -> Int64Array {
    array.as_primitive::<T>().unary::<_, Int64Type>(widen)
}

fn integers(array: &ArrayRef) -> Option<Int64Array> {
    integers_of(array)
}

fn integers_of(array: &dyn Array) -> Option<Int64Array> {
    Some(match array.data_type() {
        DataType::Int8 => widened::<Int8Type>(array, i64::from),
        DataType::Int16 => widened::<Int16Type>(array, i64::from),
        DataType::Int32 => widened::<Int32Type>(array, i64::from),
        DataType::Int64 => array.as_primitive::<Int64Type>().clone(),
        DataType::UInt8 => widened::<UInt8Type>(array, i64::from),
        DataType::UInt16 => widened::<UInt16Type>(array, i64::from),
        DataType::UInt32 => widened::<UInt32Type>(array, i64::from),
        DataType::UInt64 => widened::<UInt64Type>(array, num::java_long),
        _ => return None,
    })
}

fn times(array: &ArrayRef) -> Option<Int64Array> {
    Some(match array.data_type() {
        DataType::Timestamp(TimeUnit::Second, _) => {
            widened::<TimestampSecondType>(array, |seconds| seconds.saturating_mul(1000))
        }
        DataType::Timestamp(TimeUnit::Millisecond, _) => widened::<TimestampMillisecondType>(array, |ms| ms),
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            widened::<TimestampMicrosecondType>(array, |us| us.div_euclid(1000))
        }
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            widened::<TimestampNanosecondType>(array, |ns| ns.div_euclid(1_000_000))
        }
        _ => return integers(array),
    })
}
