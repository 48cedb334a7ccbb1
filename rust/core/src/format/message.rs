//! One record of the commit log: a message, or the blank that fills a file's end.
//!
//! | bytes   | field | |
//! |---------|-------|-|
//! | 4       | total size | of the whole record |
//! | 4       | magic code | `0xDAA320A7`; `0xDAA320AB` in RocketMQ 5 where the topic is long |
//! | 4       | body CRC | CRC-32 of the stored body, its top bit cleared |
//! | 4       | queue id | |
//! | 4       | flag | the user's |
//! | 8       | queue offset | its unit's index in its queue |
//! | 8       | physical offset | where this record stands in the log |
//! | 4       | sys flag | see [`sys_flag`](super::sys_flag) |
//! | 8       | born timestamp | milliseconds |
//! | 8 or 20 | born host | see [`host`](super::host) |
//! | 8       | store timestamp | milliseconds |
//! | 8 or 20 | store host | |
//! | 4       | reconsume times | |
//! | 8       | prepared transaction offset | |
//! | 4       | body length | |
//! | n       | body | |
//! | 1       | topic length | 2 bytes behind RocketMQ 5's magic code |
//! | n       | topic | |
//! | 2       | properties length | |
//! | n       | properties | see [`properties`](super::properties) |
//!
//! The blank that fills a file: 4 bytes of remaining size (itself included), 4 bytes of magic code
//! `0xCBD43194`, and whatever follows. A record therefore leaves at least eight bytes of its file.
//!
//! Source: `CommitLog.checkMessageAndReturnSize`, `MessageExtEncoder` and `MessageVersion`.

use std::ops::Range;
use std::sync::LazyLock;

use super::be::{self, FieldReader};
use super::host::{self, Host};
use super::record_crc::{RECORD_CRC_SIZE, RecordCrc};
use super::sys_flag;
use crate::num;

pub use super::record_fault::RecordFault;
pub use super::record_fields::{Place, RecordFields, blank};

/// The magic code of a message, as Java's `int`.
pub const MESSAGE_MAGIC_CODE: i32 = -626_843_481;
/// The magic code of a RocketMQ 5 message whose topic length takes two bytes.
pub const MESSAGE_MAGIC_CODE_V2: i32 = -626_843_477;
/// The magic code of the blank at a file's end.
pub const BLANK_MAGIC_CODE: i32 = -875_286_124;
/// What every file keeps free at its end for the blank.
pub const END_FILE_MIN_BLANK_LENGTH: usize = 4 + 4;
/// Longest topic in bytes: its length is a Java `byte`.
pub const MAX_TOPIC_LENGTH: usize = 127;
/// Longest property string in bytes: its length is a Java `short`.
pub const MAX_PROPERTIES_LENGTH: usize = 32_767;

/// Where the magic code stands.
pub const MAGIC_CODE_AT: usize = 4;
/// Where the queue id stands.
const QUEUE_ID_AT: usize = 12;
/// Where the queue offset stands.
pub const QUEUE_OFFSET_AT: usize = 20;
/// Where the physical offset stands.
pub const PHYSICAL_OFFSET_AT: usize = 28;
/// Where the system flag stands.
pub const SYS_FLAG_AT: usize = 36;
/// Where the born host stands; what follows it moves with its size.
const BORN_HOST_AT: usize = 48;
const _: () = assert!(MAGIC_CODE_AT + 4 + 4 + 4 + 4 == QUEUE_OFFSET_AT);
const _: () = assert!(QUEUE_OFFSET_AT + 8 == PHYSICAL_OFFSET_AT && PHYSICAL_OFFSET_AT + 8 == SYS_FLAG_AT);
const _: () = assert!(SYS_FLAG_AT + 4 + 8 == BORN_HOST_AT);

/// Bytes before the body, with two IPv4 hosts.
pub const V4_HEAD_SIZE: usize = BORN_HOST_AT + host::V4_SIZE + 8 + host::V4_SIZE + 4 + 8 + 4;
/// Bytes before the body, with two IPv6 hosts.
pub const MAX_HEAD_SIZE: usize = BORN_HOST_AT + host::V6_SIZE + 8 + host::V6_SIZE + 4 + 8 + 4;
/// Bytes of a record beside its body, topic, properties and what IPv6 hosts add.
pub const FIXED_SIZE: usize = BORN_HOST_AT + host::V4_SIZE + 8 + host::V4_SIZE + 4 + 8 + 4 + 1 + 2;
const _: () = assert!(FIXED_SIZE == 91 && MAX_HEAD_SIZE == 112);

/// Bytes of a record. Source: `CommitLog.calMsgLength`.
#[must_use]
pub const fn record_size(sys_flag: i32, body_len: usize, topic_len: usize, properties_len: usize) -> usize {
    let born = host::size(sys_flag & sys_flag::BORNHOST_V6 != 0) - host::V4_SIZE;
    let store = host::size(sys_flag & sys_flag::STOREHOST_V6 != 0) - host::V4_SIZE;
    FIXED_SIZE + born + store + body_len + topic_len + properties_len
}

/// Where the store timestamp of a record with this flag stands.
#[must_use]
pub const fn store_timestamp_at(sys_flag: i32) -> usize {
    BORN_HOST_AT + host::size(sys_flag & sys_flag::BORNHOST_V6 != 0)
}

/// Where the stored body of a record lies, and its system flag, without the rest being decoded;
/// `None` where it runs past the bytes.
#[must_use]
pub fn body_range(record: &[u8]) -> Option<(Range<usize>, i32)> {
    let sys_flag = be::i32_at(record, SYS_FLAG_AT)?;
    let store_host_at = store_timestamp_at(sys_flag) + 8;
    let len_at = store_host_at + host::size(sys_flag & sys_flag::STOREHOST_V6 != 0) + 4 + 8;
    let body_at = len_at + 4;
    let end = body_at.checked_add(num::from_java_int(be::i32_at(record, len_at)?)? as usize)?;
    (end <= record.len()).then_some((body_at..end, sys_flag))
}

/// The size that the lengths inside a record give, whatever its total size says; `None` where one of them
/// runs past the bytes, or they are no message's. Given are its first [`MAX_HEAD_SIZE`] bytes, and what reads some more of
/// them, by place and number: bodies need not be read.
///
/// # Errors
/// Those of `read`.
pub fn size_by_lengths<B: std::ops::Deref<Target = [u8]>, E>(
    head: &[u8],
    read: impl Fn(usize, usize) -> Result<B, E>,
) -> Result<Option<u64>, E> {
    let topic_len_size = match be::i32_at(head, MAGIC_CODE_AT) {
        Some(MESSAGE_MAGIC_CODE) => 1,
        Some(MESSAGE_MAGIC_CODE_V2) => 2,
        _ => return Ok(None),
    };
    let len_at = |at: usize, size: usize| -> Result<Option<usize>, E> {
        let len = read(at, size)?;
        let number = len.iter().fold(0, |sum, &byte| sum * 256 + usize::from(byte));
        Ok((len.len() == size).then_some(number))
    };
    let Some(body) = body_behind_head(head) else { return Ok(None) };
    let Some(topic_len) = len_at(body.end, topic_len_size)? else { return Ok(None) };
    let topic_end = body.end + topic_len_size + topic_len;
    let Some(properties_len) = len_at(topic_end, 2)? else { return Ok(None) };
    let end = topic_end + 2 + properties_len;
    let is_there = end == topic_end + 2 || len_at(end - 1, 1)?.is_some();
    Ok(is_there.then(|| num::offset(end)))
}

/// What a record has to be to be the one that a queue's unit stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity<'a> {
    /// The topic.
    pub topic: &'a [u8],
    /// The queue.
    pub queue_id: i32,
    /// The unit's index.
    pub queue_offset: i64,
    /// Where the record stands.
    pub physical_offset: i64,
}

/// Whether bytes are one whole record of an identity, its body unread. Says no more than [`decode`]
/// does, and is several times faster; `false` where decoding has to tell, as for RocketMQ 5's records.
#[must_use]
pub fn is_whole_record_of(bytes: &[u8], identity: &Identity<'_>) -> bool {
    let is_it =
        be::i32_at(bytes, 0).and_then(num::from_java_int).is_some_and(|size| size as usize == bytes.len())
            && be::i32_at(bytes, MAGIC_CODE_AT) == Some(MESSAGE_MAGIC_CODE)
            && be::i32_at(bytes, QUEUE_ID_AT) == Some(identity.queue_id)
            && be::i64_at(bytes, QUEUE_OFFSET_AT) == Some(identity.queue_offset)
            && be::i64_at(bytes, PHYSICAL_OFFSET_AT) == Some(identity.physical_offset);
    let Some((body, _)) = body_range(bytes).filter(|_| is_it) else { return false };
    let Some((&[topic_len], rest)) = bytes.get(body.end..).and_then(<[u8]>::split_first_chunk) else {
        return false;
    };
    let topic = rest.split_at_checked(usize::from(topic_len));
    topic.is_some_and(|(topic, rest)| {
        let properties_len = be::i16_at(rest, 0).and_then(|len| usize::try_from(len).ok());
        topic == identity.topic && properties_len.is_some_and(|len| rest.len() == len + 2)
    })
}

/// A checksum is a Java `int` that is not negative.
pub(super) const CRC_MASK: u32 = 0x7FFF_FFFF;

/// The body CRC that a record holds: CRC-32 without its top bit (`UtilAll.crc32`).
#[must_use]
pub fn body_crc(body: &[u8]) -> i32 {
    /// What the processor can do is asked once.
    static EMPTY: LazyLock<crc32fast::Hasher> = LazyLock::new(crc32fast::Hasher::new);
    let mut crc = EMPTY.clone();
    crc.update(body);
    num::bits_as_int(crc.finalize() & CRC_MASK)
}

/// How far a record is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Check {
    /// Its structure: sizes, magic code, lengths. What dispatch does, the body left unread.
    Structure,
    /// And the CRC of its body, or of all of it where it has one: see [`record_crc`]. What recovery does.
    BodyCrc,
}

/// Where the body of the message stands whose first [`MAX_HEAD_SIZE`] bytes these are; `None` where they
/// are no message's.
#[must_use]
pub fn body_behind_head(head: &[u8]) -> Option<Range<usize>> {
    let magic_code = be::i32_at(head, MAGIC_CODE_AT)?;
    if magic_code != MESSAGE_MAGIC_CODE && magic_code != MESSAGE_MAGIC_CODE_V2 {
        return None;
    }
    let head = Head::read(head)?;
    Some(head.size..head.size + usize::try_from(head.body_len).ok()?)
}

/// What stands at a place in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decoded<'a> {
    /// A message.
    Message(Record<'a>),
    /// The blank at a file's end.
    Blank {
        /// Its size field: what was left of the file.
        size: i32,
    },
}

/// A decoded message that points into the bytes that it was decoded from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    /// Bytes of the whole record.
    pub total_size: u32,
    /// [`MESSAGE_MAGIC_CODE`] or [`MESSAGE_MAGIC_CODE_V2`].
    pub magic_code: i32,
    /// The stored CRC of the body.
    pub body_crc: i32,
    /// The queue.
    pub queue_id: i32,
    /// The user's flag.
    pub flag: i32,
    /// Its unit's index in the queue.
    pub queue_offset: i64,
    /// Where the record says that it stands.
    pub physical_offset: i64,
    /// See [`sys_flag`](super::sys_flag).
    pub sys_flag: i32,
    /// When the client made it, in milliseconds.
    pub born_timestamp: i64,
    /// Where the client made it.
    pub born_host: Host,
    /// When it was stored, in milliseconds.
    pub store_timestamp: i64,
    /// Where it was stored.
    pub store_host: Host,
    /// How often it was consumed in vain.
    pub reconsume_times: i32,
    /// The offset of its prepared half.
    pub prepared_transaction_offset: i64,
    /// The body as stored, compressed or not.
    pub body: &'a [u8],
    /// The topic.
    pub topic: &'a [u8],
    /// The property string.
    pub properties: &'a [u8],
}

impl<'a> Record<'a> {
    /// Where the body begins in the record.
    #[must_use]
    pub const fn body_at(&self) -> usize {
        BORN_HOST_AT + self.born_host.size() + 8 + self.store_host.size() + 4 + 8 + 4
    }

    /// Whether the body is the one that was stored.
    pub fn check_body(&self) -> Result<(), RecordFault> {
        let found = body_crc(self.body);
        if found == self.body_crc {
            Ok(())
        } else {
            Err(RecordFault::BodyCrc { expected: self.body_crc, found })
        }
    }

    /// Whether the record, whose bytes these are, is the one that was stored: by the checksum of all of it
    /// where it has one, else by that of its body.
    pub fn check_content(&self, bytes: &[u8]) -> Result<(), RecordFault> {
        let expected = match RecordCrc::of(self.properties) {
            RecordCrc::None => return self.check_body(),
            RecordCrc::Damaged => -1,
            RecordCrc::Is(expected) => expected,
        };
        let before = (self.total_size as usize).saturating_sub(RECORD_CRC_SIZE);
        let found = body_crc(bytes.get(..before).unwrap_or_default());
        if found == expected { Ok(()) } else { Err(RecordFault::RecordCrc { expected, found }) }
    }

    /// Whether the record stands where it says.
    pub fn check_offset(&self, expected: u64) -> Result<(), RecordFault> {
        if num::from_java_long(self.physical_offset) == Some(expected) {
            Ok(())
        } else {
            Err(RecordFault::PhysicalOffset { expected, found: self.physical_offset })
        }
    }

    /// Where the record ends in the log.
    #[must_use]
    pub const fn next_offset(&self, offset: u64) -> u64 {
        offset + self.total_size as u64
    }

    #[inline]
    fn read(bytes: &'a [u8], magic_code: i32, total_size: u32) -> Result<Self, RecordFault> {
        let short = RecordFault::TooShort { needed: u64::from(total_size), found: num::offset(bytes.len()) };
        let head = Head::read(bytes).ok_or(short)?;
        let mut reader = FieldReader::new(bytes.get(head.size..).ok_or(short)?);
        let mut sized = |field: &'static str, len: i32| -> Result<&'a [u8], RecordFault> {
            let fault = RecordFault::FieldLength { field, found: len };
            reader.bytes(usize::try_from(len).map_err(|_| fault)?).ok_or(fault)
        };
        let body = sized("body", head.body_len)?;
        let topic_len = match sized("topic length", if magic_code == MESSAGE_MAGIC_CODE_V2 { 2 } else { 1 })?
        {
            [len] => i32::from(len.cast_signed()),
            [high, low] => i32::from(i16::from_be_bytes([*high, *low])),
            _ => return Err(short),
        };
        let topic = sized("topic", topic_len)?;
        let properties_len = match sized("properties length", 2)? {
            [high, low] => i32::from(i16::from_be_bytes([*high, *low])),
            _ => return Err(short),
        };
        let properties = sized("properties", properties_len.max(0))?;
        let computed = num::offset(head.size + body.len() + topic.len() + properties.len())
            + if magic_code == MESSAGE_MAGIC_CODE_V2 { 4 } else { 3 };
        if computed != u64::from(total_size) {
            return Err(RecordFault::Lengths { total_size, computed });
        }
        Ok(head.into_record(total_size, magic_code, body, topic, properties))
    }
}

/// The fields before the body.
struct Head {
    body_crc: i32,
    queue_id: i32,
    flag: i32,
    queue_offset: i64,
    physical_offset: i64,
    sys_flag: i32,
    born_timestamp: i64,
    born_host: Host,
    store_timestamp: i64,
    store_host: Host,
    reconsume_times: i32,
    prepared_transaction_offset: i64,
    body_len: i32,
    size: usize,
}

impl Head {
    #[inline]
    fn read(bytes: &[u8]) -> Option<Self> {
        let sys_flag = be::i32_at(bytes, SYS_FLAG_AT)?;
        let (born_v6, store_v6) =
            (sys_flag & sys_flag::BORNHOST_V6 != 0, sys_flag & sys_flag::STOREHOST_V6 != 0);
        if born_v6 || store_v6 {
            return Self::read_with(bytes, born_v6, store_v6);
        }
        // Nearly all. Their fields stand at places that are known when this is compiled.
        Self::read_with(bytes.first_chunk::<V4_HEAD_SIZE>()?, false, false)
    }

    #[inline(always)]
    fn read_with(bytes: &[u8], born_v6: bool, store_v6: bool) -> Option<Self> {
        let mut reader = FieldReader::new(bytes.get(MAGIC_CODE_AT + 4..)?);
        let body_crc = reader.i32()?;
        let queue_id = reader.i32()?;
        let flag = reader.i32()?;
        let queue_offset = reader.i64()?;
        let physical_offset = reader.i64()?;
        let sys_flag = reader.i32()?;
        let born_timestamp = reader.i64()?;
        let born_host = Host::read(&mut reader, born_v6)?;
        let store_timestamp = reader.i64()?;
        let store_host = Host::read(&mut reader, store_v6)?;
        let reconsume_times = reader.i32()?;
        let prepared_transaction_offset = reader.i64()?;
        let body_len = reader.i32()?;
        let size = BORN_HOST_AT + host::size(born_v6) + 8 + host::size(store_v6) + 4 + 8 + 4;
        Some(Self {
            body_crc,
            queue_id,
            flag,
            queue_offset,
            physical_offset,
            sys_flag,
            born_timestamp,
            born_host,
            store_timestamp,
            store_host,
            reconsume_times,
            prepared_transaction_offset,
            body_len,
            size,
        })
    }

    #[inline]
    fn into_record<'a>(
        self,
        total_size: u32,
        magic_code: i32,
        body: &'a [u8],
        topic: &'a [u8],
        properties: &'a [u8],
    ) -> Record<'a> {
        Record {
            total_size,
            magic_code,
            body_crc: self.body_crc,
            queue_id: self.queue_id,
            flag: self.flag,
            queue_offset: self.queue_offset,
            physical_offset: self.physical_offset,
            sys_flag: self.sys_flag,
            born_timestamp: self.born_timestamp,
            born_host: self.born_host,
            store_timestamp: self.store_timestamp,
            store_host: self.store_host,
            reconsume_times: self.reconsume_times,
            prepared_transaction_offset: self.prepared_transaction_offset,
            body,
            topic,
            properties,
        }
    }
}

/// The record in its bytes, where they have the structure of one.
#[inline]
#[must_use]
pub fn decode_record(bytes: &[u8]) -> Option<Record<'_>> {
    match decode(bytes, Check::Structure) {
        Ok(Decoded::Message(record)) => Some(record),
        _ => None,
    }
}

/// Decodes what stands at the start of `bytes`, which reach to the end of the valid data of its
/// file. Checks that total size, magic code and lengths agree, and with [`Check::BodyCrc`] the body;
/// whether the record stands where it says is for [`Record::check_offset`].
///
/// # Errors
/// A [`RecordFault`] for whatever does not agree.
#[inline]
pub fn decode(bytes: &[u8], check: Check) -> Result<Decoded<'_>, RecordFault> {
    let found = num::offset(bytes.len());
    let mut reader = FieldReader::new(bytes);
    let (Some(size), Some(magic_code)) = (reader.i32(), reader.i32()) else {
        return Err(RecordFault::TooShort { needed: num::offset(END_FILE_MIN_BLANK_LENGTH), found });
    };
    match magic_code {
        BLANK_MAGIC_CODE => return Ok(Decoded::Blank { size }),
        MESSAGE_MAGIC_CODE | MESSAGE_MAGIC_CODE_V2 => {}
        _ => return Err(RecordFault::MagicCode { found: num::int_as_bits(magic_code) }),
    }
    let total_size = match num::from_java_int(size) {
        Some(total_size) if total_size as usize >= FIXED_SIZE => total_size,
        _ => return Err(RecordFault::TotalSize { found: size }),
    };
    let record = bytes
        .get(..total_size as usize)
        .ok_or(RecordFault::TooShort { needed: u64::from(total_size), found })
        .and_then(|bytes| Record::read(bytes, magic_code, total_size))?;
    if check == Check::BodyCrc {
        record.check_content(bytes)?;
    }
    Ok(Decoded::Message(record))
}
