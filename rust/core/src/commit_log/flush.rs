//! Flushing: from the page cache to the disk.
//!
//! A pass flushes what was written since the last one. With synchronous flush, puts hand in the
//! offset that they wait for, one pass serves all that came in meanwhile, and each waits until the
//! flushed position passes its offset or its time is up. Source: `FlushRealTimeService`,
//! `GroupCommitService`, `MappedFile.flush`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::CommitLog;
use crate::error::{Error, Result};
use crate::mmap::mapped_file::MappedFile;
use crate::mmap::region::OS_PAGE_SIZE;
use crate::num;
use crate::sync::{AtomicU64, Condvar, Mutex, MutexGuard, Ordering, TurnMutex};

/// From how much on what is flushed is taken out of the mapping first: the system would keep it from being written
/// otherwise, page by page, and tell each processor of each page.
const TAKEN_OUT_SIZE: u64 = 1 << 16;
/// A smaller flush takes hardly longer than one of a single record.
const SMALL_SIZE: u64 = 1 << 15;

/// What a pass did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlushOutcome {
    /// Behind the last byte that is on the disk.
    pub flushed_offset: u64,
    /// Every message of this store time or earlier is on the disk; the checkpoint's physic time.
    pub store_timestamp: i64,
    /// Whether anything was flushed.
    pub flushed_some: bool,
}

/// Who flushes, and who waits for it.
#[derive(Debug, Default)]
pub(super) struct Flusher {
    flushing: TurnMutex<()>,
    committing: Mutex<()>,
    requests: Mutex<Requests>,
    /// Rung when an offset is handed in.
    requested: Condvar,
    /// Rung when the flushed position has moved.
    flushed: Condvar,
    /// How much a flush writes: of the last ones, the last of all counting most; 0 before the first one.
    usual_size: AtomicU64,
}

/// What puts wait for that were made since the last flush of the group commit began.
#[derive(Debug, Default)]
struct Requests {
    /// The highest offset that somebody waits for.
    up_to: u64,
    /// One was handed in that [`CommitLog::wait_flush_requested`] has not told of yet.
    is_new: bool,
    /// Somebody wants a pass without waiting for it, or the service to end.
    woken: bool,
    /// How many were handed in.
    waiting_count: usize,
    /// How many are likely to wait for one flush, if it begins a little later.
    expected_count: usize,
    /// Until when a flush waits for those that are expected.
    gathers_until: Option<Instant>,
    /// How long the last flush took.
    last_flush: Duration,
    /// Whether a group's flush is under way.
    is_flushing: bool,
    /// Whether tasks wait that only the service can tell, so that it has to make the flushes.
    is_served: bool,
}

impl Requests {
    /// Begins to wait for more.
    fn gather(&mut self) {
        self.gathers_until = Some(Instant::now() + self.last_flush / 2);
    }

    /// Whether a flush that begins now serves all that are expected.
    const fn is_complete(&self) -> bool {
        self.waiting_count > 0 && self.waiting_count >= self.expected_count
    }
}

/// What a pass of the group commit did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupCommit {
    /// The flush.
    pub flush: FlushOutcome,
    /// Whether somebody wanted the pass to end ([`CommitLog::wake_flusher`]).
    pub was_woken: bool,
}

/// What became of a wait for the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waited {
    /// Whether what was waited for is on the disk.
    pub is_flushed: bool,
    /// The flush that the thread which waited made itself.
    pub own_flush: Option<FlushOutcome>,
}

impl Flusher {
    pub(super) fn committing(&self) -> MutexGuard<'_, ()> {
        self.committing.lock()
    }

    /// Whether a flush is of few records.
    pub(super) fn is_usually_small(&self) -> bool {
        (1..SMALL_SIZE).contains(&self.usual_size.load(Ordering::Relaxed))
    }

    /// Counts what a flush has written. One at a time.
    fn count_size(&self, size: u64) {
        let before = match self.usual_size.load(Ordering::Relaxed) {
            0 => size,
            before => before,
        };
        self.usual_size.store(before - before / 8 + size.div_ceil(8), Ordering::Relaxed);
    }

    /// Lets those who wait look again, where a flush has changed what they see.
    fn tell_waiting(&self, outcome: &Result<FlushOutcome>) {
        if !matches!(outcome, Ok(FlushOutcome { flushed_some: false, .. })) {
            drop(self.requests.lock()); // a waiter is either before its check or asleep by now
            self.flushed.notify_all();
        }
    }
}

impl CommitLog {
    /// One flush pass. With `least_pages` above 0 it flushes only once that many pages are full or a
    /// file is, which is how the asynchronous flush gathers work.
    ///
    /// # Errors
    /// Where the disk did not take it; the store takes no messages from then on.
    pub fn flush(&self, least_pages: u64) -> Result<FlushOutcome> {
        let outcome = self.flush_untold(least_pages);
        self.flusher.tell_waiting(&outcome);
        outcome
    }

    /// As [`CommitLog::flush`], which somebody has yet to tell those of who wait.
    fn flush_untold(&self, least_pages: u64) -> Result<FlushOutcome> {
        let _one_at_a_time = self.flusher.flushing.lock();
        self.poison.check()?;
        let store_timestamp = if self.transient.is_some() {
            self.positions.committed_timestamp.load(Ordering::Acquire)
        } else {
            self.last_store_timestamp()
        };
        let (from, to) = (self.flushed_offset(), self.max_offset());
        let fills_a_file = from / self.files.file_size() != to / self.files.file_size();
        let enough =
            least_pages == 0 || fills_a_file || to / OS_PAGE_SIZE - from / OS_PAGE_SIZE >= least_pages;
        if from < to && enough {
            self.watch_flush(self.flush_range(from, to))?;
            self.flusher.count_size(to - from);
        }
        let flushed_offset = self.flushed_offset();
        if let Some(published) = self.published() {
            published.set_flushed(flushed_offset);
        }
        // Of what a pass left for later only the time of the last complete pass is known.
        let store_timestamp = if flushed_offset >= to { store_timestamp } else { 0 };
        Ok(FlushOutcome { flushed_offset, store_timestamp, flushed_some: flushed_offset > from })
    }

    /// Gives the outcome of a flush on, of which one that failed is final, also for who follows the log.
    pub(super) fn watch_flush(&self, outcome: Result<()>) -> Result<()> {
        if let (Err(_), Some(published)) = (&outcome, self.published()) {
            published.set_flush_failed();
        }
        self.poison.watch("flush", outcome)
    }

    fn flush_range(&self, from: u64, to: u64) -> Result<()> {
        let mut at = from;
        while at < to {
            let Some(file) = self.files.find(at) else {
                // The file was removed by retention, or the log's end lies just behind its last file.
                at = self.roll_next_file(at).min(to);
                self.positions.flushed.store(at, Ordering::Release);
                continue;
            };
            let end = to.min(file.end_offset());
            self.flush_file(&file, at, end)?;
            self.positions.flushed.store(end, Ordering::Release);
            file.keep_open(end < file.end_offset());
            at = end;
        }
        Ok(())
    }

    fn flush_file(&self, file: &Arc<MappedFile>, from: u64, to: u64) -> Result<()> {
        if self.transient.is_some() {
            // What was committed is in the page cache without a mapping.
            return file.sync();
        }
        let handle = file.handle()?;
        let start = (from - file.file_from_offset()) / OS_PAGE_SIZE * OS_PAGE_SIZE;
        let len = to - file.file_from_offset() - start;
        let region = file.region()?;
        if len >= TAKEN_OUT_SIZE {
            let _flushed_all_the_same = region.take_out(num::index(start), num::index(len));
        }
        handle
            .flush_mapped(&region, num::index(start), num::index(len))
            .map_err(Error::io("flush", file.path()))
    }

    /// Hands in an offset that has to get to the disk, for whoever flushes in the background.
    pub fn request_flush(&self, offset: u64) {
        let mut requests = self.flusher.requests.lock();
        requests.up_to = requests.up_to.max(offset);
        requests.is_new = true;
        self.flusher.requested.notify_one();
    }

    /// Hands in an offset that somebody is about to wait for. A thread that does flushes by itself; where
    /// tasks wait the service is rung for.
    pub fn request_group_flush(&self, offset: u64) {
        let mut requests = self.flusher.requests.lock();
        requests.up_to = requests.up_to.max(offset);
        requests.is_new = true;
        requests.waiting_count += 1;
        if requests.waiting_count == 1 && !requests.is_flushing {
            requests.gather();
        }
        if requests.is_served {
            self.flusher.requested.notify_one();
        }
    }

    /// Waits until an offset that was handed in is on the disk, or the time is up.
    ///
    /// Of the threads that wait, the one whose put completes the group flushes for all: no other thread has to
    /// be woken before the disk is at work. Where some who were served last time do not come back, the first
    /// one flushes after half the time that a flush takes.
    ///
    /// # Errors
    /// Where a flush failed.
    pub fn wait_flushed(&self, offset: u64, timeout: Duration) -> Result<Waited> {
        let deadline = Instant::now() + timeout;
        let mut requests = self.flusher.requests.lock();
        let mut is_late = false;
        loop {
            if self.flushed_offset() >= offset {
                return Ok(Waited { is_flushed: true, own_flush: None });
            }
            self.poison.check()?;
            if Instant::now() >= deadline {
                return Ok(Waited { is_flushed: false, own_flush: None });
            }
            if requests.is_served || requests.is_flushing {
                (requests, _) = self.flusher.flushed.wait_until(requests, deadline);
            } else if is_late || requests.is_complete() {
                let flush = self.flush_group(requests)?;
                return Ok(Waited { is_flushed: flush.flushed_offset >= offset, own_flush: Some(flush) });
            } else {
                let until = requests.gathers_until.unwrap_or(deadline);
                (requests, is_late) = self.flusher.flushed.wait_until(requests, until.min(deadline));
            }
        }
    }

    /// Flushes for all that were handed in. Nobody is told before it is known how many have come meanwhile: who was served
    /// comes again at once.
    fn flush_group(&self, mut requests: MutexGuard<'_, Requests>) -> Result<FlushOutcome> {
        let served_count = std::mem::take(&mut requests.waiting_count);
        requests.gathers_until = None;
        requests.is_flushing = true;
        drop(requests);
        let begin = Instant::now();
        let outcome = self.commit_and_flush();
        let mut requests = self.flusher.requests.lock();
        requests.is_flushing = false;
        requests.last_flush = begin.elapsed();
        requests.expected_count = served_count + requests.waiting_count;
        if requests.waiting_count > 0 {
            requests.gather();
        }
        drop(requests);
        // Those who were served, and those who came meanwhile, of whom one is to begin.
        self.flusher.flushed.notify_all();
        outcome
    }

    fn commit_and_flush(&self) -> Result<FlushOutcome> {
        let committed = if self.transient.is_some() { self.commit(0).map(drop) } else { Ok(()) };
        committed.and_then(|()| self.flush_untold(0))
    }

    /// Waits at most `max_wait` for an offset to be handed in that is not on the disk yet, and gives whether one
    /// was, or somebody called. Each is told once: a pass may leave what fills too few pages to a later one.
    pub fn wait_flush_requested(&self, max_wait: Duration) -> bool {
        let mut requests = self.flusher.requests.lock();
        let is_asked =
            |requests: &Requests| requests.woken || requests.is_new && requests.up_to > self.flushed_offset();
        if !is_asked(&requests) {
            // One that ends untold is as one whose time is up: what was handed in later is told of next time.
            (requests, _) = self.flusher.requested.wait_for(requests, max_wait);
        }
        let was_asked = is_asked(&requests);
        (requests.woken, requests.is_new) = (false, false);
        was_asked
    }

    /// One pass of the group commit's service, which waits for at most `max_wait` first. Threads that wait flush
    /// by themselves, and it sees to what nobody waits for. With `serves_tasks` nobody else flushes: it waits
    /// for an offset to be handed in, and flushes what is there. Tasks put while it does: the next flush serves those.
    ///
    /// # Errors
    /// Where the disk did not take it. Everybody who waits is told.
    pub fn group_commit_pass(&self, max_wait: Duration, serves_tasks: bool) -> Result<GroupCommit> {
        let mut requests = self.flusher.requests.lock();
        if std::mem::replace(&mut requests.is_served, serves_tasks) && !serves_tasks {
            self.flusher.flushed.notify_all();
        }
        let has_first = serves_tasks && requests.up_to > self.flushed_offset();
        if !has_first && !requests.woken {
            // Once, and not until there is a first one: who hands in what somebody else has flushed since is told by the pass.
            // One that ends untold is as one whose time is up: the pass flushes what is there.
            (requests, _) = self.flusher.requested.wait_for(requests, max_wait);
        }
        let was_woken = std::mem::take(&mut requests.woken);
        let flush = if serves_tasks {
            self.flush_group(requests)?
        } else {
            drop(requests);
            let outcome = self.commit_and_flush();
            self.flusher.tell_waiting(&outcome);
            outcome?
        };
        Ok(GroupCommit { flush, was_woken })
    }

    /// The group commit's service makes no more passes: threads that wait flush by themselves, whether tasks wait or not.
    pub fn end_group_commit(&self) {
        self.flusher.requests.lock().is_served = false;
        self.flusher.flushed.notify_all();
    }

    /// Wakes a group commit pass that waits.
    pub fn wake_flusher(&self) {
        self.flusher.requests.lock().woken = true;
        self.flusher.requested.notify_all();
    }
}
