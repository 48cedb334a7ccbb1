//! Puts that wait for a slave. Source: `GroupTransferService`.

use std::time::Instant;

use crate::sync::{AtomicU64, Condvar, Mutex, Ordering};

/// Whether a slave has confirmed what is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transferred {
    /// One has.
    Yes,
    /// The time was up before.
    NotYet,
    /// None will: replication has ended.
    Never,
}

/// How far slaves are, and who waits for that.
#[derive(Debug, Default)]
pub struct GroupTransfer {
    push2_slave_max_offset: AtomicU64,
    /// Whether nothing will be confirmed any more.
    ended: Mutex<bool>,
    moved: Condvar,
}

impl GroupTransfer {
    /// The furthest that a slave has ever confirmed.
    pub fn push2_slave_max_offset(&self) -> u64 {
        self.push2_slave_max_offset.load(Ordering::Acquire)
    }

    /// A slave confirms everything below an offset.
    pub fn notify_transfer_some(&self, offset: u64) {
        if self.push2_slave_max_offset.fetch_max(offset, Ordering::AcqRel) < offset {
            drop(self.ended.lock()); // a waiter is either before its check or asleep by now
            self.moved.notify_all();
        }
    }

    /// Waits until a slave has confirmed an offset, or the time is up.
    pub fn wait(&self, offset: u64, deadline: Instant) -> Transferred {
        let mut ended = self.ended.lock();
        loop {
            if self.push2_slave_max_offset() >= offset {
                return Transferred::Yes;
            }
            if *ended {
                return Transferred::Never;
            }
            if self.moved.wait_until(&mut ended, deadline).timed_out() {
                let is_confirmed = self.push2_slave_max_offset() >= offset;
                return if is_confirmed { Transferred::Yes } else { Transferred::NotYet };
            }
        }
    }

    /// Lets everybody go who waits.
    pub fn end(&self) {
        *self.ended.lock() = true;
        self.moved.notify_all();
    }
}
