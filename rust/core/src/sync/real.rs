//! What the locks are made of where threads are real: the standard library's.

use std::sync::PoisonError;
use std::time::Duration;

pub(super) use std::sync::{Condvar, Mutex, RwLock};
pub use std::sync::{MutexGuard, RwLockReadGuard, RwLockWriteGuard};

/// What holds a lock, which a wait finds by itself.
pub(super) const fn guard<'a, T>(held: MutexGuard<'a, T>, _lock: &'a Mutex<T>) -> MutexGuard<'a, T> {
    held
}

/// Waits at most so long to be told, and gives whether the time was up.
pub(super) fn wait<'a, T>(
    condvar: &Condvar,
    guard: MutexGuard<'a, T>,
    timeout: Duration,
) -> (MutexGuard<'a, T>, bool) {
    let (guard, waited) = condvar.wait_timeout(guard, timeout).unwrap_or_else(PoisonError::into_inner);
    (guard, waited.timed_out())
}
