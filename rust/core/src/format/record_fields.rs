//! Writing a record: [`message`](super::message) has its byte table.

use super::be::FieldWriter;
use super::host::{self, Host};
use super::message::{
    BLANK_MAGIC_CODE, CRC_MASK, END_FILE_MIN_BLANK_LENGTH, FIXED_SIZE, MAX_HEAD_SIZE, MESSAGE_MAGIC_CODE,
};
use super::properties::PROPERTY_SEPARATOR;
use super::record_crc::{self, RECORD_CRC_SIZE};
use super::sys_flag;
use crate::num;

/// What a record is written from, the offsets and the store time aside, which the log gives.
#[derive(Debug, Clone, Copy)]
pub struct RecordFields<'a> {
    /// Of the body.
    pub body_crc: i32,
    /// The queue.
    pub queue_id: i32,
    /// The user's flag.
    pub flag: i32,
    /// Its IPv6 bits have to agree with the hosts: see [`RecordFields::with_host_flags`].
    pub sys_flag: i32,
    /// When the client made it, in milliseconds.
    pub born_timestamp: i64,
    /// Where the client made it.
    pub born_host: Host,
    /// Where it is stored.
    pub store_host: Host,
    /// How often it was consumed in vain.
    pub reconsume_times: i32,
    /// The offset of its prepared half.
    pub prepared_transaction_offset: i64,
    /// The body as it is stored.
    pub body: &'a [u8],
    /// The topic, at most [`MAX_TOPIC_LENGTH`](super::message::MAX_TOPIC_LENGTH) bytes.
    pub topic: &'a [u8],
    /// The property string, at most [`MAX_PROPERTIES_LENGTH`](super::message::MAX_PROPERTIES_LENGTH) bytes with what is added to it.
    pub properties: &'a [u8],
    /// Whether the checksum of the whole record is added to the properties: see [`record_crc`].
    pub append_crc: bool,
}

impl RecordFields<'_> {
    /// Makes the flags that say which of the hosts is an IPv6 address agree with the hosts.
    #[must_use]
    pub const fn with_host_flags(mut self) -> Self {
        self.sys_flag &= !(sys_flag::BORNHOST_V6 | sys_flag::STOREHOST_V6);
        if self.born_host.is_v6() {
            self.sys_flag |= sys_flag::BORNHOST_V6;
        }
        if self.store_host.is_v6() {
            self.sys_flag |= sys_flag::STOREHOST_V6;
        }
        self
    }

    /// Bytes of the whole record.
    #[must_use]
    pub const fn record_size(&self) -> usize {
        FIXED_SIZE
            + (self.born_host.size() - host::V4_SIZE)
            + (self.store_host.size() - host::V4_SIZE)
            + self.body.len()
            + self.topic.len()
            + self.properties_size()
    }

    /// Bytes of the properties with what is added to them.
    #[must_use]
    pub const fn properties_size(&self) -> usize {
        let added = if self.append_crc { self.needs_separator() as usize + RECORD_CRC_SIZE } else { 0 };
        self.properties.len() + added
    }

    const fn needs_separator(&self) -> bool {
        matches!(self.properties, [.., last] if *last != PROPERTY_SEPARATOR)
    }

    /// Writes the record piece by piece, so that nothing is put together in a buffer first.
    pub fn write(&self, place: Place, mut put: impl FnMut(&[u8])) {
        if !self.append_crc {
            return self.write_before_crc(place, put);
        }
        let mut crc = crc32fast::Hasher::new();
        self.write_before_crc(place, |bytes| {
            crc.update(bytes);
            put(bytes);
        });
        put(&record_crc::to_bytes(num::bits_as_int(crc.finalize() & CRC_MASK)));
    }

    fn write_before_crc(&self, place: Place, mut put: impl FnMut(&[u8])) {
        let mut head = FieldWriter::<MAX_HEAD_SIZE>::default();
        head.i32(num::java_int(self.record_size()));
        head.i32(MESSAGE_MAGIC_CODE);
        head.i32(self.body_crc);
        head.i32(self.queue_id);
        head.i32(self.flag);
        head.i64(place.queue_offset);
        head.i64(num::java_long(place.physical_offset));
        head.i32(self.sys_flag);
        head.i64(self.born_timestamp);
        self.born_host.write(|bytes| head.bytes(bytes));
        head.i64(place.store_timestamp);
        self.store_host.write(|bytes| head.bytes(bytes));
        head.i32(self.reconsume_times);
        head.i64(self.prepared_transaction_offset);
        head.i32(num::java_int(self.body.len()));
        put(head.written());
        put(self.body);
        let [.., topic_len] = num::java_int(self.topic.len()).to_be_bytes();
        put(&[topic_len]);
        put(self.topic);
        let [.., high, low] = num::java_int(self.properties_size()).to_be_bytes();
        put(&[high, low]);
        put(self.properties);
        if self.append_crc && self.needs_separator() {
            put(&[PROPERTY_SEPARATOR]);
        }
    }
}

/// What the log gives a record.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    /// Its unit's index in the queue.
    pub queue_offset: i64,
    /// Where it stands in the log.
    pub physical_offset: u64,
    /// When it was stored, in milliseconds.
    pub store_timestamp: i64,
}

/// The eight bytes of the blank that fills what is left of a file.
#[must_use]
pub fn blank(remaining: usize) -> [u8; END_FILE_MIN_BLANK_LENGTH] {
    let [a, b, c, d] = num::java_int(remaining).to_be_bytes();
    let [e, f, g, h] = BLANK_MAGIC_CODE.to_be_bytes();
    [a, b, c, d, e, f, g, h]
}
