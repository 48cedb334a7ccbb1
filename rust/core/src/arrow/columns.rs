//! The columns of a record batch while it is built.

use std::sync::Arc;

use arrow_array::builder::{ListBuilder, MapBuilder, MapFieldNames, StringBuilder};
use arrow_array::types::{Int32Type, Int64Type, TimestampMicrosecondType, TimestampMillisecondType};
use arrow_array::{ArrayRef, ArrowPrimitiveType, PrimitiveArray};
use arrow_schema::{ArrowError, DataType};

use super::bodies::body_builder;
use super::build::Row;
use super::schema::{Column, Columns, Dialect, key_field, properties_field, timestamp_type};
use crate::format::host::Host;
use crate::format::java_string;
use crate::format::message::Record;
use crate::format::message_id::MessageId;
use crate::format::properties::{self, DispatchProperties};
use crate::num;

/// A column while it is built.
pub(super) trait ColumnBuilder {
    /// Adds what some messages have in it.
    fn append(&mut self, rows: &[Row<'_>]) -> Result<(), ArrowError>;

    /// The column.
    fn finish(self: Box<Self>) -> Result<ArrayRef, ArrowError>;
}

pub(super) fn column_builder(column: Column, columns: &Columns) -> Box<dyn ColumnBuilder> {
    let Columns { body, dialect, .. } = *columns;
    match column {
        Column::Topic => Box::new(Texts::repeated(|row: &Row<'_>| Some(row.record.topic))),
        Column::QueueId => int32(|record| record.queue_id),
        Column::QueueOffset => int64(|record| record.queue_offset),
        Column::CommitLogOffset => int64(|record| record.physical_offset),
        Column::StoreSize => int32(|record| num::java_int(record.total_size as usize)),
        Column::BodyCrc => int32(|record| record.body_crc),
        Column::Flag => int32(|record| record.flag),
        Column::SysFlag => int32(|record| record.sys_flag),
        Column::BornTimestamp => timestamps(dialect, |record| record.born_timestamp),
        Column::StoreTimestamp => timestamps(dialect, |record| record.store_timestamp),
        Column::BornHost => Box::new(Hosts::new(|record: &Record<'_>| record.born_host)),
        Column::StoreHost => Box::new(Hosts::new(|record: &Record<'_>| record.store_host)),
        Column::ReconsumeTimes => int32(|record| record.reconsume_times),
        Column::PreparedTransactionOffset => int64(|record| record.prepared_transaction_offset),
        Column::MsgId => Box::new(MessageIds::default()),
        Column::UniqueKey => Box::new(Texts::new(|row: &Row<'_>| row.properties.uniq_key)),
        Column::Tags => Box::new(Texts::repeated(|row: &Row<'_>| row.properties.tags)),
        Column::Keys => Box::new(Keys(ListBuilder::new(StringBuilder::new()).with_field(key_field(dialect)))),
        Column::Properties => Box::new(PropertyMaps::new(dialect)),
        Column::Body => body_builder(body, true),
        Column::RawBody => body_builder(body, false),
    }
}

struct Numbers<T: ArrowPrimitiveType, Of> {
    values: Vec<T::Native>,
    of: Of,
    /// One of `T`'s: times have their zone in it.
    data_type: DataType,
}

impl<T: ArrowPrimitiveType, Of: Fn(&Record<'_>) -> T::Native> ColumnBuilder for Numbers<T, Of> {
    fn append(&mut self, rows: &[Row<'_>]) -> Result<(), ArrowError> {
        self.values.extend(rows.iter().map(|row| (self.of)(&row.record)));
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<ArrayRef, ArrowError> {
        Ok(Arc::new(PrimitiveArray::<T>::new(self.values.into(), None).with_data_type(self.data_type)))
    }
}

fn int32(of: impl Fn(&Record<'_>) -> i32 + 'static) -> Box<dyn ColumnBuilder> {
    Box::new(Numbers::<Int32Type, _> { values: Vec::new(), of, data_type: DataType::Int32 })
}

fn int64(of: impl Fn(&Record<'_>) -> i64 + 'static) -> Box<dyn ColumnBuilder> {
    Box::new(Numbers::<Int64Type, _> { values: Vec::new(), of, data_type: DataType::Int64 })
}

fn timestamps(dialect: Dialect, of: impl Fn(&Record<'_>) -> i64 + 'static) -> Box<dyn ColumnBuilder> {
    let (values, data_type) = (Vec::new(), timestamp_type(dialect));
    match dialect {
        Dialect::Arrow => Box::new(Numbers::<TimestampMillisecondType, _> { values, of, data_type }),
        Dialect::Spark => {
            let of = move |record: &Record<'_>| of(record).saturating_mul(1000);
            Box::new(Numbers::<TimestampMicrosecondType, _> { values, of, data_type })
        }
    }
}

/// Texts of messages; null where one has none.
struct Texts<Of> {
    builder: StringBuilder,
    of: Of,
    /// The last text, as it is stored and decoded, where messages next to each other mostly have one.
    last: Option<(Vec<u8>, String)>,
}

impl<Of> Texts<Of>
where
    Of: for<'r> Fn(&'r Row<'_>) -> Option<&'r [u8]>,
{
    fn new(of: Of) -> Self {
        Self { builder: StringBuilder::new(), of, last: None }
    }

    fn repeated(of: Of) -> Self {
        Self { last: Some((Vec::new(), String::new())), ..Self::new(of) }
    }
}

impl<Of> ColumnBuilder for Texts<Of>
where
    Of: for<'r> Fn(&'r Row<'_>) -> Option<&'r [u8]>,
{
    fn append(&mut self, rows: &[Row<'_>]) -> Result<(), ArrowError> {
        for row in rows {
            let text = (self.of)(row);
            match (text, &mut self.last) {
                (None, _) => self.builder.append_null(),
                (Some(text), None) => self.builder.append_value(java_string::decode(text)),
                (Some(text), Some((stored, decoded))) => {
                    if stored != text {
                        *stored = text.to_vec();
                        *decoded = java_string::decode(text).into_owned();
                    }
                    self.builder.append_value(decoded);
                }
            }
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<ArrayRef, ArrowError> {
        Ok(Arc::new(self.builder.finish()))
    }
}

/// Hosts. Messages next to each other mostly come from one.
struct Hosts<Of> {
    builder: StringBuilder,
    of: Of,
    last: Option<(Host, String)>,
}

impl<Of> Hosts<Of> {
    fn new(of: Of) -> Self {
        Self { builder: StringBuilder::new(), of, last: None }
    }
}

impl<Of: Fn(&Record<'_>) -> Host> ColumnBuilder for Hosts<Of> {
    fn append(&mut self, rows: &[Row<'_>]) -> Result<(), ArrowError> {
        for row in rows {
            let host = (self.of)(&row.record);
            let (_, text) = match self.last.take_if(|(known, _)| *known == host) {
                Some(known) => self.last.insert(known),
                None => self.last.insert((host, host.to_string())),
            };
            self.builder.append_value(text);
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<ArrayRef, ArrowError> {
        Ok(Arc::new(self.builder.finish()))
    }
}

#[derive(Default)]
struct MessageIds {
    builder: StringBuilder,
    text: String,
}

impl ColumnBuilder for MessageIds {
    fn append(&mut self, rows: &[Row<'_>]) -> Result<(), ArrowError> {
        for Row { record, .. } in rows {
            let physical_offset = num::from_java_long(record.physical_offset).unwrap_or(0);
            self.text.clear();
            MessageId { store_host: record.store_host, physical_offset }.push_hex(&mut self.text);
            self.builder.append_value(&self.text);
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<ArrayRef, ArrowError> {
        Ok(Arc::new(self.builder.finish()))
    }
}

struct Keys(ListBuilder<StringBuilder>);

impl ColumnBuilder for Keys {
    fn append(&mut self, rows: &[Row<'_>]) -> Result<(), ArrowError> {
        for row in rows {
            let found = DispatchProperties { uniq_key: None, ..row.properties };
            found.index_keys().for_each(|key| self.0.values().append_value(java_string::decode(key)));
            self.0.append(true);
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<ArrayRef, ArrowError> {
        Ok(Arc::new(self.0.finish()))
    }
}

struct PropertyMaps(MapBuilder<StringBuilder, StringBuilder>);

impl PropertyMaps {
    fn new(dialect: Dialect) -> Self {
        let names = MapFieldNames { entry: "entries".into(), key: "key".into(), value: "value".into() };
        let builder = MapBuilder::new(Some(names), StringBuilder::new(), StringBuilder::new());
        let pair = properties_field(dialect);
        Self(match pair.data_type() {
            DataType::Struct(fields) if fields.len() == 2 => {
                let mut fields = fields.iter().cloned();
                let with = |builder: MapBuilder<_, _>, field, is_key| match (field, is_key) {
                    (Some(field), true) => builder.with_keys_field(field),
                    (Some(field), false) => builder.with_values_field(field),
                    (None, _) => builder,
                };
                let builder = with(builder, fields.next(), true);
                with(builder, fields.next(), false)
            }
            _ => builder,
        })
    }
}

impl ColumnBuilder for PropertyMaps {
    fn append(&mut self, rows: &[Row<'_>]) -> Result<(), ArrowError> {
        let mut pairs = Vec::new();
        for row in rows {
            pairs.extend(properties::pairs(row.record.properties));
            // Of two properties of one name the last counts, and a map has each name once.
            for (at, (name, value)) in pairs.iter().enumerate() {
                if pairs.iter().skip(at + 1).all(|(later, _)| later != name) {
                    self.0.keys().append_value(java_string::decode(name));
                    self.0.values().append_value(java_string::decode(value));
                }
            }
            self.0.append(true)?;
            pairs.clear();
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<ArrayRef, ArrowError> {
        Ok(Arc::new(self.0.finish()))
    }
}
