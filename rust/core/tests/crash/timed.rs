//! Power cuts while timed messages wait and are delivered.
//!
//! Where the log says which are delivered, behind what was delivered: what a cut takes of the one it takes of the
//! other. A message whose delivery was not told of yet is delivered again, once for each crash. What waits in a file of
//! the log that goes is delivered, and that is on the disk before.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use mqstore_core::commit_log::scan::{ScanEnd, scan};
use mqstore_core::dispatch::TIMED_TOPIC;
use mqstore_core::format::message::Check;
use mqstore_core::format::properties;
use mqstore_core::fs::{FileSystem, OsFileSystem};
use mqstore_core::store::Store;

use crate::disk::{Capture, Moments, RecordedDisk};
use crate::image;
use crate::lives::repeatable;
use crate::scratch;
use crate::script::Step;
use crate::stores::host;
use crate::workload::{Driven, KINDS, Kind, Put, TOPICS, config, name_of};

const LIVES: usize = 5;
const STEPS: usize = 70;
/// Images made of each moment.
const IMAGES: usize = 2;
/// Most of what is delivered in one pass.
const MOST_AT_ONCE: usize = 4;
/// How far ahead messages are put.
const FARTHEST_MS: i64 = 60;

/// A timed message.
#[derive(Debug, Clone)]
struct Timed {
    put: Put,
    deliver_at: i64,
}

impl Timed {
    fn properties(&self) -> Vec<u8> {
        let mut properties = self.put.properties();
        properties.extend(format!("MQSTORE_DELIVER_AT\u{1}{}\u{2}", self.deliver_at).into_bytes());
        properties
    }
}

/// What is known of a store at a moment.
#[derive(Debug, Clone, Default)]
struct Known {
    now_ms: i64,
    tried: HashMap<String, Timed>,
    /// Where each that waits, or waited, ends in the log.
    ends: HashMap<String, u64>,
    /// Messages that are in the log for good.
    promised: BTreeSet<String>,
    /// Those of which the log says for good that they are delivered.
    told: BTreeSet<String>,
    /// Where each was delivered last.
    delivered_at: HashMap<String, u64>,
    /// Messages before this place may be gone with their files.
    kept_from: u64,
    /// How often a crash came between a delivery and what tells of it, at the most.
    crash_count: usize,
}

/// What a store has of a message.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Found {
    waits_at: Option<u64>,
    delivered_at: Vec<u64>,
}

/// Looks at every record of the log, those included that were in a buffer.
fn look(store: &Store, known: &Known) -> BTreeMap<String, Found> {
    store.log().commit(0).unwrap();
    let mut found = BTreeMap::<String, Found>::new();
    let (first, end) = (store.first_offset(), store.max_phy_offset());
    let reached = scan(store.log().files(), first, end, Check::BodyCrc, |offset, record, _| {
        if record.topic == TIMED_TOPIC && record.queue_id == 1 {
            return Ok(ControlFlow::Continue(()));
        }
        let name = name_of(record.body);
        let timed = known.tried.get(&name).unwrap_or_else(|| panic!("{name} was never put"));
        assert_eq!(record.body, timed.put.body());
        let found = found.entry(name).or_default();
        if record.topic == TIMED_TOPIC {
            assert_eq!(found.waits_at.replace(offset), None, "it waits once");
            return Ok(ControlFlow::Continue(()));
        }
        assert!(found.waits_at.is_some() || first > 0, "{timed:?} is delivered behind where it waits");
        assert_eq!((record.topic, record.queue_id), (timed.put.topic.as_bytes(), timed.put.queue_id));
        assert!(record.store_timestamp >= timed.deliver_at, "{timed:?} at {}", record.store_timestamp);
        let own = timed.put.properties();
        let delivered = properties::pairs(record.properties).filter(|(name, _)| *name != properties::CRC32);
        assert_eq!(delivered.collect::<BTreeMap<_, _>>(), properties::pairs(&own).collect());
        found.delivered_at.push(offset);
        Ok(ControlFlow::Continue(()))
    });
    assert!(matches!(reached, Ok(ScanEnd::Reached(_))), "{reached:?} of {end}");
    found
}

/// A store that lives by steps.
struct Life<'a> {
    disk: RecordedDisk<Known>,
    fs: Arc<dyn FileSystem>,
    driven: Driven,
    now_ms: i64,
    /// Delivered messages that nothing in the log tells of yet.
    untold: BTreeSet<String>,
    /// Those that the log tells of up to an offset.
    told: Vec<(u64, BTreeSet<String>)>,
    random: &'a mut fastrand::Rng,
}

impl Life<'_> {
    fn put(&mut self, name: String) {
        let random = &mut self.random;
        let put = Put {
            name: name.clone(),
            topic: TOPICS[random.usize(..TOPICS.len())],
            queue_id: random.i32(0..2),
            key_count: random.usize(1..3),
            level: 0,
        };
        let timed = Timed { put, deliver_at: self.now_ms + random.i64(1..FARTHEST_MS) };
        self.disk.know(|known| _ = known.tried.insert(name.clone(), timed.clone()));
        let done = self.driven.put_with(&timed.put, &timed.properties()).unwrap();
        self.disk.know(|known| _ = known.ends.insert(name, done.end));
    }

    fn deliver(&mut self) {
        let store = self.driven.at(self.now_ms);
        let before = look(store, &self.disk.known());
        let pass = store.deliver_timed(self.random.usize(1..=MOST_AT_ONCE)).unwrap();
        assert!(pass.undeliverable.is_empty() && pass.refusal.is_none(), "{pass:?}");
        let after = look(store, &self.disk.known());
        let new = after.iter().filter(|(name, found)| found.delivered_at != before[*name].delivered_at);
        let new: BTreeMap<_, _> =
            new.map(|(name, found)| (name.clone(), *found.delivered_at.last().unwrap())).collect();
        assert_eq!(new.len() as u64, pass.delivered_count);
        assert!(self.told.iter().all(|(_, told)| !told.iter().any(|name| new.contains_key(name))), "once");
        self.untold.extend(new.keys().cloned());
        self.disk.know(|known| known.delivered_at.extend(new));
    }

    fn tell(&mut self) {
        assert!(self.driven.at(self.now_ms).persist_timed(host()).unwrap().is_none());
        let end = self.driven.store.log().wrote_offset();
        self.told.push((end, std::mem::take(&mut self.untold)));
    }

    /// The first file of the log goes, where nothing waits in it.
    fn delete_first_file(&mut self) {
        let store = self.driven.at(self.now_ms);
        let keep_from = store.first_waiting_timed().unwrap().unwrap_or(u64::MAX);
        let first_end = self.driven.kept_from(&Step::Retention);
        if first_end <= keep_from {
            self.disk.know(|known| known.kept_from = known.kept_from.max(first_end));
        }
        self.driven.delete_first_file(keep_from).unwrap();
    }

    fn step(&mut self, name: String) {
        match self.random.u32(..104) {
            0..40 => self.put(name),
            100..104 => self.delete_first_file(),
            40..60 => self.deliver(),
            60..70 => self.tell(),
            turn => {
                let step = match turn {
                    70..78 => Step::FlushLog,
                    78..90 => Step::Dispatch,
                    90..94 => Step::FlushQueues,
                    94..96 => Step::FlushEverything,
                    96..97 => Step::Commit,
                    97..99 => Step::Allocate,
                    _ => Step::EndFile,
                };
                _ = self.driven.make(&step, &*self.fs, self.now_ms).unwrap();
            }
        }
        let flushed = self.driven.store.log().flushed_offset();
        let told: BTreeSet<String> =
            self.told.iter().filter(|(end, _)| *end <= flushed).flat_map(|(_, told)| told.clone()).collect();
        self.disk.know(|known| {
            known.now_ms = self.now_ms;
            known.told.extend(told);
            let there = known.ends.iter().filter(|(_, end)| **end <= flushed);
            known.promised = there.map(|(name, _)| name.clone()).collect();
        });
    }
}

/// Lets a store live, and gives what a crash could leave.
fn live(
    kind: Kind,
    root: &Path,
    life: usize,
    known: Known,
    random: &mut fastrand::Rng,
) -> Vec<Capture<Known>> {
    let disk = RecordedDisk::new(root, random.u64(..), Moments::one_in(8), known);
    let fs = disk.file_system();
    let now_ms = disk.known().now_ms.max(1_700_000_000_000);
    disk.know(|known| known.now_ms = now_ms);
    let driven = Driven::open(config(root, kind), Arc::clone(&fs), now_ms).unwrap();
    let found = look(&driven.store, &disk.known());
    disk.know(|known| {
        known.crash_count += 1;
        // What is recovered is on the disk; what is not does not come back.
        let waits = found.iter().filter_map(|(name, found)| Some((name.clone(), found.waits_at?)));
        known.ends = waits.collect();
        known.promised = known.ends.keys().cloned().collect();
        known.tried.retain(|name, _| found.contains_key(name));
        known.told.retain(|name| found.contains_key(name));
        let last = found.iter().filter_map(|(name, found)| Some((name.clone(), *found.delivered_at.last()?)));
        known.delivered_at = last.collect();
    });
    let mut store = Life { disk, fs, driven, now_ms, untold: BTreeSet::new(), told: Vec::new(), random };
    for step in 0..STEPS {
        store.now_ms += store.random.i64(0..3);
        store.step(format!("{life}.{step}"));
    }
    store.disk.captures()
}

/// Opens a store that a crash left: each message is delivered, none that the log tells of once more.
fn check(kind: Kind, root: &Path, known: &Known) {
    let driven = Driven::open(config(root, kind), Arc::new(OsFileSystem), known.now_ms).unwrap();
    let before = look(&driven.store, known);
    for name in &known.promised {
        let found = before.get(name);
        let waits = found.is_some_and(|found| found.waits_at.is_some());
        let is_delivered = found.is_some_and(|found| !found.delivered_at.is_empty());
        // What it waited in may go once it is delivered, and what it was delivered to as well.
        let may_be_gone = known.delivered_at.get(name).is_some_and(|at| *at < known.kept_from);
        let waited_in_it = known.ends[name] <= known.kept_from;
        assert!(waits || waited_in_it && (is_delivered || may_be_gone), "{name} is lost: {known:?}");
    }
    let later_ms = known.now_ms + 2 * FARTHEST_MS;
    loop {
        let pass = driven.at(later_ms).deliver_timed(MOST_AT_ONCE).unwrap();
        assert!(
            pass.refusal.is_none() && pass.next_due_ms.is_none_or(|due_ms| due_ms <= later_ms),
            "{pass:?}"
        );
        if pass.next_due_ms.is_none() {
            break;
        }
    }
    let after = look(&driven.store, known);
    assert!(before.keys().eq(after.keys()), "nothing comes from nowhere");
    for (name, found) in &after {
        let count_before = before[name].delivered_at.len();
        let is_over = known.told.contains(name) || found.waits_at.is_none();
        let more = if is_over { 0..=0 } else { usize::from(count_before == 0)..=1 };
        assert!(more.contains(&(found.delivered_at.len() - count_before)), "{name}: {found:?} {known:?}");
        assert!(found.delivered_at.len() <= known.crash_count + 1, "{name}: {found:?}, once for each crash");
    }
    assert!(driven.store.persist_timed(host()).unwrap().is_none());
    driven.store.close().unwrap();
    let driven = Driven::open(config(root, kind), Arc::new(OsFileSystem), later_ms).unwrap();
    assert_eq!(driven.store.deliver_timed(MOST_AT_ONCE).unwrap().delivered_count, 0, "all are delivered");
    assert_eq!(look(&driven.store, known), after);
    driven.store.close().unwrap();
}

#[test]
fn timed_messages_are_delivered_after_a_power_cut() {
    let (mut image_count, mut again_count, mut told_count, mut gone_count) = (0, 0, 0, 0);
    repeatable(1, |seed| {
        for kind in KINDS {
            let mut random = fastrand::Rng::with_seed(seed);
            let folder = scratch();
            let (root, copy) = (folder.path().join("store"), folder.path().join("image"));
            std::fs::create_dir(&root).unwrap();
            let mut known = Known::default();
            for life in 0..LIVES {
                let captures = live(kind, &root, life, known, &mut random);
                for capture in &captures {
                    for _ in 0..IMAGES {
                        image::make(capture, &copy, &mut random);
                        check(kind, &copy, &capture.known);
                        std::fs::remove_dir_all(&copy).unwrap();
                        image_count += 1;
                        told_count += usize::from(!capture.known.told.is_empty());
                        gone_count += usize::from(capture.known.kept_from > 0);
                    }
                }
                let capture = &captures[random.usize(..captures.len())];
                std::fs::remove_dir_all(&root).unwrap();
                image::make(capture, &root, &mut random);
                known = capture.known.clone();
                again_count += usize::from(known.crash_count > 1);
            }
        }
    });
    println!("{image_count:7} images: timed messages, {told_count} of them with deliveries that are told of");
    assert!(told_count > 0 && again_count > 0 && gone_count > 0, "{told_count} {again_count} {gone_count}");
}
