//! Walking a log on several threads at once.
//!
//! Each part begins at the first bytes of its range that look like a record. A body can hold such bytes, so
//! a part counts only where the walk over those before it came to just that place; elsewhere its range is
//! walked again from where they did. Nothing behind a place that holds no record counts: what stands
//! there is for the caller's own walk to find out, which goes on from where this one came to.

use std::collections::BTreeMap;
use std::ops::{ControlFlow, Range};
use std::thread;
use std::time::Duration;

use super::scan::{self, ScanEnd};
use crate::config::WalkedParts;
use crate::error::Result;
use crate::format::message::{Check, Record};
use crate::interrupt;
use crate::mmap::file_queue::FileQueue;
use crate::num;
use crate::sync::{self, Condvar, Mutex};

/// Parts for each thread that are walked ahead of the one whose turn it is.
const AHEAD: usize = 2;
/// How often the waiting thread asks whether it is to break off.
const INTERRUPT_INTERVAL: Duration = Duration::from_millis(50);

/// A walk over a log.
#[derive(Debug, Clone, Copy)]
pub struct Walk<'a> {
    /// The log's files.
    pub files: &'a FileQueue,
    /// Where it begins: at a boundary.
    pub from: u64,
    /// Records that begin here or behind do not count.
    pub to: u64,
    /// Where the bytes end that may be looked at.
    pub limit: u64,
    /// How far records are checked.
    pub check: Check,
    /// How it is divided.
    pub parts: WalkedParts,
}

/// What a part gave, and the part of the log that it is.
struct Walked<T> {
    range: Range<u64>,
    collected: T,
}

/// Walks a log on several threads. `visit` puts what is to be kept of each record
/// into what `T::default` gave for its part, and `take` gets that in the log's order, on this thread,
/// with the offsets between which the part's records stand. Gives where the walk came to: the first
/// record at or behind the end, a place that holds none, or one at which `visit` stopped. It came nowhere
/// where more threads are of no use.
///
/// # Errors
/// Where a file can't be read, or those of `visit` and `take`; all before it was taken then.
pub fn walk<T: Default + Send>(
    walk: Walk<'_>,
    visit: impl Fn(&mut T, u64, &Record<'_>) -> Result<ControlFlow<()>> + Sync,
    mut take: impl FnMut(Range<u64>, T) -> Result<()>,
) -> Result<u64> {
    let WalkedParts { size: part_size, thread_count, .. } = walk.parts;
    let part_size = part_size.max(1);
    let size = walk.to.saturating_sub(walk.from);
    if thread_count < 2 || size < part_size.saturating_mul(2) || !walk.files.is_mapped() {
        return Ok(walk.from);
    }
    let ends = |number: u64| (number + 1).checked_mul(part_size).and_then(|end| end.checked_add(walk.from));
    // Made as they are asked for: the name of a file that does not belong here can make the log as long as offsets go.
    let ranges = |number: u64| {
        let end = ends(number).map_or(walk.to, |end| end.min(walk.to));
        walk.from + number * part_size..end
    };
    let mut at = walk.from;
    in_order(
        thread_count,
        &Ranges { count: size.div_ceil(part_size), at: &ranges },
        |range| {
            walk.fetch_ahead_of(range);
            walk.part(range, &visit)
        },
        |range, walked| {
            if at >= range.end {
                return Ok(ControlFlow::Continue(()));
            }
            let walked = match walked.filter(|walked| walked.range.start == at) {
                Some(walked) => walked,
                None => walk.walk_from(at, range.end, &visit)?,
            };
            at = walked.range.end;
            take(walked.range, walked.collected)?;
            Ok(if at < range.end { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        },
    )?;
    Ok(at)
}

impl Walk<'_> {
    /// Asks for the part to be read that comes after those which are walked meanwhile: the disk is at work then
    /// while they are, and with more than one request.
    fn fetch_ahead_of(&self, range: &Range<u64>) {
        let between = num::offset(self.parts.thread_count - 1).saturating_mul(self.parts.size);
        let mut at = range.end.saturating_add(between);
        let end = at.saturating_add(self.parts.size).min(self.to);
        while at < end {
            let Some(file) = self.files.find(at) else { return };
            // Where that fails, reading it will tell.
            let _best_effort = file.fetch_range(at - file.file_from_offset(), end - at);
            at = file.end_offset();
        }
    }

    /// Walks a part from the first bytes that look like a record; `None` where there are none.
    fn part<T: Default>(
        &self,
        range: &Range<u64>,
        visit: &impl Fn(&mut T, u64, &Record<'_>) -> Result<ControlFlow<()>>,
    ) -> Result<Option<Walked<T>>> {
        let begin = if range.start == self.from {
            Some(self.from)
        } else {
            // A record that is larger than a part is found by the walk that comes to it.
            let to = range.end.saturating_add(self.parts.size).min(self.limit);
            scan::next_record(self.files, range.start, to)?.filter(|&begin| begin < range.end)
        };
        begin.map(|begin| self.walk_from(begin, range.end, visit)).transpose()
    }

    fn walk_from<T: Default>(
        &self,
        from: u64,
        to: u64,
        visit: &impl Fn(&mut T, u64, &Record<'_>) -> Result<ControlFlow<()>>,
    ) -> Result<Walked<T>> {
        let mut collected = T::default();
        let end = scan::scan(self.files, from, self.limit, self.check, |offset, record, _| {
            if offset >= to {
                return Ok(ControlFlow::Break(()));
            }
            visit(&mut collected, offset, record)
        })?;
        let (ScanEnd::Reached(reached)
        | ScanEnd::Stopped(reached)
        | ScanEnd::Missing(reached)
        | ScanEnd::Fault { offset: reached, .. }) = end;
        Ok(Walked { range: from..reached, collected })
    }
}

/// The ranges that a log is cut into.
struct Ranges<'a> {
    count: u64,
    at: &'a (dyn Fn(u64) -> Range<u64> + Sync),
}

/// What threads have done, and what is left to do.
struct Board<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
}

struct State<T> {
    /// The next range to begin with.
    next: u64,
    /// How many outcomes were taken.
    taken: u64,
    done: BTreeMap<u64, Result<T>>,
    is_ended: bool,
}

/// Lets nobody wait for a thread that is gone, nor a thread for anybody who is.
struct EndOnDrop<'a, T> {
    board: &'a Board<T>,
    is_worker: bool,
}

impl<T> Drop for EndOnDrop<'_, T> {
    fn drop(&mut self) {
        if !self.is_worker || thread::panicking() {
            self.board.state.lock().is_ended = true;
            self.board.changed.notify_all();
        }
    }
}

/// Does work on each range on threads of its own, a few ranges ahead, and gives the outcomes in order to
/// `take` on this one.
fn in_order<T: Send>(
    thread_count: usize,
    ranges: &Ranges<'_>,
    work: impl Fn(&Range<u64>) -> Result<T> + Sync,
    mut take: impl FnMut(&Range<u64>, T) -> Result<ControlFlow<()>>,
) -> Result<()> {
    let state = State { next: 0, taken: 0, done: BTreeMap::new(), is_ended: false };
    let board = Board { state: Mutex::new(state), changed: Condvar::default() };
    sync::scope(|scope| {
        let _nobody_waits = EndOnDrop { board: &board, is_worker: false };
        let worker = || board.work(ranges, num::offset(thread_count * AHEAD), &work);
        let is_started = |_: &usize| sync::spawn_scoped(scope, worker).is_some();
        let started = (0..thread_count).take_while(is_started).count();
        for number in 0..ranges.count {
            interrupt::check()?;
            let range = &(ranges.at)(number);
            // A machine that gives no threads has to do with this one.
            let outcome = if started == 0 { Some(work(range)) } else { board.outcome(number)? };
            let Some(outcome) = outcome else { return Ok(()) };
            if take(range, outcome?)?.is_break() {
                return Ok(());
            }
        }
        Ok(())
    })
}

impl<T> Board<T> {
    fn work(&self, ranges: &Ranges<'_>, ahead: u64, work: &impl Fn(&Range<u64>) -> Result<T>) {
        let _nobody_waits = EndOnDrop { board: self, is_worker: true };
        while let Some((number, range)) = self.next(ranges, ahead) {
            let outcome = work(&range);
            self.state.lock().done.insert(number, outcome);
            self.changed.notify_all();
        }
    }

    fn next(&self, ranges: &Ranges<'_>, ahead: u64) -> Option<(u64, Range<u64>)> {
        let mut state = self.changed.wait_while(self.state.lock(), |state| {
            !state.is_ended && state.next < ranges.count && state.next >= state.taken + ahead
        });
        if state.is_ended || state.next >= ranges.count {
            return None;
        }
        state.next += 1;
        Some((state.next - 1, (ranges.at)(state.next - 1)))
    }

    /// The outcome of a range, waited for; `None` where a thread has panicked, which the scope passes on.
    fn outcome(&self, number: u64) -> Result<Option<Result<T>>> {
        let mut state = self.state.lock();
        loop {
            if let Some(outcome) = state.done.remove(&number) {
                state.taken = number + 1;
                self.changed.notify_all();
                return Ok(Some(outcome));
            }
            if state.is_ended {
                return Ok(None);
            }
            let (again, is_time_up) = self.changed.wait_for(state, INTERRUPT_INTERVAL);
            state = again;
            if is_time_up {
                drop(state);
                interrupt::check()?;
                state = self.state.lock();
            }
        }
    }
}
