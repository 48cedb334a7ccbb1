//! Timed messages of a store that was repaired: what is known to be delivered stays so.

use std::ops::Range;

use super::progress::Progress;
use super::timed::{WAITING, is_of, place_of_last};
use crate::consume_queue::ConsumeQueue;
use crate::error::Result;
use crate::format::host::Host;
use crate::store::{PutRefusal, Store};

/// What is known of timed messages once their queue was made anew.
#[derive(Debug, Default)]
pub struct MendedTimed {
    /// The record of progress that counts, by its offset in its queue.
    pub counted: Option<u64>,
    /// Messages that were due when the log ended, and of which it is not known that they are delivered.
    pub due_count: u64,
    /// Whether one that fits the queue was put in its place.
    pub is_put: bool,
    /// Why the store did not take it.
    pub refusal: Option<PutRefusal>,
}

impl Store {
    /// Puts a record of progress that fits the queue of those that wait, where it was made anew and the last message that
    /// the newest one speaks of was in a hole of the log.
    ///
    /// # Errors
    /// Where queue or log can't be read.
    pub fn mend_timed(&self, holes: &[Range<u64>], host: Host) -> Result<MendedTimed> {
        self.check_writable()?;
        self.while_open(|| self.find_and_mend_timed(holes, host))
    }

    fn find_and_mend_timed(&self, holes: &[Range<u64>], host: Host) -> Result<MendedTimed> {
        self.catch_up()?;
        let Some(queue) = self.queues().get(WAITING) else { return Ok(MendedTimed::default()) };
        let is_lost = |place| holes.iter().any(|hole| hole.contains(&place));
        let newest = self.newest_progress(|progress| {
            Ok(is_of(progress, &queue)?
                || (is_lost(progress.last_physical_offset()) && !has_last(progress, &queue)?))
        })?;
        let (counted, mut progress) = newest.map_or_else(Default::default, |(at, it)| (Some(at), it));
        let mut mended = MendedTimed { counted, ..MendedTimed::default() };
        let end = queue.max_offset_in_queue();
        if counted.is_some() && !is_of(&progress, &queue)? {
            let to = progress.scanned_to().min(end);
            progress.cut(to, place_of_last(&queue, to)?);
            mended.refusal = self.put_progress(&progress, host);
            mended.is_put = mended.refusal.is_none();
        }
        let now_ms = self.log().last_store_timestamp();
        self.timed_keys(&queue, progress.first(), end, |key| {
            mended.due_count += u64::from(key.due_ms <= now_ms && !progress.is_delivered(key));
            true
        })?;
        Ok(mended)
    }
}

/// Whether the queue has a message where the last one stood that was looked at.
fn has_last(progress: &Progress, queue: &ConsumeQueue) -> Result<bool> {
    let unit = progress.scanned_to().checked_sub(1).map(|last| queue.unit(last)).transpose()?.flatten();
    Ok(unit.is_some_and(|unit| unit.place().is_some()))
}
