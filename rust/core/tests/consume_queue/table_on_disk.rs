//! What of a store's queues is brought to the disk, and when, and what becomes of it where the disk refuses.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mqstore_core::commit_log::topic_queue::QueueRef;
use mqstore_core::config::StoreConfig;
use mqstore_core::consume_queue::table::QueueTable;
use mqstore_core::error::Error;
use mqstore_core::interrupt;
use mqstore_core::mmap::mapped_file::Access;
use mqstore_core::sync::Mutex;

use crate::hooked::{Call, HookedFileSystem};
use crate::stores::config;
use crate::{new_unit, queue_of, table_on};

/// More files than this are brought to the disk by one sync of their file system.
const SYNC_ALL_ABOVE: i32 = 256;

/// The syncs of a table, as kind and path below the store's folder.
#[derive(Default)]
struct Syncs {
    /// Each once, sorted: a pass may sync in any order.
    made: Mutex<BTreeSet<String>>,
    /// Whether what comes next is refused.
    refuses: AtomicBool,
    /// The folder in which files can't be written.
    refuses_writes_to: Mutex<Option<PathBuf>>,
}

impl Syncs {
    fn note(&self, root: &Path, call: Call, path: &Path) -> io::Result<()> {
        let kind = match call {
            Call::Sync | Call::FlushMapped => "file",
            Call::SyncDir => "folder",
            Call::SyncAll => "all",
            Call::Write { .. }
                if self.refuses_writes_to.lock().as_ref().is_some_and(|to| path.starts_with(to)) =>
            {
                return Err(io::Error::other("refused"));
            }
            _ => return Ok(()),
        };
        if self.refuses.load(Ordering::Relaxed) {
            return Err(io::Error::other("refused"));
        }
        // Kept in a set, and none made twice in a pass.
        let below = path.strip_prefix(root).unwrap().display();
        assert!(self.made.lock().insert(format!("{kind} {below}")), "{kind} {below} again");
        Ok(())
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.made.lock()).into_iter().collect()
    }
}

fn watched(config: StoreConfig) -> (QueueTable, Arc<Syncs>) {
    let syncs = Arc::new(Syncs::default());
    let (root, noted) = (config.store_path_root_dir.clone(), Arc::clone(&syncs));
    let hook = move |call, path: &Path| noted.note(&root, call, path);
    let fs = Arc::new(HookedFileSystem::new(Box::new(hook)));
    (table_on(fs, config, Access::MapWrite), syncs)
}

fn put_all(table: &QueueTable, numbers: std::ops::Range<u32>) {
    let units = numbers.map(|number| new_unit(number.into(), number.into()));
    table.put_all(&queue_of(table), units, false).unwrap();
}

const FILE: &str = "file consumequeue/t/0/00000000000000000000";
const SECOND_FILE: &str = "file consumequeue/t/0/00000000000000000200";
const FOLDERS: [&str; 4] =
    ["folder ", "folder consumequeue", "folder consumequeue/t", "folder consumequeue/t/0"];

#[test]
fn a_flush_syncs_what_was_written_since_and_all_folders_that_may_be_new() {
    let root = tempfile::tempdir().unwrap();
    let (table, syncs) = watched(config(root.path()));
    let queue = queue_of(&table);
    table.put(&queue, new_unit(0, 0)).unwrap();
    table.flush(0).unwrap();
    assert!(syncs.take().is_empty(), "what is in memory is not in the files");
    // Written twice, and flushed once.
    table.spill_all().unwrap();
    table.put(&queue, new_unit(1, 1)).unwrap();
    table.spill_all().unwrap();
    table.flush(0).unwrap();
    assert_eq!(syncs.take(), [&[FILE][..], &FOLDERS].concat());
    table.flush(0).unwrap();
    table.spill_all().unwrap();
    table.flush(0).unwrap();
    assert!(syncs.take().is_empty(), "nothing was written since");
    put_all(&table, 2..15);
    table.spill_all().unwrap();
    table.flush(0).unwrap();
    assert_eq!(syncs.take(), [&[FILE, SECOND_FILE][..], &FOLDERS].concat());
    table.put(&queue, new_unit(15, 15)).unwrap();
    table.spill_all().unwrap();
    table.flush(0).unwrap();
    assert_eq!(syncs.take(), [&[SECOND_FILE][..], &FOLDERS].concat());
}

#[test]
fn a_flush_syncs_the_extension_with_its_queue() {
    let root = tempfile::tempdir().unwrap();
    let (table, syncs) = watched(StoreConfig { enable_consume_queue_ext: true, ..config(root.path()) });
    // Of the extension a file holds four units.
    let of_ext = ["000", "100"].map(|begin| format!("file consumequeue_ext/t/0/00000000000000000{begin}"));
    for (numbers, flushed) in [(0..5, &of_ext[..]), (5..6, &of_ext[1..])] {
        put_all(&table, numbers);
        table.spill_all().unwrap();
        table.flush(0).unwrap();
        let made = syncs.take();
        let (files, folders): (Vec<_>, Vec<_>) = made.iter().partition(|made| made.starts_with("file "));
        assert_eq!(files, [&[FILE.to_owned()], flushed].concat().iter().collect::<Vec<_>>());
        let folders_of_ext = ["", "/t", "/t/0"].map(|below| format!("folder consumequeue_ext{below}"));
        assert_eq!(
            folders,
            [&FOLDERS.map(str::to_owned)[..], &folders_of_ext].concat().iter().collect::<Vec<_>>()
        );
        table.flush(0).unwrap();
        assert!(syncs.take().is_empty());
    }
}

#[test]
fn a_queue_with_few_pages_waits_for_a_flush_of_all() {
    let root = tempfile::tempdir().unwrap();
    let (table, syncs) =
        watched(StoreConfig { mapped_file_size_consume_queue: 20_000, ..config(root.path()) });
    put_all(&table, 0..3);
    table.spill_all().unwrap();
    table.flush(2).unwrap();
    assert!(syncs.take().is_empty());
    table.flush(0).unwrap();
    assert_eq!(syncs.take().len(), 5);
    put_all(&table, 3..500);
    table.spill_all().unwrap();
    table.flush(2).unwrap();
    assert_eq!(syncs.take().len(), 5);
}

#[test]
fn what_the_disk_refused_is_for_the_next_flush() {
    let root = tempfile::tempdir().unwrap();
    let (table, syncs) = watched(config(root.path()));
    let queue = queue_of(&table);
    table.put(&queue, new_unit(0, 0)).unwrap();
    table.spill_all().unwrap();
    syncs.refuses.store(true, Ordering::Relaxed);
    table.flush(0).unwrap_err();
    syncs.refuses.store(false, Ordering::Relaxed);
    table.flush(0).unwrap();
    assert_eq!(syncs.take(), [&[FILE][..], &FOLDERS].concat());
}

#[test]
fn what_could_not_be_written_stays_in_memory_until_it_can() {
    let root = tempfile::tempdir().unwrap();
    let (table, syncs) = watched(config(root.path()));
    let refused = queue_of(&table);
    let other = table.get_or_make(QueueRef { topic: b"u", queue_id: 0 }).unwrap();
    for queue in [&refused, &other] {
        table.put(queue, new_unit(0, 0)).unwrap();
    }
    *syncs.refuses_writes_to.lock() = Some(root.path().join("consumequeue/t"));
    table.spill_all().unwrap_err();
    assert_eq!((refused.tail_len(), other.tail_len()), (20, 0));
    *syncs.refuses_writes_to.lock() = None;
    table.spill_all().unwrap();
    assert_eq!(refused.tail_len(), 0);
    table.flush(0).unwrap();
    let made = syncs.take();
    assert_eq!(made.iter().filter(|made| made.starts_with("file ")).count(), 2, "{made:?}");
}

#[test]
fn what_cuts_many_queues_is_broken_off() {
    let root = tempfile::tempdir().unwrap();
    let (table, _) = watched(config(root.path()));
    queue_of(&table);
    assert!(matches!(interrupt::until(|| true, || table.trim()), Err(Error::Interrupted)));
    interrupt::until(|| false, || table.trim()).unwrap();
}

#[test]
fn a_removed_queue_leaves_the_others_to_be_written_and_flushed() {
    let root = tempfile::tempdir().unwrap();
    let (table, syncs) = watched(config(root.path()));
    for (removed, is_spilled) in [(b"u", false), (b"v", true)] {
        let removed = table.get_or_make(QueueRef { topic: removed, queue_id: 0 }).unwrap();
        for queue in [&queue_of(&table), &removed] {
            table.put(queue, new_unit(queue.max_offset_in_queue(), queue.max_offset_in_queue())).unwrap();
        }
        if is_spilled {
            table.spill_all().unwrap();
        }
        table.destroy(&removed).unwrap();
        table.spill_all().unwrap();
        assert_eq!(queue_of(&table).tail_len(), 0);
        table.flush(0).unwrap();
        assert_eq!(syncs.take(), [&[FILE][..], &FOLDERS].concat());
    }
}

/// 64 MiB over all queues.
#[test]
fn what_is_in_memory_is_written_once_it_is_much() {
    let root = tempfile::tempdir().unwrap();
    let (table, _) = watched(config(root.path()));
    let queue = queue_of(&table);
    for round in 0..2 {
        table.put(&queue, new_unit(2 * round, 2 * round)).unwrap();
        table.list(&queue, (64 << 20) / 20).unwrap();
        assert_eq!(queue.tail_len(), 20);
        table.put(&queue, new_unit(2 * round + 1, 2 * round + 1)).unwrap();
        assert_eq!(queue.tail_len(), 0);
    }
}

/// One sync of the file system that the folders share takes less than one of each file, where those are many.
#[test]
fn many_files_are_brought_to_the_disk_at_once() {
    let root = tempfile::tempdir().unwrap();
    let (table, syncs) = watched(StoreConfig { enable_consume_queue_ext: true, ..config(root.path()) });
    for queue_id in 0..=SYNC_ALL_ABOVE {
        let queue = table.get_or_make(QueueRef { topic: b"t", queue_id }).unwrap();
        table.put(&queue, new_unit(0, 0)).unwrap();
    }
    table.spill_all().unwrap();
    table.flush(0).unwrap();
    assert_eq!(syncs.take(), ["all "]);
    table.flush(0).unwrap();
    assert!(syncs.take().is_empty());
}
