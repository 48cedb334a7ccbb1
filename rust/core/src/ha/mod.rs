//! Replication: a master sends its log, a slave appends what it gets, byte for byte.
//!
//! A log is all that is replicated: a slave dispatches queues and index itself. Neither side starts a
//! thread here; each makes passes that the control plane calls. Nothing that comes from the other
//! side is trusted: what cannot be ends the connection, and says why. Source: `HAService`,
//! `HAConnection`.

mod boundaries;
mod client;
mod connection;
mod group_transfer;
mod master;
pub mod wire;

use std::fmt::Display;
use std::io::{self, ErrorKind, Read};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

pub use client::{Client, ClientOptions, ClientStatus};
pub use connection::ConnectionStatus;
pub use group_transfer::{Awaited, Transferred};
#[cfg(feature = "shuttle")]
pub use group_transfer::{Confirmed, GroupTransfer};
pub use master::{Master, MasterOptions};

use crate::error::Error;
use wire::WireFault;

/// Why a connection ended.
#[derive(Debug, thiserror::Error)]
pub enum Ended {
    /// The other side ended it.
    #[error("the other side closed the connection")]
    ByPeer,
    /// The network did.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A master did before it sent anything.
    #[error(
        "it closed the connection and sent nothing of the log from {asked} on; its own log says why. Where it no longer has that \
         part, a copy of its log makes this one a slave again"
    )]
    Unanswered {
        /// From where it was asked for the log.
        asked: u64,
    },
    /// The other side said nothing for too long.
    #[error("nothing came for {} ms, haHousekeepingInterval allows {}", .silent.as_millis(), .allowed.as_millis())]
    Silent {
        /// For how long.
        silent: Duration,
        /// How long it may.
        allowed: Duration,
    },
    /// What the other side sent cannot be.
    #[error(transparent)]
    Wire(#[from] WireFault),
    /// The log could not be read or written.
    #[error(transparent)]
    Log(#[from] Error),
    /// There are as many slaves as there may be.
    #[error("there are {count} connections already")]
    TooMany {
        /// How many.
        count: usize,
    },
    /// The slave was told to follow another master.
    #[error("the master's address was changed")]
    AddressChanged,
}

/// Reads what has come: how many bytes, or `None` where nothing has.
fn read_some(mut stream: &TcpStream, buffer: &mut [u8]) -> Result<Option<usize>, Ended> {
    loop {
        match stream.read(buffer) {
            Ok(0) => return Err(Ended::ByPeer),
            Ok(count) => return Ok(Some(count)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Whether the other side may be silent for as long as it is.
fn check_silence(last_read: Instant, allowed: Duration) -> Result<(), Ended> {
    let silent = last_read.elapsed();
    if silent > allowed { Err(Ended::Silent { silent, allowed }) } else { Ok(()) }
}

/// Shortest time between two heartbeats, whatever `haSendHeartbeatInterval` says: with 0 a pass would send them for ever.
const MIN_HEARTBEAT_INTERVAL: Duration = Duration::from_millis(1);

/// What happened on either side.
#[derive(Debug, thiserror::Error)]
pub enum Event {
    /// A slave asked to be sent the log.
    #[error("the slave {address} asks for the log from {request}, and is sent it from {from}")]
    SlaveAsked {
        /// Its address.
        address: SocketAddr,
        /// What it asked for.
        request: u64,
        /// What it gets: for an empty slave the begin of the newest file.
        from: u64,
    },
    /// A slave's connection ended.
    #[error("the connection of the slave {address} ended: {reason}")]
    SlaveEnded {
        /// Its address.
        address: SocketAddr,
        /// Why.
        reason: Ended,
    },
    /// No connection could be taken.
    #[error("no connection could be taken: {0}")]
    NotAccepted(io::Error),
    /// A slave has a connection to its master.
    #[error("connected to the master {address}, asking for the log from {from}")]
    MasterConnected {
        /// Its address.
        address: String,
        /// What it asks for: a little before the end of the slave's log.
        from: u64,
    },
    /// A slave's connection to its master ended, or could not be made.
    #[error("the connection to the master {address} ended: {reason}")]
    MasterEnded {
        /// Its address.
        address: String,
        /// Why.
        reason: Ended,
    },
}

impl Event {
    /// Whether somebody should look at it.
    #[must_use]
    pub const fn is_failure(&self) -> bool {
        !matches!(self, Self::SlaveAsked { .. } | Self::MasterConnected { .. })
    }

    /// What it says, but for what is another number each time that the same happens: a slave's port, where a log ends.
    #[must_use]
    pub fn kind(&self) -> String {
        let without_numbers =
            |reason: &dyn Display| reason.to_string().replace(|letter: char| letter.is_ascii_digit(), "");
        match self {
            Self::SlaveAsked { address, .. } => format!("the slave {} asks", address.ip()),
            Self::SlaveEnded { address, reason } => {
                format!("the slave {} ended: {}", address.ip(), without_numbers(reason))
            }
            Self::NotAccepted(error) => without_numbers(error),
            Self::MasterConnected { address, .. } => format!("the master {address} connected"),
            Self::MasterEnded { address, reason } => {
                format!("the master {address} ended: {}", without_numbers(reason))
            }
        }
    }
}
