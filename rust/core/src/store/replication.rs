//! What a store does as a master or as a slave.

use std::ops::Range;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use super::Store;
use crate::error::{Error, Result};
use crate::ha::{Awaited, Client, ClientOptions, Event, Master, MasterOptions, Transferred};
use crate::status::PutMessageStatus;

/// Bytes before its log's end that a slave asks for again, and so many at the most to have a whole record among them.
const COMPARED_SIZE: u64 = 4096;
const MAX_COMPARED_SIZE: u64 = 16 << 20;

/// The parts of replication; none runs unless asked for.
#[derive(Debug, Default)]
pub(super) struct Replication {
    master: OnceLock<Master>,
    client: OnceLock<Client>,
}

/// What a put waits for, and until when.
#[derive(Debug, Clone)]
pub struct Confirmation {
    records: Range<u64>,
    flush_by: Instant,
    transfer_by: Instant,
    is_slave_ok: bool,
}

impl Replication {
    /// Ends every connection.
    pub(super) fn shutdown(&self) {
        if let Some(client) = self.client.get() {
            client.shutdown();
        }
        if let Some(master) = self.master.get() {
            master.shutdown();
        }
    }
}

impl Store {
    /// Begins to listen for slaves. A slave listens as well: it can be another one's master.
    ///
    /// # Errors
    /// Where the address can't be had, or it listens already.
    pub fn listen_for_slaves(&self, options: MasterOptions) -> Result<()> {
        self.check_writable()?;
        let master = Master::listen(options)?;
        let address = master.address().to_string();
        self.replication.master.set(master).map_err(|_| already_running(address))
    }

    /// Begins to follow a master; none is followed until its address is known.
    ///
    /// # Errors
    /// Where the store is no slave, or follows one already.
    pub fn follow_master(&self, options: ClientOptions, master_address: Option<String>) -> Result<()> {
        self.check_takes_data()?;
        let address = master_address.clone().unwrap_or_default();
        let client = Client::new(options, master_address)?;
        self.replication.client.set(client).map_err(|_| already_running(address))
    }

    /// The master's side, where it runs.
    #[must_use]
    pub fn ha_master(&self) -> Option<&Master> {
        self.replication.master.get()
    }

    /// The slave's side, where it runs.
    #[must_use]
    pub fn ha_client(&self) -> Option<&Client> {
        self.replication.client.get()
    }

    /// A pass of the master's side.
    ///
    /// # Errors
    /// As for [`Master::pass`]; where the store is closed.
    pub fn serve_slaves(&self, max_wait: Duration) -> Result<Vec<Event>> {
        self.while_open(|| {
            self.ha_master().map_or_else(|| Ok(Vec::new()), |master| master.pass(&self.log, max_wait))
        })
    }

    /// A pass of the slave's side.
    ///
    /// # Errors
    /// As for [`Client::pass`]; where the store is closed.
    pub fn receive_log(&self, max_wait: Duration) -> Result<Vec<Event>> {
        self.while_open(|| {
            let Some(client) = self.ha_client() else { return Ok(Vec::new()) };
            client.pass(&self.log, || self.compared_from(), self.dispatcher.reput_from_offset(), max_wait)
        })
    }

    /// From where a slave asks for its master's log: from the begin of a record a little before its own end, in the file with
    /// its last byte, which its master may have begun with. A log that ends differently is another one, however long both
    /// are; what tells two records apart that were put twice stands in their heads. 0 asks for the newest file.
    fn compared_from(&self) -> Result<u64> {
        let (log, end) = (&self.log, self.log.max_offset());
        let Some(last) = end.checked_sub(1).filter(|_| !log.is_empty()) else { return Ok(0) };
        let file_from = last - last % log.files().file_size();
        let from = self.record_at_or_before(file_from, end.saturating_sub(COMPARED_SIZE))?;
        Ok(from.max(end.saturating_sub(MAX_COMPARED_SIZE)).max(1))
    }

    /// Appends bytes of the master's log as they are. Source: `appendToCommitLog`.
    ///
    /// # Errors
    /// Where the store is no slave, the bytes do not follow its log's end or do not end with a file,
    /// or no space is left.
    pub fn append_to_commit_log(&self, start_offset: u64, data: &[u8]) -> Result<()> {
        self.check_takes_data()?;
        self.log.append_data(start_offset, data)
    }

    /// A store that takes messages gives them queue offsets: other ones must not come from elsewhere.
    fn check_takes_data(&self) -> Result<()> {
        self.check_writable()?;
        if self.config.is_slave {
            return Ok(());
        }
        Err(Error::Option {
            option: "brokerRole",
            value: "a master's".into(),
            reason: "only a SLAVE takes another store's log".into(),
        })
    }

    /// How many bytes the nearest slave is behind. Source: `slaveFallBehindMuch`.
    #[must_use]
    pub fn slave_fall_behind_much(&self) -> u64 {
        self.log.max_offset().saturating_sub(self.ha_master().map_or(0, Master::nearest_offset))
    }

    /// Lets slaves have what a put waits for. Gives whether puts wait for a slave at all.
    pub(super) fn ask_for_transfer(&self) -> bool {
        let master = self.sync_master();
        if let Some(master) = master {
            master.wake();
        }
        master.is_some()
    }

    /// The master's side, where puts wait for a slave.
    #[must_use]
    pub fn sync_master(&self) -> Option<&Master> {
        self.ha_master().filter(|master| master.is_sync())
    }

    /// What a put waits for whose messages stand in a range of the log.
    #[must_use]
    pub fn confirmation(&self, records: Range<u64>, sync_flush_timeout: Duration) -> Confirmation {
        let (now, master) = (Instant::now(), self.sync_master());
        Confirmation {
            flush_by: now + sync_flush_timeout,
            transfer_by: now + master.map_or(Duration::ZERO, Master::slave_timeout),
            is_slave_ok: master.is_none_or(|master| master.is_slave_ok(records.end)),
            records,
        }
    }

    /// Waits for at most `step` until a put's message is where it has to be: on the disk, at a slave.
    /// Gives how that ended; `None` while it is open. What is wrong with the slave counts before what
    /// is wrong with the disk, as in 4.9.3.
    ///
    /// # Errors
    /// Where a flush failed, or what flushes has died.
    pub fn wait_confirmed(&self, of: &Confirmation, step: Duration) -> Result<Option<PutMessageStatus>> {
        let (now, master) = (Instant::now(), self.sync_master());
        let until = now + step;
        let mut flushed = PutMessageStatus::PutOk;
        if self.config.sync_flush {
            flushed =
                self.wait_flushed(of.records.end, of.flush_by.min(until).saturating_duration_since(now))?;
            if flushed != PutMessageStatus::PutOk && until < of.flush_by {
                return self.ended.check_runs().map(|()| None);
            }
        }
        let Some(master) = master else { return Ok(Some(flushed)) };
        if !of.is_slave_ok {
            return Ok(Some(PutMessageStatus::SlaveNotAvailable));
        }
        match master.wait_transferred(&Awaited::Records(of.records.clone()), of.transfer_by.min(until)) {
            Transferred::Yes => Ok(Some(flushed)),
            Transferred::NotYet if until < of.transfer_by => self.ended.check_runs().map(|()| None),
            Transferred::NotYet | Transferred::Never => Ok(Some(PutMessageStatus::FlushSlaveTimeout)),
        }
    }
}

fn already_running(address: String) -> Error {
    Error::Option { option: "replication", value: address, reason: "it runs already".into() }
}
