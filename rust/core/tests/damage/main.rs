//! What a damaged store serves, and what verification says of it.
//!
//! [`subject`] makes small stores, [`flips`] and [`pages`] damage copies of them, [`trial`] opens each copy
//! to read and to write, asks for everything by every way ([`answers`]) and has it verified, and [`table`]
//! counts what came of it by the field that was hit. `MQSTORE_FLIPS=1` tries every single bit; otherwise
//! one in so many bytes has one of its bits flipped. `MQSTORE_SEED` repeats a run.

// A test stops at what is wrong.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]
// What is cast is small.
#![allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss)]

#[path = "../stores/mod.rs"]
mod stores;

mod answers;
mod fields;
mod flips;
mod pages;
mod subject;
mod table;
mod trial;

/// A setting of the environment.
fn setting(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// An empty folder, in memory where there is such a file system: thousands of stores are flushed there.
fn scratch() -> tempfile::TempDir {
    let in_memory = std::path::Path::new("/dev/shm");
    if in_memory.is_dir()
        && let Ok(folder) = tempfile::TempDir::with_prefix_in("mqstore-damage-", in_memory)
    {
        return folder;
    }
    tempfile::tempdir().unwrap()
}
