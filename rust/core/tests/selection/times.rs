//! Ranges of time, where a store time is not what was stored.

use std::path::Path;
use std::sync::Arc;

use mqstore_core::format::message::decode_record;
use mqstore_core::selection::{QueueRange, Selection};
use mqstore_core::store::Store;

use crate::stores::{config, log_file, open, patch, put, read};

const COUNT: usize = 24;
const STORE_TIMESTAMP_AT: u64 = 56;

fn time_of(number: usize) -> i64 {
    1_600_000_000_000 + 700 * i64::try_from(number).unwrap()
}

fn selected(store: &Arc<Store>, selection: &Selection) -> Vec<usize> {
    let messages = selection.cursor(Arc::clone(store)).unwrap().next_messages(100, u64::MAX).unwrap();
    let body =
        |record: &[u8]| String::from_utf8_lossy(decode_record(record).unwrap().body).trim().parse().unwrap();
    messages.iter().map(|message| body(message.bytes())).collect()
}

fn flip(root: &Path, offset: u64, bit: u32) {
    let file_size = config(root).mapped_file_size_commit_log;
    let log = log_file(root, offset - offset % file_size);
    patch(&log, offset % file_size + STORE_TIMESTAMP_AT, |bytes| {
        let time = u64::from_be_bytes(bytes[..8].try_into().unwrap()) ^ (1 << bit);
        bytes[..8].copy_from_slice(&time.to_be_bytes());
    });
}

#[test]
fn a_flipped_bit_of_a_store_time_hides_no_other_message() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    let places: Vec<u64> = (0..COUNT)
        .map(|number| {
            store.clock.set(time_of(number));
            put(&store, "t", 0, format!("{number:<700}").as_bytes(), "").wrote_offset
        })
        .collect();
    store.reput().unwrap();
    assert!(store.log().files().files().len() > 4);
    store.close().unwrap();
    let queue = QueueRange { topic: "t".into(), queue_id: None, from: None, to: None };
    for (damaged, &place) in places.iter().enumerate() {
        for bit in [3, 9, 10, 11, 12, 13, 14, 20, 40, 62] {
            flip(root.path(), place, bit);
            let store = read(root.path());
            for queues in [None, Some(vec![queue.clone()])] {
                for (first, last) in [(0, 0), (5, 9), (11, 11), (3, 20), (22, 23)] {
                    let selection = Selection {
                        queues: queues.clone(),
                        begin_timestamp: Some(time_of(first)),
                        end_timestamp: Some(time_of(last)),
                        ..Selection::default()
                    };
                    let mut found = selected(&store.store, &selection);
                    let count = selection.count(Arc::clone(&store.store)).unwrap();
                    // Its unit alone does not tell that the damaged one says another time.
                    let damaged_alone =
                        u64::from((first..=last).contains(&damaged) && !found.contains(&damaged));
                    assert!(
                        count.checked_sub(found.len() as u64).is_some_and(|more| more <= damaged_alone),
                        "{count}"
                    );
                    let mut wanted: Vec<_> = (first..=last).collect();
                    found.retain(|&number| number != damaged);
                    wanted.retain(|&number| number != damaged);
                    assert_eq!(found, wanted, "bit {bit} of {damaged}, by {:?}", selection.queues);
                }
            }
            flip(root.path(), place, bit);
        }
    }
}
