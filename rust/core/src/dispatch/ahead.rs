//! What recovery's walk over the log derives on its way, so that dispatch need not go over the same bytes again:
//! of a log that is larger than memory each walk comes from the disk.

use std::ops::Range;
use std::panic::resume_unwind;

use super::staged::Staged;
use super::{DispatchTargets, Dispatcher, derive};
use crate::config::StoreConfig;
use crate::error::Result;
use crate::format::message::Record;
use crate::index::IndexService;
use crate::sync;

/// What dispatch makes of parts of the log that follow each other.
#[derive(Debug, Default)]
pub struct DerivedAhead {
    parts: Vec<(Range<u64>, Staged)>,
    size: usize,
}

/// Whether what dispatch makes of a record is known before the store is open: which groups' filters it passes is
/// not.
pub(crate) const fn is_known_ahead(config: &StoreConfig) -> bool {
    !config.enable_calc_filter_bit_map
}

/// Adds what dispatch makes of a record.
///
/// # Errors
/// None yet.
pub(crate) fn stage(
    config: &StoreConfig,
    offset: u64,
    record: &Record<'_>,
    staged: &mut Staged,
) -> Result<()> {
    staged.begin(offset, record);
    derive(config, offset, record, staged)
}

impl DerivedAhead {
    /// From where to where it is known what dispatch makes of the log; `None` where of no part.
    #[must_use]
    pub fn range(&self) -> Option<Range<u64>> {
        let ((first, _), (last, _)) = self.parts.first().zip(self.parts.last())?;
        Some(first.start..last.end)
    }

    /// Keeps a part, which begins where the one before ends, as long as all of them take no more memory than a
    /// limit. Gives whether it did.
    pub(crate) fn keep(&mut self, range: Range<u64>, staged: Staged, limit: usize) -> bool {
        let size = self.size + staged.size();
        if size > limit {
            return false;
        }
        self.size = size;
        self.parts.push((range, staged.packed()));
        true
    }
}

impl Dispatcher {
    /// As [`Dispatcher::pass`], of which a part is derived already.
    ///
    /// # Errors
    /// As there.
    pub fn pass_with(&self, targets: DispatchTargets<'_>, ahead: DerivedAhead) -> Result<u64> {
        let _one_at_a_time = self.passing.lock();
        self.pass_once(targets, ahead)
    }

    /// Dispatches what was derived ahead from an offset on, as far as that is known before an end. Gives where it
    /// came to.
    pub(super) fn put_ahead(
        &self,
        targets: DispatchTargets<'_>,
        ahead: DerivedAhead,
        from: u64,
        end: u64,
    ) -> Result<u64> {
        let (mut reached, mut parts) = (from, Vec::new());
        for (range, staged) in ahead.parts {
            if range.start == reached && range.end <= end {
                reached = range.end;
                parts.push(staged);
            }
        }
        if parts.is_empty() {
            return Ok(reached);
        }
        let is_much = ahead.size >= targets.config.walked_parts.keys_aside_size;
        let put = match targets.index.filter(|_| is_much) {
            Some(index) => self.put_side_by_side(targets, index, &parts),
            None => self.put_parts(targets, &parts),
        };
        // A unit may be there whose keys are not: what was not put in whole is dispatched again.
        self.set_reput_from_offset(if put.is_ok() { reached } else { from });
        put.map(|()| reached)
    }

    fn put_parts(&self, targets: DispatchTargets<'_>, parts: &[Staged]) -> Result<()> {
        parts.iter().try_for_each(|staged| staged.put_into(self, targets))
    }

    /// Keys wait for the memory of slots in random places, units are gathered and written: each takes about as long as the
    /// other. Where no thread is to be had, one comes after the other.
    fn put_side_by_side(
        &self,
        targets: DispatchTargets<'_>,
        index: &IndexService,
        parts: &[Staged],
    ) -> Result<()> {
        let put_keys = || parts.iter().try_for_each(|staged| staged.put_keys_into(index));
        sync::scope(|scope| {
            let keys = sync::spawn_scoped(scope, put_keys);
            let units = self.put_parts(DispatchTargets { index: None, ..targets }, parts);
            let keys =
                keys.map_or_else(put_keys, |keys| keys.join().unwrap_or_else(|panic| resume_unwind(panic)));
            units.and(keys)
        })
    }
}
