//! What a walk over the log in parts tells beside where the log ends: which records are strangers, what dispatch
//! makes of each, and which each queue has. All would otherwise take a walk of their own, which comes from
//! the disk again where the log is larger than memory.

use std::ops::{ControlFlow, Range};

use super::short_queues::WalkedQueues;
use super::strangers::{Followers, Search};
use super::{Recovered, StoreState, may_have_strangers};
use crate::commit_log::in_parts;
use crate::dispatch::{DerivedAhead, Gap, Staged, is_known_ahead, stage};
use crate::error::Result;
use crate::format::message::{Check, Record};
use crate::sync::{AtomicBool, Ordering};

/// What a walk told so far.
#[derive(Debug, Default)]
pub struct Told {
    /// What it tells of strangers, where they are looked for.
    pub(super) search: Option<Search>,
    /// What dispatch makes of its records, as far as there is room for it.
    pub(super) derived: DerivedAhead,
    /// Which records of each queue there are.
    pub(super) queues: Option<WalkedQueues>,
}

/// What of it is wanted.
#[derive(Debug)]
pub(super) struct Wanted<'a> {
    of: Recovered<'a>,
    has_search: bool,
    has_queues: bool,
    has_derived: AtomicBool,
}

/// What a part of the walk tells.
#[derive(Debug, Default)]
pub(super) struct Part {
    is_begun: bool,
    followers: Followers,
    derived: Option<Staged>,
    queues: WalkedQueues,
}

impl Told {
    /// Before a walk over what is dispatched again, if that is so.
    pub(super) fn before_walk(of: Recovered<'_>) -> Self {
        let search = (is_dispatched_again(of) && may_have_strangers(of)).then(Search::default);
        let is_live = matches!(of.state, StoreState::Live { .. });
        let queues = (!is_live).then(WalkedQueues::default);
        Self { search, derived: DerivedAhead::default(), queues }
    }
}

/// Whether what a walk for the log's end comes by is dispatched again.
fn is_dispatched_again(of: Recovered<'_>) -> bool {
    of.state == StoreState::Crashed || of.queues.queue_count() == 0
}

impl<'a> Wanted<'a> {
    /// What is wanted of a walk that is to tell this.
    pub(super) fn of(of: Recovered<'a>, told: &Told) -> Self {
        let has_derived = is_dispatched_again(of) && is_known_ahead(of.config);
        let (has_search, has_queues) = (told.search.is_some(), told.queues.is_some());
        Self { of, has_search, has_queues, has_derived: AtomicBool::new(has_derived) }
    }

    /// Adds the next record of a part.
    pub(super) fn record(&self, part: &mut Part, offset: u64, record: &Record<'_>) -> Result<()> {
        if !part.is_begun {
            part.is_begun = true;
            part.derived = self.has_derived.load(Ordering::Relaxed).then(Staged::default);
        }
        if self.has_search {
            part.followers.record(&self.of.config.removed_queues, offset, record);
        }
        if self.has_queues {
            part.queues.record(&self.of.config.removed_queues, offset, record);
        }
        part.derived.as_mut().map_or(Ok(()), |staged| stage(self.of.config, offset, record, staged))
    }

    /// Takes what the next part told.
    pub(super) fn take(&self, told: &mut Told, range: Range<u64>, part: Part) -> Result<()> {
        let limit = self.of.config.walked_parts.derived_size;
        let is_kept = part.derived.is_some_and(|staged| told.derived.keep(range.clone(), staged, limit));
        // Those behind one that is not kept are of no use.
        self.has_derived.fetch_and(is_kept, Ordering::Relaxed);
        if let Some(queues) = &mut told.queues {
            queues.part(part.queues);
        }
        let Some(search) = &mut told.search else { return Ok(()) };
        search.part(self.of.log, self.of.queues, range, part.followers)
    }
}

/// Finds the strangers of a part of the log, and what dispatch makes of it; `None` where a place holds no record, or
/// more threads are of no use.
pub(super) fn find_strangers(
    of: Recovered<'_>,
    from: u64,
    to: u64,
) -> Result<Option<(Vec<Gap>, DerivedAhead)>> {
    let mut told = Told { search: Some(Search::default()), ..Told::default() };
    let wanted = Wanted::of(of, &told);
    let (files, parts) = (of.log.files(), of.config.walked_parts);
    let walk = in_parts::Walk { files, from, to, limit: to, check: Check::Structure, parts };
    let visit = |part: &mut Part, offset: u64, record: &Record<'_>| {
        wanted.record(part, offset, record)?;
        Ok(ControlFlow::Continue(()))
    };
    let reached = in_parts::walk(walk, visit, |range, part| wanted.take(&mut told, range, part))?;
    match told.search.filter(|_| reached >= to) {
        Some(search) => Ok(Some((search.finish(of.log, of.queues)?, told.derived))),
        None => Ok(None),
    }
}
