//! The index: one file, its shape, many files.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)] // a test stops at what is wrong

#[path = "../stores/mod.rs"]
mod stores;

#[allow(dead_code)] // not every call is of interest here
#[path = "../store/hooked.rs"]
mod hooked;

mod file;
mod in_memory;
mod infer;
mod open_files;
mod query;
mod service;

use std::path::Path;
use std::sync::Arc;

use mqstore_core::clock::ManualClock;
use mqstore_core::format::index::IndexShape;
use mqstore_core::index::IndexService;
use mqstore_core::mmap::mapped_file::Access;

const SHAPE: IndexShape = IndexShape { hash_slot_num: 7, index_num: 20 };

fn service(root: &Path, access: Access) -> (IndexService, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::at(1_000_000));
    let as_clock = Arc::<ManualClock>::clone(&clock);
    let index = IndexService::new(stores::fs(), as_clock, root.join("index"), SHAPE, access);
    assert!(index.load(false).unwrap().faults.is_empty());
    (index, clock)
}
