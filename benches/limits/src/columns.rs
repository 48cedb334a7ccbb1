//! The least that a reader of all columns has to do: records are taken apart, and what they hold goes into columns.
//!
//! They are of one size and the queues have them in turns, so that nothing has to be found, and nothing is held against
//! anything: only that the lengths in a record agree, without which it cannot be taken apart.

use std::hint::black_box;

use mqstore_core::format::host::Host;
use mqstore_core::format::message::{self, Check, Decoded, Record};
use mqstore_core::format::properties;

/// Bytes of bodies after which the columns are done and their memory is used again.
const BATCH_SIZE: usize = 8 << 20;
/// So many records ahead of the one that is taken apart are asked of the memory.
const AHEAD: usize = 8;
const CACHE_LINE: usize = 64;

/// Values of any length, end to end.
#[derive(Default)]
struct Texts {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Texts {
    fn push(&mut self, text: &[u8]) {
        self.bytes.extend_from_slice(text);
        self.ends.push(self.bytes.len());
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }
}

/// Values that records have in common: how often each comes.
struct Repeated<T>(Vec<(T, usize)>);

impl<T: PartialEq> Repeated<T> {
    fn push(&mut self, value: T) {
        match self.0.last_mut() {
            Some((last, count)) if *last == value => *count += 1,
            _ => self.0.push((value, 1)),
        }
    }
}

struct Columns<'a> {
    ints: [Vec<i32>; 6],
    longs: [Vec<i64>; 5],
    texts: [Repeated<&'a [u8]>; 2],
    hosts: [Repeated<Host>; 2],
    ids: Texts,
    unique_keys: Texts,
    keys: Texts,
    /// How many of all keys and of all properties there are behind each record's.
    key_ends: Vec<usize>,
    property_ends: Vec<usize>,
    names: Texts,
    values: Texts,
    bodies: Texts,
}

impl<'a> Columns<'a> {
    fn new() -> Self {
        let mut bodies = Texts::default();
        bodies.bytes.reserve(BATCH_SIZE);
        Self {
            ints: Default::default(),
            longs: Default::default(),
            texts: [Repeated(Vec::new()), Repeated(Vec::new())],
            hosts: [Repeated(Vec::new()), Repeated(Vec::new())],
            ids: Texts::default(),
            unique_keys: Texts::default(),
            keys: Texts::default(),
            key_ends: Vec::new(),
            property_ends: Vec::new(),
            names: Texts::default(),
            values: Texts::default(),
            bodies,
        }
    }

    fn push(&mut self, record: &Record<'a>) {
        let Record { queue_id, body_crc, flag, sys_flag, reconsume_times, .. } = *record;
        let size = record.total_size.cast_signed();
        let ints = [queue_id, size, body_crc, flag, sys_flag, reconsume_times];
        self.ints.iter_mut().zip(ints).for_each(|(column, value)| column.push(value));
        let longs = [
            record.queue_offset,
            record.physical_offset,
            record.born_timestamp,
            record.store_timestamp,
            record.prepared_transaction_offset,
        ];
        self.longs.iter_mut().zip(longs).for_each(|(column, value)| column.push(value));
        self.hosts
            .iter_mut()
            .zip([record.born_host, record.store_host])
            .for_each(|(column, host)| column.push(host));
        self.push_id(record.physical_offset);
        let (mut tags, mut keys, mut unique_key): (&[u8], &[u8], &[u8]) = (&[], &[], &[]);
        for (name, value) in properties::pairs(record.properties) {
            match name {
                properties::TAGS => tags = value,
                properties::KEYS => keys = value,
                properties::UNIQ_KEY => unique_key = value,
                _ => {}
            }
            self.names.push(name);
            self.values.push(value);
        }
        self.property_ends.push(self.names.ends.len());
        keys.split(|byte| *byte == b' ').filter(|key| !key.is_empty()).for_each(|key| self.keys.push(key));
        self.key_ends.push(self.keys.ends.len());
        self.unique_keys.push(unique_key);
        self.texts.iter_mut().zip([record.topic, tags]).for_each(|(column, text)| column.push(text));
        self.bodies.push(record.body);
    }

    /// An id as text: the host's part is the same for all.
    fn push_id(&mut self, physical_offset: i64) {
        const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
        let mut id = *b"7F00000100002A9F0000000000000000";
        for (to, byte) in id.as_chunks_mut::<2>().0.iter_mut().skip(8).zip(physical_offset.to_be_bytes()) {
            let digit = |of: u8| DIGITS.get(usize::from(of)).copied().unwrap_or_default();
            *to = [digit(byte >> 4), digit(byte & 15)];
        }
        self.ids.push(&id);
    }

    fn clear(&mut self) {
        black_box(&mut *self);
        self.ints.iter_mut().for_each(Vec::clear);
        self.longs.iter_mut().for_each(Vec::clear);
        self.texts.iter_mut().for_each(|column| column.0.clear());
        self.hosts.iter_mut().for_each(|column| column.0.clear());
        let Self { ids, unique_keys, keys, names, values, bodies, .. } = self;
        [ids, unique_keys, keys, names, values, bodies].into_iter().for_each(Texts::clear);
        self.key_ends.clear();
        self.property_ends.clear();
    }
}

/// Takes records of one size apart, one queue's after the other's: each of so many has every so-manieth record. Gives how
/// many there were.
pub fn read(records: &[u8], record_size: usize, queues: usize) -> usize {
    let mut columns = Columns::new();
    let mut count = 0;
    let all = records.len() / record_size;
    for number in (0..queues).flat_map(|queue| (queue..all).step_by(queues)) {
        fetch(records, (number + AHEAD * queues) * record_size, record_size);
        let bytes = records.get(number * record_size..).unwrap_or_default();
        let Ok(Decoded::Message(record)) = message::decode(bytes, Check::Structure) else { break };
        columns.push(&record);
        count += 1;
        if columns.bodies.bytes.len() + record_size > BATCH_SIZE {
            columns.clear();
        }
    }
    columns.clear();
    count
}

/// Has the processor fetch what will be read soon.
pub fn fetch(bytes: &[u8], at: usize, len: usize) {
    #[cfg(target_arch = "x86_64")]
    for place in (at..at + len).step_by(CACHE_LINE).chain([at + len.saturating_sub(1)]) {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        // SAFETY: a hint that reads nothing; every x86-64 processor has it.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(bytes.as_ptr().wrapping_add(place).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _no_hint_known = (bytes, at, len);
}
