//! Files that go while they are read.

use mqstore_core::retention::Expiry;

use crate::stores::{bodies_of, open, put};
use crate::{run, thread};

#[test]
fn who_reads_a_file_that_goes_reads_it_or_goes_on_behind_it() {
    run(|| {
        let root = tempfile::tempdir().unwrap();
        let store = open(root.path());
        // Three to a file of the log, all in one of the queue.
        for number in 0..5 {
            put(&store, "t", 0, format!("{number:0>1200}").as_bytes(), "");
        }
        store.reput().unwrap();
        store.flush_everything().unwrap();
        let queue = store.find_consume_queue("t", 0).unwrap();
        let held = store.get_message("t", 0, 0, 1, None).unwrap();
        thread::scope(|scope| {
            scope.spawn(|| {
                let expiry = Expiry { reserved_ms: 0, at_once: true, keep_from: u64::MAX };
                assert!(store.delete_expired_log_file(expiry).unwrap().is_some());
                store.delete_expired_queue_files(&queue).unwrap();
                store.delete_expired_index_files().unwrap();
            });
            let mut found: Vec<usize> = Vec::new();
            let mut next = 0;
            while next < 5 {
                let got = store.get_message("t", 0, next, 2, None).unwrap();
                found.extend(bodies_of(&got).iter().map(|body| body.parse::<usize>().unwrap()));
                next = got.next_begin_offset;
            }
            // Of the three that go those at the end can be missing.
            let (gone, left) = found.split_at(found.len() - 2);
            assert_eq!(left, [3, 4]);
            assert_eq!(gone, (0..gone.len()).collect::<Vec<_>>());
        });
        assert_eq!(bodies_of(&held)[0].parse::<usize>().unwrap(), 0);
        assert_eq!(store.rejected_count(), 0);
    });
}
