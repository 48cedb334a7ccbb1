//! Apache RocketMQ 4.9.3's message store: the engine.
//!
//! Messages go one way: appended to the [`commit_log`], dispatched from it to the units of the
//! [`consume_queue`]s and the entries of the [`index`]. The log is the truth; queues and index are
//! derived from it. See `ARCHITECTURE.md`.

pub mod arrow;
pub mod bell;
pub mod checkpoint;
pub mod clock;
pub mod closed;
pub mod commit_log;
pub mod config;
pub mod config_file;
pub mod consume_queue;
pub mod dispatch;
pub mod error;
pub mod filter;
pub mod format;
pub mod fs;
pub mod ha;
pub mod index;
pub mod interrupt;
pub mod lock;
pub mod lock_files;
mod locked_folder;
pub mod log_view;
pub mod mmap;
pub mod num;
pub mod own_sockets;
pub mod poison;
pub mod published;
pub mod ranges;
pub mod rebuild;
pub mod recovery;
pub mod removed_queues;
pub mod repair;
pub mod retention;
pub mod running_flags;
pub mod schedule;
pub mod selection;
mod short_text;
pub mod side_by_side;
pub mod stats;
pub mod status;
pub mod store;
pub mod sync;
pub mod unique_key;
pub mod verify;
pub mod zeros;
