//! Whether a store's queues and index are made of another log than the one that is there.
//!
//! A master that comes back as a slave may have got its new master's log and kept its own queues. Where both logs
//! have records of the same sizes the last units agree with whatever stands there, and others lead to messages of other queues. What
//! tells is the last record of which queues and index had all when the last mqstore writer flushed them. 4.9.3 leaves nothing: it
//! serves what the units lead to.

use super::{Recovered, StoreState};
use crate::checkpoint::LastPositions;
use crate::error::Result;
use crate::format::message::{self, Check, Decoded};
use crate::format::positions::DurablePositions;
use crate::num;

/// What recovery works on where nothing of queues and index is believed: as behind a crash before anything of them was on the disk;
/// `None` where they are this log's. The log's end is set.
///
/// # Errors
/// Where the log can't be read.
pub(super) fn without_derived(of: Recovered<'_>) -> Result<Option<Recovered<'_>>> {
    // Of a live store its writer has looked.
    let is_left_alone = of.config.compat || matches!(of.state, StoreState::Live { .. });
    let Some(known) = of.positions.known().filter(|_| !is_left_alone) else { return Ok(None) };
    if !is_replaced(of)? {
        return Ok(None);
    }
    let positions = LastPositions::Known(DurablePositions { queues: 0, index: 0, ..known });
    Ok(Some(Recovered { positions, state: StoreState::Crashed, ..of }))
}

/// Whether another record stands where the last one did that is known: a whole one, since damage tells of no other log.
fn is_replaced(of: Recovered<'_>) -> Result<bool> {
    let Some(last) = of.checkpoint.last_record() else { return Ok(false) };
    let Some(bytes) = of.log.select_one_message_by_offset(last.offset)? else { return Ok(false) };
    Ok(match message::decode(&bytes, Check::BodyCrc) {
        Ok(Decoded::Message(record)) => {
            record.physical_offset == num::java_long(last.offset)
                && (record.store_timestamp, record.body_crc) != (last.store_timestamp, last.body_crc)
        }
        _ => false,
    })
}
