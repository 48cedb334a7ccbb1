//! A reader in another process follows what a writer publishes.

use std::sync::Arc;

use mqstore_core::selection::{QueueRange, Selection};

use crate::stores::recovering::{begin_recovery, write_fifty};
use crate::stores::{crash, fill, numbers, open, read};
use crate::{run, thread};

#[test]
fn a_follower_sees_whole_messages_in_order() {
    run(|| {
        let root = tempfile::tempdir().unwrap();
        let store = open(root.path());
        fill(&store, 0..1);
        let follower = read(root.path());
        thread::scope(|scope| {
            scope.spawn(|| fill(&store, 1..20));
            scope.spawn(|| {
                for _ in 0..2 {
                    store.reput().unwrap();
                    store.flush_consume_queues(0).unwrap();
                }
            });
            let mut seen = 0;
            for _ in 0..3 {
                follower.refresh().unwrap();
                let found = numbers(&follower);
                assert!(found.len() >= seen);
                assert_eq!(found, (0..found.len()).collect::<Vec<_>>());
                seen = found.len();
                thread::yield_now();
            }
        });
        follower.refresh().unwrap();
        assert_eq!(numbers(&follower), (0..20).collect::<Vec<_>>());
        assert!(follower.gaps().is_empty());
    });
}

/// What a writer that recovers the store has taken away is there again in memory, whichever thread of a reader sees to that.
#[test]
fn readers_beside_each_other_miss_nothing_that_is_made_anew() {
    run(|| {
        let root = tempfile::tempdir().unwrap();
        let writer = write_fifty(root.path());
        let reader = read(root.path());
        reader.refresh().unwrap();
        let queues = vec![QueueRange { topic: "t".into(), queue_id: None, from: None, to: None }];
        let of_t = Selection { queues: Some(queues), ..Selection::default() };
        let mut cursor = of_t.cursor(Arc::clone(&reader.store)).unwrap();
        let mut count = cursor.next_messages(15, u64::MAX).unwrap().len();
        crash(writer);
        let _recovering = begin_recovery(root.path());
        thread::scope(|scope| {
            scope.spawn(|| reader.refresh().unwrap());
            scope.spawn(|| assert_eq!(numbers(&reader), (0..50).collect::<Vec<_>>()));
            loop {
                let found = cursor.next_messages(10, u64::MAX).unwrap().len();
                if found == 0 {
                    break;
                }
                count += found;
            }
        });
        assert_eq!((count, cursor.bad_ranges().take().len()), (50, 0));
    });
}

/// The same, with all that a writer does until the store is its own.
#[test]
fn a_reader_beside_a_writer_that_opens_the_store_misses_nothing() {
    run(|| {
        let root = tempfile::tempdir().unwrap();
        let writer = write_fifty(root.path());
        let reader = read(root.path());
        reader.refresh().unwrap();
        crash(writer);
        thread::scope(|scope| {
            let opening = scope.spawn(|| open(root.path()));
            scope.spawn(|| reader.refresh().unwrap());
            for _ in 0..2 {
                assert_eq!(numbers(&reader), (0..50).collect::<Vec<_>>());
            }
            let writer = opening.join().unwrap();
            fill(&writer, 50..60);
            reader.refresh().unwrap();
            assert_eq!(numbers(&reader), (0..60).collect::<Vec<_>>());
        });
    });
}
