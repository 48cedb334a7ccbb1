//! Work of one call that several cores share.
//!
//! The threads end before the call does, so that no one has to know of them.

use std::num::NonZero;
use std::panic::resume_unwind;
use std::sync::OnceLock;
use std::thread;

use crate::error::Result;
use crate::interrupt;
use crate::sync::{self, Mutex};

/// Fewer things than this are not worth a thread.
const MANY: usize = 256;
/// Threads for work that waits for the disk: it does many things at a time, whatever the cores are.
const WAITING_THREADS: usize = 8;
/// Things that a thread takes at a time, and that are begun before the caller can break off.
const THINGS_OF_JOB: usize = 16;
const THINGS_AT_ONCE: usize = 4096;

/// The processor's cores, and no more than the memory has use for.
#[must_use]
pub fn available_threads() -> usize {
    const MOST: usize = 4;
    available_threads_up_to(MOST)
}

/// The processor's cores, up to so many. With a scheduler of tests one alone, but where a test
/// asks for more: each of them makes for more orders.
pub(crate) fn available_threads_up_to(most: usize) -> usize {
    // The system is asked once: for a short call that would be a part of its time.
    static CORE_COUNT: OnceLock<usize> = OnceLock::new();
    if cfg!(feature = "shuttle") {
        return 1;
    }
    let asked = || thread::available_parallelism().map_or(1, NonZero::get);
    (*CORE_COUNT.get_or_init(asked)).min(most)
}

/// What becomes of each job, in their order. At most so many threads work, this one among them, which does
/// all where no other can be had.
pub(crate) fn side_by_side<Job: Send, Done: Send>(
    jobs: Vec<Job>,
    max_threads: usize,
    work: impl Fn(Job) -> Done + Sync,
) -> Vec<Done> {
    let helper_count = jobs.len().min(max_threads).saturating_sub(1);
    let jobs = Mutex::new(jobs.into_iter().enumerate());
    let work_on = || {
        let mut done = Vec::new();
        loop {
            let next = jobs.lock().next();
            let Some((at, job)) = next else { return done };
            done.push((at, work(job)));
        }
    };
    let mut done = sync::scope(|scope| {
        let spawn = |_| sync::spawn_scoped(scope, work_on);
        let helpers: Vec<_> = (0..helper_count).filter_map(spawn).collect();
        let mut done = work_on();
        for helper in helpers {
            done.extend(helper.join().unwrap_or_else(|panic| resume_unwind(panic)));
        }
        done
    });
    done.sort_unstable_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, done)| done).collect()
}

/// What becomes of each of many things for which files are looked at, in their order. One after the other where
/// reading may go by way of Python.
///
/// # Errors
/// The first one's in their order.
pub(crate) fn each_of_many<Thing: Sync, Done: Send>(
    things: &[Thing],
    is_remote: bool,
    work: impl Fn(&Thing) -> Result<Done> + Sync,
) -> Result<Vec<Done>> {
    if things.len() < MANY || is_remote || cfg!(feature = "shuttle") {
        return things.iter().map(|thing| interrupt::check().and_then(|()| work(thing))).collect();
    }
    let mut all = Vec::with_capacity(things.len());
    for at_once in things.chunks(THINGS_AT_ONCE) {
        interrupt::check()?;
        let jobs = at_once.chunks(THINGS_OF_JOB).collect();
        let done = |things: &[Thing]| things.iter().map(&work).collect::<Result<Vec<Done>>>();
        for done in side_by_side(jobs, WAITING_THREADS, done) {
            all.extend(done?);
        }
    }
    Ok(all)
}
