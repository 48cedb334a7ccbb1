//! What the folder of queues holds.

use mqstore_core::consume_queue::listing::QueueListing;
use mqstore_core::mmap::mapped_file::Access;

use crate::stores::{config, fs};
use crate::table_with;

#[test]
fn only_folders_named_as_rocketmq_names_them_are_queues() {
    let root = tempfile::tempdir().unwrap();
    let consume_queue = root.path().join("consumequeue");
    for name in ["t/0", "t/01", "t/+2", "t/x", "t/-1", "empty"] {
        std::fs::create_dir_all(consume_queue.join(name)).unwrap();
    }
    std::fs::write(consume_queue.join("file"), "").unwrap();
    std::fs::write(consume_queue.join("t/9"), "").unwrap();
    let listing = QueueListing::read(&*fs(), &consume_queue, None).unwrap();
    assert_eq!(listing.len(), 2);
    assert!(listing.contains("t", 0) && listing.contains("t", -1) && !listing.is_empty());
    let none = QueueListing::read(&*fs(), &root.path().join("missing"), None).unwrap();
    assert!(none.is_empty() && none.faults.is_empty());
}

#[test]
fn faults_of_all_queues_are_told() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("consumequeue/t/0");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join(format!("{:020}", 0)), [0; 200]).unwrap();
    std::fs::write(folder.join(format!("{:020}", 400)), [0; 200]).unwrap();
    std::fs::write(folder.join("stray"), "").unwrap();
    let listing = QueueListing::read(&*fs(), &root.path().join("consumequeue"), None).unwrap();
    assert_eq!((listing.faults.len(), listing.file_size), (2, Some(200)));
}

#[test]
fn a_queue_file_that_was_cut_says_nothing_of_the_others() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("consumequeue");
    let listing = || QueueListing::read(&*fs(), &folder, None).unwrap();
    let write = |topic: &str, len: usize| {
        std::fs::create_dir_all(folder.join(topic).join("0")).unwrap();
        std::fs::write(folder.join(topic).join(format!("0/{:020}", 0)), vec![0; len]).unwrap();
    };
    // Cut anywhere, in the middle of a unit too, with or without others beside it.
    for len in [1, 19, 30, 96] {
        write("t", len);
        let found = listing();
        assert_eq!((found.file_size, found.faults.len()), (None, 1), "{len}");
        assert!(found.faults[0].path.starts_with(folder.join("t")));
        let table = table_with(config(root.path()), Access::MapRead);
        assert_eq!((table.file_size(), table.units_in_file()), (200, 10));
    }
    for cut in ["a", "m", "z"] {
        for len in [7, 20, 30] {
            ["a", "m", "z"].iter().for_each(|topic| write(topic, if *topic == cut { len } else { 200 }));
            std::fs::remove_dir_all(folder.join("t")).unwrap_or_default();
            let found = listing();
            assert_eq!((found.file_size, found.faults.len()), (Some(200), 1), "{cut} {len}");
            assert!(found.faults[0].path.starts_with(folder.join(cut)));
        }
    }
}
