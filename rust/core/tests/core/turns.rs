//! Who waits for a lock that another thread takes again and again.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use mqstore_core::sync::TurnMutex;

#[test]
fn who_waits_comes_before_who_takes_it_again() {
    let lock = TurnMutex::new(());
    for _ in 0..200 {
        let came = AtomicBool::new(false);
        let held = lock.lock();
        thread::scope(|threads| {
            threads.spawn(|| {
                let _held = lock.lock();
                came.store(true, Ordering::Release);
            });
            while !lock.is_waited_for() {
                thread::yield_now();
            }
            drop(held);
            let _again = lock.lock();
            assert!(came.load(Ordering::Acquire), "the thread that let go of it held it again first");
        });
    }
}

#[test]
fn trying_waits_for_nobody() {
    let lock = TurnMutex::new(1);
    let held = lock.lock();
    assert!(lock.try_lock().is_none());
    drop(held);
    assert_eq!(lock.try_lock().as_deref(), Some(&1));
    assert!(!lock.is_waited_for());
}
