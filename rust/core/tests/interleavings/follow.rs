//! A reader in another process follows what a writer publishes.

use crate::stores::{fill, numbers, open, read};
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
