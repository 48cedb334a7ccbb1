//! Opening and following a store.

use std::sync::Arc;

use super::Store;
use super::ended::Ended;
use super::follow::{Follow, Seen};
use super::parts::{LiveWriter, Parts, load, load_to_read, recovered, without_index};
use super::replication::Replication;
use crate::checkpoint::StoreCheckpoint;
use crate::clock::Clock;
use crate::closed::Closed;
use crate::commit_log::topic_queue::QueueRef;
use crate::config::StoreConfig;
use crate::dispatch::{Dispatcher, Gap};
use crate::error::{Error, Result};
use crate::format::closed::ClosedQueue;
use crate::format::positions::Owed;
use crate::fs::{FileSystem, OpenMode, make_folder};
use crate::lock::StoreLock;
use crate::locked_folder::LockedFolder;
use crate::mmap::mapped_file::Access;
use crate::num;
use crate::poison::Poison;
use crate::published::{self, Published, PublishedPositions, Unchanged, Withheld};
use crate::recovery::layout::Layout;
use crate::recovery::{self, Recovered, Recovery};
use crate::recovery::{cut_short, folders_apart};
use crate::recovery::{log_end, lost_end};
use crate::running_flags::RunningFlags;
use crate::schedule::timed::TimedMessages;
use crate::stats::StoreStats;
use crate::sync::{AtomicBool, Mutex, TurnMutex};

/// How a store is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// To read: nothing on the disk changes.
    Read,
    /// To read and write.
    ReadWrite,
}

/// A part of a store that is opened to read, for whoever reads a piece of it beside others: nothing is
/// dispatched, and there is no index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// Where the log ends, where that is known: then nothing is looked for, and queues end where their
    /// files do, so that who asks for units has to know which there are.
    pub log_end: Option<u64>,
    /// The topics whose queues are opened; `None` for all.
    pub topics: Option<Vec<String>>,
    /// How many openings by writers who planned the piece had seen: what later ones changed may not be as it was planned.
    /// `None` for all that there are.
    pub openings: Option<u64>,
}

impl Store {
    /// Opens a store. For writing, a missing or empty folder becomes a new one.
    ///
    /// # Errors
    /// Anything that is not as it must be; nothing on the disk has changed then.
    pub fn open(
        config: StoreConfig,
        fs: Arc<dyn FileSystem>,
        clock: Arc<dyn Clock>,
        mode: Mode,
    ) -> Result<Arc<Self>> {
        config.validate()?;
        let config = Arc::new(StoreConfig { removed_queues: Arc::default(), ..config });
        let store = match mode {
            Mode::Read => loop {
                match open_for_reading(Arc::clone(&config), Arc::clone(&fs), Arc::clone(&clock)) {
                    // Its writer has removed a file since it was listed, which the next listing does not have.
                    Err(error) if error.is_removed(&*fs) => {}
                    outcome => break outcome,
                }
            },
            Mode::ReadWrite => open_for_writing(config, fs, clock, None),
        }?;
        Ok(Arc::new(store))
    }

    /// Opens a store for writing under its lock, which somebody holds who changes it before or behind that: he has it
    /// still when the store is closed.
    ///
    /// # Errors
    /// As for [`Store::open`].
    pub fn open_under(
        config: StoreConfig,
        fs: Arc<dyn FileSystem>,
        clock: Arc<dyn Clock>,
        lock: Arc<StoreLock>,
    ) -> Result<Arc<Self>> {
        config.validate()?;
        let config = Arc::new(StoreConfig { removed_queues: Arc::default(), ..config });
        open_for_writing(config, fs, clock, Some(lock)).map(Arc::new)
    }

    /// Opens a part of a store to read.
    ///
    /// # Errors
    /// Where there is no store, or something can't be read.
    pub fn open_part(
        config: StoreConfig,
        fs: Arc<dyn FileSystem>,
        clock: Arc<dyn Clock>,
        part: &Part,
    ) -> Result<Arc<Self>> {
        config.validate()?;
        let config = without_index(config);
        let seen = Seen::now(&*fs, &config)?;
        let seen = part.openings.into_iter().fold(seen, Seen::when_they_were);
        let live = match part.log_end {
            Some(_) => None,
            None => LiveWriter::find(&config, &fs, &clock)?,
        };
        let parts = load_to_read(&config, &fs, &clock, part.topics.as_deref(), true)?;
        let (gaps, lost_end) = match part.log_end {
            Some(log_end) => {
                parts.log.set_end(log_end, 0);
                (Vec::new(), None)
            }
            None => find_end_of_part(Recovered {
                is_remote: fs.is_remote(),
                ..recovered(&config, &parts, live.as_ref(), false)
            })?,
        };
        let mut store = Self::assemble(config, fs, clock, Mode::Read, parts);
        store.follow = Follow::since(seen);
        store.gaps = Mutex::new(gaps);
        store.notes.lost_end = lost_end;
        store.notes.writer = live.map(|live| live.holder);
        store.is_part = true;
        store.dispatcher.set_reput_from_offset(store.log.max_offset());
        Ok(Arc::new(store))
    }

    fn assemble(
        config: Arc<StoreConfig>,
        fs: Arc<dyn FileSystem>,
        clock: Arc<dyn Clock>,
        mode: Mode,
        parts: Parts,
    ) -> Self {
        // What is elsewhere is read as it was first.
        let dispatcher = Dispatcher::new(config.is_slave || (mode == Mode::Read && !fs.is_remote()));
        Self {
            config,
            fs,
            clock,
            mode,
            log: parts.log,
            queues: parts.queues,
            index: parts.index,
            checkpoint: parts.checkpoint,
            dispatcher,
            flags: RunningFlags::default(),
            flushing: TurnMutex::default(),
            derived_poison: Poison::default(),
            stats: StoreStats::default(),
            lock: Mutex::default(),
            published: None,
            closed: AtomicBool::new(false),
            ended: Ended::default(),
            own_from: u64::MAX,
            gaps: Mutex::default(),
            damaged: Mutex::default(),
            notes: parts.notes,
            follow: Follow::default(),
            replication: Replication::default(),
            timed: TimedMessages::default(),
            latest_in_file: Mutex::default(),
            unindexed: Mutex::default(),
            is_part: false,
        }
    }

    /// Dispatches what recovery says, and lets the queues' next offsets follow from it.
    pub(super) fn dispatch_missing(&mut self, recovery: Recovery) -> Result<()> {
        let from = recovery.derived_to();
        self.notes.dispatched_from = from;
        self.keep_unindexed_apart()?;
        self.dispatcher.add_strangers(&recovery.gaps);
        self.gaps = Mutex::new(recovery.gaps);
        self.dispatcher.set_reput_from_offset(from);
        self.pass_with(recovery.derived)?;
        if self.mode == Mode::ReadWrite {
            // The newest file of an extension stays, which has to be there to be the newest.
            self.queues.spill_all()?;
            self.queues.end_trim()?;
        }
        self.recover_topic_queue_table(recovery.closed.as_deref())
    }

    /// The next offset of each queue is its end, or the one that it had when the store was closed, where messages were lost
    /// since; its first is its first message in the log.
    /// Source: `recoverTopicQueueTable`.
    fn recover_topic_queue_table(&self, closed: Option<&Closed>) -> Result<()> {
        let min_offset = self.log.min_offset().unwrap_or(0);
        for queue in self.queues.all() {
            self.log.set_next_queue_offset(queue.name(), num::java_long(queue.max_offset_in_queue()));
            queue.correct_min_offset_once_dispatched(min_offset)?;
        }
        for queue in closed.iter().flat_map(|closed| closed.queues(self.log.max_offset())) {
            self.go_on_as_closed(&queue);
        }
        Ok(())
    }

    /// Has a queue go on at the offset that it would have gone on with, if its next unit can stand there: 4.9.3 closes gaps.
    fn go_on_as_closed(&self, queue: &ClosedQueue<'_>) {
        let name = QueueRef { topic: queue.topic, queue_id: queue.queue_id };
        let (end, next) = (self.log.next_queue_offset(name), num::java_long(queue.next_offset));
        let rule = self.queues.place_rule();
        if next > end && (end == 0 || !rule.compat) && rule.can_pass_over(end, next) {
            self.log.set_next_queue_offset(name, next);
        }
    }
}

fn open_for_writing(
    config: Arc<StoreConfig>,
    fs: Arc<dyn FileSystem>,
    clock: Arc<dyn Clock>,
    held: Option<Arc<StoreLock>>,
) -> Result<Store> {
    // What can be told without looking at each queue, before anything is made.
    folders_apart::check(&*fs, &config)?;
    Layout::read_part(&*fs, &config, Some(&[]))?.check_for_writing(&*fs, &config)?;
    let root = &config.store_path_root_dir;
    make_folder(&*fs, root)?;
    let own_dir = config.own_dir();
    let is_held = held.is_some();
    let lock = match held {
        Some(lock) => lock,
        None => Arc::new(StoreLock::take_all(&*fs, &config)?),
    };
    let fs: Arc<dyn FileSystem> = Arc::new(LockedFolder::new(fs, &lock)?);
    // Only with the lock is certain that nobody writes: what was looked at before is looked at again.
    let find_out = |positions, flushed| {
        let layout = Layout::read(&*fs, &config)?;
        layout.check_for_writing(&*fs, &config)?;
        let parts = load(&config, &fs, &clock, &layout, Access::MapWrite, false)?;
        let parts = Parts { positions, flushed, ..parts };
        cut_short::refuse(&*fs, parts.log.files(), &config)?;
        let recovery = recovery::recover(recovered(&config, &parts, None, true))?;
        Ok((parts, recovery))
    };
    // The positions before there is a file of this writer: that there was none says that RocketMQ wrote last.
    let left = StoreCheckpoint::load(Arc::clone(&fs), config.store_checkpoint(), &own_dir);
    let opened = left.and_then(|(_, positions)| {
        let withheld = Withheld::begin(&*fs, &own_dir)?;
        find_out(positions, withheld.flushed()).inspect_err(|_| withheld.undo(&*fs, &own_dir))
    });
    let (parts, recovery) = match opened {
        Ok(opened) => opened,
        Err(error) => {
            if !is_held {
                lock.undo(&*fs);
            }
            return Err(error);
        }
    };
    // From here on the store is changed, which the mark of an unclean stop says first.
    mark_open(&*fs, &config, &lock)?;
    make_writable(&*fs, recovered(&config, &parts, None, true), &recovery)?;
    let first = PublishedPositions {
        pid: i64::from(std::process::id()),
        opened_ms: clock.now_ms(),
        wrote: recovery.log_end,
        flushed: recovery.flushed_to,
        dispatched: recovery.derived_to(),
    };
    let unchanged_log = if recovery.is_another_log { 0 } else { recovery.log_end };
    let unchanged = Unchanged { log: unchanged_log, queues: recovery.dispatch_from };
    let log_file_size = parts.log.files().file_size();
    let published = Arc::new(Published::create(&*fs, &own_dir, first, unchanged, log_file_size)?);
    parts.log.set_flushed(recovery.flushed_to);
    let mut store = Store::assemble(config, fs, clock, Mode::ReadWrite, parts);
    store.log.publish_to(Arc::clone(&published));
    if !store.config.is_slave {
        store.own_from = store.log.max_offset();
    }
    store.published = Some(published);
    store.lock = Mutex::new(Some(lock));
    store.notes.lost_end = recovery.lost;
    let is_all_dispatched = recovery.derived_to() >= recovery.log_end;
    store.dispatch_missing(recovery)?;
    store.finish_removals()?;
    if is_all_dispatched {
        store.flush_everything()?;
    } else {
        store.flush_what_is_served()?;
    }
    Ok(store)
}

/// Removes what stands behind the ends, once what is known to be on the disk says so, and writes again what the disk has refused.
fn make_writable(fs: &dyn FileSystem, of: Recovered<'_>, recovery: &Recovery) -> Result<()> {
    let own_dir = of.config.own_dir();
    let known = recovery::known_after_trim(of, recovery);
    of.checkpoint.set_positions(known);
    let before = of.checkpoint.owed();
    let owed = recovery.lost.map(|Gap { from, to, .. }| Owed { from, to }.with(before));
    let owes_else = before != owed;
    of.checkpoint.set_owed(owed);
    let was_refused = published::has_flush_failed(fs, &own_dir)?;
    if of.flushed > recovery.log_end {
        published::lower_flushed(fs, &own_dir, recovery.log_end)?;
    }
    if recovery.must_trim {
        of.log.give_back_next_file(recovery.log_end);
        published::distrust_disk(fs, &own_dir)?;
        // What is put where something was cut is not on the disk just because that was, and units that tell of a lost end go.
        if of.positions.known().is_some_and(|positions| positions != known || owes_else) {
            of.checkpoint.flush()?;
        }
        recovery::trim(of, recovery)?;
    }
    if was_refused {
        log_end::write_again(of.log, recovery.flushed_to, recovery.log_end)?;
    }
    Ok(())
}

fn mark_open(fs: &dyn FileSystem, config: &StoreConfig, lock: &StoreLock) -> Result<()> {
    for folder in
        config.store_path_commit_log.iter().chain([&config.store_path_consume_queue(), &config.own_dir()])
    {
        make_folder(fs, folder)?;
    }
    lock.mark(fs, config)?;
    let abort = config.abort_file();
    let handle = fs.open(&abort, OpenMode::Create).map_err(Error::io("create", &abort))?;
    handle.sync_data().map_err(Error::io("flush", &abort))?;
    let root = &config.store_path_root_dir;
    fs.sync_dir(root).map_err(Error::io("sync the folder", root))
}

/// Sets the log's end, by the queues where that can be. Gives where it holds no record, and what it lost at its end.
fn find_end_of_part(of: Recovered<'_>) -> Result<(Vec<Gap>, Option<Gap>)> {
    if let Some(ends) = recovery::find_end_by_queues(of)? {
        return Ok((Vec::new(), lost_end::find(of, of.log.max_offset(), ends.is_cut)?));
    }
    let recovery = recovery::recover(of)?;
    Ok((recovery.gaps, recovery.lost))
}

fn open_for_reading(
    config: Arc<StoreConfig>,
    fs: Arc<dyn FileSystem>,
    clock: Arc<dyn Clock>,
) -> Result<Store> {
    let seen = Seen::now(&*fs, &config)?;
    let live = LiveWriter::find(&config, &fs, &clock)?;
    let mut parts = load_to_read(&config, &fs, &clock, None, live.is_some())?;
    let of = Recovered { is_remote: fs.is_remote(), ..recovered(&config, &parts, live.as_ref(), false) };
    // From afar the newest files of the log are not read to find its end.
    let by_queues = if of.is_remote { recovery::recover_by_queues(of)? } else { None };
    let recovery = match by_queues {
        Some(recovery) => recovery,
        None => recovery::recover(of)?,
    };
    parts.notes.writer = live.map(|live| live.holder);
    let mut store = Store::assemble(config, fs, clock, Mode::Read, parts);
    store.follow = Follow::since(seen);
    store.notes.lost_end = recovery.lost;
    store.dispatch_missing(recovery)?;
    // A writer can come at any time, and goes on in the last file. One elsewhere is read as it was.
    if let Some(index) = store.index.as_ref().filter(|_| !store.fs.is_remote()) {
        index.follow();
    }
    Ok(store)
}
