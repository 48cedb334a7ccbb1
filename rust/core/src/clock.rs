//! The time comes from outside, so that a test can fix it.

use std::fmt;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::num;

/// Where the store takes the time from.
pub trait Clock: Send + Sync + fmt::Debug {
    /// Milliseconds since 1970, as Java's `System.currentTimeMillis`.
    fn now_ms(&self) -> i64;
}

/// The machine's clock.
#[derive(Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now_ms(&self) -> i64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        num::java_long(since.as_secs()).saturating_mul(1000).saturating_add(since.subsec_millis().into())
    }
}

/// A clock that stands where it was set.
#[derive(Debug, Default)]
pub struct ManualClock(AtomicI64);

impl ManualClock {
    /// A clock that shows this time.
    #[must_use]
    pub const fn at(now_ms: i64) -> Self {
        Self(AtomicI64::new(now_ms))
    }

    /// Sets it.
    pub fn set(&self, now_ms: i64) {
        self.0.store(now_ms, Ordering::Relaxed);
    }
}

impl Clock for ManualClock {
    fn now_ms(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }
}
