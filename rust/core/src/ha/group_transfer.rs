//! Puts that wait for a slave. Source: `GroupTransferService`.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Instant;

use crate::sync::{AtomicU64, Condvar, Mutex, Ordering};

/// Connections of which it is remembered what they confirmed: more than there are at a time, since a put may ask after one
/// that has gone.
const REMEMBERED: usize = 256;

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

/// What is waited for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Awaited {
    /// Records: slaves were sent all of them over connections by which they confirmed them.
    Records(Range<u64>),
    /// The log up to an offset: a slave that was not empty may have had it before this master was opened.
    LogUpTo(u64),
}

/// What a slave has confirmed over one connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Confirmed {
    /// The connection's number.
    pub connection: u64,
    /// From where the slave has the log, as it says: an empty one has nothing before what it is sent.
    pub claimed_from: u64,
    /// From where it was sent the log.
    pub sent_from: u64,
    /// Up to where it has it.
    pub to: u64,
}

/// How far slaves are, and who waits for that.
#[derive(Debug, Default)]
pub struct GroupTransfer {
    push2_slave_max_offset: AtomicU64,
    state: Mutex<State>,
    moved: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// One a connection; the one that has confirmed last is the last.
    confirmed: VecDeque<Confirmed>,
    /// Whether nothing will be confirmed any more.
    has_ended: bool,
}

impl State {
    fn add(&mut self, new: Confirmed) {
        let known = self.confirmed.iter().position(|one| one.connection == new.connection);
        let to = known.and_then(|at| self.confirmed.remove(at)).map_or(new.to, |one| one.to.max(new.to));
        self.confirmed.push_back(Confirmed { to, ..new });
        if self.confirmed.len() > REMEMBERED {
            self.confirmed.pop_front();
        }
    }

    fn has(&self, awaited: &Awaited) -> bool {
        match awaited {
            Awaited::Records(records) => self.have_all(records),
            Awaited::LogUpTo(offset) => {
                *offset == 0 || self.confirmed.iter().any(|one| (one.claimed_from..=one.to).contains(offset))
            }
        }
    }

    /// A slave whose connection was cut goes on where it was: what it confirmed before and since counts together.
    fn have_all(&self, records: &Range<u64>) -> bool {
        let mut reached = records.start;
        while reached < records.end {
            let begun = self.confirmed.iter().filter(|one| one.sent_from <= reached);
            match begun.map(|one| one.to).max() {
                Some(to) if to > reached => reached = to,
                _ => return false,
            }
        }
        true
    }
}

impl GroupTransfer {
    /// The furthest that a slave has ever confirmed.
    pub fn push2_slave_max_offset(&self) -> u64 {
        self.push2_slave_max_offset.load(Ordering::Acquire)
    }

    /// A slave confirms what it has.
    pub fn notify_transfer_some(&self, confirmed: Confirmed) {
        self.state.lock().add(confirmed);
        self.push2_slave_max_offset.fetch_max(confirmed.to, Ordering::AcqRel);
        self.moved.notify_all();
    }

    /// Whether a slave has confirmed it.
    pub fn is_transferred(&self, awaited: &Awaited) -> bool {
        self.state.lock().has(awaited)
    }

    /// Waits until a slave has confirmed it, or the time is up.
    pub fn wait(&self, awaited: &Awaited, deadline: Instant) -> Transferred {
        let mut state = self.state.lock();
        loop {
            if state.has(awaited) {
                return Transferred::Yes;
            }
            if state.has_ended {
                return Transferred::Never;
            }
            let (again, is_time_up) = self.moved.wait_until(state, deadline);
            state = again;
            if is_time_up {
                return if state.has(awaited) { Transferred::Yes } else { Transferred::NotYet };
            }
        }
    }

    /// Lets everybody go who waits.
    pub fn end(&self) {
        self.state.lock().has_ended = true;
        self.moved.notify_all();
    }
}
