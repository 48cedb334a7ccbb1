//! The store as a whole.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)] // a test stops at what is wrong

#[path = "../stores/mod.rs"]
mod stores;

mod between;
mod blocks_ahead;
mod ended;
mod finished;
mod follow;
mod fresh_pages;
mod full_folder;
mod get;
mod hooked;
mod let_go;
mod live_writer;
mod made_anew;
mod open;
mod openings;
mod put;
mod put_many;
mod query;
mod query_keys;
mod removal;
mod retention;
mod take_back;
mod topic_folders;
mod witness;
