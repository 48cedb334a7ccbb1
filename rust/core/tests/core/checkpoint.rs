//! The checkpoint file and the positions.

use mqstore_core::checkpoint::StoreCheckpoint;
use mqstore_core::format::positions::{DurablePositions, LastRecord};

use crate::stores::fs;

fn load(root: &std::path::Path) -> (StoreCheckpoint, Option<DurablePositions>) {
    let (checkpoint, positions) =
        StoreCheckpoint::load(fs(), root.join("checkpoint"), &root.join("mqstore")).unwrap();
    (checkpoint, positions.known())
}

#[test]
fn what_was_flushed_is_loaded() {
    let root = tempfile::tempdir().unwrap();
    std::fs::create_dir(root.path().join("mqstore")).unwrap();
    let (checkpoint, positions) = load(root.path());
    assert_eq!((checkpoint.times().min_timestamp(), positions), (0, None));
    checkpoint.set_physic_msg_timestamp(10_000);
    checkpoint.set_logics_msg_timestamp(20_000);
    checkpoint.set_index_msg_timestamp(30_000);
    for nothing in [0, -1] {
        checkpoint.set_physic_msg_timestamp(nothing);
        checkpoint.set_logics_msg_timestamp(nothing);
        checkpoint.set_index_msg_timestamp(nothing);
    }
    let written = DurablePositions { log: 1, queues: 2, index: 3 };
    checkpoint.set_positions(written);
    checkpoint.flush().unwrap();
    assert_eq!(std::fs::metadata(root.path().join("checkpoint")).unwrap().len(), 4096);
    let (again, positions) = load(root.path());
    assert_eq!((again.times(), positions), (checkpoint.times(), Some(written)));
    assert_eq!(again.times().physic_msg_timestamp, 10_000);
}

#[test]
fn the_last_record_is_known_as_long_as_the_queues_have_it() {
    let root = tempfile::tempdir().unwrap();
    std::fs::create_dir(root.path().join("mqstore")).unwrap();
    let (checkpoint, _) = load(root.path());
    assert_eq!(checkpoint.last_record(), None);
    let last = LastRecord { offset: 200, store_timestamp: 1_000_000, body_crc: -1 };
    checkpoint.set_last_record(last);
    let positions = DurablePositions { log: 300, queues: 201, index: 0 };
    checkpoint.set_positions(positions);
    checkpoint.flush().unwrap();
    let (checkpoint, _) = load(root.path());
    assert_eq!(checkpoint.last_record(), Some(last));
    checkpoint.set_positions(DurablePositions { queues: 200, ..positions });
    checkpoint.flush().unwrap();
    checkpoint.set_positions(positions);
    checkpoint.flush().unwrap();
    assert_eq!(load(root.path()).0.last_record(), None, "another one may be there by now");
}

#[test]
fn short_and_damaged_files_say_nothing() {
    let root = tempfile::tempdir().unwrap();
    std::fs::create_dir(root.path().join("mqstore")).unwrap();
    for len in [0, 1, 23] {
        std::fs::write(root.path().join("checkpoint"), vec![1; len]).unwrap();
        std::fs::write(root.path().join("mqstore/positions"), vec![1; len]).unwrap();
        let (checkpoint, positions) = load(root.path());
        assert_eq!((checkpoint.times().physic_msg_timestamp, positions), (0, None));
    }
    let (checkpoint, _) = load(root.path());
    checkpoint.flush().unwrap();
    assert!(load(root.path()).1.is_some(), "a short file is brought to size");
}
