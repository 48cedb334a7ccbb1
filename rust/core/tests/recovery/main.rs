//! What a store is found to hold when it is opened, and what is changed for it.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)] // a test stops at what is wrong

#[path = "../stores/mod.rs"]
mod stores;

#[allow(dead_code)] // not every call is of interest here
#[path = "../store/hooked.rs"]
mod hooked;

mod ahead;
mod another_log;
mod by_queues;
mod folders_apart;
mod index;
mod last_time;
mod layout;
mod log_end;
mod lost_end;
mod lost_sectors;
mod parts;
mod queue_ends;
mod queues;
mod short_queues;
mod since_closed;
mod start_file;
mod state;
mod strangers;
mod trim;
