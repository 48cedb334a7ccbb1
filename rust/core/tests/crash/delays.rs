//! Messages that wait for the delay of a level, and what becomes of them.
//!
//! Whoever delivers says in `delayOffset.json` how far each level is, once that is on the disk; after a crash
//! what was delivered since is delivered again. So each message is delivered, at most once for each opening, and
//! of those before what the file says none is missing.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::ControlFlow;
use std::path::Path;

use mqstore_core::commit_log::scan::{ScanEnd, scan};
use mqstore_core::config::StoreConfig;
use mqstore_core::dispatch::SCHEDULE_TOPIC;
use mqstore_core::error::Result;
use mqstore_core::format::message::{Check, Record};
use mqstore_core::format::properties;
use mqstore_core::store::{Mode, Store};

use crate::check::{Found, Known, check_store, open};
use crate::workload::{Acknowledged, Put, config_path, name_of};

/// The levels' delays: some are over within a life, others only in a later one.
pub(crate) const DELAYS_MS: [i64; 2] = [4, 25];
/// The file that says how far each level is.
pub(crate) const DELAY_OFFSETS: &str = "delayOffset.json";

/// The levels' queues.
pub(crate) fn schedule_topic() -> &'static str {
    std::str::from_utf8(SCHEDULE_TOPIC).unwrap()
}

/// How far each level is delivered.
#[derive(Debug, Clone, Default)]
pub(crate) struct Levels(BTreeMap<i32, u64>);

impl Levels {
    /// What a store's file says.
    fn read(root: &Path) -> Self {
        let Ok(text) = std::fs::read_to_string(config_path(root, DELAY_OFFSETS)) else {
            return Self::default();
        };
        let table = text.strip_prefix("{\"offsetTable\":{").and_then(|rest| rest.strip_suffix("}}")).unwrap();
        let rows = table.split_terminator(',').map(|row| {
            let (level, offset) = row.split_once(':').unwrap();
            (level.trim_matches('"').parse().unwrap(), offset.parse().unwrap())
        });
        Self(rows.collect())
    }

    /// It, as the file has it.
    pub(crate) fn to_json(&self) -> Vec<u8> {
        let rows: Vec<_> = self.0.iter().map(|(level, offset)| format!("\"{level}\":{offset}")).collect();
        format!("{{\"offsetTable\":{{{}}}}}", rows.join(",")).into_bytes()
    }

    fn offset(&self, level: i32) -> u64 {
        self.0.get(&level).copied().unwrap_or(0)
    }
}

/// What delivers, while a store is open.
pub(crate) struct Delivering {
    levels: RefCell<Levels>,
    seen: RefCell<Seen>,
}

/// Up to where the log was looked at for what was delivered, and what that was.
struct Seen {
    to: u64,
    names: HashSet<String>,
}

impl Delivering {
    /// Of a store that was just opened.
    pub(crate) fn new(store: &Store) -> Self {
        let levels = RefCell::new(Levels::read(store.path()));
        let seen = RefCell::new(Seen { to: store.log().max_offset(), names: HashSet::new() });
        Self { levels, seen }
    }

    /// How far each level is.
    pub(crate) fn levels(&self) -> Levels {
        self.levels.borrow().clone()
    }

    /// Delivers what is due of a level, so many at most.
    pub(crate) fn deliver(&self, store: &Store, level: i32, most: usize) -> Result<()> {
        let mut levels = self.levels.borrow_mut();
        let pass = store.deliver_level(level, levels.offset(level), most)?;
        assert!(pass.undeliverable.is_empty(), "{pass:?}");
        levels.0.insert(level, pass.next_offset);
        Ok(())
    }

    /// From where on the log is needed for what waits.
    pub(crate) fn keep_from(&self, store: &Store) -> Result<u64> {
        let levels = self.levels.borrow();
        let queues: Vec<_> = (1..=DELAYS_MS.len() as i32)
            .map(|level| (schedule_topic().to_owned(), level - 1, levels.offset(level)))
            .collect();
        Ok(store.first_needed(&queues)?.unwrap_or(u64::MAX))
    }

    /// What was delivered since this was asked last, once each.
    pub(crate) fn delivered(&self, store: &Store, tried: &HashMap<String, Put>) -> Vec<Acknowledged> {
        let mut seen = self.seen.borrow_mut();
        let (from, to) = (seen.to.max(store.first_offset()), store.log().max_offset());
        let mut found = Vec::new();
        let reached = scan(store.log().files(), from, to, Check::BodyCrc, |offset, record, _| {
            let put = &tried[&name_of(record.body)];
            if put.level > 0 && record.topic != SCHEDULE_TOPIC {
                let (end, queue_offset) = (record.next_offset(offset), record.queue_offset);
                found.push(Acknowledged { put: put.clone(), offset, end, queue_offset, waits: false });
            }
            Ok(ControlFlow::Continue(()))
        });
        // What can't be read now is looked at later.
        let Ok(ScanEnd::Reached(_)) = reached else { return Vec::new() };
        seen.to = to;
        for done in &found {
            assert!(seen.names.insert(done.put.name.clone()), "{done:?} is delivered twice");
        }
        found
    }
}

/// What is known of delayed messages.
#[derive(Debug, Clone, Default)]
pub(crate) struct Delayed {
    /// Those that were in the log for good.
    owed: BTreeSet<String>,
    /// Those of them that were delivered and may be gone with a file of the log since.
    gone: BTreeSet<String>,
    /// How often the store was opened.
    opened: usize,
}

impl Delayed {
    /// The store is opened.
    pub(crate) fn open(&mut self) {
        self.opened += 1;
    }

    /// These are in the log for good.
    pub(crate) fn promise<'a>(&mut self, promised: impl IntoIterator<Item = &'a Acknowledged>) {
        let waiting = promised.into_iter().filter(|done| done.waits);
        self.owed.extend(waiting.map(|done| done.put.name.clone()));
    }

    /// These may be gone with a file of the log from now on.
    pub(crate) fn delete<'a>(&mut self, deleted: impl IntoIterator<Item = &'a Acknowledged>) {
        let delivered = deleted.into_iter().filter(|done| done.put.level > 0 && !done.waits);
        self.gone.extend(delivered.map(|done| done.put.name.clone()));
    }

    /// No message is there more often than it can be, and what waited is there or was delivered.
    pub(crate) fn check(&self, found: &[Found], tried: &HashMap<String, Put>) {
        let waiting = by_name(found.iter().filter(|found| found.due_ms.is_some()));
        let others = by_name(found.iter().filter(|found| found.due_ms.is_none()));
        for (name, places) in &waiting {
            assert_eq!(places.len(), 1, "{name} waits once");
        }
        for (name, places) in &others {
            let most = if tried[*name].level > 0 { self.opened } else { 1 };
            assert!(places.len() <= most, "{name} is there {} times of {most}: {places:?}", places.len());
            assert!(waiting.get(name).is_none_or(|waits| waits[0] < places[0]), "{name} before it waits");
        }
        for name in self.owed.iter().map(String::as_str).filter(|name| !self.gone.contains(*name)) {
            assert!(waiting.contains_key(name) || others.contains_key(name), "{name} is lost");
        }
    }
}

fn by_name<'a>(found: impl Iterator<Item = &'a Found>) -> HashMap<&'a str, Vec<u64>> {
    let mut places = HashMap::<_, Vec<_>>::new();
    found.for_each(|found| places.entry(found.name.as_str()).or_default().push(found.offset));
    places
}

/// Compares the properties of a record with those of the delayed message that it is of.
pub(crate) fn check_properties(put: &Put, found: &[u8], waits: bool) {
    let own = put.properties();
    let mut expected: BTreeMap<_, _> = properties::pairs(&own).collect();
    let queue_id = put.queue_id.to_string();
    expected.insert(b"REAL_TOPIC", put.topic.as_bytes());
    expected.insert(b"REAL_QID", queue_id.as_bytes());
    let found = properties::pairs(found);
    let further = |name: &[u8]| name == properties::CRC32 || waits && name == properties::DELIVER_AT;
    assert_eq!(found.filter(|(name, _)| !further(name)).collect::<BTreeMap<_, _>>(), expected);
}

/// When a record's message is due: by its store time, or earlier where that was ahead of the clock.
pub(crate) fn due_ms(put: &Put, record: &Record<'_>) -> i64 {
    let by_store_time = record.store_timestamp + DELAYS_MS[put.level as usize - 1];
    let by_clock = properties::find(record.properties, properties::DELIVER_AT);
    let by_clock = by_clock.map(|text| std::str::from_utf8(text).unwrap().parse().unwrap());
    assert!(by_clock.is_none_or(|by_clock| by_clock < by_store_time), "{put:?} says when it is due");
    by_clock.unwrap_or(by_store_time)
}

/// Delivers in a store that a crash left: what its file says is delivered is, and each of the others is now.
pub(crate) fn check_delivery(config: &StoreConfig, known: &Known) {
    if known.tried.values().all(|put| put.level == 0) {
        return;
    }
    let store = open(config, Mode::ReadWrite).unwrap();
    let before = check_store(&store, known);
    let levels = Levels::read(&config.store_path_root_dir);
    for level in 1..=DELAYS_MS.len() as i32 {
        let end = store.find_consume_queue(schedule_topic(), level - 1);
        let end = end.map_or(0, |queue| queue.max_offset_in_queue());
        let mut next = levels.offset(level);
        assert!(next <= end, "level {level} is at {next} of {end}");
        while let Some(further) = Some(store.deliver_level(level, next, 3).unwrap().next_offset)
            && further != next
        {
            next = further;
        }
        assert_eq!(next, end, "all of level {level} is due");
    }
    store.log().commit(0).unwrap();
    store.reput().unwrap();
    let mut known = known.clone();
    known.delayed.open();
    known.removals.recovered(&before);
    let after = check_store(&store, &known);
    let copies = |found: &[Found], name: &str| {
        found.iter().filter(|found| found.due_ms.is_none() && found.name == name).count()
    };
    for waits in before.iter().filter(|found| found.due_ms.is_some()) {
        let is_told = (waits.queue_offset as u64) < levels.offset(waits.queue_id + 1);
        let count = copies(&before, &waits.name);
        assert!(
            !is_told || count > 0 || known.delayed.gone.contains(&waits.name),
            "{waits:?} is passed over"
        );
        assert_eq!(copies(&after, &waits.name), count + usize::from(!is_told), "{waits:?}");
    }
    store.close().unwrap();
}
