//! The log by itself: what is appended, what is read of it, how far it is on the disk.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)] // a test stops at what is wrong

#[path = "../stores/mod.rs"]
mod stores;

mod allocate;
mod append;
mod commit;
mod flush;
mod in_parts;
mod read;
mod scan;
mod topic_queue;

use std::path::Path;
use std::sync::Arc;

use mqstore_core::clock::ManualClock;
use mqstore_core::commit_log::{Appended, CommitLog, Wait};
use mqstore_core::config::StoreConfig;
use mqstore_core::mmap::file_queue::{FileQueue, FileQueueOptions, Listing};
use mqstore_core::mmap::mapped_file::Access;

struct Log {
    log: CommitLog,
    clock: Arc<ManualClock>,
}

impl std::ops::Deref for Log {
    type Target = CommitLog;

    fn deref(&self) -> &CommitLog {
        &self.log
    }
}

fn log_with(config: StoreConfig, access: Access) -> Log {
    let options = FileQueueOptions {
        paths: config.store_path_commit_log.clone(),
        read_only_paths: Vec::new(),
        file_size: config.mapped_file_size_commit_log,
        access,
        budget: None,
    };
    let listing = Listing::read(&*stores::fs(), &options.paths).unwrap();
    let clock = Arc::new(ManualClock::at(1000));
    let files = FileQueue::new(stores::fs(), options, &listing);
    let end = files.last().map_or(0, |last| last.end_offset());
    let log = CommitLog::new(Arc::new(config), Arc::<ManualClock>::clone(&clock), files).unwrap();
    log.set_end(end, 0);
    Log { log, clock }
}

/// An empty log of files of 4 KiB.
fn log(root: &Path) -> Log {
    log_with(stores::config(root), Access::MapWrite)
}

fn append(log: &CommitLog, queue_id: i32, body: &[u8]) -> Appended {
    log.append(&stores::new_record("t", queue_id, body), Wait::Block).unwrap()
}

/// Bytes of the records that these tests append, beside their bodies.
const SIZE: u64 = 92;
