//! Small stores to test on: files of 4 KiB, queue files of ten units, index files of nineteen keys.

#![allow(dead_code)] // each test crate takes what it needs of this

pub mod recovering;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mqstore_core::clock::ManualClock;
use mqstore_core::commit_log::{Appended, NewRecord, QueueOffset, StoreTime, Wait};
use mqstore_core::config::{OnDamage, StoreConfig, WalkedParts};
use mqstore_core::error::Error;
use mqstore_core::format::host::Host;
use mqstore_core::format::index::IndexShape;
use mqstore_core::format::message::{Place, RecordFields, body_crc, decode_record};
use mqstore_core::fs::{FileSystem, OsFileSystem};
use mqstore_core::index::KeyQuery;
use mqstore_core::store::{GetMessageResult, Mode, NewMessage, Properties, PutRefusal, PutStep, Store};

/// Bytes of a log file.
pub const LOG_FILE_SIZE: u64 = 4096;
/// Units of a queue file.
pub const UNITS_IN_FILE: u64 = 10;

pub fn fs() -> Arc<dyn FileSystem> {
    Arc::new(OsFileSystem)
}

pub fn config(root: &Path) -> StoreConfig {
    StoreConfig {
        mapped_file_size_commit_log: LOG_FILE_SIZE,
        mapped_file_size_consume_queue: UNITS_IN_FILE * 20,
        mapped_file_size_consume_queue_ext: 100,
        index_shape: IndexShape { hash_slot_num: 7, index_num: 20 },
        delay_levels_ms: vec![1000, 5000],
        walked_parts: walked_parts(512),
        adopt_above: 100,
        by_call_size: 300,
        ..StoreConfig::new(root)
    }
}

/// Several threads walk, on a machine with one processor too. A scheduler of tests has few, but where a test asks for more.
pub fn walked_parts(size: u64) -> WalkedParts {
    let (thread_count, keys_aside_size) = if cfg!(feature = "shuttle") { (1, usize::MAX) } else { (3, 0) };
    WalkedParts { size, thread_count, derived_size: 2048, keys_aside_size }
}

/// Options by which a writer does without what is damaged.
pub fn cutting(root: &Path) -> StoreConfig {
    StoreConfig { on_damage: OnDamage::Truncate, ..config(root) }
}

/// A store with a clock that stands at 1,000,000 ms.
pub struct Opened {
    pub store: Arc<Store>,
    pub clock: Arc<ManualClock>,
}

impl std::ops::Deref for Opened {
    type Target = Arc<Store>;

    fn deref(&self) -> &Arc<Store> {
        &self.store
    }
}

pub fn try_open(config: StoreConfig, mode: Mode) -> Result<Opened, Error> {
    let clock = Arc::new(ManualClock::at(1_000_000));
    let store = Store::open(config, fs(), Arc::<ManualClock>::clone(&clock), mode)?;
    Ok(Opened { store, clock })
}

pub fn open_with(config: StoreConfig) -> Opened {
    try_open(config, Mode::ReadWrite).unwrap()
}

pub fn open(root: &Path) -> Opened {
    open_with(config(root))
}

pub fn read(root: &Path) -> Opened {
    try_open(config(root), Mode::Read).unwrap()
}

/// Ends a writer as a crash does: what it wrote stays, what it would have done on closing is not done.
pub fn crash(opened: Opened) {
    drop(opened.store);
}

pub fn host() -> Host {
    Host { ip: "127.0.0.1".parse().unwrap(), port: 10_911 }
}

pub fn message<'a>(topic: &'a str, queue_id: i32, body: &'a [u8], properties: &'a str) -> NewMessage<'a> {
    NewMessage {
        topic: topic.as_bytes(),
        queue_id,
        flag: 0,
        sys_flag: 0,
        born_timestamp: 5,
        born_host: host(),
        store_host: host(),
        reconsume_times: 0,
        prepared_transaction_offset: 0,
        body,
        properties: Properties::Raw(properties.as_bytes()),
    }
}

pub fn try_put(store: &Store, message: &NewMessage<'_>) -> Result<Appended, PutRefusal> {
    match store.put_message(message, Wait::Block) {
        PutStep::Done(done) => Ok(done.appended),
        PutStep::WouldBlock => panic!("a put that may wait waits"),
        PutStep::Refused(refusal) => Err(refusal),
    }
}

pub fn put(store: &Store, topic: &str, queue_id: i32, body: &[u8], properties: &str) -> Appended {
    try_put(store, &message(topic, queue_id, body, properties)).unwrap()
}

/// Puts numbered messages of 200 bytes with the keys `k0`, `k1`, … into queue 0 of `t`.
pub fn fill(store: &Store, numbers: std::ops::Range<usize>) {
    for number in numbers {
        let body = format!("{number:0>80}");
        put(store, "t", 0, body.as_bytes(), &format!("KEYS\x01k{number}"));
    }
}

/// Leaves a store as a crash does, all of it on the disk, whose recovery begins behind what it has so far: with the log's
/// last file.
pub fn crash_files_later(store: Opened) {
    for now_ms in [1_005_000, 1_010_000, 1_015_000] {
        store.clock.set(now_ms);
        put(&store, "u", 0, &[0; 3000], "");
    }
    store.reput().unwrap();
    store.flush_everything().unwrap();
    crash(store);
}

/// The parts of the log that a store tells to hold no record.
pub fn gaps(store: &Store) -> Vec<(u64, u64)> {
    store.gaps().iter().map(|gap| (gap.from, gap.to)).collect()
}

/// The bodies that a queue gives from an offset on.
pub fn bodies(store: &Store, topic: &str, queue_id: i32) -> Vec<String> {
    let mut found = Vec::new();
    let mut next = store.get_message(topic, queue_id, 0, 1, None).unwrap().min_offset;
    loop {
        let got = store.get_message(topic, queue_id, next, 32, None).unwrap();
        if got.next_begin_offset <= next {
            return found;
        }
        next = got.next_begin_offset;
        found.extend(bodies_of(&got));
    }
}

pub fn bodies_of(got: &GetMessageResult) -> Vec<String> {
    let body = |record: &[u8]| String::from_utf8(decode_record(record).unwrap().body.to_vec()).unwrap();
    got.messages.iter().map(|message| body(message.bytes())).collect()
}

/// The numbers of [`fill`]'s messages that a queue gives.
pub fn numbers(store: &Store) -> Vec<usize> {
    bodies(store, "t", 0).iter().map(|body| body.parse().unwrap()).collect()
}

/// Messages up to a number, dispatched: once they are flushed the checkpoint covers the first one of the second log file,
/// the twenty-third.
pub fn fill_two_files(root: &Path, end: usize) -> Opened {
    let store = open(root);
    for (now_ms, numbers) in [(1_000_000, 0..22), (1_010_000, 22..23), (1_020_000, 23..end)] {
        store.clock.set(now_ms);
        fill(&store, numbers);
    }
    store.reput().unwrap();
    store
}

/// Leaves nothing that only an mqstore writer writes.
pub fn forget_own_files(root: &Path) {
    std::fs::remove_dir_all(root.join("mqstore")).unwrap();
}

/// Leaves nothing that says what a store had when it was closed, as 4.9.3 does.
pub fn forget_closed(root: &Path) {
    std::fs::remove_file(root.join("mqstore/closed")).unwrap();
}

/// How many messages of [`fill`]'s a key finds.
pub fn found(store: &Store, key: &str) -> usize {
    found_of(store, "t", key)
}

/// How many messages of a topic a key finds.
pub fn found_of(store: &Store, topic: &str, key: &str) -> usize {
    let (topic, key) = (topic.as_bytes(), key.as_bytes());
    store.query_message(&KeyQuery { topic, key, max_num: 9, begin: 0, end: i64::MAX }).unwrap().len()
}

pub fn fields<'a>(topic: &'a str, queue_id: i32, body: &'a [u8], properties: &'a str) -> RecordFields<'a> {
    RecordFields {
        body_crc: body_crc(body),
        queue_id,
        flag: 0,
        sys_flag: 0,
        born_timestamp: 5,
        born_host: host(),
        store_host: host(),
        reconsume_times: 0,
        prepared_transaction_offset: 0,
        body,
        topic: topic.as_bytes(),
        properties: properties.as_bytes(),
        append_crc: false,
    }
}

pub fn new_record<'a>(topic: &'a str, queue_id: i32, body: &'a [u8]) -> NewRecord<'a> {
    NewRecord {
        fields: fields(topic, queue_id, body, ""),
        store_time: StoreTime::Now,
        queue_offset: QueueOffset::Next,
    }
}

pub fn record_bytes(fields: &RecordFields<'_>, queue_offset: i64, physical_offset: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    let place = Place { queue_offset, physical_offset, store_timestamp: 1_000_000 };
    fields.write(place, |part| bytes.extend_from_slice(part));
    bytes
}

/// Every file below a folder with its content, every folder without.
pub fn tree(root: &Path) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                found.insert(path.clone(), None);
                folders.push(path);
            } else {
                let content = std::fs::read(&path).unwrap();
                found.insert(path, Some(content));
            }
        }
    }
    found
}

/// Copies a folder with all that is in it.
pub fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(std::io::Result::unwrap) {
        let path = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_folder(&entry.path(), &path);
        } else {
            std::fs::copy(entry.path(), path).unwrap();
        }
    }
}

pub fn log_file(root: &Path, file_from_offset: u64) -> PathBuf {
    root.join("commitlog").join(format!("{file_from_offset:020}"))
}

/// Changes bytes of a file.
pub fn patch(path: &Path, at: u64, change: impl FnOnce(&mut [u8])) {
    let mut content = std::fs::read(path).unwrap();
    change(&mut content[usize::try_from(at).unwrap()..]);
    std::fs::write(path, content).unwrap();
}
