//! What recovery reads grows as what the store holds does, not faster.

use std::path::Path;
use std::sync::Arc;

use mqstore_core::clock::ManualClock;
use mqstore_core::config::StoreConfig;
use mqstore_core::fs::{FileSystem, OsFileSystem};
use mqstore_core::store::{Mode, Store};
use nix::errno::Errno;

use crate::faulty::{Call, Fault, FaultyFileSystem};
use crate::scratch;
use crate::stores::{put, try_open};

/// Units of a queue file, of which the most are hole.
const UNITS_IN_FILE: u64 = 300_000;

fn config(root: &Path) -> StoreConfig {
    let mapped_file_size_commit_log = 1 << 20;
    let mapped_file_size_consume_queue = UNITS_IN_FILE * 20;
    // Only what is read, not mapped, can be counted.
    let pread = true;
    StoreConfig {
        mapped_file_size_commit_log,
        mapped_file_size_consume_queue,
        pread,
        ..crate::stores::config(root)
    }
}

/// How many reads it takes to open a killed store of many queues, of which every other one is in the files.
fn read_count(queue_count: i32) -> usize {
    let root = scratch();
    let store = try_open(config(root.path()), Mode::ReadWrite).unwrap();
    for queue_id in 0..2 * queue_count {
        put(&store, "orders", queue_id % queue_count, b"body", "");
    }
    store.reput().unwrap();
    for queue in store.queues().all().iter().filter(|queue| queue.queue_id() % 2 == 0) {
        queue.spill().unwrap();
    }
    drop(store);
    let fault = Fault::new(Call::Read, Errno::EIO, usize::MAX, 0);
    let (inner, counting) = (Arc::new(OsFileSystem), Arc::clone(&fault));
    let fs: Arc<dyn FileSystem> = Arc::new(FaultyFileSystem { fs: inner, fault: counting });
    let clock = Arc::new(ManualClock::at(1_000_000));
    let reader = Store::open(config(root.path()), fs, clock, Mode::Read).unwrap();
    assert_eq!(reader.gaps(), []);
    fault.seen_count()
}

#[test]
fn the_more_queues_the_more_is_read_but_of_each_no_more() {
    let (few, many) = (read_count(50), read_count(200));
    assert!(many <= 4 * few, "{few} reads for 50 queues, {many} for 200");
    // A search by halving the file would read 18 times more in each of the queues with one.
    assert!(many <= 12 * 200, "{many} reads for 200 queues");
}
