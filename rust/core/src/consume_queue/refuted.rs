//! A unit that the queue's next message shows to be another place's.
//!
//! Nothing covers a record's queue offset. Where a bit flips in it, or it is another queue's record, its unit may stand
//! behind many blank ones, and what comes for those would be taken for what is there already: one bit would cost as many
//! messages as it jumps over. The queue's own next message tells, which goes on where the queue ended before.

use super::{ConsumeQueue, State, UNIT, unit_in};
use crate::error::{Error, Result};
use crate::num;

impl ConsumeQueue {
    /// Whether a message with an offset before the queue's last unit, or with that unit's own, leaves that where it is. It
    /// shows that it is another place's where nothing but blank units lies between both, and the message follows on what the
    /// queue had before, or would if the last unit's message stood in between; or two of them follow each other.
    ///
    /// # Errors
    /// [`Error::UnitRefuted`] where it does not; where a file can't be read.
    pub(super) fn check_not_refuted(&self, state: &mut State, cq_offset: i64) -> Result<()> {
        let before = state.doubting.replace(cq_offset);
        let (start, end) = (state.units.start() / UNIT, state.units.end() / UNIT);
        let (Some(place), Some(last)) = (num::from_java_long(cq_offset), end.checked_sub(1)) else {
            return Ok(());
        };
        // Of a unit that passed over nothing to come to where it is, another message with its offset says nothing.
        let passed_over = if place < last { Some(place.max(start)) } else { last.checked_sub(1) };
        let Some(blank_from) = passed_over.filter(|&from| from >= start && !self.compat) else {
            return Ok(());
        };
        let follows = |at: Option<u64>| match at.filter(|&at| at >= start) {
            Some(at) => Ok(unit_in(state, at)?.is_some_and(|unit| unit.place().is_some())),
            None => Ok(place >= start),
        };
        let is_refuted = before.is_some_and(|before| before.checked_add(1) == Some(cq_offset))
            || follows(place.checked_sub(1))?
            || follows(place.checked_sub(2))?;
        if !is_refuted || !is_blank_between(state, blank_from, last)? {
            return Ok(());
        }
        match unit_in(state, last)?.filter(|unit| unit.place().is_some()) {
            Some(unit) => Err(Error::UnitRefuted {
                topic: self.topic.clone(),
                queue_id: self.queue_id,
                index: last,
                unit,
            }),
            None => Ok(()),
        }
    }
}

fn is_blank_between(state: &State, from: u64, to: u64) -> Result<bool> {
    for index in from..to {
        if !unit_in(state, index)?.is_some_and(|unit| unit.is_blank()) {
            return Ok(false);
        }
    }
    Ok(true)
}
