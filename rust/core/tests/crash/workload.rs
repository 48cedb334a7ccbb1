//! What the stores of these tests are filled with, by one thread, so that it can be repeated.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use mqstore_core::clock::ManualClock;
use mqstore_core::commit_log::{Appended, Wait};
use mqstore_core::config::{StoreConfig, WalkedParts};
use mqstore_core::error::Result;
use mqstore_core::format::host::Host;
use mqstore_core::format::index::IndexShape;
use mqstore_core::fs::FileSystem;
use mqstore_core::retention::Expiry;
use mqstore_core::status::PutMessageStatus;
use mqstore_core::store::{Mode, NewMessage, Properties, PutRefusal, PutStep, Store};

use crate::delays::{DELAY_OFFSETS, DELAYS_MS, Delivering};
use crate::script::Step;

/// The topics.
pub(crate) const TOPICS: [&str; 2] = ["orders", "payments"];
/// Queues of each.
pub(crate) const QUEUES: i32 = 2;
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
        delay_levels_ms: DELAYS_MS.to_vec(),
        // What a seed gives is repeatable: one thread alone writes.
        walked_parts: WalkedParts {
            size: 1024,
            thread_count: 2,
            derived_size: 2048,
            keys_aside_size: usize::MAX,
        },
        by_call_size: 700,
        reserve_step_size: 1024,
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
    /// The level whose delay it waits for; 0 where it does not wait.
    pub(crate) level: i32,
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
        let delay = match self.level {
            0 => String::new(),
            level => format!("DELAY\u{1}{level}\u{2}"),
        };
        format!("KEYS\u{1}{}\u{2}{zeros}TAGS\u{1}TagA\u{2}{delay}", self.keys().join(" ")).into_bytes()
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
    /// Whether it waits for its delay there; when that is over it is put once more.
    pub(crate) waits: bool,
}

impl Acknowledged {
    fn new(put: Put, appended: Appended) -> Self {
        let end = appended.wrote_offset + u64::from(appended.wrote_bytes);
        let waits = put.level > 0;
        Self { put, offset: appended.wrote_offset, end, queue_offset: appended.logics_offset, waits }
    }
}

/// What happened to a step.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// Queues that were removed.
    pub(crate) removed: Vec<i32>,
    /// Messages that are in the log.
    pub(crate) done: Vec<Acknowledged>,
    /// Why a put was refused.
    pub(crate) refusal: Option<PutRefusal>,
}

/// A store and its clock, which moves on when it is told to.
pub(crate) struct Driven {
    pub(crate) store: Arc<Store>,
    clock: Arc<ManualClock>,
    delivering: Delivering,
}

/// The files that are replaced.
pub(crate) const CONFIG_FILES: [&str; 4] =
    [DELAY_OFFSETS, "topics.json", "consumerOffset.json", "subscriptionGroup.json"];

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
        let delivering = Delivering::new(&store);
        Ok(Self { store, clock, delivering })
    }

    /// Makes a step at a time. With synchronous flush, what it gives as done is flushed.
    pub(crate) fn make(&self, step: &Step, fs: &dyn FileSystem, now_ms: i64) -> Result<Outcome> {
        self.clock.set(now_ms);
        match step {
            Step::Put(puts) => return put(&self.store, puts),
            Step::FlushLog => _ = self.store.flush_commit_log(0)?,
            Step::Dispatch => _ = self.store.reput()?,
            Step::FlushQueues => self.store.flush_consume_queues(0)?,
            Step::FlushEverything => self.store.flush_everything()?,
            Step::Commit => _ = self.store.log().commit(0)?,
            Step::EndFile => {
                // A refusal is a put's to tell.
                let _refused = self.store.log().end_file(Wait::Block);
                self.allocate()?;
            }
            Step::Allocate => self.allocate()?,
            Step::Retention => self.delete_first_file(self.delivering.keep_from(&self.store)?)?,
            Step::Remove(removal) => return removal.make(&self.store),
            Step::Deliver(level, most) => self.delivering.deliver(&self.store, *level, *most)?,
            Step::WriteDelays => panic!("what is to be written is known before"),
            Step::Config(name, content) => {
                if *name == DELAY_OFFSETS {
                    // What it says is delivered is on the disk first.
                    self.store.log().commit(0)?;
                    self.store.flush_commit_log(0)?;
                }
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
        let mut outcome =
            put_all(&self.store, std::slice::from_ref(put), &[message(put, &body, properties)])?;
        Ok(outcome.done.pop().unwrap_or_else(|| panic!("{:?}", outcome.refusal)))
    }

    /// Messages before this place may be gone once a step has begun.
    pub(crate) fn kept_from(&self, step: &Step) -> u64 {
        let Some(first) = self.store.log().files().first().filter(|_| matches!(step, Step::Retention)) else {
            return 0;
        };
        // What can't be read is not deleted; for how often it is tried see `Removal::last_of`.
        let keep_from = (0..32).find_map(|_| self.delivering.keep_from(&self.store).ok());
        Some(first.end_offset()).filter(|&end| keep_from.is_none_or(|from| end <= from)).unwrap_or(0)
    }

    /// A step of which what it writes is made up only now.
    pub(crate) fn made_up(&self, step: Step) -> Step {
        match step {
            Step::WriteDelays => Step::Config(DELAY_OFFSETS, self.delivering.levels().to_json()),
            step => step,
        }
    }

    /// What was delivered since this was asked last.
    pub(crate) fn delivered(&self, tried: &HashMap<String, Put>) -> Vec<Acknowledged> {
        self.delivering.delivered(&self.store, tried)
    }

    /// Space ahead of the writer, as far as it is asked for.
    fn allocate(&self) -> Result<()> {
        self.store.log().reserve_pass(Duration::ZERO)?;
        self.store.log().make_next_pass(Duration::ZERO)?;
        self.store.log().reserve_pass(Duration::ZERO)
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
}

/// Puts messages in one call. With synchronous flush, what it gives as done is flushed.
pub(crate) fn put(store: &Store, puts: &[Put]) -> Result<Outcome> {
    let contents: Vec<_> = puts.iter().map(|put| (put.body(), put.properties())).collect();
    let messages: Vec<_> =
        puts.iter().zip(&contents).map(|(put, (body, properties))| message(put, body, properties)).collect();
    put_all(store, puts, &messages)
}

fn put_all(store: &Store, puts: &[Put], messages: &[NewMessage<'_>]) -> Result<Outcome> {
    let mut appended = Vec::new();
    let mut outcome = Outcome::default();
    let wait_for = match store.put_many(messages, &mut appended, Wait::Block) {
        PutStep::Done(done) => done.wait_for,
        PutStep::WouldBlock => panic!("a put that may wait does"),
        PutStep::Refused(refusal) => {
            outcome.refusal = Some(refusal);
            None
        }
    };
    if let Some(end) = wait_for {
        let status = store.wait_flushed(end, FLUSH_TIMEOUT)?;
        assert_eq!(status, PutMessageStatus::PutOk, "who waits flushes");
    }
    outcome.done = puts.iter().cloned().zip(appended).map(|(put, at)| Acknowledged::new(put, at)).collect();
    Ok(outcome)
}
