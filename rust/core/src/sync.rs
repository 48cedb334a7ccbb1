//! The locks and atomics by which threads hand over to each other, and the threads of one call.
//!
//! They are parking_lot's and the standard library's. With the feature `shuttle`, which is for tests, a
//! scheduler stands behind each of them and decides which thread goes on: `tests/interleavings` runs the same
//! engine through many of its decisions. What is mapped keeps real atomics (`mmap/region.rs`), and so does
//! what is only counted.

#[cfg(not(feature = "shuttle"))]
pub(crate) use parking_lot::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
#[cfg(not(feature = "shuttle"))]
pub(crate) use std::sync::atomic::{
    AtomicBool, AtomicI32, AtomicI64, AtomicU16, AtomicU32, AtomicU64, AtomicUsize,
};
#[cfg(not(feature = "shuttle"))]
pub(crate) use std::thread::{Scope, ScopedJoinHandle, scope};

#[cfg(feature = "shuttle")]
pub(crate) use scheduled::Condvar;
#[cfg(feature = "shuttle")]
pub(crate) use shuttle::sync::atomic::{
    AtomicBool, AtomicI32, AtomicI64, AtomicU16, AtomicU32, AtomicU64, AtomicUsize,
};
#[cfg(feature = "shuttle")]
pub(crate) use shuttle::thread::{Scope, ScopedJoinHandle, scope};
#[cfg(feature = "shuttle")]
pub(crate) use shuttle_parking_lot::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};

pub(crate) use std::sync::atomic::Ordering;

/// A thread of a scope; `None` where the machine gives none. A scheduler always does.
pub(crate) fn spawn_scoped<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    work: impl FnOnce() -> T + Send + 'scope,
) -> Option<ScopedJoinHandle<'scope, T>> {
    #[cfg(feature = "shuttle")]
    return Some(scope.spawn(work));
    #[cfg(not(feature = "shuttle"))]
    std::thread::Builder::new().spawn_scoped(scope, work).ok()
}

/// Comes before something that other threads can see and that is no lock and no atomic of these.
#[inline]
pub(crate) fn before_visible_change() {
    #[cfg(feature = "shuttle")]
    scheduled::let_another_go_on();
}

#[cfg(feature = "shuttle")]
mod scheduled {
    use std::collections::VecDeque;
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    use shuttle::future::batch_semaphore::{BatchSemaphore, Fairness};
    use shuttle::rand::Rng as _;
    use shuttle::sync::atomic::{AtomicBool, Ordering};
    use shuttle_parking_lot::MutexGuard;

    pub(super) fn let_another_go_on() {
        AtomicBool::new(false).load(Ordering::SeqCst);
    }

    /// A scheduler has no time: a wait with a limit above this one has none, every other may be over at any
    /// moment.
    const FOREVER: Duration = Duration::from_secs(3600);

    /// parking_lot's, of which shuttle has none: nobody wakes who was not told to.
    #[derive(Debug, Default)]
    pub(crate) struct Condvar {
        /// Those who wait, the first one first. Nothing is scheduled while this is locked.
        waiting: parking_lot::Mutex<VecDeque<Arc<BatchSemaphore>>>,
    }

    /// Whether a wait ended because its time was up.
    #[derive(Debug, Clone, Copy)]
    pub(crate) struct WaitTimeoutResult(bool);

    impl WaitTimeoutResult {
        pub(crate) const fn timed_out(self) -> bool {
            self.0
        }
    }

    impl Condvar {
        pub(crate) fn wait_while<T>(
            &self,
            guard: &mut MutexGuard<'_, T>,
            mut is_to_wait: impl FnMut(&mut T) -> bool,
        ) {
            while is_to_wait(guard) {
                self.wait_for(guard, Duration::MAX);
            }
        }

        pub(crate) fn wait_until<T>(
            &self,
            guard: &mut MutexGuard<'_, T>,
            deadline: Instant,
        ) -> WaitTimeoutResult {
            self.wait_for(guard, deadline.saturating_duration_since(Instant::now()))
        }

        pub(crate) fn wait_for<T>(
            &self,
            guard: &mut MutexGuard<'_, T>,
            timeout: Duration,
        ) -> WaitTimeoutResult {
            let_another_go_on();
            let told = Arc::new(BatchSemaphore::new(0, Fairness::StrictlyFair));
            self.waiting.lock().push_back(Arc::clone(&told));
            let is_told = MutexGuard::unlocked(guard, || {
                if timeout >= FOREVER {
                    return told.acquire_blocking(1).is_ok();
                }
                while told.try_acquire(1).is_err() {
                    if shuttle::rand::thread_rng().r#gen() {
                        return false;
                    }
                    shuttle::thread::yield_now();
                }
                true
            });
            if !is_told {
                self.waiting.lock().retain(|one| !Arc::ptr_eq(one, &told));
            }
            WaitTimeoutResult(!is_told)
        }

        pub(crate) fn notify_one(&self) {
            let_another_go_on();
            let first = self.waiting.lock().pop_front();
            if let Some(told) = first {
                told.release(1);
            }
        }

        pub(crate) fn notify_all(&self) {
            let_another_go_on();
            let all = std::mem::take(&mut *self.waiting.lock());
            for told in all {
                told.release(1);
            }
        }
    }
}
