//! Delivery passes of `mqstore._native.Store`.

use mqstore_core::schedule::LevelPass;
use pyo3::prelude::*;

use crate::store::Store;

/// Level, where to go on, how many were delivered, when the next is due, what can't be delivered
/// (offset in the level's queue, offset in the log, why), why the store took no more.
type LevelRow = (i32, u64, u64, Option<i64>, Vec<(u64, u64, String)>, Option<String>);

#[pymethods]
impl Store {
    /// Delivers what is due of delay levels. One that can't be read does not keep the others.
    fn _deliver_delayed(&self, py: Python<'_>, levels: Vec<(i32, u64)>, max_count: usize) -> Vec<LevelRow> {
        let row = |&(level, from): &(i32, u64)| match self.core.deliver_level(level, from, max_count) {
            Ok(pass) => row_of(level, pass),
            Err(error) => (level, from, 0, None, Vec::new(), Some(error.to_string())),
        };
        py.detach(|| levels.iter().map(row).collect())
    }
}

fn row_of(level: i32, pass: LevelPass) -> LevelRow {
    let undeliverable = pass.undeliverable.into_iter();
    (
        level,
        pass.next_offset,
        pass.delivered_count,
        pass.next_due_ms,
        undeliverable.map(|it| (it.queue_offset, it.physical_offset, it.reason)).collect(),
        pass.refusal.map(|refusal| refusal.reason.to_string()),
    )
}
