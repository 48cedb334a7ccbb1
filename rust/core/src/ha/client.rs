//! A slave: asks its master for the log and appends what it gets. Source: `HAService.HAClient`.

use std::io::{self, ErrorKind, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nix::poll::PollFlags;

use super::boundaries::Boundaries;
use super::wire::{self, HEADER_SIZE, Header, MAX_FRAME_SIZE, REPORT_SIZE, WireFault};
use super::{Ended, Event, MIN_HEARTBEAT_INTERVAL, check_silence, read_some};
use crate::bell::Bell;
use crate::commit_log::CommitLog;
use crate::error::{Error, Result};
use crate::num;
use crate::own_sockets::OwnSocket;
use crate::sync::Mutex;

/// How long making a connection may take, as in 4.9.3.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// Shortest and longest time between two attempts to connect. 4.9.3 waits for 5 s after each.
const MIN_RETRY: Duration = Duration::from_millis(50);
const MAX_RETRY: Duration = Duration::from_secs(5);
/// How long a pass goes on while the master sends without a pause.
const TURN: Duration = Duration::from_millis(50);

/// What a slave goes by.
#[derive(Debug, Clone)]
pub struct ClientOptions {
    /// How often its master hears of it when there is nothing new.
    pub send_heartbeat_interval: Duration,
    /// For how long its master may be silent.
    pub housekeeping_interval: Duration,
}

/// How a slave's connection is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClientStatus {
    /// The master that it follows; `None` while it knows of none.
    pub master_address: Option<String>,
    /// Whether it has a connection.
    pub is_connected: bool,
    /// How far its log is the master's, as that last heard it.
    pub reported_offset: u64,
    /// Why the last connection ended or could not be made; `None` once the master's log goes on from the slave's.
    pub failure: Option<String>,
}

/// A slave.
#[derive(Debug)]
pub struct Client {
    options: ClientOptions,
    bell: Bell,
    status: Mutex<ClientStatus>,
    /// Held by the pass that is under way.
    following: Mutex<Following>,
}

#[derive(Debug)]
struct Following {
    link: Option<Link>,
    retry_from: Instant,
    retry: Duration,
    ended: bool,
}

/// A connection to the master.
#[derive(Debug)]
struct Link {
    stream: OwnSocket<TcpStream>,
    address: String,
    /// What was read and is no whole frame yet.
    buffer: Vec<u8>,
    filled: usize,
    /// Up to here the slave's log is known to be the master's: its end, once what it has is compared.
    known_to: u64,
    /// From where it was asked for the log.
    asked_from: u64,
    /// Whether the master has sent anything.
    is_answered: bool,
    /// Whether the master had nothing more when the slave was told so last.
    is_at_end: bool,
    /// Where the log's records begin.
    boundaries: Boundaries,
    /// A report whose rest the socket did not take yet.
    report: ([u8; REPORT_SIZE], usize),
    reported_offset: Option<u64>,
    last_report: Instant,
    last_read: Instant,
}

impl Client {
    /// A slave that is not connected yet.
    ///
    /// # Errors
    /// Where the operating system refuses what it needs to wait.
    pub fn new(mut options: ClientOptions, master_address: Option<String>) -> Result<Self> {
        options.send_heartbeat_interval = options.send_heartbeat_interval.max(MIN_HEARTBEAT_INTERVAL);
        let bell = Bell::new().map_err(Error::socket("wait for", "the master"))?;
        let now = Instant::now();
        let following = Following { link: None, retry_from: now, retry: MIN_RETRY, ended: false };
        let status = ClientStatus { master_address, ..ClientStatus::default() };
        Ok(Self { options, bell, status: Mutex::new(status), following: Mutex::new(following) })
    }

    /// How its connection is.
    #[must_use]
    pub fn status(&self) -> ClientStatus {
        self.status.lock().clone()
    }

    /// Lets it follow another master. Source: `updateMasterAddress`.
    pub fn update_master_address(&self, address: String) {
        self.status.lock().master_address = Some(address);
        self.wake();
    }

    /// Lets a pass that waits come back.
    pub fn wake(&self) {
        self.bell.ring();
    }

    /// One pass: connects where there is no connection, waits at most `max_wait` for the master, and
    /// appends what came. Gives what happened. A new connection asks for the log from what `compared_from` gives, to hold
    /// what the slave has from there on against it. At `dispatched_to` a record of the log begins.
    ///
    /// # Errors
    /// Where waiting itself fails.
    pub fn pass(
        &self,
        log: &CommitLog,
        compared_from: impl FnOnce() -> Result<u64>,
        dispatched_to: u64,
        max_wait: Duration,
    ) -> Result<Vec<Event>> {
        let mut following = self.following.lock();
        let mut events = Vec::new();
        let wanted = self.status.lock().master_address.clone();
        if following.link.as_ref().is_some_and(|link| wanted.as_ref() != Some(&link.address)) {
            following.lose(Ended::AddressChanged, &mut events);
        }
        let waited = match following.link.as_mut() {
            Some(link) => {
                let timeout = max_wait.min(self.options.send_heartbeat_interval);
                let waited = self.bell.wait([(&link.stream as &dyn AsFd, link.interest())], timeout);
                match link.exchange(log, &self.options) {
                    Ok(true) => following.retry = MIN_RETRY,
                    Ok(false) => {}
                    Err(reason) => following.lose(reason, &mut events),
                }
                waited
            }
            None => match wanted.filter(|_| following.may_connect()) {
                Some(address) => {
                    let boundaries = Boundaries::from(dispatched_to, log.files().file_size());
                    following.connect(address, compared_from, boundaries, &mut events);
                    Ok(())
                }
                None => {
                    self.bell.wait([], following.pause_left().map_or(max_wait, |left| left.min(max_wait)))
                }
            },
        };
        waited.map_err(Error::socket("wait for", "the master"))?;
        self.note(following.link.as_ref(), log, &events);
        Ok(events)
    }

    /// Keeps how the connection is behind a pass.
    fn note(&self, link: Option<&Link>, log: &CommitLog, events: &[Event]) {
        let mut status = self.status.lock();
        status.is_connected = link.is_some();
        if let Some(reported) = link.and_then(|link| link.reported_offset) {
            status.reported_offset = reported;
        }
        if let Some(ended) = events.iter().rfind(|event| matches!(event, Event::MasterEnded { .. })) {
            status.failure = Some(ended.to_string());
        } else if link.is_some_and(|link| link.is_answered && link.known_to >= own_end(log)) {
            status.failure = None;
        }
    }

    /// Ends the connection and makes no other.
    pub fn shutdown(&self) {
        self.wake();
        let mut following = self.following.lock();
        following.ended = true;
        drop(following.link.take());
        self.status.lock().is_connected = false;
    }
}

impl Following {
    fn may_connect(&self) -> bool {
        !self.ended && self.pause_left().is_none()
    }

    /// How long to wait before the next attempt to connect.
    fn pause_left(&self) -> Option<Duration> {
        Some(self.retry_from.saturating_duration_since(Instant::now())).filter(|left| !left.is_zero())
    }

    fn connect(
        &mut self,
        address: String,
        compared_from: impl FnOnce() -> Result<u64>,
        boundaries: Boundaries,
        events: &mut Vec<Event>,
    ) {
        match Link::connect(address.clone(), compared_from, boundaries) {
            Ok(link) => {
                events.push(Event::MasterConnected { address, from: link.known_to });
                self.link = Some(link);
            }
            Err(reason) => self.pause(address, reason, events),
        }
    }

    fn lose(&mut self, reason: Ended, events: &mut Vec<Event>) {
        if let Some(link) = self.link.take() {
            let reason = link.why(reason);
            self.pause(link.address, reason, events);
        }
    }

    /// Each attempt that brought nothing lets the next one wait longer.
    fn pause(&mut self, address: String, reason: Ended, events: &mut Vec<Event>) {
        self.retry_from = Instant::now() + self.retry;
        self.retry = (self.retry * 2).min(MAX_RETRY);
        events.push(Event::MasterEnded { address, reason });
    }
}

impl Link {
    fn connect(
        address: String,
        compared_from: impl FnOnce() -> Result<u64>,
        boundaries: Boundaries,
    ) -> Result<Self, Ended> {
        let mut outcome = Err(io::Error::new(ErrorKind::NotFound, "the name has no address"));
        for found in address.to_socket_addrs()? {
            outcome = OwnSocket::open(|| TcpStream::connect_timeout(&found, CONNECT_TIMEOUT));
            if outcome.is_ok() {
                break;
            }
        }
        let stream = outcome?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        let now = Instant::now();
        let asked_from = compared_from()?;
        Ok(Self {
            stream,
            address,
            buffer: vec![0; MAX_FRAME_SIZE],
            filled: 0,
            known_to: asked_from,
            asked_from,
            is_answered: false,
            is_at_end: false,
            boundaries,
            report: ([0; REPORT_SIZE], REPORT_SIZE),
            reported_offset: None,
            last_report: now,
            last_read: now,
        })
    }

    /// Why it ended. A master tells its slave nothing, but whether it has sent anything says something.
    fn why(&self, reason: Ended) -> Ended {
        let is_by_peer = match &reason {
            Ended::ByPeer => true,
            Ended::Io(error) => matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe),
            _ => false,
        };
        if is_by_peer && !self.is_answered { Ended::Unanswered { asked: self.asked_from } } else { reason }
    }

    fn interest(&self) -> PollFlags {
        let (_, sent) = self.report;
        if sent < REPORT_SIZE { PollFlags::POLLIN | PollFlags::POLLOUT } else { PollFlags::POLLIN }
    }

    /// Reports, reads and appends until the master has nothing more or the turn is over. Gives
    /// whether something was appended.
    fn exchange(&mut self, log: &CommitLog, options: &ClientOptions) -> Result<bool, Ended> {
        let end = Instant::now() + TURN;
        let mut has_appended = false;
        self.send_report(log, options)?;
        while Instant::now() < end {
            let free = self.buffer.get_mut(self.filled..).unwrap_or_default();
            let Some(count) = read_some(&self.stream, free)? else { break };
            self.filled += count;
            self.is_answered = true;
            self.last_read = Instant::now();
            has_appended |= self.take_frames(log)?;
            self.send_report(log, options)?;
        }
        check_silence(self.last_read, options.housekeeping_interval)?;
        Ok(has_appended)
    }

    /// Appends the bodies of the whole frames that were read. Gives whether there were any.
    fn take_frames(&mut self, log: &CommitLog) -> Result<bool, Ended> {
        let mut at = 0;
        let mut has_appended = false;
        loop {
            let rest = self.buffer.get(at..self.filled).unwrap_or_default();
            let Some(header) = Header::decode(rest)? else { break };
            check_follows(&header, self.known_to, log)?;
            let Some(body) = rest.get(HEADER_SIZE..HEADER_SIZE + header.body_size) else { break };
            let new = behind_own(log, header.phy_offset, body)?;
            if !new.is_empty() {
                let begin = header.phy_offset + num::offset(body.len() - new.len());
                self.boundaries.walk_own(log, begin)?;
                self.boundaries.walk(new)?;
                log.append_data(begin, new)?;
                has_appended = true;
            }
            if body.is_empty() {
                self.check_not_ahead(log)?;
            } else {
                self.known_to = header.phy_offset + num::offset(body.len());
                self.is_at_end = false;
            }
            at += HEADER_SIZE + header.body_size;
        }
        if at > 0 {
            self.buffer.copy_within(at..self.filled, 0);
            self.filled -= at;
        }
        Ok(has_appended)
    }

    /// At a heartbeat: a master that has nothing more does not have all that its slave has. 4.9.3 may send the first one
    /// though it has more, but looks what it has right behind it.
    fn check_not_ahead(&mut self, log: &CommitLog) -> Result<(), WireFault> {
        let found = own_end(log);
        if found > self.known_to && self.is_at_end {
            let max = self.known_to;
            // A master of 4.9.3 that has no such file sends the same as one that ends there.
            let is_told = max > self.asked_from;
            return Err(if is_told {
                WireFault::AheadOfMaster { found, max }
            } else {
                WireFault::NothingSent { asked: max, found }
            });
        }
        self.is_at_end = true;
        Ok(())
    }

    /// Reports how far the log is the master's: at once, whenever that has moved, and as a heartbeat. A master takes whatever
    /// follows the first report for what its slave has: until all is compared there is none.
    fn send_report(&mut self, log: &CommitLog, options: &ClientOptions) -> Result<(), Ended> {
        loop {
            let (bytes, sent) = self.report;
            if sent == REPORT_SIZE {
                let is_news = self.reported_offset != Some(self.known_to)
                    || self.last_report.elapsed() >= options.send_heartbeat_interval;
                let is_compared = self.known_to >= own_end(log);
                if self.reported_offset.is_some() && !(is_news && is_compared) {
                    return Ok(());
                }
                self.report = (wire::encode_report(self.known_to), 0);
                self.reported_offset = Some(self.known_to);
                self.last_report = Instant::now();
                continue;
            }
            match (&*self.stream).write(bytes.get(sent..).unwrap_or_default()) {
                Ok(0) => return Err(Ended::ByPeer),
                Ok(count) => self.report.1 += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Up to where a slave has something: an empty log can have a file anywhere.
fn own_end(log: &CommitLog) -> u64 {
    if log.is_empty() { 0 } else { log.max_offset() }
}

/// What a master sends follows what was asked for; the first that an empty slave gets may stand at any file's begin.
fn check_follows(header: &Header, known_to: u64, log: &CommitLog) -> Result<(), WireFault> {
    let (offset, file_size) = (header.phy_offset, log.files().file_size());
    if !log.is_empty() {
        let end = known_to;
        return if offset == end { Ok(()) } else { Err(WireFault::NotAtEnd { found: offset, end }) };
    }
    if header.body_size > 0 && !offset.is_multiple_of(file_size) {
        return Err(WireFault::FileSize { offset, file_size });
    }
    let found = num::java_long(offset);
    found.checked_add(num::java_long(file_size)).map(|_| ()).ok_or(WireFault::Offset { found })
}

/// What of a frame's body stands behind the slave's end; what stands before it has to be the same as the slave has.
fn behind_own<'b>(log: &CommitLog, phy_offset: u64, body: &'b [u8]) -> Result<&'b [u8], Ended> {
    let own_size = num::index(log.max_offset().saturating_sub(phy_offset)).min(body.len());
    if own_size == 0 || log.is_empty() {
        return Ok(body);
    }
    let (again, new) = body.split_at(own_size);
    let own = log.get_bytes(phy_offset, num::offset(own_size))?;
    if own.as_deref() == Some(again) {
        return Ok(new);
    }
    Err(WireFault::OtherLog { from: phy_offset, to: phy_offset + num::offset(own_size) }.into())
}
