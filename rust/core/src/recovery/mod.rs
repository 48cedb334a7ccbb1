//! What a store holds when it is opened: where its log ends, how far its queues and index go, what
//! has to be dispatched again.
//!
//! Recovery first finds out, changing nothing ([`log_end`], [`queues`], [`index`], [`strangers`]), and refuses where
//! going on would lose something. Only then is what is left behind the end removed, by a store that
//! is opened for writing; one that is only read keeps all of it in memory.

pub mod ahead;
mod another_log;
pub(crate) mod cut_short;
pub(crate) mod elsewhere;
pub(crate) mod folders_apart;
pub mod index;
pub mod layout;
pub mod log_end;
pub mod lost_end;
pub mod queues;
pub mod short_queues;
mod since_closed;
pub mod strangers;

use std::ops::ControlFlow;
use std::sync::Arc;

use crate::checkpoint::{LastPositions, StoreCheckpoint};
use crate::closed::Closed;
use crate::commit_log::CommitLog;
use crate::commit_log::scan::{self, ScanEnd};
use crate::config::StoreConfig;
use crate::consume_queue::table::QueueTable;
use crate::dispatch::{DerivedAhead, Gap};
use crate::error::Result;
use crate::format::message::Check;
use crate::format::positions::DurablePositions;
use crate::index::IndexService;
use crate::index::file::IndexFile;

use log_end::{Behind, LogEnd};
use queues::QueueEnds;

/// What recovery works on.
#[derive(Debug, Clone, Copy)]
pub struct Recovered<'a> {
    /// The options.
    pub config: &'a StoreConfig,
    /// The log, its end not known yet.
    pub log: &'a CommitLog,
    /// The queues, their ends not known yet.
    pub queues: &'a QueueTable,
    /// The index, its files open.
    pub index: Option<&'a IndexService>,
    /// The checkpoint.
    pub checkpoint: &'a StoreCheckpoint,
    /// What the last mqstore writer knew to be on the disk.
    pub positions: LastPositions,
    /// Up to where the last mqstore writer had published that the log was on the disk; 0 where nothing tells. A killed one's says more
    /// than its positions, which are written down less often.
    pub flushed: u64,
    /// What an mqstore writer left when it closed the store.
    pub closed: Option<&'a Arc<Closed>>,
    /// How the store was left.
    pub state: StoreState,
    /// Whether the store is opened for writing.
    pub writable: bool,
    /// Whether reading costs a round trip to another machine.
    pub is_remote: bool,
}

/// How a store was left, or is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreState {
    /// Its last writer closed it.
    Closed,
    /// Its last writer did not: the process or the machine went down.
    Crashed,
    /// A writer has it open now, and this reader follows.
    Live {
        /// How far an mqstore writer says that the log goes; any other writer's log is walked to its end.
        wrote: Option<u64>,
        /// Every record below had its units in the queues' files before these were listed. What comes into
        /// files that were made since then is missing otherwise.
        dispatched: u64,
    },
}

/// What recovery found.
#[derive(Debug)]
pub struct Recovery {
    /// Where the log ends.
    pub log_end: u64,
    /// Up to where the log is on the disk for certain. What a process that was killed wrote behind that can be
    /// in memory still.
    pub flushed_to: u64,
    /// Store time of the log's last message; 0 where there is none.
    pub last_store_timestamp: i64,
    /// Parts of the log that hold no record and are followed by some.
    pub gaps: Vec<Gap>,
    /// What was on the disk behind the log's end, and is there no more, in a store that is only read.
    pub lost: Option<Gap>,
    /// Where dispatch has to begin for the queues.
    pub dispatch_from: u64,
    /// Where dispatch has to begin for the index, where that is earlier.
    pub index_from: Option<u64>,
    /// Index files that are not to be trusted, newest first.
    pub dropped: Vec<Arc<IndexFile>>,
    /// What stands behind the log's end.
    pub behind: Behind,
    /// Whether what is behind the ends may hold old bytes that have to go.
    pub must_trim: bool,
    /// What dispatch makes of the records, as far as that is known by now.
    pub derived: DerivedAhead,
    /// What the store had when it was closed, where nobody has opened it since.
    pub closed: Option<Arc<Closed>>,
    /// Whether the log is another one than that of which queues and index were made.
    pub is_another_log: bool,
}

impl Recovery {
    /// Up to where queues and index have all of the log.
    #[must_use]
    pub fn derived_to(&self) -> u64 {
        self.index_from.unwrap_or(self.dispatch_from).min(self.dispatch_from)
    }
}

/// Finds out what a store holds. Ends are set in memory; nothing on the disk is changed.
///
/// # Errors
/// [`crate::error::Error::Damaged`] where valid records follow a bad one and the store is opened for
/// writing, unless `on_damage` says to cut; [`crate::error::Error::EndLost`] where it has lost something at its end;
/// anything that can't be read.
pub fn recover(of: Recovered<'_>) -> Result<Recovery> {
    let mut of = of;
    let mut end = log_end::find(of)?;
    if of.state == StoreState::Closed && was_killed(of, &end) {
        of.state = StoreState::Crashed;
        end = find_end_without_mark(of, end.log_end)?;
    }
    set_end(of, &end)?;
    let without_derived = another_log::without_derived(of)?;
    let is_another_log = without_derived.is_some();
    let of = without_derived.unwrap_or(of);
    let QueueEnds { mut dispatch_from, is_cut } = queues::recover(of, &end)?;
    let lost = lost_end::check(of, end.log_end, is_cut)?;
    let (mut dropped, mut index_from) = index::recover(of, &end)?;
    let from = index_from.unwrap_or(dispatch_from).min(dispatch_from);
    // The units that would tell are another log's.
    let strangers = if is_another_log { Vec::new() } else { find_strangers(of, from, &mut end)? };
    // Neither strangers nor which removals count was known while the log was walked.
    if !strangers.is_empty() || of.config.removed_queues.is_cut() {
        end.told.derived = DerivedAhead::default();
    }
    if let Some(first) = strangers.first().filter(|_| of.writable) {
        log_end::refuse_unless_told_to_cut(of, first.from, first.fault, first.to)?;
        end.log_end = first.from;
        end.behind = Behind::Remains;
        set_end(of, &end)?;
        dispatch_from = queues::recover(of, &end)?.dispatch_from;
        let (dropped_too, earlier) = index::recover(of, &end)?;
        dropped.splice(0..0, dropped_too);
        index_from = earlier.into_iter().chain(index_from).min();
    } else {
        end.gaps.extend(&strangers);
    }
    dispatch_from = dispatch_from_of(of, dispatch_from);
    let has_later_files = of.log.files().last().is_some_and(|last| last.file_from_offset() > end.log_end);
    let has_half_made = of.log.files().has_half_made() || index_from.is_some();
    let flushed_to = match of.state {
        StoreState::Crashed => of.positions.known().map_or(end.walked_from, |known| known.log),
        StoreState::Closed | StoreState::Live { .. } => end.log_end,
    };
    Ok(Recovery {
        log_end: end.log_end,
        flushed_to: flushed_to.min(end.log_end),
        last_store_timestamp: end.last_store_timestamp,
        gaps: end.gaps,
        lost,
        dispatch_from,
        index_from,
        dropped,
        behind: end.behind,
        must_trim: end.behind == Behind::Remains || is_cut || has_later_files || has_half_made,
        derived: end.told.derived,
        closed: of.closed.filter(|_| of.state == StoreState::Closed).cloned(),
        is_another_log,
    })
}

fn set_end(of: Recovered<'_>, end: &LogEnd) -> Result<()> {
    of.log.set_end(end.log_end, believed_time(of, end)?);
    of.config.removed_queues.forget_behind(end.log_end);
    Ok(())
}

/// The time that no later message's is before: the last record's. No checksum covers it, and where it alone is ahead of
/// the clock, the one's before it counts: all that is put from now on would have it.
fn believed_time(of: Recovered<'_>, end: &LogEnd) -> Result<i64> {
    let (now_ms, last_time) = (of.log.now_ms(), end.last_store_timestamp);
    if last_time <= now_ms || !of.writable || of.config.compat {
        return Ok(last_time);
    }
    let Some(file) = of.log.files().find(end.log_end.saturating_sub(1)) else { return Ok(last_time) };
    let (mut last, mut before) = (None, None);
    scan::scan(of.log.files(), file.file_from_offset(), end.log_end, Check::Structure, |_, record, _| {
        before = last.replace(record.store_timestamp);
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(before.filter(|&time| time <= now_ms && last == Some(last_time)).unwrap_or(last_time))
}

/// Where dispatch begins: with the log's first record where messages of a removed queue are its own again.
fn dispatch_from_of(of: Recovered<'_>, by_queues: u64) -> u64 {
    if of.config.removed_queues.is_cut() { of.log.min_offset().unwrap_or(0) } else { by_queues }
}

/// The records that would be dispatched to where they do not belong, and on the way what dispatch makes of the others.
fn find_strangers(of: Recovered<'_>, from: u64, end: &mut LogEnd) -> Result<Vec<Gap>> {
    if !may_have_strangers(of) {
        return Ok(Vec::new());
    }
    let from = from.max(of.log.min_offset().unwrap_or(0));
    if let Some(search) = end.told.search.take().filter(|_| from == end.walked_from) {
        return search.finish(of.log, of.queues);
    }
    end.told.derived = DerivedAhead::default();
    let found = if end.gaps.is_empty() { ahead::find_strangers(of, from, end.log_end)? } else { None };
    let Some((found, derived)) = found else {
        return strangers::find(of.log, of.queues, from, end.log_end);
    };
    end.told.derived = derived;
    Ok(found)
}

/// Whether they are looked for: 4.9.3's queues close gaps, so that their units do not stand where records say. Who
/// mended the log has looked, with the queues that are gone by now.
fn may_have_strangers(of: Recovered<'_>) -> bool {
    !of.config.compat && of.config.mended_to.is_none() && !matches!(of.state, StoreState::Live { .. })
}

/// Whether a store without the mark of an unclean stop has lost that mark: neither did an mqstore writer
/// write its positions when it closed the store, nor RocketMQ its checkpoint.
fn was_killed(of: Recovered<'_>, end: &LogEnd) -> bool {
    of.positions.known().is_none_or(|positions| positions.log < end.log_end)
        && of.positions != LastPositions::Never
        && of.checkpoint.times().logics_msg_timestamp < end.last_store_timestamp
}

/// The log's end in a store that was not closed and lacks the mark of that, which no power cut takes: it was on the disk before
/// anything was put. Where records stand behind what seems to be a cut, the files are not of one time, as where an older copy was
/// put over a store, and nothing says that these records were never on the disk.
fn find_end_without_mark(of: Recovered<'_>, last_end: u64) -> Result<LogEnd> {
    let end = log_end::find(of)?;
    if end.log_end >= last_end {
        return Ok(end);
    }
    log_end::find(Recovered { positions: LastPositions::Never, ..of })
}

/// What stays known to be on the disk when what stands behind the ends is removed.
#[must_use]
pub fn known_after_trim(of: Recovered<'_>, recovery: &Recovery) -> DurablePositions {
    let known = of.positions.known().unwrap_or_default();
    // The files that were kept have the last of their messages too.
    let kept_to = |from| of.index.and_then(IndexService::end_phy_offset).map_or(from, |last| last + 1);
    let index_to = recovery.index_from.map_or(recovery.dispatch_from, kept_to);
    DurablePositions {
        log: known.log.min(recovery.log_end),
        queues: known.queues.min(recovery.dispatch_from),
        index: known.index.min(index_to),
    }
}

/// Bytes behind a log's end that are looked at where each byte has to come from another machine: more
/// than a record takes.
const REMOTE_ZEROS: u64 = 8 << 20;

/// As [`recover`], of a store that was closed, reading little of the log: it ends where its queues do.
/// `None` where that can't be believed: something else than zeros follows there, or the queues are another log's.
///
/// # Errors
/// Where queue, log or index can't be read.
pub fn recover_by_queues(of: Recovered<'_>) -> Result<Option<Recovery>> {
    let Some(QueueEnds { dispatch_from, is_cut }) = find_end_by_queues(of)? else { return Ok(None) };
    if another_log::without_derived(of)?.is_some() {
        return Ok(None);
    }
    let log_end = of.log.max_offset();
    of.config.removed_queues.forget_behind(log_end);
    let dispatch_from = dispatch_from_of(of, dispatch_from);
    let end = LogEnd::at(log_end, dispatch_from);
    let (dropped, index_from) = index::recover(of, &end)?;
    Ok(Some(Recovery {
        log_end,
        flushed_to: log_end,
        last_store_timestamp: 0,
        gaps: Vec::new(),
        lost: lost_end::check(of, log_end, is_cut)?,
        dispatch_from,
        index_from,
        dropped,
        behind: end.behind,
        must_trim: false,
        derived: DerivedAhead::default(),
        closed: None,
        is_another_log: false,
    }))
}

/// Finds the end of a store that was closed from where its queues end, reading little of the log. Gives
/// up to where the queues are complete, and whether more stands in them; `None` where the end can't be believed.
///
/// # Errors
/// Where queue or log can't be read.
pub fn find_end_by_queues(of: Recovered<'_>) -> Result<Option<QueueEnds>> {
    let files = of.log.files();
    let Some(last) = files.last().filter(|_| of.state == StoreState::Closed) else { return Ok(None) };
    let ends = find_reached_by_queues(of)?;
    let reached = ends.dispatch_from;
    if reached < last.file_from_offset() || reached == 0 {
        return Ok(None);
    }
    let mut end = reached;
    let walked = scan::scan(files, reached, u64::MAX, Check::BodyCrc, |offset, record, _| {
        end = record.next_offset(offset);
        Ok(ControlFlow::Continue(()))
    })?;
    let zeros = if of.is_remote { REMOTE_ZEROS } else { u64::MAX };
    if let ScanEnd::Fault { offset, .. } = walked
        && !(scan::is_zero(&last, offset, last.end_offset().min(offset.saturating_add(zeros)))?)
    {
        return Ok(None);
    }
    of.log.set_end(end, 0);
    Ok(Some(ends))
}

/// Finds up to where queues' files hold the units of every record, wherever the log ends.
///
/// # Errors
/// Where queue or log can't be read.
pub fn find_reached_by_queues(of: Recovered<'_>) -> Result<QueueEnds> {
    let log_end = of.log.files().last().map_or(0, |last| last.end_offset());
    of.log.set_end(log_end, 0);
    queues::recover_closed(of, log_end)
}

/// Removes what stands behind the ends that were found, before anything new is written.
///
/// # Errors
/// Where a file can't be written or removed.
pub fn trim(of: Recovered<'_>, recovery: &Recovery) -> Result<()> {
    log_end::trim(of.log, recovery.log_end, recovery.behind)?;
    of.queues.trim()?;
    if let Some(index) = of.index {
        index.trim(&recovery.dropped)?;
    }
    Ok(())
}
