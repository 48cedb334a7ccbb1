//! Following a store that another process writes.
//!
//! An mqstore writer publishes how far it is. Beside a Java writer a record counts once its lengths,
//! its own offset and its CRC agree; until then it is not there yet.
//!
//! A writer that opens the store after another one may cut the log, and makes units and keys anew that were not known
//! to be on the disk. It publishes from where on: what a reader has of that is dispatched again.

use std::ops::ControlFlow;
use std::sync::Arc;

use super::{Mode, Store};
use crate::checkpoint::StoreCheckpoint;
use crate::commit_log::scan;
use crate::config::StoreConfig;
use crate::error::{Error, Result};
use crate::format::message::{Check, Record};
use crate::format::record_crc::RecordCrc;
use crate::fs::FileSystem;
use crate::lock::{self, Writer};
use crate::mmap::file_queue::{FileQueue, Listing};
use crate::mmap::mapped_file::MappedFile;
use crate::num;
use crate::published::{Openings, Progress, PublishedPositions, Unchanged};
use crate::recovery::layout::check_exists;
use crate::recovery::log_end::ends_in_zeros;
use crate::sync::{AtomicU64, Mutex, Ordering};

/// What following needs.
#[derive(Debug, Default)]
pub(super) struct Follow {
    pub(super) refreshing: Mutex<()>,
    seen: Mutex<Seen>,
    /// How often a reader has begun to let go of something that it has, and how often that was there again: odd in between.
    changes: AtomicU64,
    /// Up to where the log is on the disk, by this reader's doing.
    synced: Mutex<u64>,
}

/// Which writers a reader knows of.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Seen {
    openings: Openings,
    /// Up to where one that has begun to recover the store since then leaves the queues as they are.
    recovering: Option<u64>,
}

impl Follow {
    pub(super) fn since(seen: Seen) -> Self {
        Self { seen: Mutex::new(seen), ..Self::default() }
    }
}

impl Seen {
    /// Those of a store that nobody has looked at yet.
    ///
    /// # Errors
    /// Where what they publish can't be read.
    pub(super) fn now(fs: &dyn FileSystem, config: &StoreConfig) -> Result<Self> {
        Ok(Self { openings: openings_of(fs, config)?, recovering: None })
    }

    /// Those that were known when there were so many.
    pub(super) fn when_they_were(self, count: u64) -> Self {
        Self { openings: self.openings.when_they_were(count), ..self }
    }
}

/// A store's openings; none of one elsewhere, which is read as it was first.
fn openings_of(fs: &dyn FileSystem, config: &StoreConfig) -> Result<Openings> {
    if fs.is_remote() { Ok(Openings::default()) } else { Openings::read(fs, &config.own_dir()) }
}

impl Store {
    /// Brings to the disk what this reader has seen of another process's log. Who writes down how far he has read says
    /// that it is there: were it lost, what is put next would get the same places, and be passed over.
    ///
    /// # Errors
    /// Where the disk did not take it; where the store is closed.
    pub fn sync_log_seen(&self) -> Result<()> {
        self.while_open(|| self.sync_log())
    }

    fn sync_log(&self) -> Result<()> {
        let mut synced = self.follow.synced.lock();
        let end = self.log.max_offset();
        if self.fs.is_remote() || end <= *synced {
            return Ok(());
        }
        self.log.files().sync_dirs()?;
        let files = self.log.files().files();
        let is_new = |file: &&Arc<MappedFile>| file.end_offset() > *synced && file.file_from_offset() < end;
        files.iter().filter(is_new).try_for_each(|file| match file.sync() {
            // Retention, or a writer that recovers the store, has removed it since.
            Err(error) if error.is_removed(&*self.fs) => Ok(()),
            outcome => outcome,
        })?;
        *synced = end;
        Ok(())
    }

    /// Moves the log's end to where the writer has got. Gives whether its files are to be gone by: not while it recovers, nor
    /// behind one that was killed then, of which the next one takes units away that were left.
    pub(super) fn follow_writer(&self) -> Result<bool> {
        let progress = self.forget_changed()?;
        if progress == Progress::Recovering {
            return Ok(false);
        }
        let min_before = self.log.min_offset();
        self.list_log()?;
        let end = self.log.max_offset();
        let (new_end, timestamp) = match progress {
            Progress::Published(published) => {
                (published_end(self.log.files(), &published), self.log.last_store_timestamp())
            }
            // What was under way when a writer went may be anything now.
            _ => self.walk_on(end.min(self.dispatcher.reput_from_offset()))?,
        };
        // Before what was put to them since can be dispatched, by whoever asks for something just now.
        self.follow_removals()?;
        if new_end > end {
            self.log.set_end(new_end, timestamp);
        }
        if self.log.min_offset() != min_before {
            let min_offset = self.log.min_offset().unwrap_or(0);
            self.queues.all().iter().try_for_each(|queue| queue.follow_min_offset(min_offset))?;
        }
        Ok(self.follow.seen.lock().recovering.is_none())
    }

    /// The store's openings with what one that recovers it leaves alone, and how far its writer is.
    fn look_at_writers(&self) -> Result<(Seen, Progress)> {
        let mut openings = openings_of(&*self.fs, &self.config)?;
        loop {
            let writer = lock::writer(&*self.fs, &self.config.lock_file(), &self.config.own_dir())?;
            let recovering = self.left_by_recovery(writer.as_ref())?;
            let since = openings_of(&*self.fs, &self.config)?;
            if since == openings {
                let progress = writer.map_or(Progress::Untold, |writer| writer.progress);
                return Ok((Seen { openings, recovering }, progress));
            }
            // How far a writer is says nothing to who does not know yet what its opening changed.
            openings = since;
        }
    }

    /// Up to where the queues are left alone by a writer that recovers the store: by what is known to be on the disk, which
    /// it lowers before it takes any units away. One that was killed in the middle has left the store so.
    fn left_by_recovery(&self, writer: Option<&Writer>) -> Result<Option<u64>> {
        let own_dir = self.config.own_dir();
        let progress = match writer {
            Some(writer) => writer.progress,
            None if self.fs.is_remote() => return Ok(None),
            None => Progress::read(&*self.fs, &own_dir)?,
        };
        if progress != Progress::Recovering {
            return Ok(None);
        }
        let (_, positions) =
            StoreCheckpoint::load(Arc::clone(&self.fs), self.config.store_checkpoint(), &own_dir)?;
        Ok(Some(positions.known().map_or(0, |known| known.queues)))
    }

    /// What a look at queues' units gives. In a store that is only read a writer that opens it makes units anew
    /// meanwhile, which are missing for a moment: where a look that is not whole may have met those it is repeated.
    ///
    /// # Errors
    /// Those of the look; as for [`Store::refresh`]; of a part [`Error::MadeAnew`].
    pub(crate) fn beside_openings<T>(
        &self,
        look: impl Fn() -> Result<T>,
        is_whole: impl Fn(&T) -> bool,
    ) -> Result<T> {
        loop {
            let before = self.changes();
            let outcome = look()?;
            if self.mode == Mode::ReadWrite || is_whole(&outcome) {
                return Ok(outcome);
            }
            self.follow_openings()?;
            if self.changes() == before {
                return Ok(outcome);
            }
        }
    }

    /// Whether an error is that of a reader whose writer has removed a file since it was listed: another look at the store
    /// does not meet it.
    pub(crate) fn follows_removal(&self, error: &Error) -> bool {
        self.mode == Mode::Read && !self.is_part && error.is_removed(&*self.fs)
    }

    /// In a store that is only read: sees what writers have changed that have opened it since. Units of which the queues'
    /// files are missing some now are in memory then. One elsewhere is read as it was.
    fn follow_openings(&self) -> Result<()> {
        if self.fs.is_remote() {
            return Ok(());
        }
        if self.is_part {
            // It makes no units, and ends where it did.
            return self.check_not_made_anew();
        }
        // Another thread that lets go of something just now has it again then.
        let one_at_a_time = self.follow.refreshing.lock();
        let (now, _) = self.look_at_writers()?;
        if *self.follow.seen.lock() == now {
            return Ok(());
        }
        self.refresh_alone(&one_at_a_time).map(drop)
    }

    /// From which offset of the log on units were made anew by writers that opened the store since it was opened to read,
    /// or are just now; `None` where all that it has is as it was, and of one elsewhere, which is read as it was first.
    ///
    /// # Errors
    /// Where what writers publish can't be read.
    pub fn made_anew_from(&self) -> Result<Option<u64>> {
        if self.fs.is_remote() {
            return Ok(None);
        }
        // First: what is seen must not be newer than what is looked at.
        let seen = self.follow.seen.lock();
        let (now, _) = self.look_at_writers()?;
        let unchanged = unchanged_since(&seen, &now);
        let from = unchanged.queues.min(unchanged.log);
        Ok((from < self.log.max_offset()).then_some(from))
    }

    /// Whether all that a part has is as it was.
    ///
    /// # Errors
    /// [`Error::MadeAnew`] where units were made anew; as for [`Store::made_anew_from`].
    pub fn check_not_made_anew(&self) -> Result<()> {
        let made_anew = |from| Err(Error::MadeAnew { path: self.path().into(), from });
        self.made_anew_from()?.map_or(Ok(()), made_anew)
    }

    /// How many openings of the store by writers it has seen.
    #[must_use]
    pub fn openings_seen(&self) -> u64 {
        self.follow.seen.lock().openings.count()
    }

    /// Up to where the log is as it was when so many openings had been seen: where one of those that were seen since has cut
    /// it, others' records may stand behind there.
    #[must_use]
    pub fn log_unchanged_since(&self, openings: u64) -> u64 {
        let seen = self.follow.seen.lock();
        seen.openings.unchanged_since(&seen.openings.clone().when_they_were(openings)).log
    }

    /// Lets go of what writers have changed that have opened the store since. Gives how far the writer is.
    fn forget_changed(&self) -> Result<Progress> {
        let mut seen = self.follow.seen.lock();
        loop {
            let (now, progress) = self.look_at_writers()?;
            if *seen == now {
                return Ok(progress);
            }
            // What a folder says that is not there, because it was moved or its disk is gone, changes nothing.
            check_exists(&*self.fs, &self.config)?;
            let unchanged = unchanged_since(&seen, &now);
            self.begin_change();
            if unchanged != Unchanged::ALL {
                let wrote = match progress {
                    Progress::Published(published) => published.wrote,
                    Progress::Recovering | Progress::Untold => unchanged.log,
                };
                self.go_back(unchanged, wrote)?;
            }
            *seen = now;
            // Again: the writer may have begun to take units away from further back before the queues were cut, which
            // then end there.
        }
    }

    /// How often what a reader has has changed otherwise than by growing, once no such change is under way: what was found
    /// out in several looks holds together if this is the same before and after. One that was broken off is gone on with.
    ///
    /// # Errors
    /// As for [`Store::refresh`].
    pub fn settled_changes(&self) -> Result<u64> {
        loop {
            if let Some(changes) = self.changes_if_settled() {
                return Ok(changes);
            }
            self.refresh()?;
        }
    }

    /// The same; `None` while one is under way.
    #[must_use]
    pub fn changes_if_settled(&self) -> Option<u64> {
        Some(self.changes()).filter(|changes| changes.is_multiple_of(2))
    }

    fn changes(&self) -> u64 {
        self.follow.changes.load(Ordering::Acquire)
    }

    /// A change begins, before anybody can meet what is missing then. Called by who refreshes.
    fn begin_change(&self) {
        self.follow.changes.fetch_or(1, Ordering::AcqRel);
    }

    /// What was let go of is there again.
    pub(super) fn end_change(&self) {
        let changes = self.changes();
        self.follow.changes.store(changes.next_multiple_of(2), Ordering::Release);
    }

    /// Lets go of what a reader has of changed parts. Where the log is still there it is dispatched again before anybody is
    /// told where a queue ends.
    fn go_back(&self, unchanged: Unchanged, wrote: u64) -> Result<()> {
        let files = self.log.files().files();
        let is_changed = |file: &&Arc<MappedFile>| file.file_from_offset() >= unchanged.log;
        let min_offset = self.log.min_offset().unwrap_or(0);
        let offset = unchanged.queues.min(unchanged.log).max(min_offset);
        self.dispatcher.between_passes(|| {
            self.log.files().forget(&files.iter().filter(is_changed).cloned().collect::<Vec<_>>());
            let end = self.log.max_offset();
            if offset >= end {
                return Ok(());
            }
            let log_end = end.min(wrote.max(min_offset));
            let from =
                self.index.as_ref().map_or(log_end, |index| index.forget_behind(unchanged.log, min_offset));
            self.gaps.lock().retain(|gap| gap.from < unchanged.log);
            self.dispatcher.forget_strangers(unchanged.log);
            self.dispatcher.go_back(offset.min(from));
            self.queues.rejected().forget_from(offset, |_| true);
            if !self.is_part {
                self.damaged.lock().retain(|gap| gap.from < offset);
                self.queues.all().iter().try_for_each(|queue| queue.cut_behind(offset).map(drop))?;
            }
            // Last: who could not read a queue finds by it that there is something to cut still.
            self.log.set_end(log_end, self.log.last_store_timestamp());
            Ok(())
        })
    }

    /// Goes by the log's files that are there now. Where the writer has removed what was never seen of them, the queues
    /// go on behind it.
    fn list_log(&self) -> Result<()> {
        let listing = Listing::read(&*self.fs, self.log.files().paths())?;
        if listing.files.is_empty() && self.log.min_offset().is_some() {
            // Its writer may have removed them all, and a folder that is not there is no such store.
            check_exists(&*self.fs, &self.config)?;
        }
        self.log.files().refresh(&listing);
        let min_offset = self.log.min_offset().unwrap_or(0);
        if self.dispatcher.reput_from_offset() < min_offset && !self.is_part {
            self.queues.all().iter().for_each(|queue| queue.forget_gone(min_offset));
        }
        Ok(())
    }

    /// Lets go of queues that the writer has removed: what it put to them since is dispatched anew.
    fn follow_removals(&self) -> Result<()> {
        let removed = &self.config.removed_queues;
        let gone = removed.reload(&*self.fs, &self.config.own_dir(), self.log.files())?;
        self.dispatcher.between_passes(|| {
            gone.iter()
                .filter_map(|key| self.queues.get(key.as_ref()))
                .try_for_each(|queue| self.queues.destroy(&queue))
        })
    }

    /// Whether the last record's properties, which no checksum covers, may not all be there, and never be: recovery cuts what
    /// a process left so that was killed.
    fn is_torn(&self, offset: u64, record: &Record<'_>) -> Result<bool> {
        if RecordCrc::is_in(record.properties) {
            return Ok(false);
        }
        let end = offset + u64::from(record.total_size);
        if !ends_in_zeros(record.properties, end - num::offset(record.properties.len())) {
            return Ok(false);
        }
        let Some(file) = self.log.files().find(end) else { return Ok(true) };
        scan::is_zero(&file, end, file.end_offset().min(end + 4))
    }

    fn walk_on(&self, from: u64) -> Result<(u64, i64)> {
        let mut end = from;
        let mut timestamp = self.log.last_store_timestamp();
        // The end may stand before a blank that was written since.
        let reached = scan::scan(self.log.files(), from, u64::MAX, Check::BodyCrc, |offset, record, _| {
            if self.is_torn(offset, record)? {
                return Ok(ControlFlow::Break(()));
            }
            end = record.next_offset(offset);
            timestamp = record.store_timestamp;
            Ok(ControlFlow::Continue(()))
        })?;
        if let scan::ScanEnd::Fault { offset, .. } = reached {
            end = end.max(offset);
        }
        Ok((end, timestamp))
    }
}

/// What is as it was when others were the last writers to be seen.
fn unchanged_since(seen: &Seen, now: &Seen) -> Unchanged {
    let unchanged = now.openings.unchanged_since(&seen.openings);
    match now.recovering {
        Some(queues) if seen.recovering.is_none_or(|known| queues < known) => {
            unchanged.and(Unchanged { queues, ..Unchanged::ALL })
        }
        _ => unchanged,
    }
}

/// What a writer published is not taken for more than its files hold.
pub(super) fn published_end(files: &FileQueue, published: &PublishedPositions) -> u64 {
    files.last().map_or(0, |last| published.wrote.min(last.end_offset()))
}
