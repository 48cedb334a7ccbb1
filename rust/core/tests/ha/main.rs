//! Replication with another side that sends anything.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)] // a test stops at what is wrong
#![allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss)] // what is cast is small

#[path = "../stores/mod.rs"]
mod stores;

mod comparing;
mod hostile_master;
mod hostile_slave;
mod slave_log;
