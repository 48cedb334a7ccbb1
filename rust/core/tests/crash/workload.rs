//! What the stores of these tests are filled with, by one thread, so that it can be repeated.

use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use mqstore_core::clock::ManualClock;
use mqstore_core::commit_log::{Appended, Wait};
use mqstore_core::config::{StoreConfig, WalkedParts};
use mqstore_core::consume_queue::ConsumeQueue;
use mqstore_core::error::Result;
use mqstore_core::format::host::Host;
use mqstore_core::format::index::IndexShape;
use mqstore_core::fs::FileSystem;
use mqstore_core::retention::Expiry;
use mqstore_core::status::PutMessageStatus;
use mqstore_core::store::query::decode_record;
use mqstore_core::store::{Mode, NewMessage, Properties, PutRefusal, PutStep, Store};

use crate::removals::Last;

/// The topics.
pub(crate) const TOPICS: [&str; 2] = ["orders", "payments"];
/// Queues of each.
const QUEUES: i32 = 2;
/// Longer than any flush of a simulated disk.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(60);

/// How a store is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Passes flush now and then.
    Asynchronous,
    /// Each put is flushed before it is acknowledged.
    Synchronous,
    /// Puts go through locked memory first.
    Transient,
    /// Queues have an extension.
    Extension,
}

/// All kinds.
pub(crate) const KINDS: [Kind; 4] = [Kind::Asynchronous, Kind::Synchronous, Kind::Transient, Kind::Extension];

/// The options: files so small that each life rolls all of them.
pub(crate) fn config(root: &Path, kind: Kind) -> StoreConfig {
    StoreConfig {
        mapped_file_size_commit_log: 8192,
        mapped_file_size_consume_queue: 200,
        mapped_file_size_consume_queue_ext: 512,
        index_shape: IndexShape { hash_slot_num: 7, index_num: 25 },
        enable_consume_queue_ext: kind == Kind::Extension,
        transient_store_pool_enable: kind == Kind::Transient,
        transient_store_pool_size: 3,
        sync_flush: kind == Kind::Synchronous,
        walked_parts: WalkedParts { size: 1024, thread_count: 2, derived_size: 2048 },
        ..StoreConfig::new(root)
    }
}

/// A message, which can be made again from its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Put {
    pub(crate) name: String,
    pub(crate) topic: &'static str,
    pub(crate) queue_id: i32,
    pub(crate) key_count: usize,
}

impl Put {
    /// Its body says its name; some are mostly zeros, as what was never written is.
    pub(crate) fn body(&self) -> Vec<u8> {
        let seed = self.name.bytes().fold(7u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
        let mut random = fastrand::Rng::with_seed(seed);
        let size = if random.u8(..8) == 0 { random.usize(..3000) } else { random.usize(..300) };
        let is_zero = random.u8(..4) == 0;
        let mut body = format!("{}|", self.name).into_bytes();
        body.extend((0..size).map(|_| if is_zero { 0 } else { random.u8(..) }));
        body
    }

    /// Its keys say its name too.
    pub(crate) fn keys(&self) -> Vec<String> {
        let further = (1..self.key_count).map(|number| format!("{}-{number}", self.name));
        std::iter::once(self.name.clone()).chain(further).collect()
    }

    /// Some have zeros, as what was never written is, of up to two sectors.
    pub(crate) fn properties(&self) -> Vec<u8> {
        let zeros = match self.name.len() + self.name.bytes().map(usize::from).sum::<usize>() {
            sum if sum % 5 == 0 => format!("Z\u{1}a{}z\u{2}", "\0".repeat(sum % 7 * 150 + 1)),
            _ => String::new(),
        };
        format!("KEYS\u{1}{}\u{2}{zeros}TAGS\u{1}TagA\u{2}", self.keys().join(" ")).into_bytes()
    }
}

/// The name that a body says.
pub(crate) fn name_of(body: &[u8]) -> String {
    let name = body.split(|&byte| byte == b'|').next().unwrap();
    String::from_utf8(name.to_vec()).unwrap()
}

fn message<'a>(put: &'a Put, body: &'a [u8], properties: &'a [u8]) -> NewMessage<'a> {
    let host = Host { ip: IpAddr::V4(Ipv4Addr::LOCALHOST), port: 0 };
    NewMessage {
        topic: put.topic.as_bytes(),
        queue_id: put.queue_id,
        flag: 0,
        sys_flag: 0,
        born_timestamp: 1,
        born_host: host,
        store_host: host,
        reconsume_times: 0,
        prepared_transaction_offset: 0,
        body,
        properties: Properties::Raw(properties),
    }
}

/// A message in the log, and up to where the log has to be flushed for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Acknowledged {
    pub(crate) put: Put,
    pub(crate) offset: u64,
    pub(crate) end: u64,
    pub(crate) queue_offset: i64,
}

impl Acknowledged {
    fn new(put: Put, appended: Appended) -> Self {
        let end = appended.wrote_offset + u64::from(appended.wrote_bytes);
        Self { put, offset: appended.wrote_offset, end, queue_offset: appended.logics_offset }
    }
}

/// A step of a store's life.
#[derive(Debug)]
pub(crate) enum Step {
    /// Messages, in one call.
    Put(Vec<Put>),
    FlushLog,
    Dispatch,
    FlushQueues,
    FlushEverything,
    Commit,
    EndFile,
    /// A file of the folder `config` is replaced.
    Config(&'static str, Vec<u8>),
    /// The log's first file goes, and what queues and index have of it.
    Retention,
    /// A queue goes, though the log has its messages.
    RemoveQueue(&'static str, i32),
}

/// How often a life has each step, in so many of all.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mix {
    pub(crate) put: u32,
    pub(crate) put_many: u32,
    pub(crate) flush_log: u32,
    pub(crate) dispatch: u32,
    pub(crate) flush_queues: u32,
    pub(crate) flush_everything: u32,
    pub(crate) commit: u32,
    pub(crate) end_file: u32,
    pub(crate) config: u32,
    pub(crate) retention: u32,
    pub(crate) remove_queue: u32,
    /// Most keys of a message.
    pub(crate) most_keys: usize,
}

/// Everything at once.
pub(crate) const ALL: Mix = Mix {
    put: 92,
    put_many: 16,
    flush_log: 8,
    dispatch: 16,
    flush_queues: 8,
    flush_everything: 4,
    commit: 4,
    end_file: 2,
    config: 4,
    retention: 1,
    remove_queue: 0,
    most_keys: 3,
};

/// Makes up the steps of a life.
struct Script<'a> {
    life: usize,
    mix: &'a Mix,
    put_count: usize,
    random: &'a mut fastrand::Rng,
}

/// Makes up a step at its place in the life.
type Make<'a> = fn(&mut Script<'a>, usize) -> Step;

/// The steps of a life, by chance.
pub(crate) fn steps(life: usize, count: usize, mix: &Mix, random: &mut fastrand::Rng) -> Vec<Step> {
    let mut script = Script { life, mix, put_count: 0, random };
    (0..count).map(|at| script.step(at)).collect()
}

impl<'a> Script<'a> {
    fn put(&mut self) -> Put {
        self.put_count += 1;
        let topic = TOPICS[self.random.usize(..TOPICS.len())];
        // Most have one key.
        let most = if self.random.bool() { self.mix.most_keys } else { 1 };
        let key_count = self.random.usize(1..=most);
        let name = format!("{}.{}", self.life, self.put_count);
        Put { name, topic, queue_id: self.random.i32(0..QUEUES), key_count }
    }

    fn step(&mut self, at: usize) -> Step {
        let mix = self.mix;
        let make: [(u32, Make<'a>); 11] = [
            (mix.put, |script, _| Step::Put(vec![script.put()])),
            (mix.put_many, |script, _| {
                let size = script.random.usize(2..9);
                Step::Put((0..size).map(|_| script.put()).collect())
            }),
            (mix.flush_log, |_, _| Step::FlushLog),
            (mix.dispatch, |_, _| Step::Dispatch),
            (mix.flush_queues, |_, _| Step::FlushQueues),
            (mix.flush_everything, |_, _| Step::FlushEverything),
            (mix.commit, |_, _| Step::Commit),
            (mix.end_file, |_, _| Step::EndFile),
            (mix.config, Self::config),
            (mix.retention, |_, _| Step::Retention),
            (mix.remove_queue, |script, _| {
                let topic = TOPICS[script.random.usize(..TOPICS.len())];
                Step::RemoveQueue(topic, script.random.i32(0..QUEUES))
            }),
        ];
        let mut turn = self.random.u32(..make.iter().map(|(weight, _)| weight).sum::<u32>());
        for (weight, make) in make {
            if turn < weight {
                return make(self, at);
            }
            turn -= weight;
        }
        unreachable!("a turn is less than all weights together")
    }

    /// JSON as RocketMQ writes it, of some sectors or of one.
    fn config(&mut self, at: usize) -> Step {
        let offsets: Vec<_> =
            (1..=self.random.usize(..300)).map(|number| format!("\"{number}\":{at}")).collect();
        let name = CONFIG_FILES[self.random.usize(..CONFIG_FILES.len())];
        let version = format!("{{\"counter\":{at},\"timestamp\":{}}}", self.life);
        let content = format!("{{\"dataVersion\":{version},\"offsetTable\":{{{}}}}}", offsets.join(","));
        Step::Config(name, content.into_bytes())
    }
}

/// What happened to a step.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// Messages that are in the log.
    pub(crate) done: Vec<Acknowledged>,
    /// Why a put was refused.
    pub(crate) refusal: Option<PutRefusal>,
}

/// A store and its clock, which moves on when it is told to.
pub(crate) struct Driven {
    pub(crate) store: Arc<Store>,
    clock: Arc<ManualClock>,
}

/// The files that are replaced.
pub(crate) const CONFIG_FILES: [&str; 3] = ["topics.json", "consumerOffset.json", "subscriptionGroup.json"];

/// The path of one of them.
pub(crate) fn config_path(root: &Path, name: &str) -> PathBuf {
    root.join("config").join(name)
}

impl Driven {
    /// Opens a store for writing.
    pub(crate) fn open(config: StoreConfig, fs: Arc<dyn FileSystem>, now_ms: i64) -> Result<Self> {
        let clock = Arc::new(ManualClock::at(now_ms));
        let clock_of_store: Arc<ManualClock> = Arc::clone(&clock);
        let store = Store::open(config, fs, clock_of_store, Mode::ReadWrite)?;
        Ok(Self { store, clock })
    }

    /// Makes a step at a time. With synchronous flush, what it gives as done is flushed.
    pub(crate) fn make(&self, step: &Step, fs: &dyn FileSystem, now_ms: i64) -> Result<Outcome> {
        self.clock.set(now_ms);
        match step {
            Step::Put(puts) => return self.put(puts),
            Step::FlushLog => _ = self.store.flush_commit_log(0)?,
            Step::Dispatch => _ = self.store.reput()?,
            Step::FlushQueues => self.store.flush_consume_queues(0)?,
            Step::FlushEverything => self.store.flush_everything()?,
            Step::Commit => _ = self.store.log().commit(0)?,
            Step::EndFile => {
                // A refusal is a put's to tell.
                let _refused = self.store.log().end_file(Wait::Block);
                self.store.log().allocate_pass(Duration::ZERO)?;
            }
            Step::Retention => self.delete_first_file(u64::MAX)?,
            Step::RemoveQueue(topic, queue_id) => {
                if let Some(queue) = self.dispatched_queue(topic, *queue_id)? {
                    self.store.destroy_queue(&queue)?;
                }
            }
            Step::Config(name, content) => {
                let path = config_path(self.store.path(), name);
                mqstore_core::config_file::replace(fs, &path, content)?;
            }
        }
        Ok(Outcome::default())
    }

    /// The store, at a time.
    pub(crate) fn at(&self, now_ms: i64) -> &Store {
        self.clock.set(now_ms);
        &self.store
    }

    /// Puts a message with other properties than its own.
    pub(crate) fn put_with(&self, put: &Put, properties: &[u8]) -> Result<Acknowledged> {
        let body = put.body();
        let mut outcome = self.put_all(std::slice::from_ref(put), &[message(put, &body, properties)])?;
        Ok(outcome.done.pop().unwrap_or_else(|| panic!("{:?}", outcome.refusal)))
    }

    /// Messages before this place may be gone once a step has begun.
    pub(crate) fn kept_from(&self, step: &Step) -> u64 {
        let first = self.store.log().files().first().filter(|_| matches!(step, Step::Retention));
        first.map_or(0, |first| first.end_offset())
    }

    /// The last message of the queue that a step removes.
    pub(crate) fn last_removed_by(&self, step: &Step) -> Option<Last> {
        let Step::RemoveQueue(topic, queue_id) = step else { return None };
        // What can't be read is not removed; but some calls fail once for each file, and what was read in vain a
        // few times is mapped.
        (0..32).find_map(|_| self.last_of(topic, *queue_id))
    }

    fn last_of(&self, topic: &str, queue_id: i32) -> Option<Last> {
        let queue = self.dispatched_queue(topic, queue_id).ok()??;
        let unit = queue.unit(queue.max_offset_in_queue().checked_sub(1)?).ok()??;
        let (offset, size) = unit.place()?;
        let record = self.store.log().get_message(offset, size).ok()??;
        Some((offset, name_of(decode_record(&record)?.body)))
    }

    fn dispatched_queue(&self, topic: &str, queue_id: i32) -> Result<Option<Arc<ConsumeQueue>>> {
        self.store.log().commit(0)?;
        self.store.reput()?;
        Ok(self.store.find_consume_queue(topic, queue_id))
    }

    /// The log's first file goes, where all of it is before a place, and what queues and index have of it.
    pub(crate) fn delete_first_file(&self, keep_from: u64) -> Result<()> {
        let at_once = Expiry { reserved_ms: 0, at_once: true, keep_from };
        if self.store.delete_expired_log_file(at_once)?.is_some() {
            for queue in self.store.queues().all() {
                self.store.delete_expired_queue_files(&queue)?;
            }
            self.store.delete_expired_index_files()?;
        }
        Ok(())
    }

    fn put(&self, puts: &[Put]) -> Result<Outcome> {
        let contents: Vec<_> = puts.iter().map(|put| (put.body(), put.properties())).collect();
        let messages: Vec<_> = puts
            .iter()
            .zip(&contents)
            .map(|(put, (body, properties))| message(put, body, properties))
            .collect();
        self.put_all(puts, &messages)
    }

    fn put_all(&self, puts: &[Put], messages: &[NewMessage<'_>]) -> Result<Outcome> {
        let mut appended = Vec::new();
        let mut outcome = Outcome::default();
        let wait_for = match self.store.put_many(messages, &mut appended, Wait::Block) {
            PutStep::Done(done) => done.wait_for,
            PutStep::WouldBlock => panic!("a put that may wait does"),
            PutStep::Refused(refusal) => {
                outcome.refusal = Some(refusal);
                None
            }
        };
        if let Some(end) = wait_for {
            let status = self.store.wait_flushed(end, FLUSH_TIMEOUT)?;
            assert_eq!(status, PutMessageStatus::PutOk, "who waits flushes");
        }
        outcome.done =
            puts.iter().cloned().zip(appended).map(|(put, at)| Acknowledged::new(put, at)).collect();
        Ok(outcome)
    }
}
