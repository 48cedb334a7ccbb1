//! What the locks are made of where a scheduler of tests decides which thread goes on.

use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use shuttle::future::batch_semaphore::{BatchSemaphore, Fairness};
use shuttle::rand::{Rng as _, thread_rng};
use shuttle::sync::atomic::{AtomicBool, Ordering};

pub(super) use shuttle::sync::{Mutex, RwLock};
pub use shuttle::sync::{RwLockReadGuard, RwLockWriteGuard};

/// A scheduler has no time: a wait with a limit above this one has none, every other may be over at any
/// moment.
const FOREVER: Duration = Duration::from_secs(3600);
/// Of so many waits one ends untold, as one of the standard library's may. Not at any moment: who was not told although there was
/// something to tell has to wait for ever, or nobody would see it.
const WAITS_TO_ONE_UNTOLD: u32 = 8;

pub(super) fn let_another_go_on() {
    AtomicBool::new(false).load(Ordering::SeqCst);
}

/// What holds a lock, and the lock, which a wait takes again.
#[derive(Debug)]
pub struct MutexGuard<'a, T> {
    held: shuttle::sync::MutexGuard<'a, T>,
    lock: &'a Mutex<T>,
}

pub(super) const fn guard<'a, T>(
    held: shuttle::sync::MutexGuard<'a, T>,
    lock: &'a Mutex<T>,
) -> MutexGuard<'a, T> {
    MutexGuard { held, lock }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.held
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.held
    }
}

/// Its own: none of shuttle's waits has a limit.
#[derive(Debug, Default)]
pub(super) struct Condvar {
    /// Those who wait, the first one first. Nothing is scheduled while this is locked.
    waiting: std::sync::Mutex<VecDeque<Arc<BatchSemaphore>>>,
}

impl Condvar {
    fn waiting(&self) -> std::sync::MutexGuard<'_, VecDeque<Arc<BatchSemaphore>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn notify_one(&self) {
        let_another_go_on();
        let first = self.waiting().pop_front();
        if let Some(told) = first {
            told.release(1);
        }
    }

    pub(super) fn notify_all(&self) {
        let_another_go_on();
        let all = std::mem::take(&mut *self.waiting());
        for told in all {
            told.release(1);
        }
    }
}

/// Waits at most so long to be told, and gives whether the time was up.
pub(super) fn wait<'a, T>(
    condvar: &Condvar,
    MutexGuard { held, lock }: MutexGuard<'a, T>,
    timeout: Duration,
) -> (MutexGuard<'a, T>, bool) {
    let_another_go_on();
    let told = Arc::new(BatchSemaphore::new(0, Fairness::StrictlyFair));
    condvar.waiting().push_back(Arc::clone(&told));
    drop(held);
    let ends_untold = thread_rng().gen_ratio(1, WAITS_TO_ONE_UNTOLD);
    let is_told = !ends_untold && is_told(&told, timeout);
    if !is_told {
        condvar.waiting().retain(|one| !Arc::ptr_eq(one, &told));
    }
    let held = lock.lock().unwrap_or_else(PoisonError::into_inner);
    (guard(held, lock), !is_told && !ends_untold)
}

/// Whether somebody tells before the time is up.
fn is_told(told: &BatchSemaphore, timeout: Duration) -> bool {
    if timeout >= FOREVER {
        return told.acquire_blocking(1).is_ok();
    }
    while told.try_acquire(1).is_err() {
        if thread_rng().r#gen() {
            return false;
        }
        shuttle::thread::yield_now();
    }
    true
}
