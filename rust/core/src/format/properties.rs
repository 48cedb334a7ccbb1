//! A message's properties as one string.
//!
//! | bytes | field |
//! |-------|-------|
//! | n     | name |
//! | 1     | 0x01 |
//! | n     | value |
//! | 1     | 0x02, between two properties; RocketMQ 4.9.3 writes none behind the last |
//!
//! Source: `MessageDecoder.messageProperties2String` and `string2messageProperties`. As there, a
//! pair with an empty name or value is skipped on reading, and of two pairs of one name the last
//! counts.

use std::borrow::Cow;

use super::java_hash_map::JavaHashMap;
use crate::short_text::{Below, below, has_below};

/// Between a name and its value.
pub const NAME_VALUE_SEPARATOR: u8 = 1;
/// Between two properties.
pub const PROPERTY_SEPARATOR: u8 = 2;
/// The first byte that neither separates nor may be what a power cut leaves.
const FIRST_PLAIN: u8 = 3;

/// A message's keys, separated by spaces.
pub const KEYS: &[u8] = b"KEYS";
/// A message's tag.
pub const TAGS: &[u8] = b"TAGS";
/// The unique key that the client gives each message.
pub const UNIQ_KEY: &[u8] = b"UNIQ_KEY";
/// Whether a put waits for the flush and the slave.
pub const WAIT: &[u8] = b"WAIT";
/// The delay level.
pub const DELAY: &[u8] = b"DELAY";
/// When a timed message is delivered, in milliseconds; 4.9.3 has no such messages.
pub const DELIVER_AT: &[u8] = b"MQSTORE_DELIVER_AT";
/// The checksum of the whole record: see [`record_crc`](super::record_crc).
pub const CRC32: &[u8; 8] = b"__CRC32#";
/// The topic that a delayed message will go to.
pub const REAL_TOPIC: &[u8] = b"REAL_TOPIC";
/// The queue that a delayed message will go to.
pub const REAL_QID: &[u8] = b"REAL_QID";
/// The further queues that a message is dispatched to, separated by commas.
pub const INNER_MULTI_DISPATCH: &[u8] = b"INNER_MULTI_DISPATCH";
/// The offsets in those queues, in their order.
pub const INNER_MULTI_QUEUE_OFFSET: &[u8] = b"INNER_MULTI_QUEUE_OFFSET";

/// The pairs of a property string, in the order in which they are stored.
#[inline]
#[must_use]
pub const fn pairs(properties: &[u8]) -> Pairs<'_> {
    Pairs { properties, separators: below(properties, FIRST_PLAIN), begin: 0 }
}

/// See [`pairs`].
#[derive(Debug, Clone)]
pub struct Pairs<'a> {
    properties: &'a [u8],
    separators: Below<'a>,
    /// Of the next pair.
    begin: usize,
}

impl<'a> Iterator for Pairs<'a> {
    type Item = (&'a [u8], &'a [u8]);

    #[inline(always)] // in a loop it keeps its state in registers then, which dispatch comes by for each record
    fn next(&mut self) -> Option<Self::Item> {
        while self.begin < self.properties.len() {
            let (mut name_end, mut end) = (None, self.properties.len());
            for at in self.separators.by_ref() {
                match self.properties.get(at) {
                    Some(&PROPERTY_SEPARATOR) => {
                        end = at;
                        break;
                    }
                    Some(&NAME_VALUE_SEPARATOR) if name_end.is_none() => name_end = Some(at),
                    _ => {}
                }
            }
            let name = name_end.and_then(|at| self.properties.get(self.begin..at));
            let value = name_end.and_then(|at| self.properties.get(at + 1..end));
            self.begin = end + 1;
            if let Some((name, value)) = name.zip(value)
                && !name.is_empty()
                && !value.is_empty()
            {
                return Some((name, value));
            }
        }
        None
    }
}

/// The value of one property, or `None`.
#[must_use]
pub fn find<'a>(properties: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    pairs(properties).filter(|(found, _)| *found == name).map(|(_, value)| value).last()
}

fn is_of(pair: &[u8], name: &[u8]) -> bool {
    pair.strip_prefix(name).is_some_and(|rest| rest.first() == Some(&NAME_VALUE_SEPARATOR))
}

/// A property string without one property, everything else as it was.
#[must_use]
pub fn without<'a>(properties: &'a [u8], name: &[u8]) -> Cow<'a, [u8]> {
    if memchr::memmem::find(properties, name).is_none() {
        return Cow::Borrowed(properties);
    }
    let pairs = properties.split_inclusive(|&byte| byte == PROPERTY_SEPARATOR);
    Cow::Owned(pairs.filter(|pair| !is_of(pair, name)).flatten().copied().collect())
}

/// A property string with another value of one property, everything else as it was.
#[must_use]
pub fn replace(properties: &[u8], name: &[u8], value: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(properties.len() + value.len());
    for pair in properties.split_inclusive(|&byte| byte == PROPERTY_SEPARATOR) {
        if is_of(pair, name) {
            out.extend_from_slice(name);
            out.push(NAME_VALUE_SEPARATOR);
            out.extend_from_slice(value);
            out.extend(pair.last().filter(|&&last| last == PROPERTY_SEPARATOR));
        } else {
            out.extend_from_slice(pair);
        }
    }
    out
}

/// The properties as a map in Java's order.
#[must_use]
pub fn to_map(properties: &[u8]) -> JavaHashMap<'_> {
    let mut map = JavaHashMap::default();
    for (name, value) in pairs(properties) {
        map.put(name, value);
    }
    map
}

/// The property string that 4.9.3 writes for a map.
#[must_use]
pub fn encode(map: &JavaHashMap<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    encode_into(map, &mut out);
    out
}

/// Appends the property string that 4.9.3 writes for a map.
pub fn encode_into(map: &JavaHashMap<'_>, out: &mut Vec<u8>) {
    encode_pairs(map.ordered().into_iter(), out);
}

fn encode_pairs<'a>(pairs: impl Iterator<Item = (&'a [u8], &'a [u8])>, out: &mut Vec<u8>) {
    let begin = out.len();
    for (name, value) in pairs {
        encode_pair(name, value, begin, out);
    }
}

/// Appends a pair to those of a property string that begins at `begin`.
#[inline(always)] // a name that the compiler knows is a store or two, and a call otherwise
fn encode_pair(name: &[u8], value: &[u8], begin: usize, out: &mut Vec<u8>) {
    out.reserve(name.len() + value.len() + 2);
    if out.len() > begin {
        out.push(PROPERTY_SEPARATOR);
    }
    out.extend_from_slice(name);
    out.push(NAME_VALUE_SEPARATOR);
    out.extend_from_slice(value);
}

/// The properties of a message that has no others than those a client gives every message. Java's
/// map has these few in one order, whatever the values: no map has to be built for them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClientProperties<'a> {
    keys: Option<&'a [u8]>,
    uniq_key: Option<&'a [u8]>,
    wait: Option<&'a [u8]>,
    tags: Option<&'a [u8]>,
    is_plain: bool,
}

impl<'a> ClientProperties<'a> {
    /// Those of a message; keys and tags that are empty are none.
    #[inline]
    #[must_use]
    pub fn of(
        keys: Option<&'a [u8]>,
        uniq_key: Option<&'a [u8]>,
        tags: Option<&'a [u8]>,
        wait_store_msg_ok: bool,
    ) -> Self {
        let given = |text: Option<&'a [u8]>| text.filter(|text| !text.is_empty());
        let (keys, tags) = (given(keys), given(tags));
        let wait = (!wait_store_msg_ok).then_some(&b"false"[..]);
        let is_plain = [keys, uniq_key, tags].into_iter().flatten().all(|text| !has_below(text, FIRST_PLAIN));
        Self { keys, uniq_key, wait, tags, is_plain }
    }

    /// Whether no value has a separator or a zero byte: nothing about them has to be looked into.
    #[must_use]
    pub const fn is_plain(&self) -> bool {
        self.is_plain
    }

    /// `WAIT`.
    #[must_use]
    pub const fn wait(&self) -> Option<&'a [u8]> {
        self.wait
    }

    /// Names and values in the order in which Java's map gives them.
    pub fn pairs(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + Clone + use<'a> {
        let pairs = [(KEYS, self.keys), (UNIQ_KEY, self.uniq_key), (WAIT, self.wait), (TAGS, self.tags)];
        pairs.into_iter().filter_map(|(name, value)| Some((name, value?)))
    }

    /// Appends the property string.
    #[inline]
    pub fn encode_into(&self, out: &mut Vec<u8>) {
        let begin = out.len();
        // Not by `pairs`, of whose names the compiler does not know how long they are.
        let mut push = |name, value: Option<&[u8]>| {
            if let Some(value) = value {
                encode_pair(name, value, begin, out);
            }
        };
        push(KEYS, self.keys);
        push(UNIQ_KEY, self.uniq_key);
        push(WAIT, self.wait);
        push(TAGS, self.tags);
    }
}

/// What dispatch needs of a message's properties, found in one pass.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DispatchProperties<'a> {
    /// `KEYS`.
    pub keys: Option<&'a [u8]>,
    /// `UNIQ_KEY`.
    pub uniq_key: Option<&'a [u8]>,
    /// `TAGS`.
    pub tags: Option<&'a [u8]>,
    /// `DELAY`.
    pub delay: Option<&'a [u8]>,
    /// `MQSTORE_DELIVER_AT`.
    pub deliver_at: Option<&'a [u8]>,
    /// `INNER_MULTI_DISPATCH`.
    pub multi_dispatch: Option<&'a [u8]>,
    /// `INNER_MULTI_QUEUE_OFFSET`.
    pub multi_queue_offset: Option<&'a [u8]>,
}

impl<'a> DispatchProperties<'a> {
    /// Reads them from a property string.
    #[must_use]
    pub fn of(properties: &'a [u8]) -> Self {
        let mut found = Self::default();
        for (name, value) in pairs(properties) {
            found.take(name, value);
        }
        found
    }

    /// Takes a pair, of which one that comes later counts.
    #[inline]
    pub fn take(&mut self, name: &'a [u8], value: &'a [u8]) {
        match name {
            KEYS => self.keys = Some(value),
            UNIQ_KEY => self.uniq_key = Some(value),
            TAGS => self.tags = Some(value),
            DELAY => self.delay = Some(value),
            DELIVER_AT => self.deliver_at = Some(value),
            INNER_MULTI_DISPATCH => self.multi_dispatch = Some(value),
            INNER_MULTI_QUEUE_OFFSET => self.multi_queue_offset = Some(value),
            _ => {}
        }
    }

    /// The keys under which the message is indexed, in the order in which 4.9.3 puts them: its
    /// unique key, then each of `KEYS`.
    pub fn index_keys(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let keys = self.keys.unwrap_or_default().split(|&byte| byte == b' ').filter(|key| !key.is_empty());
        self.uniq_key.into_iter().chain(keys)
    }
}
