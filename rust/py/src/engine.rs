//! `mqstore._native.Engine`: what services, and all else that belongs to a store, hold of it.
//!
//! A pass that waits holds what it waits on. Would that be the store, one that its user drops would
//! live on in its services; so it is this.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mqstore_core::dispatch::Arrival as CoreArrival;
use mqstore_core::format::host::Host;
use mqstore_core::ha::{Awaited, Master};
use mqstore_core::store::Store as CoreStore;
use pyo3::prelude::*;

use crate::bell::Bell;
use crate::errors::detached;

/// How long dispatch sleeps when there is nothing to dispatch: 4.9.3's interval.
const REPUT_INTERVAL: Duration = Duration::from_millis(1);

/// What services hold of a store.
#[pyclass(frozen, module = "mqstore._native")]
pub struct Engine {
    pub(crate) core: Arc<CoreStore>,
    /// Where what it puts itself is stored.
    pub(crate) store_host: Host,
    /// Whether passes that wait are to come back.
    pub(crate) stopping: Arc<AtomicBool>,
}

/// A message that has become visible in its queue.
#[pyclass(frozen, module = "mqstore")]
pub struct Arrival(CoreArrival);

#[pymethods]
impl Arrival {
    /// The queue's topic.
    #[getter]
    fn topic(&self) -> &str {
        &self.0.topic
    }

    /// The queue.
    #[getter]
    fn queue_id(&self) -> i32 {
        self.0.queue_id
    }

    /// The queue's end behind the message.
    #[getter]
    fn max_offset(&self) -> i64 {
        self.0.max_offset
    }

    /// The hash of the message's tag.
    #[getter]
    fn tags_code(&self) -> i64 {
        self.0.tags_code
    }

    /// When it was stored.
    #[getter]
    fn store_timestamp(&self) -> i64 {
        self.0.store_timestamp
    }

    fn __repr__(&self) -> String {
        format!(
            "Arrival(topic={:?}, queue_id={}, max_offset={}, store_timestamp={})",
            self.0.topic, self.0.queue_id, self.0.max_offset, self.0.store_timestamp
        )
    }
}

#[pymethods]
impl Engine {
    /// Lets the passes that wait come back soon.
    fn stop_passes(&self) {
        self.stopping.store(true, Ordering::Release);
        self.core.log().wake_allocator();
        self.core.log().wake_flusher();
        if let Some(master) = self.core.ha_master() {
            master.wake();
        }
        if let Some(client) = self.core.ha_client() {
            client.wake();
        }
    }

    /// Lets the store take no messages any more; the first reason counts.
    fn halt(&self, reason: String) {
        self.core.halt(reason);
    }

    /// Which part of the store has died.
    #[getter]
    fn halted(&self) -> Option<String> {
        self.core.halted().map(str::to_owned)
    }

    /// Why the store takes no messages until it is reopened.
    #[getter]
    fn takes_no_messages(&self) -> Option<String> {
        self.core.takes_no_messages()
    }

    /// Why queues and index count as they were on the disk before.
    #[getter]
    fn derived_failure(&self) -> Option<String> {
        self.core.derived_failure()
    }

    /// In a process that was forked while the store was open: lets go of it and touches nothing.
    fn abandon(&self) {
        self.core.abandon();
    }

    /// The time by the store's clock.
    fn now(&self) -> i64 {
        self.core.now_ms()
    }

    /// Replaces a small file as a whole.
    fn replace_config(&self, py: Python<'_>, path: PathBuf, content: &[u8]) -> PyResult<()> {
        detached(py, || self.core.replace_config(&path, content))
    }

    // ---- passes -----------------------------------------------------------------------------

    /// Dispatches for up to so many milliseconds; comes back early with arrivals to tell of.
    fn reput_for(&self, py: Python<'_>, max_ms: u64) -> PyResult<Vec<Arrival>> {
        let arrivals = detached(py, || {
            let end = Instant::now() + Duration::from_millis(max_ms);
            loop {
                self.core.reput()?;
                let arrivals = self.core.dispatcher().take_arrivals();
                if !arrivals.is_empty() || self.stopping.load(Ordering::Acquire) || Instant::now() >= end {
                    return Ok(arrivals);
                }
                std::thread::sleep(REPUT_INTERVAL);
            }
        })?;
        Ok(arrivals.into_iter().map(Arrival).collect())
    }

    /// Gives the flushed offset and whether anything was flushed.
    fn flush_commit_log(&self, py: Python<'_>, least_pages: u64) -> PyResult<(u64, bool)> {
        let outcome = detached(py, || self.core.flush_commit_log(least_pages))?;
        Ok((outcome.flushed_offset, outcome.flushed_some))
    }

    /// Waits for a put that asks for a flush.
    fn wait_flush_requested(&self, py: Python<'_>, max_wait_ms: u64) {
        py.detach(|| self.core.log().wait_flush_requested(Duration::from_millis(max_wait_ms)));
    }

    fn group_commit(&self, py: Python<'_>, max_wait_ms: u64, bells: Vec<Py<Bell>>) -> PyResult<u64> {
        let bells: Vec<_> = bells.iter().map(|bell| Arc::clone(&bell.get().0)).collect();
        detached(py, || self.core.group_commit(Duration::from_millis(max_wait_ms), &bells))
    }

    /// Ends the pass of a flushing service that is under way, or the next one.
    fn wake_flusher(&self) {
        self.core.log().wake_flusher();
    }

    /// No :meth:`group_commit` is made any more: threads that wait flush by themselves, also where tasks wait.
    fn end_group_commit(&self) {
        self.core.log().end_group_commit();
    }

    fn flushed_where(&self) -> u64 {
        self.core.log().flushed_offset()
    }

    pub(crate) fn transferred_where(&self) -> u64 {
        self.core.ha_master().map_or(0, Master::push2_slave_max_offset)
    }

    /// Whether slaves have confirmed all records from one offset to another.
    fn is_transferred(&self, start: u64, end: u64) -> bool {
        self.core.ha_master().is_some_and(|master| master.is_transferred(&Awaited::Records(start..end)))
    }

    fn commit(&self, py: Python<'_>, least_pages: u64) -> PyResult<bool> {
        detached(py, || self.core.log().commit(least_pages))
    }

    fn reserve_blocks(&self, py: Python<'_>, max_wait_ms: u64) -> PyResult<()> {
        detached(py, || self.core.log().reserve_pass(Duration::from_millis(max_wait_ms)))
    }

    fn make_next_file(&self, py: Python<'_>, max_wait_ms: u64) -> PyResult<()> {
        detached(py, || self.core.log().make_next_pass(Duration::from_millis(max_wait_ms)))
    }

    fn flush_consume_queues(&self, py: Python<'_>, least_pages: u64) -> PyResult<()> {
        detached(py, || self.core.flush_consume_queues(least_pages))
    }

    fn flush_everything(&self, py: Python<'_>) -> PyResult<()> {
        detached(py, || self.core.flush_everything())
    }

    fn sync_log_seen(&self, py: Python<'_>) -> PyResult<()> {
        detached(py, || self.core.sync_log_seen())
    }

    fn make_logics_queue_error(&self, reason: String) {
        self.core.make_logics_queue_error(reason);
    }
}
