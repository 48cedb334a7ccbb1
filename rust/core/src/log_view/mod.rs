//! A store's log alone, and its derived files as they lie there: no recovery of queues, no dispatch.
//!
//! What goes over a whole store in parallel works on this: a rebuild has no queues to recover, and a
//! verification must see them as they are. Opening costs what finding the log's end does, and with
//! an end that is known nothing.

mod end;

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use crate::clock::Clock;
use crate::commit_log::CommitLog;
use crate::commit_log::{boundary, scan};
use crate::config::StoreConfig;
use crate::consume_queue::listing::QueueListing;
use crate::consume_queue::table::QueueTable;
use crate::dispatch::Gap;
use crate::error::{Error, Result};
use crate::format::index::IndexShape;
use crate::format::message::{Check, Record, RecordFault};
use crate::fs::FileSystem;
use crate::index::IndexService;
use crate::lock::StoreLock;
use crate::mmap::file_queue::{FileQueue, FileQueueOptions, Listing, Stray};
use crate::mmap::map_budget::MapBudget;
use crate::mmap::mapped_file::Access;
use crate::published::{Openings, Progress};
use crate::recovery::cut_short;
use crate::recovery::layout::{Layout, check_exists, file_size_of};
use crate::sync::{AtomicBool, Mutex, Ordering};

use self::end::End;

/// Where a walk over records stopped.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Stop {
    /// At a record at or behind its end, or at the log's.
    Reached(u64),
    /// At what is gone with the log's first files.
    Expired,
    /// At what is no record, with what is wrong with it, or at a file that is missing.
    Bad(u64, Option<RecordFault>),
}

/// The log and what lies beside it.
#[derive(Debug)]
pub struct LogView {
    config: Arc<StoreConfig>,
    fs: Arc<dyn FileSystem>,
    clock: Arc<dyn Clock>,
    log: CommitLog,
    access: Access,
    named_begin: u64,
    end: End,
    /// How far a live writer had brought queues and index; `None` where there is none.
    live_dispatched: Option<u64>,
    /// How often an mqstore writer had opened the store before that was asked, and whether somebody is known to write it.
    opening_count: u64,
    is_written: AtomicBool,
    /// Held by who changes the store by what it sees here.
    lock: Mutex<Option<Arc<StoreLock>>>,
}

impl LogView {
    /// Looks at a store's log up to its end: a writer's position while one has the store open, else
    /// where the last record ends. Pass an end that is known already to look no further than that.
    ///
    /// # Errors
    /// Where there is no log, or it can't be read.
    pub fn open(
        config: StoreConfig,
        fs: Arc<dyn FileSystem>,
        clock: Arc<dyn Clock>,
        end: Option<u64>,
    ) -> Result<Self> {
        Self::open_with(config, fs, clock, end, false)
    }

    /// As [`LogView::open`], with the store's lock taken first, which is held until [`LogView::unlock`]: nobody else
    /// changes the store meanwhile.
    ///
    /// # Errors
    /// As there; [`Error::Locked`] where somebody has the store open for writing.
    pub fn open_locked(config: StoreConfig, fs: Arc<dyn FileSystem>, clock: Arc<dyn Clock>) -> Result<Self> {
        Self::open_with(config, fs, clock, None, true)
    }

    fn open_with(
        config: StoreConfig,
        fs: Arc<dyn FileSystem>,
        clock: Arc<dyn Clock>,
        end: Option<u64>,
        is_locked: bool,
    ) -> Result<Self> {
        config.validate()?;
        let config = Arc::new(StoreConfig { removed_queues: Arc::default(), ..config });
        check_exists(&*fs, &config)?;
        let take_lock = || StoreLock::take_all(&*fs, &config);
        let lock = Mutex::new(is_locked.then(take_lock).transpose()?.map(Arc::new));
        let listing = Listing::read(&*fs, config.log_folders())?;
        let access = if config.pread { Access::Read } else { Access::MapRead };
        let options = FileQueueOptions {
            paths: config.store_path_commit_log.clone(),
            read_only_paths: config.read_only_commit_log_store_paths.clone(),
            file_size: file_size_of(&*fs, &listing, &config)?,
            access,
            budget: Some(MapBudget::of_log()),
        };
        let mut files = FileQueue::new(Arc::clone(&fs), options.clone(), &listing);
        // Who looks at a part of the log alone reads no more than that.
        if end.is_none()
            && let Some(file_size) = cut_short::size_before(&*fs, &files, &config)?
        {
            files = FileQueue::new(Arc::clone(&fs), FileQueueOptions { file_size, ..options }, &listing);
        }
        let named_begin = listing.min_offset().unwrap_or(0);
        let log = CommitLog::new(Arc::clone(&config), Arc::clone(&clock), files)?;
        // A list that is not whole is told by who opens the store.
        config.removed_queues.load(&*fs, &config.own_dir(), log.files())?;
        let opening_count = opening_count(&*fs, &config)?;
        let mut view = Self {
            config,
            fs,
            clock,
            log,
            access,
            named_begin,
            end: End::default(),
            live_dispatched: None,
            opening_count,
            is_written: AtomicBool::new(false),
            lock,
        };
        let (_, positions) = view.checkpoint()?;
        let known_queues = positions.known().map_or(0, |known| known.queues);
        // Asked before queues and index are looked at: these have no less then.
        view.live_dispatched = view.writer()?.map(|writer| match writer.progress {
            Progress::Published(published) => published.dispatched,
            Progress::Recovering => known_queues,
            Progress::Untold => u64::MAX,
        });
        view.end = match end {
            Some(offset) => End { offset, ..End::default() },
            None => view.past_removals(|| view.find_end())?,
        };
        view.log.set_end(view.end.offset, 0);
        // An end that is given may lie before the log's: what is behind it is there.
        if end.is_none() {
            view.config.removed_queues.forget_behind(view.end.offset);
        }
        Ok(view)
    }

    /// Whether what a record at an offset gives is in queues and index by now: a live writer's may still be on its way.
    #[must_use]
    pub fn is_dispatched(&self, offset: u64) -> bool {
        self.live_dispatched.is_none_or(|dispatched| offset < dispatched)
    }

    /// Whether somebody has the store open for writing, who adds to all of it meanwhile.
    #[must_use]
    pub const fn is_live(&self) -> bool {
        self.live_dispatched.is_some()
    }

    /// Whether somebody adds to queues and index by now what stands behind the log's end here, or has since the end was
    /// found.
    ///
    /// # Errors
    /// Where that can't be asked for.
    pub fn is_written(&self) -> Result<bool> {
        if self.is_live() || self.is_written.load(Ordering::Relaxed) {
            return Ok(true);
        }
        let has_come = self.writer()?.is_some()
            || (!self.is_locked() && opening_count(&*self.fs, &self.config)? != self.opening_count);
        self.is_written.fetch_or(has_come, Ordering::Relaxed);
        Ok(has_come)
    }

    /// Whether nobody else changes the store.
    #[must_use]
    pub fn is_locked(&self) -> bool {
        self.lock.lock().is_some()
    }

    /// The store's lock, where it is held: with it the store can be opened, and nobody gets in between.
    #[must_use]
    pub fn held_lock(&self) -> Option<Arc<StoreLock>> {
        self.lock.lock().clone()
    }

    /// Lets go of the store's lock, where it is held.
    pub fn unlock(&self) {
        self.lock.lock().take();
    }

    /// The options.
    #[must_use]
    pub const fn config(&self) -> &Arc<StoreConfig> {
        &self.config
    }

    /// The log.
    #[must_use]
    pub const fn log(&self) -> &CommitLog {
        &self.log
    }

    /// The log's files.
    #[must_use]
    pub const fn files(&self) -> &FileQueue {
        self.log.files()
    }

    /// The offset of the first byte. It moves where files are removed and [`LogView::follows_removal`] sees it.
    #[must_use]
    pub fn min_offset(&self) -> u64 {
        self.files().min_offset().map_or(self.end.offset, |first| first.min(self.end.offset))
    }

    /// Where the log's first file begins by its name, also where nothing is in it: what is missing up to the first byte did not
    /// expire.
    #[must_use]
    pub fn named_begin(&self) -> u64 {
        self.named_begin.min(self.min_offset())
    }

    /// Whether an error is that of a file of the log that was removed since it was listed, as retention does. Such files
    /// are let go of, so that another look does not meet them: it finds the log's begin further on, or a file missing.
    ///
    /// # Errors
    /// Where a file can't be looked at.
    pub fn follows_removal(&self, error: &Error) -> Result<bool> {
        let Error::Io { path, .. } = error else { return Ok(false) };
        if !error.is_removed(&*self.fs) || !self.files().paths().any(|folder| path.starts_with(folder)) {
            return Ok(false);
        }
        // Another thread may have let go of it already.
        let is_listed = self.files().files().iter().any(|file| file.path() == path);
        Ok(self.forget_removed()? || !is_listed)
    }

    /// What a look at the log gives, repeated where it met a file that was removed since it was listed.
    pub(crate) fn past_removals<T>(&self, look: impl Fn() -> Result<T>) -> Result<T> {
        loop {
            match look() {
                Err(error) if self.follows_removal(&error)? => {}
                outcome => return outcome,
            }
        }
    }

    /// Goes over the records from an offset, a record's begin, up to the first at or behind `to`, past files that are
    /// removed meanwhile.
    ///
    /// # Errors
    /// Where the log can't be read; those of `visit`.
    pub(crate) fn walk(
        &self,
        from: u64,
        to: u64,
        mut visit: impl FnMut(u64, &Record<'_>, &[u8]) -> Result<()>,
    ) -> Result<Stop> {
        let mut next = from;
        let end = loop {
            let outcome =
                scan::scan(self.files(), next, self.end.offset, Check::Structure, |offset, record, bytes| {
                    if offset >= to {
                        return Ok(ControlFlow::Break(()));
                    }
                    visit(offset, record, bytes)?;
                    next = record.next_offset(offset);
                    Ok(ControlFlow::Continue(()))
                });
            match outcome {
                Err(error) if self.follows_removal(&error)? => {}
                outcome => break outcome?,
            }
        };
        match end.reached() {
            Ok(offset) => Ok(Stop::Reached(offset.min(self.end.offset))),
            Err((bad, None)) if self.is_expired(bad)? => Ok(Stop::Expired),
            Err((bad, fault)) => Ok(Stop::Bad(bad, fault)),
        }
    }

    /// Where the next record begins behind what is none.
    ///
    /// # Errors
    /// Where the log can't be read.
    pub(crate) fn next_valid(&self, bad: u64, fault: Option<RecordFault>) -> Result<Option<u64>> {
        self.past_removals(|| scan::next_valid(self.files(), bad, fault, self.end.offset))
    }

    /// Whether what stood at an offset is gone with the log's first files, which may have been a moment ago: what
    /// is derived from it goes behind them, so that its absence is no fault then.
    ///
    /// # Errors
    /// Where a file can't be looked at.
    pub fn is_expired(&self, offset: u64) -> Result<bool> {
        if offset < self.min_offset() {
            return Ok(true);
        }
        let first = self.files().first().filter(|_| !self.fs.is_remote());
        if let Some(first) = first
            && !self.is_there(first.path())?
        {
            self.forget_removed()?;
        }
        Ok(offset < self.min_offset())
    }

    fn is_there(&self, path: &Path) -> Result<bool> {
        Ok(self.fs.metadata(path).map_err(Error::io("look at", path))?.is_some())
    }

    /// Lets go of files of the log that are not there any more; whether there were some.
    fn forget_removed(&self) -> Result<bool> {
        let mut gone = Vec::new();
        for file in self.files().files().iter() {
            if !self.is_there(file.path())? {
                gone.push(Arc::clone(file));
            }
        }
        self.files().forget(&gone);
        Ok(!gone.is_empty())
    }

    /// Where the log ends.
    #[must_use]
    pub const fn end(&self) -> u64 {
        self.end.offset
    }

    /// What was on the disk behind the log's end, and is there no more, as far as it was looked for that end and nobody
    /// writes the store.
    #[must_use]
    pub const fn lost_end(&self) -> Option<Gap> {
        self.end.lost
    }

    /// Where the log began when its last writer closed the store; `None` where that is not known, or somebody has written to
    /// the store since.
    #[must_use]
    pub const fn begin_when_closed(&self) -> Option<u64> {
        self.end.begin_when_closed
    }

    /// Files and folders of log and queues that are not as they should be.
    ///
    /// # Errors
    /// Where a folder can't be listed, or the layout is another version's.
    pub fn strays(&self) -> Result<Vec<Stray>> {
        let layout = Layout::read(&*self.fs, &self.config)?;
        let mut faults = layout.log.faults(self.files().file_size());
        faults.extend(layout.queues.faults);
        Ok(faults)
    }

    /// The queues as their files are, ends not looked for.
    ///
    /// # Errors
    /// Where a folder can't be listed.
    pub fn queues(&self) -> Result<QueueTable> {
        let listing = QueueListing::read(&*self.fs, &self.config.store_path_consume_queue(), None)?;
        QueueTable::new(Arc::clone(&self.config), Arc::clone(&self.fs), self.access, &listing)
    }

    /// The index as its files are, and those that can't be used; `None` where messages are not indexed.
    ///
    /// # Errors
    /// Where its folder can't be listed.
    pub fn index(&self) -> Result<Option<(IndexService, Vec<Stray>)>> {
        if !self.config.message_index_enable {
            return Ok(None);
        }
        let index = IndexService::new(
            Arc::clone(&self.fs),
            Arc::clone(&self.clock),
            self.config.store_path_index(),
            self.config.index_shape,
            self.access,
        );
        let load = index.load(false)?;
        Ok(Some((index, load.faults)))
    }

    /// Bytes of a queue file: what the store's have, else what the options say.
    ///
    /// # Errors
    /// Where a folder can't be listed.
    pub fn queue_file_size(&self) -> Result<u64> {
        Ok(self.queues()?.file_size())
    }

    /// Bytes of a file of queues' extensions, likewise; what the options say where there are to be none.
    ///
    /// # Errors
    /// Where a folder can't be listed.
    pub fn ext_file_size(&self) -> Result<u64> {
        let given = self.config.mapped_file_size_consume_queue_ext;
        if !self.config.enable_consume_queue_ext {
            return Ok(given);
        }
        let listing = QueueListing::read(&*self.fs, &self.config.store_path_consume_queue_ext(), None)?;
        Ok(listing.ext_file_size(given))
    }

    /// Slots and entries of an index file: what the store's have, where their size does not say that
    /// they were made with other options than these, else what the options say.
    ///
    /// # Errors
    /// Where the index's folder can't be listed.
    pub fn index_shape(&self) -> Result<IndexShape> {
        let found = self.index()?.and_then(|(index, _)| index.files().first().map(|file| file.shape()));
        Ok(found.unwrap_or(self.config.index_shape))
    }

    /// The first place at or behind an offset where the log can be divided, found by a walk from its file's
    /// begin.
    ///
    /// # Errors
    /// Where a file can't be read.
    pub fn boundary(&self, offset: u64) -> Result<u64> {
        self.past_removals(|| {
            boundary::boundary_at(self.files(), self.min_offset()..self.end.offset, offset, Ok)
        })
    }

    /// Where the log can be divided between two offsets: about every `step` bytes the begin of a
    /// record, and the begin of each file. `from` is the first.
    ///
    /// A body may hold bytes that look like a record of just that place. So a boundary inside a file
    /// counts only once the walk over the range before it has come to it.
    ///
    /// # Errors
    /// Where a file can't be read.
    pub fn divide(&self, from: u64, to: u64, step: u64) -> Result<Vec<u64>> {
        let step = step.max(1);
        let mut found = vec![from];
        for file in self.files().files().iter() {
            let (begin, end) = (file.file_from_offset().max(from), file.end_offset().min(to));
            if begin >= end {
                continue;
            }
            if found.last().is_some_and(|&last| last < begin) {
                found.push(begin);
            }
            let mut wanted = begin + step;
            // A last part that would be small stays with the one before it.
            while wanted + step / 2 < end {
                let next = self.past_removals(|| scan::next_record(self.files(), wanted, end))?;
                let Some(next) = next else { break };
                found.push(next);
                wanted = next + step;
            }
        }
        Ok(found)
    }
}

/// How often an mqstore writer has opened a store; of one elsewhere, which is read as it was, nobody asks.
fn opening_count(fs: &dyn FileSystem, config: &StoreConfig) -> Result<u64> {
    if fs.is_remote() { Ok(0) } else { Ok(Openings::read(fs, &config.own_dir())?.count()) }
}
