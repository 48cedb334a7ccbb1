//! The locks as all of the engine and of the binding has them: without poison.
//!
//! What a thread that panics left behind is for whoever waits for that thread or asks how the store is: a panic here would only
//! hide the first one, and who comes by while a closing store lets go of all it has must not stop.

use std::sync::{PoisonError, TryLockError};
use std::time::{Duration, Instant};

use super::threads::{self, MutexGuard, RwLockReadGuard, RwLockWriteGuard};

/// A lock that one thread holds at a time.
#[derive(Debug, Default)]
pub struct Mutex<T>(threads::Mutex<T>);

impl<T> Mutex<T> {
    /// One that nobody holds.
    pub const fn new(value: T) -> Self {
        Self(threads::Mutex::new(value))
    }

    /// Waits until nobody holds it. Who waits gets it in no order.
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        threads::guard(self.0.lock().unwrap_or_else(PoisonError::into_inner), &self.0)
    }

    /// `None` where it is held.
    #[inline]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(held) => Some(threads::guard(held, &self.0)),
            Err(TryLockError::Poisoned(held)) => Some(threads::guard(held.into_inner(), &self.0)),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

/// A [`Mutex`] for what the same thread takes again as soon as it has let go of it: whoever waits comes before that.
///
/// A lock as it is gives nothing to a thread that is still being woken: one that holds it most of the time holds it again by then,
/// some fifty times in a row.
#[derive(Debug, Default)]
pub struct TurnMutex<T> {
    /// Held by the one who is next; behind it wait all others.
    next: Mutex<()>,
    held: Mutex<T>,
}

impl<T> TurnMutex<T> {
    /// One that nobody holds.
    pub const fn new(value: T) -> Self {
        Self { next: Mutex::new(()), held: Mutex::new(value) }
    }

    /// Waits until nobody holds it, behind whoever is next.
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        let _next = self.next.lock();
        self.held.lock()
    }

    /// `None` where it is held. Before those who wait, so only for what is over at once.
    #[inline]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.held.try_lock()
    }

    /// Whether somebody is next: who asks for it now gets it behind them.
    pub fn is_waited_for(&self) -> bool {
        self.next.try_lock().is_none()
    }
}

/// A lock that one thread holds at a time to write, or many to read.
#[derive(Debug, Default)]
pub struct RwLock<T>(threads::RwLock<T>);

impl<T> RwLock<T> {
    /// One that nobody holds.
    pub const fn new(value: T) -> Self {
        Self(threads::RwLock::new(value))
    }

    /// Waits until nobody writes. A thread that reads already does not ask again: one that waits to write may come first.
    #[inline]
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until nobody reads or writes.
    #[inline]
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where threads wait to be told that what a lock guards has changed. A wait may end untold: who has waited looks again at what it
/// waits for, or can do with a wait that was too short.
#[derive(Debug, Default)]
pub(crate) struct Condvar(threads::Condvar);

impl Condvar {
    /// Waits at most so long, and gives whether the time was up. Nobody holds the lock meanwhile.
    pub(crate) fn wait_for<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        timeout: Duration,
    ) -> (MutexGuard<'a, T>, bool) {
        threads::wait(&self.0, guard, timeout)
    }

    /// As [`Condvar::wait_for`], until a time.
    pub(crate) fn wait_until<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        deadline: Instant,
    ) -> (MutexGuard<'a, T>, bool) {
        self.wait_for(guard, deadline.saturating_duration_since(Instant::now()))
    }

    /// Waits as long as there is something to wait for.
    pub(crate) fn wait_while<'a, T>(
        &self,
        mut guard: MutexGuard<'a, T>,
        mut is_to_wait: impl FnMut(&mut T) -> bool,
    ) -> MutexGuard<'a, T> {
        while is_to_wait(&mut guard) {
            (guard, _) = self.wait_for(guard, Duration::MAX);
        }
        guard
    }

    /// Tells one of those who wait.
    pub(crate) fn notify_one(&self) {
        self.0.notify_one();
    }

    /// Tells all who wait.
    pub(crate) fn notify_all(&self) {
        self.0.notify_all();
    }
}
