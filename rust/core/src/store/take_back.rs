//! Units that dispatch takes back, because a later message shows that they are another place's.
//!
//! A writer of messages knows their offsets; a slave, and who reads beside a writer, has them from records in which a bit may
//! have flipped. What comes next tells (`consume_queue/refuted.rs`), by when the unit may be in the queue's file.

use super::{Mode, Store};
use crate::commit_log::topic_queue::QueueRef;
use crate::dispatch::{DerivedAhead, Gap};
use crate::error::{Error, Result};
use crate::format::cq_unit::CqUnit;
use crate::format::message::RecordFault;
use crate::format::positions::DurablePositions;
use crate::num;

impl Store {
    /// A pass of dispatch, again and again as long as it finds a unit to take back. Gives how many messages it dispatched.
    pub(super) fn pass_with(&self, ahead: DerivedAhead) -> Result<u64> {
        let mut outcome = self.dispatcher.pass_with(self.targets(), ahead);
        while let Err(Error::UnitRefuted { topic, queue_id, index, unit }) = outcome {
            self.take_back(&topic, queue_id, index, unit)?;
            outcome = self.dispatcher.pass(self.targets());
        }
        outcome
    }

    /// Takes back a queue's last unit with the blank ones before it, and lets dispatch go on behind its record. What is known
    /// to be on the disk says so first.
    fn take_back(&self, topic: &str, queue_id: i32, index: u64, unit: CqUnit) -> Result<()> {
        let Some((from, size)) = unit.place() else { return Ok(()) };
        let fault = RecordFault::Misplaced { queue_id, queue_offset: num::java_long(index) };
        let gap = Gap { from, to: from + u64::from(size), fault: Some(fault) };
        self.while_at_rest(|| {
            if self.dispatcher.is_stranger(from) {
                // Another thread's pass met it as well and has taken it back, and what followed is there by now.
                return Ok(());
            }
            if self.mode == Mode::ReadWrite {
                self.claim_no_more_than(from)?;
            }
            if let Some(queue) = self.queues.get(QueueRef { topic: topic.as_bytes(), queue_id }) {
                self.queues.take_back(&queue, from)?;
            }
            self.dispatcher.add_strangers(&[gap]);
            self.dispatcher.go_back(from);
            self.gaps.lock().push(gap);
            Ok(())
        })
    }

    /// Says on the disk, and to readers beside it, that queues may lack something from an offset of the log on.
    fn claim_no_more_than(&self, offset: u64) -> Result<()> {
        self.publish_dispatched(offset.min(self.dispatcher.reput_from_offset()));
        let known = self.checkpoint.positions();
        if known.queues <= offset {
            return Ok(());
        }
        self.checkpoint.set_positions(DurablePositions { queues: offset, ..known });
        self.checkpoint.flush()
    }
}
