//! Hand-over between the writer, the flusher, the dispatcher, readers and followers, whoever goes on when.
//!
//! With the feature `shuttle` a scheduler decides at each lock and atomic of the engine which thread goes on,
//! and each scenario runs under many of its decisions (`make interleavings`): a wake-up that is lost is a
//! deadlock then, and said to be one. A failure prints its schedule. Without the feature the threads are real
//! and few rounds are made, also under a
//! sanitizer (`make tsan`): of the order in which memory is seen a scheduler knows only the strictest.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)] // a test stops at what is wrong

#[path = "../stores/mod.rs"]
mod stores;

#[path = "../crash/faulty.rs"]
#[allow(dead_code)] // of the calls that can fail one is enough here
mod faulty;

mod call_threads;
mod close;
mod commit_log;
mod dispatch;
mod flush;
mod follow;
#[cfg(feature = "shuttle")]
mod group_transfer;
mod retention;

use std::time::Duration;

#[cfg(feature = "shuttle")]
use shuttle::{sync::atomic::AtomicBool, thread};
#[cfg(not(feature = "shuttle"))]
use std::{sync::atomic::AtomicBool, thread};

/// Longer than a scheduler lets a wait be over by itself: whoever waits so long has to be told.
const FOREVER: Duration = Duration::from_secs(7200);

fn number(name: &str, otherwise: usize) -> usize {
    std::env::var(name).map_or(otherwise, |value| value.parse().unwrap())
}

/// Runs a scenario again and again.
#[cfg(feature = "shuttle")]
fn run(scenario: impl Fn() + Send + Sync + 'static) {
    use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
    use shuttle::{Config, Runner};

    fn under(scheduler: impl Scheduler + 'static, scenario: impl Fn() + Send + Sync + 'static) {
        let mut config = Config::new();
        config.stack_size = 1 << 20;
        Runner::new(scheduler, config).run(scenario);
    }

    let (schedules, seed) = (number("MQSTORE_SCHEDULES", 40), number("MQSTORE_SEED", 7));
    let scenario = std::sync::Arc::new(scenario);
    let again = std::sync::Arc::clone(&scenario);
    under(RandomScheduler::new_from_seed(seed as u64, schedules), move || again());
    // Threads of fixed precedence, which changes at a few places: it comes to orders that chance hardly does.
    under(PctScheduler::new_from_seed(seed as u64, 3, schedules), move || scenario());
}

#[cfg(not(feature = "shuttle"))]
fn run(scenario: impl Fn()) {
    for _ in 0..number("MQSTORE_SCHEDULES", 20) {
        scenario();
    }
}
