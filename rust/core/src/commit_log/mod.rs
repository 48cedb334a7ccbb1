//! The log: every message of every topic, in the order in which they were put.
//!
//! One writer at a time appends under [`CommitLog::append`]'s lock; flushing, reserving space and
//! reading go on beside it. Source: `CommitLog`.

mod active_file;
mod allocate;
mod append;
mod append_data;
mod append_many;
mod blocks_ahead;
pub mod boundary;
mod commit;
mod flush;
pub mod in_parts;
pub mod read;
pub mod scan;
mod topic_folders;
pub mod topic_queue;
mod without_bodies;

use std::sync::{Arc, OnceLock};

use crate::clock::Clock;
use crate::config::StoreConfig;
use crate::error::Result;
use crate::mmap::file_queue::FileQueue;
use crate::mmap::transient_store_pool::TransientStorePool;
use crate::num;
use crate::poison::Poison;
use crate::published::Published;
use crate::sync::{AtomicI64, AtomicU32, AtomicU64, Ordering, TurnMutex};

pub use append::{AppendRefusal, Appended, NewRecord, QueueOffset, StoreTime, Wait};
pub use flush::{FlushOutcome, GroupCommit, Waited};
pub use read::Bodies;

/// The log.
#[derive(Debug)]
pub struct CommitLog {
    config: Arc<StoreConfig>,
    clock: Arc<dyn Clock>,
    files: FileQueue,
    positions: Positions,
    /// See [`CommitLog::take_begun_at`].
    begun_at: AtomicU64,
    appender: TurnMutex<append::Appender>,
    topic_folders: topic_folders::TopicFolders,
    allocator: allocate::Allocator,
    flusher: flush::Flusher,
    transient: Option<commit::TransientBuffers>,
    poison: Poison,
    /// When the append that is under way took the lock; 0 when none is.
    begin_time_in_lock: AtomicI64,
    confirm_offset: AtomicI64,
    /// Of the record that was looked up last: a guess at the next one's, wrong at no cost.
    usual_size: AtomicU32,
    /// Where followers see how far the log is; a store that is only read has none.
    published: OnceLock<Arc<Published>>,
}

/// How far the log is written, committed and flushed. Each only grows while the store is open.
#[derive(Debug, Default)]
struct Positions {
    /// Behind the last byte that was written.
    wrote: AtomicU64,
    /// Behind the last byte that is in the files, where puts go through locked memory first.
    committed: AtomicU64,
    /// Behind the last byte that is on the disk.
    flushed: AtomicU64,
    /// Of the last message that `wrote` covers; stored after it, so that reading this first and
    /// `wrote` second gives a time whose messages are all below that position.
    store_timestamp: AtomicI64,
    /// As that, of the last message that `committed` is known to cover.
    committed_timestamp: AtomicI64,
}

impl CommitLog {
    /// A log over loaded files; [`CommitLog::set_end`] has to follow once recovery knows its end.
    ///
    /// # Errors
    /// Where the memory for the transient store pool can't be had.
    pub fn new(config: Arc<StoreConfig>, clock: Arc<dyn Clock>, files: FileQueue) -> Result<Self> {
        let transient = if config.transient_store_pool_enable {
            let pool = TransientStorePool::new(config.transient_store_pool_size, files.file_size())?;
            Some(commit::TransientBuffers::new(pool))
        } else {
            None
        };
        Ok(Self {
            topic_folders: topic_folders::TopicFolders::new(config.store_path_consume_queue()),
            config,
            clock,
            files,
            positions: Positions::default(),
            begun_at: AtomicU64::new(append_data::NOWHERE),
            appender: TurnMutex::default(),
            allocator: allocate::Allocator::default(),
            flusher: flush::Flusher::default(),
            transient,
            poison: Poison::default(),
            begin_time_in_lock: AtomicI64::new(0),
            confirm_offset: AtomicI64::new(-1),
            usual_size: AtomicU32::new(0),
            published: OnceLock::new(),
        })
    }

    /// The files.
    #[must_use]
    pub const fn files(&self) -> &FileQueue {
        &self.files
    }

    /// Sets all positions to the end that recovery found.
    pub fn set_end(&self, end: u64, store_timestamp: i64) {
        self.positions.wrote.store(end, Ordering::Release);
        self.positions.committed.store(end, Ordering::Release);
        self.positions.flushed.store(end, Ordering::Release);
        self.positions.store_timestamp.store(store_timestamp, Ordering::Release);
        self.positions.committed_timestamp.store(store_timestamp, Ordering::Release);
        self.appender.lock().reset(store_timestamp);
    }

    /// Its clock's time, in milliseconds.
    pub(crate) fn now_ms(&self) -> i64 {
        self.clock.now_ms()
    }

    /// Says up to where it is on the disk, where that is less than all of it: the next flush brings the rest there.
    pub fn set_flushed(&self, flushed: u64) {
        self.positions.flushed.store(flushed, Ordering::Release);
    }

    /// Lets followers see from now on how far the log is.
    pub fn publish_to(&self, published: Arc<Published>) {
        let _only_once = self.published.set(published);
    }

    #[inline]
    fn published(&self) -> Option<&Published> {
        self.published.get().map(Arc::as_ref)
    }

    /// Lets go of all files and buffers of a log that is sealed and flushed. What is looked up later opens its file again.
    pub(crate) fn let_go(&self) {
        self.appender.lock().active = None;
        self.let_go_of_allocated();
        self.let_go_of_buffers();
        self.close_files();
    }

    /// Closes all files until they are used again.
    pub(crate) fn close_files(&self) {
        self.files.files().iter().for_each(|file| file.close());
    }

    /// The offset of the first byte; `None` while there is no file.
    #[must_use]
    pub fn min_offset(&self) -> Option<u64> {
        self.files.min_offset()
    }

    /// The offset behind the last byte that can be read.
    #[inline]
    #[must_use]
    pub fn max_offset(&self) -> u64 {
        if self.transient.is_some() { self.committed_offset() } else { self.wrote_offset() }
    }

    /// Behind the last byte that was written.
    #[inline]
    #[must_use]
    pub fn wrote_offset(&self) -> u64 {
        self.positions.wrote.load(Ordering::Acquire)
    }

    /// Behind the last byte that is in the files.
    #[must_use]
    pub fn committed_offset(&self) -> u64 {
        self.positions.committed.load(Ordering::Acquire)
    }

    /// Behind the last byte that is on the disk.
    #[must_use]
    pub fn flushed_offset(&self) -> u64 {
        self.positions.flushed.load(Ordering::Acquire)
    }

    /// Store time of the last message, in milliseconds; 0 before the first.
    #[must_use]
    pub fn last_store_timestamp(&self) -> i64 {
        self.positions.store_timestamp.load(Ordering::Acquire)
    }

    /// A message of this store time was seen below the log's end: what a slave gets has its times
    /// inside.
    pub fn saw_store_timestamp(&self, store_timestamp: i64) {
        self.positions.store_timestamp.fetch_max(store_timestamp, Ordering::AcqRel);
    }

    /// Bytes that were written and are not committed yet.
    #[must_use]
    pub fn remain_how_many_data_to_commit(&self) -> u64 {
        self.wrote_offset().saturating_sub(self.committed_offset())
    }

    /// Bytes that can be read and are not on the disk yet.
    #[must_use]
    pub fn remain_how_many_data_to_flush(&self) -> u64 {
        self.max_offset().saturating_sub(self.flushed_offset())
    }

    /// Up to where messages may be dispatched when `duplicationEnable` is on.
    #[must_use]
    pub fn confirm_offset(&self) -> i64 {
        self.confirm_offset.load(Ordering::Acquire)
    }

    /// Moves the confirm offset.
    pub fn set_confirm_offset(&self, offset: i64) {
        self.confirm_offset.store(offset, Ordering::Release);
    }

    /// The offset at which the file behind the one of `offset` begins.
    #[must_use]
    pub fn roll_next_file(&self, offset: u64) -> u64 {
        let size = self.files.file_size();
        offset + size - offset % size
    }

    /// For how long the append that is under way has held the lock, in milliseconds.
    #[must_use]
    pub fn lock_time_ms(&self) -> i64 {
        match self.begin_time_in_lock.load(Ordering::Relaxed) {
            0 => 0,
            begin => (self.clock.now_ms() - begin).max(0),
        }
    }

    /// Whether a write or a flush has failed since the store was opened.
    #[must_use]
    pub fn is_poisoned(&self) -> bool {
        self.poison.is_set()
    }

    /// The write or flush that has failed since the store was opened.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        self.poison.failure()
    }

    /// Buffers of the transient store pool that nobody uses; without a pool there is no bound.
    #[must_use]
    pub fn remain_transient_store_buffer_count(&self) -> usize {
        self.transient.as_ref().map_or(i32::MAX as usize, commit::TransientBuffers::available_buffer_count)
    }

    /// The offset that a queue's next message gets.
    #[must_use]
    pub fn next_queue_offset(&self, queue: topic_queue::QueueRef<'_>) -> i64 {
        self.appender.lock().topic_queues.next_offset(queue)
    }

    /// Those of all queues that have had a message.
    #[must_use]
    pub fn next_queue_offsets(&self) -> Vec<(topic_queue::QueueKey, i64)> {
        self.appender.lock().topic_queues.all()
    }

    /// Sets the offset that a queue's next message gets, as recovery found it.
    pub fn set_next_queue_offset(&self, queue: topic_queue::QueueRef<'_>, next_offset: i64) {
        self.appender.lock().topic_queues.set(queue, next_offset);
    }

    /// Forgets those of some queues that have had no message at their end or behind it: their next messages start
    /// again at 0. A function is told first which they are, while nobody can put; gives them.
    ///
    /// # Errors
    /// Those of the function; nothing is forgotten then.
    pub fn remove_queues_from_topic_queue_table<Q>(
        &self,
        mut queues: Vec<Q>,
        end_of: impl for<'q> Fn(&'q Q) -> (topic_queue::QueueRef<'q>, i64),
        before: impl FnOnce(&[Q]) -> Result<()>,
    ) -> Result<Vec<Q>> {
        let mut appender = self.appender.lock();
        queues.retain(|queue| {
            let (name, end) = end_of(queue);
            appender.topic_queues.next_offset(name) <= end
        });
        before(&queues)?;
        self.topic_folders.forget();
        queues.iter().for_each(|queue| appender.topic_queues.remove(end_of(queue).0));
        Ok(queues)
    }

    /// The position in its file that an offset has.
    fn position(&self, offset: u64) -> usize {
        num::index(offset % self.files.file_size())
    }
}
