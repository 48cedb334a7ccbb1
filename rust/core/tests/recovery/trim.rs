//! What stands behind the ends of a store goes when it is opened for writing, whatever it is.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use mqstore_core::config::StoreConfig;
use mqstore_core::format::cq_unit::CqUnit;
use mqstore_core::format::sys_flag::TRANSACTION_PREPARED_TYPE;
use mqstore_core::store::Mode;
use mqstore_core::sync::Mutex;

use crate::hooked::{Call, Hook, open_hooked};
use crate::stores::{
    LOG_FILE_SIZE, Opened, config, crash, cutting, fill, log_file, message, numbers, open, open_with, patch,
    put, try_put,
};

/// A closed store of 25 messages, and one behind them that is in no queue and has no keys. Gives where that
/// one stands.
fn closed(root: &Path) -> u64 {
    let store = open_with_ext(root);
    fill(&store, 0..25);
    let mut prepared = message("t", 0, b"in no queue", "");
    prepared.sys_flag = TRANSACTION_PREPARED_TYPE;
    let place = try_put(&store, &prepared).unwrap().wrote_offset;
    store.close().unwrap();
    place
}

fn next_log_file(root: &Path) -> PathBuf {
    log_file(root, 2 * LOG_FILE_SIZE)
}

fn next_index_file(root: &Path) -> PathBuf {
    root.join("index/99991231235959999")
}

fn last_queue_file(root: &Path) -> PathBuf {
    root.join("consumequeue/t/0/00000000000000000400")
}

fn next_queue_file(root: &Path) -> PathBuf {
    root.join("consumequeue/t/0/00000000000000000600")
}

/// Files of the extension hold four of its units.
fn next_ext_file(root: &Path) -> PathBuf {
    root.join("consumequeue_ext/t/0/00000000000000000700")
}

fn open_with_ext(root: &Path) -> Opened {
    open_with(StoreConfig { enable_consume_queue_ext: true, ..config(root) })
}

/// Its first byte is none that is zero anyway.
const BEHIND_LOG: CqUnit = CqUnit { physical_offset: 1 << 60, size: 100, tags_code: 1 };

/// Puts units behind those of the queue.
fn put_units(root: &Path, units: &[CqUnit]) {
    let bytes: Vec<_> = units.iter().flat_map(CqUnit::to_bytes).collect();
    patch(&last_queue_file(root), 100, |at| at[..bytes.len()].copy_from_slice(&bytes));
}

fn is_zero_from(path: &Path, at: u64) -> bool {
    std::fs::read(path).unwrap()[usize::try_from(at).unwrap()..].iter().all(|&byte| byte == 0)
}

#[test]
fn each_of_them_alone_goes() {
    type Leave = fn(&Path, u64);
    type HasGone = fn(&Path, u64) -> bool;
    let remains: [(&str, Leave, HasGone); 9] = [
        (
            "a torn record that is in no queue",
            |root, place| patch(&log_file(root, LOG_FILE_SIZE), place % LOG_FILE_SIZE + 90, |at| at[0] ^= 1),
            |root, place| is_zero_from(&log_file(root, LOG_FILE_SIZE), place % LOG_FILE_SIZE),
        ),
        (
            "a unit behind its queue's end",
            |root, _| put_units(root, &[BEHIND_LOG]),
            |root, _| is_zero_from(&last_queue_file(root), 100),
        ),
        (
            "a unit behind its queue's end, and a blank one",
            |root, _| put_units(root, &[BEHIND_LOG, CqUnit::PRE_BLANK]),
            |root, _| is_zero_from(&last_queue_file(root), 100),
        ),
        (
            "units behind its queue's end, and a blank one between them",
            |root, _| put_units(root, &[BEHIND_LOG, CqUnit::PRE_BLANK, BEHIND_LOG]),
            |root, _| is_zero_from(&last_queue_file(root), 100),
        ),
        (
            "a log file that was allocated ahead",
            |root, _| std::fs::write(next_log_file(root), [0; 4096]).unwrap(),
            |root, _| !next_log_file(root).exists(),
        ),
        (
            "a log file that was not made yet",
            |root, _| std::fs::write(next_log_file(root), "").unwrap(),
            |root, _| !next_log_file(root).exists(),
        ),
        (
            "a queue file that was not made yet",
            |root, _| std::fs::write(next_queue_file(root), "").unwrap(),
            |root, _| !next_queue_file(root).exists(),
        ),
        (
            "a file of an extension that was not made yet",
            |root, _| std::fs::write(next_ext_file(root), "").unwrap(),
            |root, _| !next_ext_file(root).exists(),
        ),
        (
            "an index file that was not made yet",
            |root, _| std::fs::write(next_index_file(root), "").unwrap(),
            |root, _| !next_index_file(root).exists(),
        ),
    ];
    for (what, leave, has_gone) in remains {
        let root = tempfile::tempdir().unwrap();
        let place = closed(root.path());
        leave(root.path(), place);
        assert!(!has_gone(root.path(), place), "{what} is there");
        // As after a crash, which leaves a torn record where none was known to be.
        let cutting = cutting(root.path());
        let store = open_with(StoreConfig { enable_consume_queue_ext: true, ..cutting });
        assert!(has_gone(root.path(), place), "{what} has gone");
        assert_eq!(numbers(&store), (0..25).collect::<Vec<_>>());
        fill(&store, 25..60);
        assert_eq!(numbers(&store), (0..60).collect::<Vec<_>>());
    }
}

/// One sync of the file system that they share takes less than one of each of many folders.
#[test]
fn that_files_of_many_queues_went_is_brought_to_the_disk_at_once() {
    let root = tempfile::tempdir().unwrap();
    closed(root.path());
    for queue_id in 1..=257 {
        let folder = root.path().join(format!("consumequeue/t/{queue_id}"));
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join("00000000000000000000"), [1; 200]).unwrap();
    }
    let synced = Arc::new(Mutex::new(Vec::new()));
    let (noted, root_folder) = (Arc::clone(&synced), root.path().to_owned());
    let hook: Hook = Box::new(move |call, path| {
        let of_queues = path.starts_with(root_folder.join("consumequeue"));
        match call {
            Call::SyncAll => noted.lock().push(path.to_owned()),
            Call::Sync | Call::SyncDir if of_queues => noted.lock().push(path.to_owned()),
            _ => {}
        }
        Ok(())
    });
    let _store = open_hooked(config(root.path()), Mode::ReadWrite, hook);
    assert_eq!(*synced.lock(), [root.path()]);
}

/// What a file holds from its begin on can be torn as well: the blank at the end of the file before it stays.
#[test]
fn a_log_whose_last_file_begins_with_a_torn_record_ends_where_that_file_begins() {
    for behind in [vec![0xff; 4096], vec![0; 4096]] {
        let root = tempfile::tempdir().unwrap();
        let store = open(root.path());
        fill(&store, 0..22);
        assert_eq!(put(&store, "t", 0, &[b'x'; 80], "").wrote_offset, LOG_FILE_SIZE);
        crash(store);
        std::fs::write(log_file(root.path(), LOG_FILE_SIZE), &behind).unwrap();
        let store = open(root.path());
        assert_eq!(store.max_phy_offset(), LOG_FILE_SIZE);
        fill(&store, 50..53);
        let expected: Vec<_> = (0..22).chain(50..53).collect();
        assert_eq!(numbers(&store), expected);
    }
}
