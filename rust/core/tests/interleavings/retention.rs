//! Files that go while they are read.

use mqstore_core::retention::Expiry;

use crate::stores::{LOG_FILE_SIZE, bodies_of, fill, numbers, open};
use crate::{run, thread};

#[test]
fn who_reads_a_file_that_goes_reads_it_or_goes_on_behind_it() {
    run(|| {
        let root = tempfile::tempdir().unwrap();
        let store = open(root.path());
        fill(&store, 0..30);
        store.reput().unwrap();
        store.flush_everything().unwrap();
        let queue = store.find_consume_queue("t", 0).unwrap();
        let is_behind =
            |number: &u64| queue.unit(*number).unwrap().unwrap().place().unwrap().0 >= LOG_FILE_SIZE;
        let first_behind = usize::try_from((0..30).find(is_behind).unwrap()).unwrap();
        let held = store.get_message("t", 0, 0, 1, None).unwrap();
        thread::scope(|scope| {
            scope.spawn(|| fill(&store, 30..40));
            scope.spawn(|| {
                let expiry = Expiry { reserved_ms: 0, at_once: true, keep_from: u64::MAX };
                assert!(store.delete_expired_log_file(expiry).unwrap().is_some());
                store.delete_expired_queue_files(&queue).unwrap();
                store.delete_expired_index_files().unwrap();
            });
            for _ in 0..2 {
                let found = numbers(&store);
                assert!(found.is_sorted());
                let behind: Vec<_> = found.iter().copied().filter(|&number| number >= first_behind).collect();
                assert_eq!(behind, (first_behind..first_behind + behind.len()).collect::<Vec<_>>());
                assert!(behind.len() >= 30 - first_behind, "{found:?}");
                thread::yield_now();
            }
        });
        assert_eq!(bodies_of(&held)[0].parse::<usize>().unwrap(), 0);
        assert_eq!(store.rejected_count(), 0);
    });
}
