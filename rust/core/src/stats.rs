//! What a store counts while it is open: how often, how much, how long. Source: `StoreStatsService`.
//!
//! Counters are relaxed: each is right, several read together may be a put apart.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Below how many milliseconds each class of put times ends; the last class has no end.
pub const PUT_TIME_LIMITS_MS: [u64; 12] = [1, 10, 50, 100, 200, 500, 1000, 2000, 3000, 4000, 5000, 10_000];

/// Counters of a store.
#[derive(Debug, Default)]
pub struct StoreStats {
    put_message_times_total: AtomicU64,
    put_message_size_total: AtomicU64,
    put_message_failed_times: AtomicU64,
    put_message_distribute_time: [AtomicU64; PUT_TIME_LIMITS_MS.len() + 1],
    put_message_entire_time_max_us: AtomicU64,
    get_message_times_total_found: AtomicU64,
    get_message_times_total_miss: AtomicU64,
    get_message_transfered_msg_count: AtomicU64,
    get_message_entire_time_max_us: AtomicU64,
}

/// The counters at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StoreFigures {
    /// Messages that were put.
    pub put_message_times_total: u64,
    /// Bytes of their records.
    pub put_message_size_total: u64,
    /// Puts that stored nothing.
    pub put_message_failed_times: u64,
    /// Puts by how long they took: see [`PUT_TIME_LIMITS_MS`].
    pub put_message_distribute_time: [u64; PUT_TIME_LIMITS_MS.len() + 1],
    /// The longest put, in microseconds.
    pub put_message_entire_time_max_us: u64,
    /// Gets that found messages.
    pub get_message_times_total_found: u64,
    /// Gets that found none.
    pub get_message_times_total_miss: u64,
    /// Messages that gets gave.
    pub get_message_transfered_msg_count: u64,
    /// The longest get, in microseconds.
    pub get_message_entire_time_max_us: u64,
}

impl StoreStats {
    /// A put of so many messages, in records of so many bytes, is in the log.
    pub(crate) fn put(&self, begin: Instant, count: u64, size: u64) {
        let time_us = elapsed_us(begin);
        self.put_message_times_total.fetch_add(count, Ordering::Relaxed);
        self.put_message_size_total.fetch_add(size, Ordering::Relaxed);
        let class = PUT_TIME_LIMITS_MS.iter().take_while(|&&limit| time_us >= limit * 1000).count();
        if let Some(counter) = self.put_message_distribute_time.get(class) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
        raise(&self.put_message_entire_time_max_us, time_us);
    }

    /// A put stored nothing.
    pub(crate) fn put_failed(&self) {
        self.put_message_failed_times.fetch_add(1, Ordering::Relaxed);
    }

    /// A get gave so many messages.
    pub(crate) fn get(&self, begin: Instant, count: u64) {
        let times =
            if count > 0 { &self.get_message_times_total_found } else { &self.get_message_times_total_miss };
        times.fetch_add(1, Ordering::Relaxed);
        self.get_message_transfered_msg_count.fetch_add(count, Ordering::Relaxed);
        raise(&self.get_message_entire_time_max_us, elapsed_us(begin));
    }

    /// The counters now.
    #[must_use]
    pub fn figures(&self) -> StoreFigures {
        let now = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        StoreFigures {
            put_message_times_total: now(&self.put_message_times_total),
            put_message_size_total: now(&self.put_message_size_total),
            put_message_failed_times: now(&self.put_message_failed_times),
            put_message_distribute_time: self.put_message_distribute_time.each_ref().map(now),
            put_message_entire_time_max_us: now(&self.put_message_entire_time_max_us),
            get_message_times_total_found: now(&self.get_message_times_total_found),
            get_message_times_total_miss: now(&self.get_message_times_total_miss),
            get_message_transfered_msg_count: now(&self.get_message_transfered_msg_count),
            get_message_entire_time_max_us: now(&self.get_message_entire_time_max_us),
        }
    }
}

/// Without the long numbers that the standard library counts whole microseconds in.
fn elapsed_us(begin: Instant) -> u64 {
    let time = begin.elapsed();
    time.as_secs().saturating_mul(1_000_000).saturating_add(time.subsec_micros().into())
}

/// The longest time is looked at first: it seldom changes, and a put should not write what it need not.
fn raise(max_us: &AtomicU64, time_us: u64) {
    if time_us > max_us.load(Ordering::Relaxed) {
        max_us.fetch_max(time_us, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::StoreStats;

    #[test]
    fn each_time_goes_to_its_class() {
        let stats = StoreStats::default();
        for (milliseconds, class) in
            [(0, 0), (1, 1), (9, 1), (10, 2), (999, 6), (1000, 7), (9999, 11), (10_000, 12), (99_000, 12)]
        {
            let before = stats.figures().put_message_distribute_time;
            // Half a millisecond more than the class's begin: the clock runs on meanwhile.
            let begin = Instant::now().checked_sub(Duration::from_micros(milliseconds * 1000 + 100));
            stats.put(begin.unwrap_or_else(Instant::now), 1, 10);
            let after = stats.figures().put_message_distribute_time;
            let changed: Vec<usize> = (0..13).filter(|&at| before.get(at) != after.get(at)).collect();
            assert_eq!(changed, [class], "{milliseconds}");
        }
        assert!(stats.figures().put_message_entire_time_max_us >= 99_000_000);
        assert_eq!(stats.figures().put_message_size_total, 90);
    }
}
