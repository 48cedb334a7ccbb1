//! Dispatch, options, and the small files around the store.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)] // a test stops at what is wrong

#[path = "../stores/mod.rs"]
mod stores;

#[allow(dead_code)] // not every call is of interest here
#[path = "../store/hooked.rs"]
mod hooked;

mod bad_places;
mod checkpoint;
mod config;
mod config_file;
mod dispatch;
mod dispatch_queues;
mod lock;
mod lock_files;
mod log_view;
mod poison;
mod published;
mod removed_queues;
mod repair;
mod running_flags;
mod turns;
mod unique_key;
mod zeros;
