//! Building a record batch, a column at a time.

use std::sync::Arc;

use arrow_array::builder::{
    BinaryBuilder, BinaryViewBuilder, Int32Builder, ListBuilder, MapBuilder, MapFieldNames, StringBuilder,
};
use arrow_array::{
    ArrayRef, Int32Array, Int64Array, RecordBatch, RecordBatchOptions, TimestampMicrosecondArray,
    TimestampMillisecondArray,
};
use arrow_buffer::Buffer;
use arrow_schema::ArrowError;
use bytes::Bytes;

use super::schema::{BodyType, Column, Columns, Dialect, key_field, properties_field};
use crate::format::body::{inflate, is_compressed};
use crate::format::host::Host;
use crate::format::java_string;
use crate::format::message::Record;
use crate::format::message_id::MessageId;
use crate::format::properties::{self, DispatchProperties};
use crate::mmap::slice::Slice;
use crate::num;
use crate::store::GotMessages;
use crate::store::query::decode_record;

/// Bodies up to this size are copied into the view itself.
const INLINE_VIEW_SIZE: usize = 12;

/// A message with its record decoded.
struct Row<'a> {
    record: Record<'a>,
    /// None, where no column is made of them.
    properties: DispatchProperties<'a>,
    /// What the record lies in, and where.
    window: &'a Slice,
    at: usize,
}

/// The messages as a record batch.
///
/// # Errors
/// Where a compressed body can't be inflated, or a column becomes larger than Arrow's offsets reach.
pub fn record_batch(messages: &GotMessages, columns: &Columns) -> Result<RecordBatch, ArrowError> {
    let has_properties = columns.columns.iter().any(|column| column.is_of_properties());
    let rows: Vec<Row<'_>> = messages
        .iter()
        .filter_map(|message| {
            let (window, at) = message.window();
            let record = decode_record(message.bytes())?;
            let properties =
                if has_properties { DispatchProperties::of(record.properties) } else { Default::default() };
            Some(Row { record, properties, window, at })
        })
        .collect();
    let arrays =
        columns.columns.iter().map(|column| array(*column, columns, &rows)).collect::<Result<_, _>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
    RecordBatch::try_new_with_options(columns.schema(), arrays, &options)
}

fn array(column: Column, columns: &Columns, rows: &[Row<'_>]) -> Result<ArrayRef, ArrowError> {
    let Columns { body, dialect, .. } = *columns;
    Ok(match column {
        Column::Topic => strings(rows, |record, text| text(record.topic)),
        Column::QueueId => int32(rows, |record| record.queue_id),
        Column::QueueOffset => int64(rows, |record| record.queue_offset),
        Column::CommitLogOffset => int64(rows, |record| record.physical_offset),
        Column::StoreSize => int32(rows, |record| num::java_int(record.total_size as usize)),
        Column::BodyCrc => int32(rows, |record| record.body_crc),
        Column::Flag => int32(rows, |record| record.flag),
        Column::SysFlag => int32(rows, |record| record.sys_flag),
        Column::BornTimestamp => timestamps(rows, dialect, |record| record.born_timestamp),
        Column::StoreTimestamp => timestamps(rows, dialect, |record| record.store_timestamp),
        Column::BornHost => hosts(rows, |record| record.born_host),
        Column::StoreHost => hosts(rows, |record| record.store_host),
        Column::ReconsumeTimes => int32(rows, |record| record.reconsume_times),
        Column::PreparedTransactionOffset => int64(rows, |record| record.prepared_transaction_offset),
        Column::MsgId => strings(rows, |record, text| {
            let physical_offset = num::from_java_long(record.physical_offset).unwrap_or(0);
            text(MessageId { store_host: record.store_host, physical_offset }.to_hex().as_bytes());
        }),
        Column::UniqueKey => optional_strings(rows, |properties| properties.uniq_key),
        Column::Tags => optional_strings(rows, |properties| properties.tags),
        Column::Keys => keys(rows, dialect),
        Column::Properties => property_maps(rows, dialect)?,
        Column::Body => bodies(rows, body, true)?,
        Column::RawBody => bodies(rows, body, false)?,
    })
}

fn int32(rows: &[Row<'_>], of: impl Fn(&Record<'_>) -> i32) -> ArrayRef {
    let mut builder = Int32Builder::with_capacity(rows.len());
    rows.iter().for_each(|row| builder.append_value(of(&row.record)));
    let array: Int32Array = builder.finish();
    Arc::new(array)
}

fn int64(rows: &[Row<'_>], of: impl Fn(&Record<'_>) -> i64) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| of(&row.record))))
}

fn timestamps(rows: &[Row<'_>], dialect: Dialect, of: impl Fn(&Record<'_>) -> i64) -> ArrayRef {
    let times = rows.iter().map(|row| of(&row.record));
    match dialect {
        Dialect::Arrow => Arc::new(TimestampMillisecondArray::from_iter_values(times).with_timezone("UTC")),
        Dialect::Spark => {
            let micros = times.map(|time| time.saturating_mul(1000));
            Arc::new(TimestampMicrosecondArray::from_iter_values(micros).with_timezone("UTC"))
        }
    }
}

fn strings(rows: &[Row<'_>], of: impl Fn(&Record<'_>, &mut dyn FnMut(&[u8]))) -> ArrayRef {
    let mut builder = StringBuilder::with_capacity(rows.len(), rows.len() * 16);
    for row in rows {
        of(&row.record, &mut |text| builder.append_value(java_string::decode(text)));
    }
    Arc::new(builder.finish())
}

fn optional_strings<'a>(
    rows: &[Row<'a>],
    of: impl Fn(&DispatchProperties<'a>) -> Option<&'a [u8]>,
) -> ArrayRef {
    let mut builder = StringBuilder::with_capacity(rows.len(), rows.len() * 16);
    for row in rows {
        builder.append_option(of(&row.properties).map(java_string::decode));
    }
    Arc::new(builder.finish())
}

/// Messages next to each other mostly come from one host.
fn hosts(rows: &[Row<'_>], of: impl Fn(&Record<'_>) -> Host) -> ArrayRef {
    let mut builder = StringBuilder::with_capacity(rows.len(), rows.len() * 16);
    let mut last: Option<(Host, String)> = None;
    for row in rows {
        let host = of(&row.record);
        let (_, text) = match last.take_if(|(known, _)| *known == host) {
            Some(known) => last.insert(known),
            None => last.insert((host, host.to_string())),
        };
        builder.append_value(text);
    }
    Arc::new(builder.finish())
}

fn keys(rows: &[Row<'_>], dialect: Dialect) -> ArrayRef {
    let mut builder = ListBuilder::new(StringBuilder::new()).with_field(key_field(dialect));
    for row in rows {
        let found = DispatchProperties { uniq_key: None, ..row.properties };
        found.index_keys().for_each(|key| builder.values().append_value(java_string::decode(key)));
        builder.append(true);
    }
    Arc::new(builder.finish())
}

fn property_maps(rows: &[Row<'_>], dialect: Dialect) -> Result<ArrayRef, ArrowError> {
    let names = MapFieldNames { entry: "entries".into(), key: "key".into(), value: "value".into() };
    let arrow_schema::DataType::Struct(pair) = properties_field(dialect).data_type().clone() else {
        return Err(ArrowError::SchemaError("a map's entries are pairs".into()));
    };
    let mut builder = MapBuilder::new(Some(names), StringBuilder::new(), StringBuilder::new());
    if let [key, value] = pair.as_ref() {
        builder = builder.with_keys_field(Arc::clone(key)).with_values_field(Arc::clone(value));
    }
    for row in rows {
        // Of two properties of one name the last counts, and a map has each name once.
        let pairs: Vec<_> = properties::pairs(row.record.properties).collect();
        for (at, (name, value)) in pairs.iter().enumerate() {
            if pairs.iter().skip(at + 1).all(|(later, _)| later != name) {
                builder.keys().append_value(java_string::decode(name));
                builder.values().append_value(java_string::decode(value));
            }
        }
        builder.append(true)?;
    }
    Ok(Arc::new(builder.finish()))
}

fn bodies(rows: &[Row<'_>], body: BodyType, inflated: bool) -> Result<ArrayRef, ArrowError> {
    match body {
        BodyType::Binary => {
            let size = rows.iter().map(|row| row.record.body.len()).sum();
            if size > i32::MAX as usize {
                return Err(ArrowError::MemoryError(
                    "bodies of one batch pass 2 GiB: take fewer messages a batch".into(),
                ));
            }
            let mut builder = BinaryBuilder::with_capacity(rows.len(), size);
            for row in rows {
                match inflate_where(row, inflated)? {
                    Some(body) => builder.append_value(body),
                    None => builder.append_value(row.record.body),
                }
            }
            Ok(Arc::new(builder.finish()))
        }
        BodyType::BinaryView => body_views(rows, inflated),
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

/// Views into the files' mappings. A batch's messages lie in one or two of them; each gives one
/// buffer, which reaches from its first message to its last.
fn body_views(rows: &[Row<'_>], inflated: bool) -> Result<ArrayRef, ArrowError> {
    let mut builder = BinaryViewBuilder::with_capacity(rows.len());
    for run in rows.chunk_by(is_same_mapping) {
        let start = run.iter().map(|row| row.at).min().unwrap_or(0);
        let end = run.iter().map(|row| row.at + row.record.total_size as usize).max().unwrap_or(0);
        let slice = run.first().and_then(|row| row.window.sub(start, end - start));
        let block = slice.map(|slice| builder.append_block(Buffer::from(Bytes::from_owner(slice))));
        for row in run {
            append_view(&mut builder, row, block.map(|block| (block, start)), inflated)?;
        }
    }
    Ok(Arc::new(builder.finish()))
}

fn is_same_mapping(a: &Row<'_>, b: &Row<'_>) -> bool {
    a.window.has_same_owner(b.window)
}

fn append_view(
    builder: &mut BinaryViewBuilder,
    row: &Row<'_>,
    block: Option<(u32, usize)>,
    inflated: bool,
) -> Result<(), ArrowError> {
    if let Some(body) = inflate_where(row, inflated)? {
        builder.append_value(body);
        return Ok(());
    }
    let body = row.record.body;
    let Some((block, start)) = block.filter(|_| body.len() > INLINE_VIEW_SIZE) else {
        builder.append_value(body);
        return Ok(());
    };
    match (u32::try_from(row.at + row.record.body_at() - start), u32::try_from(body.len())) {
        (Ok(start), Ok(len)) => builder.try_append_view(block, start, len),
        _ => {
            builder.append_value(body);
            Ok(())
        }
    }
}
