//! Replication in `mqstore._native.Store`.

use std::time::{Duration, Instant};

use mqstore_core::error::Error;
use mqstore_core::ha::{Awaited, Client, ClientOptions, Event, Master, MasterOptions, Transferred};
use pyo3::prelude::*;

use crate::arguments::{Body, checked};
use crate::engine::Engine;
use crate::errors::{IntoPyResult, detached};
use crate::given;
use crate::signals::in_steps;
use crate::store::Store;

/// What happened: whether somebody should look at it, what is the same where it happens again, and a sentence.
type Told = Vec<(bool, String, String)>;
/// A slave's connection: address, what it asked for, its log's end, what it was sent.
type Connection = (String, Option<u64>, u64, u64);
/// The master that is followed, whether there is a connection, what it last heard, and why it is not followed.
type Followed = (Option<String>, bool, u64, Option<String>);

fn start_offset(given: &Bound<'_, PyAny>) -> PyResult<u64> {
    checked("start_offset", given, 0..=i64::MAX)
}

fn told(events: &[Event]) -> Told {
    events.iter().map(|event| (event.is_failure(), event.kind(), event.to_string())).collect()
}

#[pymethods]
impl Store {
    #[pyo3(signature = (
        host, port, *, transfer_batch_size, send_heartbeat_interval_ms, housekeeping_interval_ms,
        slave_fallbehind_max, is_sync, slave_timeout_ms
    ))]
    #[allow(clippy::too_many_arguments)] // the options of a master
    fn _listen_for_slaves(
        &self,
        py: Python<'_>,
        host: String,
        port: u16,
        transfer_batch_size: usize,
        send_heartbeat_interval_ms: u64,
        housekeeping_interval_ms: u64,
        slave_fallbehind_max: u64,
        is_sync: bool,
        slave_timeout_ms: u64,
    ) -> PyResult<()> {
        let options = MasterOptions {
            listen: (host, port),
            transfer_batch_size,
            send_heartbeat_interval: Duration::from_millis(send_heartbeat_interval_ms),
            housekeeping_interval: Duration::from_millis(housekeeping_interval_ms),
            slave_fallbehind_max,
            is_sync,
            slave_timeout: Duration::from_millis(slave_timeout_ms),
        };
        detached(py, || self.core.listen_for_slaves(options))
    }

    #[pyo3(signature = (master_address, *, send_heartbeat_interval_ms, housekeeping_interval_ms))]
    fn _follow_master(
        &self,
        py: Python<'_>,
        master_address: Option<String>,
        send_heartbeat_interval_ms: u64,
        housekeeping_interval_ms: u64,
    ) -> PyResult<()> {
        let options = ClientOptions {
            send_heartbeat_interval: Duration::from_millis(send_heartbeat_interval_ms),
            housekeeping_interval: Duration::from_millis(housekeeping_interval_ms),
        };
        detached(py, || self.core.follow_master(options, master_address))
    }

    /// Waits until a slave has confirmed the log up to an offset; gives whether it is in time.
    fn _wait_transferred(&self, py: Python<'_>, offset: u64, timeout_ms: u64) -> PyResult<bool> {
        let deadline = Instant::now() + Duration::from_millis(timeout_ms);
        let Some(master) = self.core.ha_master() else { return Ok(false) };
        let awaited = Awaited::LogUpTo(offset);
        in_steps(py, |step| {
            let until = Instant::now() + step;
            Ok(match master.wait_transferred(&awaited, deadline.min(until)) {
                Transferred::NotYet if until < deadline => None,
                outcome => Some(outcome == Transferred::Yes),
            })
        })
    }

    /// Waits until each slave that is connected has the log up to an offset; gives whether it is in time.
    fn _wait_all_slaves(&self, py: Python<'_>, offset: u64, timeout_ms: u64) -> PyResult<bool> {
        let deadline = Instant::now() + Duration::from_millis(timeout_ms);
        let Some(master) = self.core.ha_master() else { return Ok(true) };
        in_steps(py, |step| {
            let until = Instant::now() + step;
            let all_have = master.wait_all_have(offset, deadline.min(until));
            Ok((all_have || until >= deadline).then_some(all_have))
        })
    }

    /// Whether a slave is near enough to wait for it; `None` where puts wait for none.
    fn _is_slave_ok(&self, offset: u64) -> Option<bool> {
        self.core.sync_master().map(|master| master.is_slave_ok(offset))
    }

    fn _ha_listen_address(&self, py: Python<'_>) -> PyResult<Option<String>> {
        Ok(self.open_core(py)?.ha_master().map(|master| master.address().to_string()))
    }

    fn _ha_connections(&self, py: Python<'_>) -> PyResult<Vec<Connection>> {
        let connections = self.open_core(py)?.ha_master().map(Master::connections).unwrap_or_default();
        Ok(connections
            .into_iter()
            .map(|it| (it.address.to_string(), it.request_offset, it.ack_offset, it.transferred_offset))
            .collect())
    }

    /// The master's address, whether there is a connection, what the master last heard, why it is not followed.
    fn _ha_client(&self, py: Python<'_>) -> PyResult<Option<Followed>> {
        let status = self.open_core(py)?.ha_client().map(Client::status);
        Ok(status.map(|it| (it.master_address, it.is_connected, it.reported_offset, it.failure)))
    }

    /// Appends bytes of the master's log as they are. Source: ``appendToCommitLog``.
    ///
    /// Args:
    ///     start_offset: Where they stand in the master's log: the end of this one. An empty log begins
    ///         wherever a file does.
    ///     data: The bytes, of one file; records may be cut at their ends.
    ///
    /// Raises:
    ///     OffsetOutOfRangeError: they do not follow this log's end.
    ///     OptionError: the store is no slave, or the bytes do not end with a file of this store.
    ///     DiskFullError: there is no space for them.
    fn append_to_commit_log(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = start_offset)] start_offset: u64,
        #[pyo3(from_py_with = given::data)] data: Body,
    ) -> PyResult<()> {
        detached(py, || self.core.append_to_commit_log(start_offset, data.as_slice()))
    }

    /// How many bytes the nearest slave is behind. Source: ``slaveFallBehindMuch``.
    fn slave_fall_behind_much(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.open_core(py)?.slave_fall_behind_much())
    }

    /// Lets a slave follow another master. Source: ``updateHaMasterAddress``.
    ///
    /// Raises:
    ///     OptionError: the store is no slave, or replication does not run.
    fn update_ha_master_address(&self, py: Python<'_>, address: String) -> PyResult<()> {
        let Some(client) = self.open_core(py)?.ha_client() else {
            let reason = "only a SLAVE that is open with replication=True follows a master".into();
            return Err(Error::Option { option: "haMasterAddress", value: address, reason }).into_py(py);
        };
        client.update_master_address(address);
        Ok(())
    }
}

#[pymethods]
impl Engine {
    /// A pass of the master's side; gives what happened, and what a slave has confirmed.
    fn serve_slaves(&self, py: Python<'_>, max_wait_ms: u64) -> PyResult<(Told, u64)> {
        let events = detached(py, || self.core.serve_slaves(Duration::from_millis(max_wait_ms)))?;
        let confirmed = self.transferred_where();
        Ok((told(&events), confirmed))
    }

    /// A pass of the slave's side; gives what happened.
    fn receive_log(&self, py: Python<'_>, max_wait_ms: u64) -> PyResult<Told> {
        let events = detached(py, || self.core.receive_log(Duration::from_millis(max_wait_ms)))?;
        Ok(told(&events))
    }
}
