//! Rows of a record batch as finished records: what was read out of one store on its way into another.
//!
//! The columns are those of `schema.rs` that a record is made of, all of them needed, no value null. One more,
//! `raw_properties`, may be missing or null: texts alone do not say which bytes that are no UTF-8 were stored, in which order, and
//! what was empty. It counts where the texts are still what it gives: where somebody has changed them, they are what is meant.

use std::borrow::Cow;
use std::collections::HashMap;

use arrow_array::{Int64Array, RecordBatch};

use super::values::{BatchFault, Given, Maps, Values, number};
use crate::format::host::Host;
use crate::format::java_hash_map::JavaHashMap;
use crate::format::java_string;
use crate::format::message::{self, MAX_PROPERTIES_LENGTH, MAX_TOPIC_LENGTH, Place, RecordFields};
use crate::format::{properties, record_crc, sys_flag};
use crate::num;

const COLUMNS: [&str; 14] = [
    "topic",
    "queue_id",
    "queue_offset",
    "flag",
    "sys_flag",
    "born_timestamp",
    "born_host",
    "store_timestamp",
    "store_host",
    "reconsume_times",
    "prepared_transaction_offset",
    "properties",
    "raw_properties",
    "body",
];
const PLACE: &str = "commit_log_offset";

struct RecordRows {
    topic: Values,
    queue_id: Int64Array,
    queue_offset: Int64Array,
    flag: Int64Array,
    sys_flag: Int64Array,
    born_timestamp: Int64Array,
    born_host: Values,
    store_timestamp: Int64Array,
    store_host: Values,
    reconsume_times: Int64Array,
    prepared_transaction_offset: Int64Array,
    properties: Maps,
    raw_properties: Option<Values>,
    body: Values,
    /// Bits of the flag that say how the body is compressed, where it no longer is.
    inflated: i32,
}

/// Finished records of a batch's rows, one after another; `is_raw` says that bodies are as they were stored.
///
/// # Errors
/// A column that is missing or of another type, or the first row of which no record can be made.
pub fn encode_records(batch: &RecordBatch, is_raw: bool) -> Result<Vec<u8>, BatchFault> {
    let rows = RecordRows::of(batch, is_raw)?;
    let mut out = Vec::new();
    (0..batch.num_rows()).try_for_each(|row| rows.write(row, &mut out))?;
    Ok(out)
}

/// The places in the log that a batch's column `commit_log_offset` has.
///
/// # Errors
/// There is no such column, or a row has no place.
pub fn offsets_of(batch: &RecordBatch) -> Result<Vec<u64>, BatchFault> {
    let given = Given::of(batch, 0, &[PLACE])?;
    let places = given.integers(PLACE)?.ok_or(BatchFault::Missing(PLACE))?;
    let place = |row| {
        let found = number(Some(&places), row).and_then(num::from_java_long);
        found.ok_or_else(|| bad(row, PLACE, "it is null or negative"))
    };
    (0..batch.num_rows()).map(place).collect()
}

impl RecordRows {
    fn of(batch: &RecordBatch, is_raw: bool) -> Result<Self, BatchFault> {
        let given = Given::of(batch, 0, &COLUMNS)?;
        let strings = |name| given.strings(name)?.ok_or(BatchFault::Missing(name));
        let integers = |name| given.integers(name)?.ok_or(BatchFault::Missing(name));
        let times = |name| given.times(name)?.ok_or(BatchFault::Missing(name));
        Ok(Self {
            topic: strings("topic")?,
            queue_id: integers("queue_id")?,
            queue_offset: integers("queue_offset")?,
            flag: integers("flag")?,
            sys_flag: integers("sys_flag")?,
            born_timestamp: times("born_timestamp")?,
            born_host: strings("born_host")?,
            store_timestamp: times("store_timestamp")?,
            store_host: strings("store_host")?,
            reconsume_times: integers("reconsume_times")?,
            prepared_transaction_offset: integers("prepared_transaction_offset")?,
            properties: given.maps("properties")?.ok_or(BatchFault::Missing("properties"))?,
            raw_properties: given.bytes("raw_properties")?,
            body: given.bytes("body")?.ok_or(BatchFault::Missing("body"))?,
            inflated: if is_raw { 0 } else { sys_flag::COMPRESSED | sys_flag::COMPRESSION_TYPE },
        })
    }

    fn write(&self, row: usize, out: &mut Vec<u8>) -> Result<(), BatchFault> {
        let topic = bytes(&self.topic, "topic", row)?;
        let (properties, append_crc) = self.properties(row)?;
        if topic.len() > MAX_TOPIC_LENGTH {
            return Err(bad(row, "topic", &format!("it has more than {MAX_TOPIC_LENGTH} bytes")));
        }
        let body = bytes(&self.body, "body", row)?;
        let fields = RecordFields {
            body_crc: message::body_crc(body),
            queue_id: int(&self.queue_id, "queue_id", row)?,
            flag: int(&self.flag, "flag", row)?,
            sys_flag: int(&self.sys_flag, "sys_flag", row)? & !self.inflated,
            born_timestamp: long(&self.born_timestamp, "born_timestamp", row)?,
            born_host: host(&self.born_host, "born_host", row)?,
            store_host: host(&self.store_host, "store_host", row)?,
            reconsume_times: int(&self.reconsume_times, "reconsume_times", row)?,
            prepared_transaction_offset: long(
                &self.prepared_transaction_offset,
                "prepared_transaction_offset",
                row,
            )?,
            body,
            topic,
            properties: &properties,
            append_crc,
        };
        if fields.properties_size() > MAX_PROPERTIES_LENGTH {
            let reason = format!("they have more than {MAX_PROPERTIES_LENGTH} bytes");
            return Err(bad(row, "properties", &reason));
        }
        let place = Place {
            queue_offset: long(&self.queue_offset, "queue_offset", row)?,
            physical_offset: 0,
            store_timestamp: long(&self.store_timestamp, "store_timestamp", row)?,
        };
        fields.with_host_flags().write(place, |bytes| out.extend_from_slice(bytes));
        Ok(())
    }

    /// The property string, and whether it had the checksum of the record that it was in: the record that it
    /// goes into gets one of its own.
    fn properties(&self, row: usize) -> Result<(Cow<'_, [u8]>, bool), BatchFault> {
        let mut map = JavaHashMap::default();
        for (name, value) in self.properties.get(row) {
            let (Some(name), Some(value)) = (name, value) else {
                return Err(bad(row, "properties", "a value is null"));
            };
            map.put(name, value);
        }
        if let Some(raw) =
            self.raw_properties.as_ref().and_then(|raw| raw.get(row)).filter(|raw| gives(raw, &map))
        {
            let (properties, had_crc) = record_crc::without(raw);
            return Ok((Cow::Borrowed(properties), had_crc));
        }
        let had_crc = map.get(properties::CRC32).is_some();
        map.remove(properties::CRC32);
        Ok((Cow::Owned(properties::encode(&map)), had_crc))
    }
}

/// Whether a property string is read as these texts.
fn gives(raw: &[u8], texts: &JavaHashMap<'_>) -> bool {
    let pairs =
        properties::pairs(raw).map(|(name, value)| (java_string::decode(name), java_string::decode(value)));
    let read: HashMap<_, _> = pairs.collect();
    let is_read = |(name, value): (&[u8], &[u8])| {
        let name = std::str::from_utf8(name).unwrap_or_default();
        read.get(name).is_some_and(|read| read.as_bytes() == value)
    };
    texts.iter().all(is_read) && texts.iter().count() == read.len()
}

fn bytes<'a>(values: &'a Values, column: &'static str, row: usize) -> Result<&'a [u8], BatchFault> {
    values.get(row).ok_or_else(|| bad(row, column, "it is null"))
}

fn host(values: &Values, column: &'static str, row: usize) -> Result<Host, BatchFault> {
    let text = String::from_utf8_lossy(bytes(values, column, row)?);
    text.parse().map_err(|fault| bad(row, column, &format!("{fault}")))
}

fn long(values: &Int64Array, column: &'static str, row: usize) -> Result<i64, BatchFault> {
    number(Some(values), row).ok_or_else(|| bad(row, column, "it is null"))
}

fn int(values: &Int64Array, column: &'static str, row: usize) -> Result<i32, BatchFault> {
    let value = long(values, column, row)?;
    i32::try_from(value).map_err(|_| bad(row, column, &format!("{value} does not fit in 32 bits")))
}

fn bad(row: usize, column: &'static str, reason: &str) -> BatchFault {
    BatchFault::Value { row: num::offset(row), column, reason: reason.into() }
}
