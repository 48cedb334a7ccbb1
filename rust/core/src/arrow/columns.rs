//! The columns of a record batch while it is built.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::types::{Int32Type, Int64Type, TimestampMicrosecondType, TimestampMillisecondType};
use arrow_array::{
    ArrayRef, ArrowPrimitiveType, BinaryArray, ListArray, MapArray, PrimitiveArray, StructArray,
};
use arrow_buffer::NullBufferBuilder;
use arrow_schema::{ArrowError, DataType, FieldRef, Fields};

use super::bodies::body_builder;
use super::build::{Pair, Room, Row, Rows};
use super::memory::Memory;
use super::schema::{Column, Columns, Dialect, key_field, properties_field, timestamp_type};
use super::texts::{Ends, RepeatedTexts, Texts, check_size};
use crate::format::host::Host;
use crate::format::java_string;
use crate::format::message::Record;
use crate::format::message_id::{hex_digits, push_hex};
use crate::format::properties::DispatchProperties;
use crate::num;

/// Up to here, the names of a message's properties are held against each other.
const FEW_PROPERTIES: usize = 16;

/// A column while it is built.
pub(super) trait ColumnBuilder: Send {
    /// Adds what some messages have in it.
    fn append(&mut self, rows: &Rows<'_>) -> Result<(), ArrowError>;

    /// The column.
    fn finish(self: Box<Self>) -> Result<ArrayRef, ArrowError>;
}

pub(super) fn column_builder(
    column: Column,
    columns: &Columns,
    room: Room,
    memory: &Memory,
) -> Box<dyn ColumnBuilder> {
    let Columns { body, dialect, .. } = *columns;
    match column {
        Column::Topic => Box::new(Repeated::new(|row| Some(row.record.topic))),
        Column::QueueId => int32(room, |record| record.queue_id),
        Column::QueueOffset => int64(room, |record| record.queue_offset),
        Column::CommitLogOffset => int64(room, |record| record.physical_offset),
        Column::StoreSize => int32(room, |record| num::java_int(record.total_size as usize)),
        Column::BodyCrc => int32(room, |record| record.body_crc),
        Column::Flag => int32(room, |record| record.flag),
        Column::SysFlag => int32(room, |record| record.sys_flag),
        Column::BornTimestamp => timestamps(dialect, room, |record| record.born_timestamp),
        Column::StoreTimestamp => timestamps(dialect, room, |record| record.store_timestamp),
        Column::BornHost => Box::new(Hosts::new(|record| record.born_host)),
        Column::StoreHost => Box::new(Hosts::new(|record| record.store_host)),
        Column::ReconsumeTimes => int32(room, |record| record.reconsume_times),
        Column::PreparedTransactionOffset => int64(room, |record| record.prepared_transaction_offset),
        Column::MsgId => Box::new(MessageIds { texts: Texts::with_room(room.rows), host: None }),
        Column::UniqueKey => Box::new(UniqueKeys::with_room(room.rows)),
        Column::Tags => Box::new(Repeated::new(|row| row.properties.tags)),
        Column::Keys => Box::new(Keys::new(key_field(dialect), room)),
        Column::Properties => Box::new(PropertyMaps::new(properties_field(dialect), room)),
        Column::RawProperties => Box::new(RawProperties::with_room(room.rows)),
        Column::Body => body_builder(body, true, room, memory),
        Column::RawBody => body_builder(body, false, room, memory),
    }
}

struct Numbers<T: ArrowPrimitiveType, Of> {
    values: Vec<T::Native>,
    of: Of,
    /// One of `T`'s: times have their zone in it.
    data_type: DataType,
}

impl<T: ArrowPrimitiveType, Of: Fn(&Record<'_>) -> T::Native + Send> ColumnBuilder for Numbers<T, Of> {
    fn append(&mut self, rows: &Rows<'_>) -> Result<(), ArrowError> {
        self.values.extend(rows.iter().map(|row| (self.of)(&row.record)));
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<ArrayRef, ArrowError> {
        Ok(Arc::new(PrimitiveArray::<T>::new(self.values.into(), None).with_data_type(self.data_type)))
    }
}

fn int32(room: Room, of: impl Fn(&Record<'_>) -> i32 + Send + 'static) -> Box<dyn ColumnBuilder> {
    let values = Vec::with_capacity(room.rows);
    Box::new(Numbers::<Int32Type, _> { values, of, data_type: DataType::Int32 })
}

fn int64(room: Room, of: impl Fn(&Record<'_>) -> i64 + Send + 'static) -> Box<dyn ColumnBuilder> {
    let values = Vec::with_capacity(room.rows);
    Box::new(Numbers::<Int64Type, _> { values, of, data_type: DataType::Int64 })
}

fn timestamps(
    dialect: Dialect,
    room: Room,
    of: impl Fn(&Record<'_>) -> i64 + Send + 'static,
) -> Box<dyn ColumnBuilder> {
    let (values, data_type) = (Vec::with_capacity(room.rows), timestamp_type(dialect));
    match dialect {
        Dialect::Arrow => Box::new(Numbers::<TimestampMillisecondType, _> { values, of, data_type }),
        Dialect::Spark => {
            let of = move |record: &Record<'_>| of(record).saturating_mul(1000);
            Box::new(Numbers::<TimestampMicrosecondType, _> { values, of, data_type })
        }
    }
}

/// Texts that messages next to each other mostly have in common; null where one has none.
struct Repeated {
    texts: RepeatedTexts,
    of: for<'r> fn(&'r Row<'_>) -> Option<&'r [u8]>,
    /// The last text as it is stored.
    last: Option<Vec<u8>>,
}

impl Repeated {
    fn new(of: for<'r> fn(&'r Row<'_>) -> Option<&'r [u8]>) -> Self {
        Self { texts: RepeatedTexts::default(), of, last: None }
    }
}

impl ColumnBuilder for Repeated {
    fn append(&mut self, rows: &Rows<'_>) -> Result<(), ArrowError> {
        for row in rows.iter() {
            let text = (self.of)(row);
            if self.last.as_deref() == text && self.texts.repeat() {
                continue;
            }
            self.texts.push(text.map(java_string::decode).as_deref());
            self.last = text.map(<[u8]>::to_vec);
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<ArrayRef, ArrowError> {
        Ok(Arc::new(self.texts.into_array()?))
    }
}

/// Hosts. Messages next to each other mostly come from one.
struct Hosts {
    texts: RepeatedTexts,
    of: fn(&Record<'_>) -> Host,
    last: Option<Host>,
}

impl Hosts {
    fn new(of: fn(&Record<'_>) -> Host) -> Self {
        Self { texts: RepeatedTexts::default(), of, last: None }
    }
}

impl ColumnBuilder for Hosts {
    fn append(&mut self, rows: &Rows<'_>) -> Result<(), ArrowError> {
        for row in rows.iter() {
            let host = (self.of)(&row.record);
            if self.last != Some(host) || !self.texts.repeat() {
                self.texts.push(Some(&host.to_string()));
                self.last = Some(host);
            }
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<ArrayRef, ArrowError> {
        Ok(Arc::new(self.texts.into_array()?))
    }
}

/// The ids, whose first part is the host's.
struct MessageIds {
    texts: Texts,
    host: Option<(Host, String)>,
}

impl ColumnBuilder for MessageIds {
    fn append(&mut self, rows: &Rows<'_>) -> Result<(), ArrowError> {
        for Row { record, .. } in rows.iter() {
            let physical_offset = num::from_java_long(record.physical_offset).unwrap_or(0);
            let (_, host) = match self.host.take_if(|(known, _)| *known == record.store_host) {
                Some(known) => self.host.insert(known),
                None => self.host.insert((record.store_host, hex_of(&record.store_host))),
            };
            let [a, b, c, d, low @ ..] = physical_offset.to_be_bytes();
            let digits = [[a, b, c, d], low].map(|half| hex_digits(u32::from_be_bytes(half)));
            self.texts.push_both(host.as_bytes(), digits.as_flattened());
        }
        check_size(self.texts.size())
    }

    fn finish(self: Box<Self>) -> Result<ArrayRef, ArrowError> {
        Ok(Arc::new(self.texts.into_array(None)?))
    }
}

fn hex_of(host: &Host) -> String {
    let mut text = String::new();
    host.write(|bytes| push_hex(&mut text, bytes));
    text
}

struct UniqueKeys {
    texts: Texts,
    nulls: NullBufferBuilder,
}

impl UniqueKeys {
    fn with_room(rows: usize) -> Self {
        Self { texts: Texts::with_room(rows), nulls: NullBufferBuilder::new(rows) }
    }
}

impl ColumnBuilder for UniqueKeys {
    fn append(&mut self, rows: &Rows<'_>) -> Result<(), ArrowError> {
        for row in rows.iter() {
            match row.properties.uniq_key {
                Some(key) => {
                    self.texts.push(key);
                    self.nulls.append_non_null();
                }
                None => {
                    self.texts.push_empty();
                    self.nulls.append_null();
                }
            }
        }
        check_size(self.texts.size())
    }

    fn finish(mut self: Box<Self>) -> Result<ArrayRef, ArrowError> {
        Ok(Arc::new(self.texts.into_array(self.nulls.finish())?))
    }
}

struct Keys {
    keys: Texts,
    /// Of each message's.
    ends: Ends,
    field: FieldRef,
}

impl Keys {
    fn new(field: FieldRef, room: Room) -> Self {
        Self { keys: Texts::with_room(room.rows), ends: Ends::with_room(room.rows), field }
    }
}

impl ColumnBuilder for Keys {
    fn append(&mut self, rows: &Rows<'_>) -> Result<(), ArrowError> {
        for row in rows.iter() {
            let found = DispatchProperties { uniq_key: None, ..row.properties };
            found.index_keys().for_each(|key| self.keys.push(key));
            self.ends.push(self.keys.len());
        }
        check_size(self.keys.size())
    }

    fn finish(self: Box<Self>) -> Result<ArrayRef, ArrowError> {
        let keys = Arc::new(self.keys.into_array(None)?);
        Ok(Arc::new(ListArray::try_new(self.field, self.ends.into_offsets(), keys, None)?))
    }
}

struct PropertyMaps {
    names: Texts,
    values: Texts,
    /// Of each message's.
    ends: Ends,
    field: FieldRef,
}

impl PropertyMaps {
    fn new(field: FieldRef, room: Room) -> Self {
        let texts = || Texts::with_room(room.rows.saturating_mul(2));
        Self { names: texts(), values: texts(), ends: Ends::with_room(room.rows), field }
    }

    /// Adds many pairs, or such whose names are not UTF-8: of those, different ones can be read as one name.
    fn push_as_read(&mut self, pairs: &[Pair<'_>]) {
        let names = || pairs.iter().map(|(name, _)| java_string::decode(name));
        let last: HashMap<_, _> = names().zip(0..).collect();
        for ((name, (_, value)), at) in names().zip(pairs).zip(0..) {
            if last.get(&name) == Some(&at) {
                self.names.push(name.as_bytes());
                self.values.push(value);
            }
        }
    }
}

impl ColumnBuilder for PropertyMaps {
    fn append(&mut self, rows: &Rows<'_>) -> Result<(), ArrowError> {
        for row in rows.iter() {
            let mut pairs = rows.pairs_of(row);
            if pairs.len() > FEW_PROPERTIES || pairs.iter().any(|(name, _)| !name.is_ascii()) {
                self.push_as_read(pairs);
                pairs = &[];
            }
            while let [(name, value), later @ ..] = pairs {
                // Of two properties of one name the last counts, and a map has each name once.
                if later.iter().all(|(other, _)| other.first() != name.first() || other != name) {
                    self.names.push(name);
                    self.values.push(value);
                }
                pairs = later;
            }
            self.ends.push(self.names.len());
        }
        check_size(self.names.size()).and_then(|()| check_size(self.values.size()))
    }

    fn finish(self: Box<Self>) -> Result<ArrayRef, ArrowError> {
        let fields = match self.field.data_type() {
            DataType::Struct(fields) => fields.clone(),
            _ => Fields::empty(),
        };
        let columns: Vec<ArrayRef> =
            vec![Arc::new(self.names.into_array(None)?), Arc::new(self.values.into_array(None)?)];
        let entries = StructArray::try_new(fields, columns, None)?;
        Ok(Arc::new(MapArray::try_new(self.field, self.ends.into_offsets(), entries, None, false)?))
    }
}

struct RawProperties {
    bytes: Vec<u8>,
    ends: Ends,
}

impl RawProperties {
    fn with_room(rows: usize) -> Self {
        Self { bytes: Vec::new(), ends: Ends::with_room(rows) }
    }
}

impl ColumnBuilder for RawProperties {
    fn append(&mut self, rows: &Rows<'_>) -> Result<(), ArrowError> {
        for row in rows.iter() {
            self.bytes.extend_from_slice(row.record.properties);
            self.ends.push(self.bytes.len());
        }
        check_size(self.bytes.len())
    }

    fn finish(self: Box<Self>) -> Result<ArrayRef, ArrowError> {
        Ok(Arc::new(BinaryArray::try_new(self.ends.into_offsets(), self.bytes.into(), None)?))
    }
}
