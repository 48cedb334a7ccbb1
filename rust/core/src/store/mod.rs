//! The store: log, queues and index, opened together and closed together.
//!
//! Nothing here starts a thread. What has to happen again and again (dispatch, flush, allocation)
//! is a pass that the control plane calls. Source: `DefaultMessageStore`.

mod admit;
mod boundary;
mod close;
mod ended;
mod finished;
mod follow;
mod get;
mod got;
mod let_go;
mod one_queue;
mod open;
mod parts;
mod prepare;
mod put;
mod put_many;
pub mod query;
pub mod query_keys;
mod removal;
mod replication;
mod services;
mod subscription;
mod take_back;
mod unindexed;
mod witness;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::checkpoint::StoreCheckpoint;
use crate::clock::Clock;
use crate::commit_log::CommitLog;
use crate::commit_log::topic_queue::QueueRef;
use crate::config::StoreConfig;
use crate::consume_queue::table::QueueTable;
use crate::consume_queue::{ConsumeQueue, Rejected};
use crate::dispatch::{DispatchTargets, Dispatcher, Gap};
use crate::error::{Error, Result};
use crate::format::positions::Owed;
use crate::fs::FileSystem;
use crate::index::IndexService;
use crate::lock::StoreLock;
use crate::mmap::file_queue::Stray;
use crate::num;
use crate::poison::Poison;
use crate::published::Published;
use crate::recovery::lost_end;
use crate::running_flags::RunningFlags;
use crate::schedule::timed::TimedMessages;
use crate::stats::StoreStats;
use crate::sync::{AtomicBool, Mutex, MutexGuard, Ordering, TurnMutex};

pub use admit::Admission;
pub use finished::Finishing;
pub use get::GetMessageResult;
pub use got::{GotMessage, GotMessages};
pub use open::{Mode, Part};
pub use put::{BatchMessage, NewMessage, Properties, PutAppended, PutRefusal, PutStep};
pub use put_many::Messages;
pub use replication::Confirmation;
pub use subscription::Subscription;
pub use unindexed::Unindexed;
pub(crate) use witness::Witness;

/// A store.
#[derive(Debug)]
pub struct Store {
    config: Arc<StoreConfig>,
    fs: Arc<dyn FileSystem>,
    clock: Arc<dyn Clock>,
    mode: Mode,
    log: CommitLog,
    queues: QueueTable,
    index: Option<IndexService>,
    checkpoint: StoreCheckpoint,
    dispatcher: Dispatcher,
    flags: RunningFlags,
    /// Held by a flush of queues and index: what one has taken to flush is not seen by another.
    flushing: TurnMutex<()>,
    /// Whether the disk has refused to take queues or index since the store was opened.
    derived_poison: Poison,
    stats: StoreStats,
    lock: Mutex<Option<Arc<StoreLock>>>,
    published: Option<Arc<Published>>,
    closed: AtomicBool,
    ended: ended::Ended,
    /// Records from this offset on were appended by this process since the store was opened.
    own_from: u64,
    /// Parts of the log that held no record when it was opened, or one that dispatch passes over.
    gaps: Mutex<Vec<Gap>>,
    /// Parts of the log that a look found damaged, the first ones.
    damaged: Mutex<Vec<Gap>>,
    notes: Notes,
    follow: follow::Follow,
    replication: replication::Replication,
    timed: TimedMessages,
    /// Of a file of the log that was looked through before it may be deleted: where it begins, and the latest time in it.
    pub(crate) latest_in_file: Mutex<Option<(u64, Option<i64>)>>,
    /// What no index file has, once it was looked for.
    unindexed: Mutex<Option<Arc<Vec<Unindexed>>>>,
    /// Opened by [`Store::open_part`]: nothing is dispatched.
    is_part: bool,
}

/// What opening a store found that its user should know.
#[derive(Debug, Default)]
pub struct Notes {
    /// Files and folders that are not as they should be.
    pub strays: Vec<Stray>,
    /// What was on the disk behind the log's end, and is there no more.
    pub lost_end: Option<Gap>,
    /// Whether the last writer had closed the store.
    pub closed_cleanly: bool,
    /// Who has the store open for writing.
    pub writer: Option<String>,
    /// Where dispatch began when the store was opened.
    pub dispatched_from: u64,
}

impl Store {
    /// The options.
    #[must_use]
    pub fn config(&self) -> &StoreConfig {
        &self.config
    }

    /// The store's folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.config.store_path_root_dir
    }

    /// The log.
    #[must_use]
    pub const fn log(&self) -> &CommitLog {
        &self.log
    }

    /// The queues.
    #[must_use]
    pub const fn queues(&self) -> &QueueTable {
        &self.queues
    }

    /// The index; `None` where messages are not indexed.
    #[must_use]
    pub const fn index(&self) -> Option<&IndexService> {
        self.index.as_ref()
    }

    /// The dispatcher.
    #[must_use]
    pub const fn dispatcher(&self) -> &Dispatcher {
        &self.dispatcher
    }

    /// The checkpoint.
    #[must_use]
    pub const fn checkpoint(&self) -> &StoreCheckpoint {
        &self.checkpoint
    }

    /// What the store can do now.
    #[must_use]
    pub const fn running_flags(&self) -> &RunningFlags {
        &self.flags
    }

    /// What the store has counted since it was opened.
    #[must_use]
    pub const fn stats(&self) -> &StoreStats {
        &self.stats
    }

    /// What opening the store found.
    #[must_use]
    pub const fn notes(&self) -> &Notes {
        &self.notes
    }

    /// How the store was opened.
    #[must_use]
    pub const fn mode(&self) -> Mode {
        self.mode
    }

    /// Whether it is closed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// The time by the store's clock, in milliseconds.
    #[must_use]
    pub fn now_ms(&self) -> i64 {
        self.clock.now_ms()
    }

    pub(crate) const fn timed(&self) -> &TimedMessages {
        &self.timed
    }

    /// # Errors
    /// Where the store is closed.
    pub fn check_open(&self) -> Result<()> {
        if self.is_closed() { Err(self.ended.closed()) } else { Ok(()) }
    }

    /// Whether it was opened as a part: up to an end, and with the queues, that who opened it knows.
    pub(crate) const fn is_part(&self) -> bool {
        self.is_part
    }

    pub(crate) fn check_writable(&self) -> Result<()> {
        self.check_open()?;
        if self.mode == Mode::Read { Err(Error::ReadOnly { path: self.path().into() }) } else { Ok(()) }
    }

    /// Nothing is flushed, removed or closed as long as this is held.
    pub(crate) fn flushing(&self) -> MutexGuard<'_, ()> {
        self.flushing.lock()
    }

    fn targets(&self) -> DispatchTargets<'_> {
        DispatchTargets {
            config: &self.config,
            log: &self.log,
            queues: &self.queues,
            index: self.index.as_ref(),
        }
    }

    /// The offset of the log's first byte; -1 while it has no file.
    #[must_use]
    pub fn min_phy_offset(&self) -> i64 {
        self.log.min_offset().map_or(-1, num::java_long)
    }

    /// The offset behind the log's last byte.
    #[must_use]
    pub fn max_phy_offset(&self) -> u64 {
        self.log.max_offset()
    }

    /// A queue; `None` where it has never had a message.
    #[must_use]
    pub fn find_consume_queue(&self, topic: &str, queue_id: i32) -> Option<Arc<ConsumeQueue>> {
        self.queues.get(QueueRef { topic: topic.as_bytes(), queue_id })
    }

    /// Bytes of the log that are not dispatched yet.
    #[must_use]
    pub fn dispatch_behind_bytes(&self) -> u64 {
        self.log.max_offset().saturating_sub(self.dispatcher.reput_from_offset())
    }

    /// Milliseconds of store time between the last message and the last dispatched one.
    #[must_use]
    pub fn dispatch_behind_ms(&self) -> i64 {
        if self.dispatch_behind_bytes() == 0 {
            return 0;
        }
        (self.log.last_store_timestamp() - self.dispatcher.store_timestamp()).max(0)
    }

    /// How many units, records and messages did not agree and were not served.
    #[must_use]
    pub fn rejected_count(&self) -> u64 {
        self.queues.rejected().count()
    }

    /// The first of them.
    #[must_use]
    pub fn rejected(&self) -> Vec<Rejected> {
        self.queues.rejected().first()
    }

    /// Parts of the log that hold no record, as far as they were walked over.
    #[must_use]
    pub fn gaps(&self) -> Vec<Gap> {
        let mut gaps = self.gaps.lock().clone();
        gaps.extend(self.lost_end());
        gaps.extend(self.dispatcher.gaps());
        gaps.extend_from_slice(&self.damaged.lock());
        gaps.sort_by_key(|gap| gap.from);
        gaps.dedup_by_key(|gap| gap.from);
        gaps
    }

    /// What was on the disk behind the log's end, and is there no more. A slave's log goes on, and lacks it until its master has
    /// sent it again; where another one goes on by now, somebody has decided to do without.
    #[must_use]
    pub fn lost_end(&self) -> Option<Gap> {
        if self.config.is_slave && self.mode == Mode::ReadWrite {
            let owed = lost_end::owed(&self.checkpoint, &self.log, self.log.max_offset());
            return owed.map(|Owed { from, to }| Gap { from, to, fault: None });
        }
        self.notes.lost_end.filter(|lost| lost.from == self.log.max_offset())
    }

    /// A path below the store's folder.
    #[must_use]
    pub fn join(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }
}
