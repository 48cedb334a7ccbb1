//! Files of fixed size in memory: what is mapped, what is kept, what is let go.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)] // a test stops at what is wrong

mod file_queue;
mod map_budget;
mod mapped_file;
mod region;
mod slice;
#[cfg(target_os = "linux")]
mod stepped;
mod transient_store_pool;

use std::path::Path;
use std::sync::Arc;

use mqstore_core::fs::{FileSystem, OsFileSystem};
use mqstore_core::mmap::file_queue::{FileQueue, FileQueueOptions, Listing};
use mqstore_core::mmap::map_budget::MapBudget;
use mqstore_core::mmap::mapped_file::Access;

fn fs() -> Arc<dyn FileSystem> {
    Arc::new(OsFileSystem)
}

/// Files of 100 bytes in the folder `files`.
fn options(root: &Path, access: Access) -> FileQueueOptions {
    FileQueueOptions {
        paths: vec![root.join("files")],
        read_only_paths: Vec::new(),
        file_size: 100,
        access,
        budget: None,
    }
}

fn queue_with(options: FileQueueOptions) -> FileQueue {
    let paths = options.paths.iter().chain(&options.read_only_paths);
    let listing = Listing::read(&OsFileSystem, paths).unwrap();
    FileQueue::new(fs(), options, &listing)
}

fn queue(root: &Path, access: Access) -> FileQueue {
    queue_with(options(root, access))
}

fn budgeted(root: &Path, budget: &Arc<MapBudget>) -> FileQueue {
    queue_with(FileQueueOptions { budget: Some(Arc::clone(budget)), ..options(root, Access::MapRead) })
}

/// Writes files of 100 bytes, each full of its own number.
fn write_files(folder: &Path, offsets: impl IntoIterator<Item = u64>) {
    std::fs::create_dir_all(folder).unwrap();
    for offset in offsets {
        let number = u8::try_from(offset / 100).unwrap();
        std::fs::write(folder.join(format!("{offset:020}")), [number; 100]).unwrap();
    }
}
