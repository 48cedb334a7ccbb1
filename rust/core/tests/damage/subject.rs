//! The small stores that are damaged: a few dozen messages over several queues, in several files of each kind.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use mqstore_core::commit_log::Wait;
use mqstore_core::config::StoreConfig;
use mqstore_core::format::batch::BatchItem;
use mqstore_core::format::index::IndexShape;
use mqstore_core::format::sys_flag::{TRANSACTION_COMMIT_TYPE, TRANSACTION_PREPARED_TYPE};
use mqstore_core::store::{BatchMessage, PutStep, Store};

use crate::stores::{self, Opened, crash, message, open_with, try_put};

/// Files of a store by their path in it.
pub(crate) type Files = BTreeMap<PathBuf, Vec<u8>>;

/// How a store was left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Left {
    /// Closed.
    Closed,
    /// Killed: what was dispatched last is in the files and not known to be.
    Killed,
}

/// What a store is made with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kind {
    pub(crate) left: Left,
    /// Whether records have the checksum of the whole record.
    pub(crate) with_crc: bool,
    /// Another store has other messages.
    pub(crate) number: usize,
}

/// The options: files so small that a store has several of each.
pub(crate) fn config(root: &Path) -> StoreConfig {
    StoreConfig {
        mapped_file_size_commit_log: 2048,
        mapped_file_size_consume_queue: 100,
        index_shape: IndexShape { hash_slot_num: 5, index_num: 16 },
        ..stores::config(root)
    }
}

/// Makes a store, and gives its files.
pub(crate) fn make(root: &Path, kind: Kind) -> Files {
    let opened = open_with(StoreConfig { enabled_append_prop_crc: kind.with_crc, ..config(root) });
    fill(&opened, kind.number, 0..24);
    opened.flush_everything().unwrap();
    fill(&opened, kind.number, 24..36);
    opened.reput().unwrap();
    for queue in opened.queues().all() {
        queue.spill().unwrap();
    }
    fill(&opened, kind.number, 36..40);
    match kind.left {
        Left::Closed => {
            opened.close().unwrap();
            drop(opened);
        }
        Left::Killed => crash(opened),
    }
    let files = stores::tree(root)
        .into_iter()
        .filter_map(|(path, content)| Some((path.strip_prefix(root).unwrap().to_path_buf(), content?)));
    files.filter(|(path, _)| path.as_os_str() != "lock").collect()
}

/// Puts messages, no two stores' of the same sizes in the same queues.
fn fill(opened: &Opened, store: usize, numbers: std::ops::Range<usize>) {
    for number in numbers {
        opened.clock.set(1_000_000 + number as i64 * 700 + (number as i64 * 37) % 600);
        let name = store * 1000 + number;
        let body = format!("{name}|{}", "b".repeat((number * store + store) % 40));
        let properties = format!("KEYS\x01k{name} all\x02TAGS\x01T{}", number % 3);
        let topic = ["orders", "orders", "payments", "notes"][(number + store) % 4];
        let queue_id = (number / 4 % 2) as i32;
        match number % 12 {
            7 => put_batch(opened, name),
            10 => put_transaction(opened, &body, &properties),
            11 => _ = stores::put(opened, topic, queue_id, body.as_bytes(), ""),
            _ => _ = stores::put(opened, topic, queue_id, body.as_bytes(), &properties),
        }
    }
}

fn put_batch(store: &Store, name: usize) {
    let bodies = [format!("{name}|first"), format!("{name}|second")];
    let items = bodies.iter().map(|body| BatchItem { flag: 3, body: body.as_bytes(), properties: b"p\x01q" });
    let batch = BatchMessage { shared: message("orders", 1, b"", "TAGS\x01T1"), items: items.collect() };
    let step = store.put_messages(&batch, Wait::Block);
    assert!(matches!(step, PutStep::Done(_)), "{step:?}");
}

fn put_transaction(store: &Store, body: &str, properties: &str) {
    let mut prepared = message("payments", 1, body.as_bytes(), properties);
    prepared.sys_flag = TRANSACTION_PREPARED_TYPE;
    let appended = try_put(store, &prepared).unwrap();
    prepared.sys_flag = TRANSACTION_COMMIT_TYPE;
    prepared.prepared_transaction_offset = appended.wrote_offset as i64;
    try_put(store, &prepared).unwrap();
}

/// Writes a store's files into an empty folder.
pub(crate) fn write(files: &Files, root: &Path) {
    for (path, content) in files {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
}
