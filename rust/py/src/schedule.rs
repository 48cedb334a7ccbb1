//! Delivery passes of `mqstore._native.Engine`.

use mqstore_core::schedule::{LevelPass, Undeliverable};
use pyo3::prelude::*;

use crate::engine::Engine;
use crate::errors::detached;
use crate::store::Store;

/// Level, where to go on, how many were delivered, when the next is due, what can't be delivered
/// (offset in the level's queue, offset in the log, why), why the store took no more.
type LevelRow = (i32, u64, u64, Option<i64>, Vec<UndeliverableRow>, Option<String>);

/// Offset in the queue, offset in the log, why.
type UndeliverableRow = (u64, u64, String);

/// How many were delivered, when the next is due, what can't be delivered, why the store took no more.
type TimedRow = (u64, Option<i64>, Vec<UndeliverableRow>, Option<String>);

/// The record of progress that counts, how many were due and may be delivered, whether another was put, why the store did not
/// take it.
type MendedRow = (Option<u64>, u64, bool, Option<String>);

#[pymethods]
impl Engine {
    /// Delivers what is due of delay levels. One that can't be read does not keep the others.
    fn deliver_delayed(&self, py: Python<'_>, levels: Vec<(i32, u64)>, max_count: usize) -> Vec<LevelRow> {
        let row = |&(level, from): &(i32, u64)| match self.core.deliver_level(level, from, max_count) {
            Ok(pass) => row_of(level, pass),
            Err(error) => (level, from, 0, None, Vec::new(), Some(error.to_string())),
        };
        py.detach(|| levels.iter().map(row).collect())
    }

    /// Delivers timed messages that are due.
    fn deliver_timed(&self, py: Python<'_>, max_count: usize) -> PyResult<TimedRow> {
        let pass = detached(py, || self.core.deliver_timed(max_count))?;
        let reason = pass.refusal.map(|refusal| refusal.reason.to_string());
        Ok((pass.delivered_count, pass.next_due_ms, rows_of(pass.undeliverable), reason))
    }

    /// Writes which timed messages are delivered; gives why the store did not take it.
    fn persist_timed(&self, py: Python<'_>) -> PyResult<Option<String>> {
        let refusal = detached(py, || self.core.persist_timed(self.store_host))?;
        Ok(refusal.map(|refusal| refusal.reason.to_string()))
    }

    /// Has the log say of a repaired store which timed messages are delivered, by the log's holes.
    fn mend_timed(&self, py: Python<'_>, holes: Vec<(u64, u64)>) -> PyResult<MendedRow> {
        let holes: Vec<_> = holes.into_iter().map(|(begin, end)| begin..end).collect();
        let mended = detached(py, || self.core.mend_timed(&holes, self.store_host))?;
        let reason = mended.refusal.map(|refusal| refusal.reason.to_string());
        Ok((mended.counted, mended.due_count, mended.is_put, reason))
    }

    /// Forgets what is known of timed messages.
    fn forget_timed(&self) {
        self.core.forget_timed();
    }
}

#[pymethods]
impl Store {
    /// How many timed messages wait, and when the first is due; `None` where nobody delivers them.
    fn _timed_waiting(&self, py: Python<'_>) -> Option<(u64, Option<i64>)> {
        py.detach(|| self.core.timed_waiting())
    }

    /// The queue offset of a delay level's first message that is not due yet.
    fn _first_not_due(&self, py: Python<'_>, delay_level: i32) -> PyResult<u64> {
        detached(py, || self.core.first_not_due(delay_level))
    }

    /// Where the first timed message stands in the log that is not delivered.
    fn _first_waiting_timed(&self, py: Python<'_>) -> PyResult<Option<u64>> {
        detached(py, || self.core.first_waiting_timed())
    }
}

fn rows_of(undeliverable: Vec<Undeliverable>) -> Vec<UndeliverableRow> {
    undeliverable.into_iter().map(|it| (it.queue_offset, it.physical_offset, it.reason)).collect()
}

fn row_of(level: i32, pass: LevelPass) -> LevelRow {
    (
        level,
        pass.next_offset,
        pass.delivered_count,
        pass.next_due_ms,
        rows_of(pass.undeliverable),
        pass.refusal.map(|refusal| refusal.reason.to_string()),
    )
}
