//! A store that is closed while it is used.

use crate::stores::{fill, message, numbers, open, try_put};
use crate::{run, thread};

#[test]
fn what_was_put_before_a_close_is_there_and_nothing_is_put_behind_it() {
    run(|| {
        let root = tempfile::tempdir().unwrap();
        let store = open(root.path());
        fill(&store, 0..1);
        let put = thread::scope(|scope| {
            let putter = scope.spawn(|| {
                let is_put = |number: &usize| {
                    try_put(&store, &message("t", 0, number.to_string().as_bytes(), "")).is_ok()
                };
                1 + (1..4).take_while(is_put).count()
            });
            scope.spawn(|| _ = store.reput());
            scope.spawn(|| _ = store.flush_everything());
            store.close().unwrap();
            putter.join().unwrap()
        });
        drop(store);
        let again = open(root.path());
        assert!(again.notes().closed_cleanly);
        assert_eq!(numbers(&again), (0..put).collect::<Vec<_>>());
    });
}
