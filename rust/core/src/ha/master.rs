//! A master: takes the connections of slaves and serves them. Source: `HAService`.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nix::poll::PollFlags;

use super::connection::{Connection, ConnectionStatus, Turn};
use super::group_transfer::{Awaited, GroupTransfer, Transferred};
use super::{Ended, Event, MIN_HEARTBEAT_INTERVAL};
use crate::bell::Bell;
use crate::commit_log::CommitLog;
use crate::error::{Error, Result};
use crate::own_sockets::OwnSocket;
use crate::sync::{AtomicU64, AtomicUsize, Condvar, Mutex, Ordering, TurnMutex};

/// How often the log is looked at for what was put, while no put waits for a slave: 4.9.3 gathers
/// ten times longer.
const GATHER_INTERVAL: Duration = Duration::from_millis(10);
/// How long to leave connections waiting when one could not be taken.
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);
/// Most connections that are taken, or turned away, in one pass: who has one is served between.
const MAX_ACCEPTED: usize = 16;
/// Most connections; 4.9.3 knows no bound.
const MAX_CONNECTIONS: usize = 64;

/// What a master goes by.
#[derive(Debug, Clone)]
pub struct MasterOptions {
    /// Where it listens: host and port; port 0 takes any that is free.
    pub listen: (String, u16),
    /// Most bytes of a frame's body.
    pub transfer_batch_size: usize,
    /// How often it is heard of when there is nothing to send.
    pub send_heartbeat_interval: Duration,
    /// For how long a slave may be silent.
    pub housekeeping_interval: Duration,
    /// How many bytes the nearest slave may be behind to count as one.
    pub slave_fallbehind_max: u64,
    /// Whether puts wait for a slave.
    pub is_sync: bool,
    /// For how long they do.
    pub slave_timeout: Duration,
}

/// A master.
#[derive(Debug)]
pub struct Master {
    options: MasterOptions,
    address: SocketAddr,
    bell: Bell,
    group: GroupTransfer,
    /// The furthest end of a slave's log, as any has ever said: how near one is, not what it has confirmed.
    nearest_offset: AtomicU64,
    /// Slaves that have said what they want.
    slave_count: AtomicUsize,
    status: Mutex<Vec<ConnectionStatus>>,
    published: Condvar,
    /// Held by the pass that is under way.
    serving: TurnMutex<Serving>,
}

#[derive(Debug)]
struct Serving {
    listener: Option<OwnSocket<TcpListener>>,
    accept_from: Instant,
    connections: Vec<Connection>,
    /// How many were taken.
    taken_count: u64,
    /// Whether a connection has more to send that waits for its turn.
    has_more: bool,
}

impl Master {
    /// Begins to listen.
    ///
    /// # Errors
    /// Where the address can't be had.
    pub fn listen(mut options: MasterOptions) -> Result<Self> {
        options.send_heartbeat_interval = options.send_heartbeat_interval.max(MIN_HEARTBEAT_INTERVAL);
        let (host, port) = &options.listen;
        let failed = || Error::socket("listen on", format!("{host}:{port}"));
        let listen = || {
            let wanted: Vec<SocketAddr> = (host.as_str(), *port).to_socket_addrs()?.collect();
            let listener = OwnSocket::open(|| TcpListener::bind(wanted.as_slice()))?;
            listener.set_nonblocking(true)?;
            let address = listener.local_addr()?;
            Ok((listener, address))
        };
        let (listener, address) = listen().map_err(failed())?;
        let bell = Bell::new().map_err(failed())?;
        let serving = Serving {
            listener: Some(listener),
            accept_from: Instant::now(),
            connections: Vec::new(),
            taken_count: 0,
            has_more: false,
        };
        Ok(Self {
            options,
            address,
            bell,
            group: GroupTransfer::default(),
            nearest_offset: AtomicU64::new(0),
            slave_count: AtomicUsize::new(0),
            status: Mutex::default(),
            published: Condvar::default(),
            serving: TurnMutex::new(serving),
        })
    }

    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whether puts wait for a slave.
    #[must_use]
    pub const fn is_sync(&self) -> bool {
        self.options.is_sync
    }

    /// For how long a put waits for a slave.
    #[must_use]
    pub const fn slave_timeout(&self) -> Duration {
        self.options.slave_timeout
    }

    /// The furthest that a slave has ever confirmed.
    #[must_use]
    pub fn push2_slave_max_offset(&self) -> u64 {
        self.group.push2_slave_max_offset()
    }

    /// The furthest end of a slave's log, as any has ever said.
    #[must_use]
    pub fn nearest_offset(&self) -> u64 {
        self.nearest_offset.load(Ordering::Acquire)
    }

    /// The connections as they were after the last pass.
    #[must_use]
    pub fn connections(&self) -> Vec<ConnectionStatus> {
        self.status.lock().clone()
    }

    /// Whether a slave is near enough to wait for it. Source: `isSlaveOK`.
    #[must_use]
    pub fn is_slave_ok(&self, master_put_where: u64) -> bool {
        let behind = master_put_where.saturating_sub(self.nearest_offset());
        self.slave_count.load(Ordering::Acquire) > 0 && behind < self.options.slave_fallbehind_max
    }

    /// Whether a slave has confirmed it.
    #[must_use]
    pub fn is_transferred(&self, awaited: &Awaited) -> bool {
        self.group.is_transferred(awaited)
    }

    /// Waits until a slave has confirmed it, or the time is up.
    #[must_use]
    pub fn wait_transferred(&self, awaited: &Awaited, deadline: Instant) -> Transferred {
        self.group.wait(awaited, deadline)
    }

    /// Waits until each slave that is connected says that its log ends at an offset or behind it, or the time is up; gives
    /// whether each does.
    #[must_use]
    pub fn wait_all_have(&self, offset: u64, deadline: Instant) -> bool {
        let mut status = self.status.lock();
        loop {
            if status.iter().all(|it| it.request_offset.is_none() || it.ack_offset >= offset) {
                return true;
            }
            let (again, is_time_up) = self.published.wait_until(status, deadline);
            status = again;
            if is_time_up {
                return false;
            }
        }
    }

    /// Lets a pass that waits come back: something was put that a put waits for, or all is to end.
    pub fn wake(&self) {
        self.bell.ring();
    }

    /// One pass: waits at most `max_wait` for slaves or something to send, then takes new
    /// connections, reads reports, sends the log. Gives what happened.
    ///
    /// # Errors
    /// Where waiting itself fails.
    pub fn pass(&self, log: &CommitLog, max_wait: Duration) -> Result<Vec<Event>> {
        let mut serving = self.serving.lock();
        let mut events = Vec::new();
        self.wait(&serving, max_wait).map_err(Error::socket("wait for", self.address.to_string()))?;
        serving.accept(&mut events);
        serving.has_more = false;
        let connections = std::mem::take(&mut serving.connections);
        for mut connection in connections {
            match self.serve(&mut connection, log, &mut events) {
                Ok(turn) => {
                    serving.has_more |= turn == Turn::More;
                    serving.connections.push(connection);
                }
                Err(reason) => {
                    events.push(Event::SlaveEnded { address: connection.address(), reason });
                }
            }
        }
        self.publish(&serving);
        Ok(events)
    }

    fn wait(&self, serving: &Serving, max_wait: Duration) -> io::Result<()> {
        let timeout = match serving {
            Serving { has_more: true, .. } => Duration::ZERO,
            _ if serving.connections.is_empty() => max_wait,
            _ => max_wait.min(GATHER_INTERVAL),
        };
        let accepts = Instant::now() >= serving.accept_from;
        let listener = serving.listener.as_ref().filter(|_| accepts);
        let listener = listener.map(|listener| (listener as &dyn AsFd, PollFlags::POLLIN));
        let connections = serving.connections.iter();
        let connections = connections.map(|it| (it.stream() as &dyn AsFd, it.interest()));
        self.bell.wait(listener.into_iter().chain(connections), timeout)
    }

    fn serve(
        &self,
        connection: &mut Connection,
        log: &CommitLog,
        events: &mut Vec<Event>,
    ) -> Result<Turn, Ended> {
        let had_asked = connection.has_asked();
        let read = connection.read_reports(log, &self.options);
        if let ConnectionStatus {
            address,
            request_offset: Some(request),
            transferred_offset: from,
            ack_offset,
        } = connection.status()
        {
            if !had_asked {
                events.push(Event::SlaveAsked { address, request, from });
            }
            self.nearest_offset.fetch_max(ack_offset, Ordering::AcqRel);
        }
        // Also of one that has gone since.
        if let Some(confirmed) = connection.take_confirmed() {
            self.group.notify_transfer_some(confirmed);
        }
        read?;
        connection.transfer(log, &self.options)
    }

    fn publish(&self, serving: &Serving) {
        let asked = serving.connections.iter().filter(|connection| connection.has_asked());
        self.slave_count.store(asked.count(), Ordering::Release);
        *self.status.lock() = serving.connections.iter().map(Connection::status).collect();
        self.published.notify_all();
    }

    /// Ends all connections and listens no longer; puts that wait are let go.
    pub fn shutdown(&self) {
        self.group.end();
        self.wake();
        let mut serving = self.serving.lock();
        drop(serving.listener.take());
        serving.connections.clear();
        self.publish(&serving);
    }
}

impl Serving {
    fn accept(&mut self, events: &mut Vec<Event>) {
        if Instant::now() < self.accept_from {
            return;
        }
        for _ in 0..MAX_ACCEPTED {
            let Some(listener) = &self.listener else { return };
            let (stream, address) = match OwnSocket::open_with(|| listener.accept()) {
                Ok(accepted) => accepted,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => {
                    // What keeps it from taking one (no file is left to open) does not go at once.
                    self.accept_from = Instant::now() + ACCEPT_PAUSE;
                    events.push(Event::NotAccepted(error));
                    return;
                }
            };
            let count = self.connections.len();
            let taken = if count < MAX_CONNECTIONS {
                self.taken_count += 1;
                Connection::new(self.taken_count, stream, address)
            } else {
                Err(Ended::TooMany { count })
            };
            match taken {
                Ok(connection) => self.connections.push(connection),
                Err(reason) => events.push(Event::SlaveEnded { address, reason }),
            }
        }
    }
}
