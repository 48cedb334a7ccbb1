//! What a store has after a crash: of the process, of the machine, of a file operation.
//!
//! [`disk`] records what a power cut could leave at each moment and [`image`] makes such stores;
//! [`faulty`] fails the nth call of a kind, and [`quota`] gives only so many blocks. [`workload`] drives a
//! store over any of them, and [`check`] says what must hold of what is left. All of it is repeatable: `MQSTORE_SEED` repeats a run, and
//! `MQSTORE_RUNS` makes it longer. [`sample`] leaves some of the stores for others to open.

// A test stops at what is wrong.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
// What is cast is small.
#![allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss)]

#[path = "../stores/mod.rs"]
mod stores;

mod check;
mod configs;
mod delays;
mod disk;
mod faults;
mod faulty;
mod growth;
mod image;
mod lives;
mod power_cuts;
mod quota;
mod removals;
mod retention_faults;
mod role_change;
mod sample;
mod script;
mod timed;
mod workload;

use std::path::Path;

/// A setting of the environment.
fn setting(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// An empty folder, in memory where there is such a file system: what is flushed thousands of times is
/// flushed at no cost there.
fn scratch() -> tempfile::TempDir {
    let in_memory = Path::new("/dev/shm");
    if in_memory.is_dir()
        && let Ok(folder) = tempfile::TempDir::with_prefix_in("mqstore-crash-", in_memory)
    {
        return folder;
    }
    tempfile::tempdir().unwrap()
}
