//! The locks and atomics by which threads hand over to each other, and the threads of one call.
//!
//! A lock keeps who waits for it in itself: a forked process has anything global as it stood at that moment, and where a thread
//! of the parent was just changing a table of all who wait, nobody there, not even at a lock of its own, would be let go
//! any more. The standard library's locks are such (`real`). With the feature `shuttle`, which is for tests, a
//! scheduler stands behind each of them and decides which thread goes on (`scheduled`): `tests/interleavings` runs the same
//! engine through many of its decisions. What is mapped keeps real atomics (`mmap/region.rs`), and so does
//! what is only counted.

mod locks;
#[cfg(not(feature = "shuttle"))]
mod real;
#[cfg(feature = "shuttle")]
mod scheduled;

#[cfg(not(feature = "shuttle"))]
use real as threads;
#[cfg(feature = "shuttle")]
use scheduled as threads;

#[cfg(not(feature = "shuttle"))]
pub(crate) use std::sync::atomic::{
    AtomicBool, AtomicI32, AtomicI64, AtomicU16, AtomicU32, AtomicU64, AtomicUsize,
};
#[cfg(not(feature = "shuttle"))]
pub(crate) use std::thread::{Scope, ScopedJoinHandle, scope};

#[cfg(feature = "shuttle")]
pub(crate) use shuttle::sync::atomic::{
    AtomicBool, AtomicI32, AtomicI64, AtomicU16, AtomicU32, AtomicU64, AtomicUsize,
};
#[cfg(feature = "shuttle")]
pub(crate) use shuttle::thread::{Scope, ScopedJoinHandle, scope};

pub(crate) use locks::Condvar;
pub use locks::{Mutex, RwLock, TurnMutex};
pub(crate) use std::sync::atomic::Ordering;
pub use threads::{MutexGuard, RwLockReadGuard, RwLockWriteGuard};

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
