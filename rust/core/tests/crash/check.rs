//! What must hold of what is left of a store.

use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mqstore_core::clock::ManualClock;
use mqstore_core::commit_log::scan::{ScanEnd, scan};
use mqstore_core::config::StoreConfig;
use mqstore_core::error::Result;
use mqstore_core::format::index::key_hash;
use mqstore_core::format::message::{Check, decode_record};
use mqstore_core::fs::OsFileSystem;
use mqstore_core::index::KeyQuery;
use mqstore_core::store::{Mode, Store};

use crate::configs::Configs;
use crate::delays::{Delayed, check_delivery, check_properties, due_ms, schedule_topic};
use crate::removals::Removals;
use crate::workload::{Acknowledged, Put, name_of};

/// What is known of a store at a moment.
#[derive(Debug, Clone, Default)]
pub(crate) struct Known {
    /// Messages that must be there.
    pub(crate) promised: Vec<Acknowledged>,
    /// Messages that are in the log, flushed or not, at the end of a life.
    pub(crate) appended: Vec<Acknowledged>,
    /// Messages that may be there: what was ever put and not found missing since.
    pub(crate) tried: HashMap<String, Put>,
    /// What the files of the folder `config` can hold.
    pub(crate) configs: Configs,
    /// Queues that were removed.
    pub(crate) removals: Removals,
    /// Messages that wait for a delay.
    pub(crate) delayed: Delayed,
}

/// A message as a store has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) name: String,
    /// Where it waits, while it does.
    pub(crate) topic: String,
    pub(crate) queue_id: i32,
    pub(crate) offset: u64,
    pub(crate) size: u32,
    pub(crate) queue_offset: i64,
    /// When it is due, while it waits.
    pub(crate) due_ms: Option<i64>,
}

impl Found {
    /// It, as the put that left it would have told.
    pub(crate) fn acknowledged(&self, tried: &HashMap<String, Put>) -> Acknowledged {
        Acknowledged {
            put: tried[&self.name].clone(),
            offset: self.offset,
            end: self.offset + u64::from(self.size),
            queue_offset: self.queue_offset,
            waits: self.due_ms.is_some(),
        }
    }
}

/// Opens a store at a fixed time.
pub(crate) fn open(config: &StoreConfig, mode: Mode) -> Result<Arc<Store>> {
    let clock = Arc::new(ManualClock::at(1_800_000_000_000));
    Store::open(config.clone(), Arc::new(OsFileSystem), clock, mode)
}

/// Looks at a store that a crash left as a reader, then as a writer, and once more. Gives what it has.
pub(crate) fn check(config: &StoreConfig, known: &Known) -> Vec<Found> {
    let reader = open(config, Mode::Read);
    // Before the first opening came to its end there may be no log yet, and nothing was promised.
    if let Ok(reader) = reader {
        check_store(&reader, known);
        reader.close().unwrap();
    } else {
        assert!(known.promised.is_empty(), "{:?}", reader.err());
    }
    let store = open(config, Mode::ReadWrite).unwrap();
    let found = check_store(&store, known);
    check_index_entries(&store, &found, known);
    assert_eq!(store.gaps(), [], "nothing is passed over");
    store.close().unwrap();
    known.configs.check(&config.store_path_root_dir);
    let before = contents(config);
    let store = open(config, Mode::ReadWrite).unwrap();
    assert_eq!(found, check_store(&store, known));
    store.close().unwrap();
    let after = contents(config);
    let differs = |path: &&PathBuf| before.get(*path) != after.get(*path);
    let changed: Vec<_> = before.keys().chain(after.keys()).filter(differs).collect();
    assert!(changed.is_empty(), "opening again changed {changed:?}");
    check_delivery(config, known);
    found
}

/// A store has what was promised and nothing that was not put, and finds each message by its queue and
/// its key, but for what a removed queue had.
pub(crate) fn check_store(store: &Arc<Store>, known: &Known) -> Vec<Found> {
    let found = messages(store, known);
    let by_place: HashMap<u64, &Found> = found.iter().map(|found| (found.offset, found)).collect();
    known.delayed.check(&found, &known.tried);
    for promised in &known.promised {
        let found = by_place.get(&promised.offset).unwrap_or_else(|| panic!("{promised:?} is lost"));
        assert_eq!(found.acknowledged(&known.tried), *promised);
    }
    let left = known.removals.left(store, &found);
    check_queues(store, &left);
    for found in &found {
        let is_same = |other: &&Found| (&other.name, &other.topic) == (&found.name, &found.topic);
        let expected: Vec<_> = left.iter().filter(is_same).map(|found| found.offset as i64).collect();
        for key in known.tried[&found.name].keys() {
            let (topic, key) = (found.topic.as_bytes(), key.as_bytes());
            let query = KeyQuery { topic, key, max_num: 10, begin: 0, end: i64::MAX };
            let by_key = store.query_message(&query).unwrap();
            let mut offsets: Vec<_> =
                by_key.iter().map(|bytes| decode_record(bytes).unwrap().physical_offset).collect();
            offsets.sort_unstable();
            assert_eq!(offsets, expected, "{found:?} by its key");
        }
    }
    assert_eq!(store.rejected_count(), 0, "{:?}", store.rejected());
    found
}

fn messages(store: &Store, known: &Known) -> Vec<Found> {
    let mut found = Vec::new();
    let mut position = store.first_offset();
    let gaps = store.gaps();
    while position < store.max_phy_offset() {
        let log = store.log();
        let end = scan(log.files(), position, store.max_phy_offset(), Check::BodyCrc, |offset, record, _| {
            let name = name_of(record.body);
            let put = known.tried.get(&name).unwrap_or_else(|| panic!("{name} was never put"));
            assert_eq!(put.body(), record.body);
            let waits = put.level > 0 && record.topic == schedule_topic().as_bytes();
            if put.level > 0 {
                check_properties(put, record.properties, waits);
            } else {
                let (properties, has_zeros) = (put.properties(), put.properties().contains(&0));
                let behind = record.properties.strip_prefix(properties.as_slice());
                // Where there are zeros a checksum follows.
                assert!(behind.is_some_and(|rest| rest.is_empty() != has_zeros), "{:?}", record.properties);
            }
            let place = if waits { (schedule_topic(), put.level - 1) } else { (put.topic, put.queue_id) };
            assert_eq!((place.0.as_bytes(), place.1), (record.topic, record.queue_id));
            found.push(Found {
                name,
                topic: place.0.to_owned(),
                queue_id: record.queue_id,
                due_ms: waits.then(|| due_ms(put, record)),
                offset,
                size: record.total_size,
                queue_offset: record.queue_offset,
            });
            Ok(ControlFlow::Continue(()))
        });
        let end = end.unwrap();
        position = match end {
            ScanEnd::Reached(offset) | ScanEnd::Stopped(offset) => offset.max(position + 1),
            ScanEnd::Fault { offset, .. } | ScanEnd::Missing(offset) => {
                let gap = gaps.iter().find(|gap| gap.from == offset);
                gap.unwrap_or_else(|| panic!("{end:?} is no known gap: {gaps:?}")).to
            }
        };
    }
    found
}

/// Each queue has a unit for each message that is left in it, in order, and no others.
fn check_queues(store: &Store, found: &[Found]) {
    let mut expected = BTreeMap::<(String, i32), BTreeMap<u64, _>>::new();
    for found in found {
        let queue = expected.entry((found.topic.clone(), found.queue_id)).or_default();
        // When it is due stands where others have their tag.
        let tag = i64::from(mqstore_core::format::java_string::hash_code(b"TagA"));
        let code = found.due_ms.unwrap_or(tag);
        queue.insert(found.queue_offset as u64, ((found.offset, found.size), Some(code)));
    }
    let mut units = BTreeMap::<(String, i32), BTreeMap<u64, _>>::new();
    for queue in store.queues().all() {
        let (min, max) = (queue.min_offset_in_queue(), queue.max_offset_in_queue());
        for index in min..max {
            let unit = queue.unit(index).unwrap().unwrap();
            let Some(place) = unit.place() else { continue };
            let found = (place, queue.tags_code(&unit).unwrap());
            units.entry((queue.topic().to_owned(), queue.queue_id())).or_default().insert(index, found);
        }
    }
    assert_eq!(units, expected);
}

/// The index has each message's keys once, and no others.
fn check_index_entries(store: &Store, found: &[Found], known: &Known) {
    let mut entries = Vec::new();
    for file in store.index().unwrap().files().iter() {
        entries.extend((1..file.index_count()).map(|number| {
            let entry = file.entry(number).unwrap().unwrap();
            (entry.phy_offset, entry.key_hash)
        }));
    }
    // Those of messages that are gone with their file stay with the file of the index that has others.
    let first = store.first_offset() as i64;
    entries.retain(|(phy_offset, _)| *phy_offset >= first);
    let expected: Vec<_> = found
        .iter()
        .flat_map(|found| known.tried[&found.name].keys().into_iter().map(move |key| (found, key)))
        .map(|(found, key)| {
            let hash = key_hash(found.topic.as_bytes(), key.as_bytes());
            (found.offset as i64, i32::try_from(hash).unwrap())
        })
        .collect();
    assert_eq!(entries, expected);
}

/// The files of log, queues and index; log files with nothing in them do not count.
fn contents(config: &StoreConfig) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for folder in ["commitlog", "consumequeue", "consumequeue_ext", "index", "config"] {
        collect(&config.store_path_root_dir.join(folder), &mut found);
    }
    found.retain(|path, content| {
        !path.starts_with(&config.store_path_commit_log[0]) || content.iter().any(|&byte| byte != 0)
    });
    found
}

fn collect(folder: &Path, found: &mut BTreeMap<PathBuf, Vec<u8>>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, found);
        } else {
            found.insert(path.clone(), std::fs::read(&path).unwrap());
        }
    }
}
