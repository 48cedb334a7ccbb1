//! Selections, and messages as record batches.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)] // a test stops at what is wrong

#[path = "../stores/mod.rs"]
mod stores;

mod arrow;
mod cursor;
mod times;
