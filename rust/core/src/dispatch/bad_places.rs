//! Places of the log that hold no record: where dispatch goes on behind them, and where it waits for what follows.

use super::{DispatchTargets, Dispatcher, Gap};
use crate::commit_log::scan;
use crate::error::Result;
use crate::format::message::RecordFault;

/// Up to where a log that ends anywhere was searched for what follows a bad place.
#[derive(Debug, Default)]
pub(super) struct Searched {
    from: u64,
    to: u64,
}

impl Dispatcher {
    /// 4.9.3 passes over everything to the end of the file or of the log; here dispatch goes on with
    /// the next record that checks out. `None` where a slave has none yet: its log ends inside of one, and who went on behind
    /// that would not find the next one's begin. Who reads does not know whose log it is.
    pub(super) fn pass_over(
        &self,
        targets: DispatchTargets<'_>,
        from: u64,
        fault: Option<RecordFault>,
    ) -> Result<Option<u64>> {
        let end = targets.log.max_offset();
        let mut searched = self.searched.lock();
        let searched_to = if searched.from == from { searched.to } else { 0 };
        let next = scan::next_valid_in_more(targets.log.files(), from, fault, searched_to, end)?;
        if next.is_none() && self.ends_anywhere {
            *searched = Searched { from, to: end };
            self.set_reput_from_offset(from);
            return Ok(None);
        }
        let to = next.unwrap_or(end);
        self.gaps.lock().push(Gap { from, to, fault });
        self.set_reput_from_offset(to);
        Ok(Some(to))
    }
}

/// Whether a place that holds no record is the begin of one whose rest is under way: what a master
/// sends ends anywhere. A store that is no slave may be a reader that follows one; damage that looks
/// like it is told by the records behind.
pub(super) fn is_under_way(
    targets: DispatchTargets<'_>,
    offset: u64,
    fault: RecordFault,
    log_end: u64,
) -> Result<bool> {
    let RecordFault::TooShort { needed, .. } = fault else { return Ok(false) };
    let end = offset.saturating_add(needed);
    // A larger one is taken for damage, or a slave would wait for the end of the file.
    let may_be_whole_later = targets.config.is_slave && needed <= scan::MAX_BAD_SIZE;
    let fits_file = targets.log.files().find(offset).is_some_and(|file| end <= file.end_offset());
    if end <= log_end || !fits_file {
        return Ok(false);
    }
    Ok(may_be_whole_later || scan::next_valid(targets.log.files(), offset, Some(fault), log_end)?.is_none())
}
