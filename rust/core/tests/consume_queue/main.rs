//! Queues: their units, where they begin and end, what is found in them.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)] // a test stops at what is wrong

#[path = "../stores/mod.rs"]
mod stores;

#[allow(dead_code)] // not every call is of interest here
#[path = "../store/hooked.rs"]
mod hooked;

mod ext;
mod listing;
mod lookup;
mod recover;
mod table;
mod table_on_disk;
mod units;

use std::path::Path;
use std::sync::Arc;

use mqstore_core::commit_log::topic_queue::QueueRef;
use mqstore_core::config::StoreConfig;
use mqstore_core::consume_queue::listing::QueueListing;
use mqstore_core::consume_queue::table::QueueTable;
use mqstore_core::consume_queue::{ConsumeQueue, NewUnit};
use mqstore_core::format::cq_unit::CqUnit;
use mqstore_core::fs::FileSystem;
use mqstore_core::mmap::mapped_file::Access;

fn table_on(fs: Arc<dyn FileSystem>, config: StoreConfig, access: Access) -> QueueTable {
    let listing = QueueListing::read(&*fs, &config.store_path_consume_queue(), None).unwrap();
    QueueTable::new(Arc::new(config), fs, access, &listing).unwrap()
}

fn table_with(config: StoreConfig, access: Access) -> QueueTable {
    table_on(stores::fs(), config, access)
}

fn table(root: &Path) -> QueueTable {
    table_with(stores::config(root), Access::MapWrite)
}

fn queue_of(table: &QueueTable) -> Arc<ConsumeQueue> {
    table.get_or_make(QueueRef { topic: b"t", queue_id: 0 }).unwrap()
}

/// Records of 100 bytes, the first at offset 0.
fn unit(number: u64) -> CqUnit {
    CqUnit { physical_offset: (number * 100).cast_signed(), size: 100, tags_code: number.cast_signed() }
}

fn new_unit(number: u64, cq_offset: u64) -> NewUnit {
    NewUnit {
        unit: unit(number),
        cq_offset: cq_offset.cast_signed(),
        store_timestamp: 1000,
        filter_bit_map: None,
    }
}

fn all_units(queue: &ConsumeQueue) -> Vec<CqUnit> {
    let mut found = Vec::new();
    let mut next = queue.min_offset_in_queue();
    loop {
        let some = queue.units(next, 1000).unwrap();
        if some.is_empty() {
            return found;
        }
        next += some.len() as u64;
        found.extend(some);
    }
}
