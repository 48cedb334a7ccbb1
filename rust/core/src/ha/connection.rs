//! A master's connection to one slave: reads its reports, sends it the log. Source: `HAConnection`.

use std::io::{self, IoSlice};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::time::Instant;

use nix::errno::Errno;
use nix::poll::PollFlags;
use nix::sys::socket::{MsgFlags, sendmsg};

use super::group_transfer::Confirmed;
use super::master::MasterOptions;
use super::wire::{self, HEADER_SIZE, Header, REPORT_SIZE, WireFault};
use super::{Ended, check_silence, read_some};
use crate::commit_log::CommitLog;
use crate::mmap::slice::Slice;
use crate::num;
use crate::own_sockets::OwnSocket;

/// Bytes that one connection sends before the others have their turn.
const TURN_BYTES: u64 = 1 << 20;
/// Bytes of reports that are read at a time.
const READ_SIZE: usize = 512 * REPORT_SIZE;
/// Reads of one turn.
const TURN_READS: usize = 16;

/// How a slave's connection is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectionStatus {
    /// The slave's address.
    pub address: SocketAddr,
    /// What it asked for; `None` until it did.
    pub request_offset: Option<u64>,
    /// The end of its log, as it last said.
    pub ack_offset: u64,
    /// What it was sent.
    pub transferred_offset: u64,
}

/// A connection to a slave.
#[derive(Debug)]
pub(super) struct Connection {
    number: u64,
    stream: OwnSocket<TcpStream>,
    address: SocketAddr,
    /// The begin of a report whose rest is under way.
    partial: Vec<u8>,
    request_offset: Option<u64>,
    ack_offset: u64,
    transfer_from_where: u64,
    next_transfer_from_where: u64,
    /// What nobody was told of yet.
    confirmed: Option<Confirmed>,
    outgoing: Option<Outgoing>,
    last_read: Instant,
    last_write: Instant,
}

/// A frame that is being sent. The body is the log's mapping itself.
#[derive(Debug)]
struct Outgoing {
    header: [u8; HEADER_SIZE],
    body: Option<Slice>,
    sent: usize,
}

/// What a turn left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// Nothing is left to send.
    Idle,
    /// The slave takes no more now.
    Blocked,
    /// There is more, others first.
    More,
}

impl Connection {
    pub(super) fn new(number: u64, stream: OwnSocket<TcpStream>, address: SocketAddr) -> Result<Self, Ended> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        Ok(Self {
            number,
            stream,
            address,
            partial: Vec::with_capacity(REPORT_SIZE),
            request_offset: None,
            ack_offset: 0,
            transfer_from_where: 0,
            next_transfer_from_where: 0,
            confirmed: None,
            outgoing: None,
            last_read: Instant::now(),
            last_write: Instant::now(),
        })
    }

    pub(super) const fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// What it waits for.
    pub(super) fn interest(&self) -> PollFlags {
        if self.outgoing.is_some() { PollFlags::POLLIN | PollFlags::POLLOUT } else { PollFlags::POLLIN }
    }

    /// Whether the slave has said what it wants.
    pub(super) const fn has_asked(&self) -> bool {
        self.request_offset.is_some()
    }

    pub(super) const fn status(&self) -> ConnectionStatus {
        ConnectionStatus {
            address: self.address,
            request_offset: self.request_offset,
            ack_offset: self.ack_offset,
            transferred_offset: self.next_transfer_from_where,
        }
    }

    /// Reads what the slave has reported.
    pub(super) fn read_reports(&mut self, log: &CommitLog, options: &MasterOptions) -> Result<(), Ended> {
        let mut buffer = [0; READ_SIZE];
        for _ in 0..TURN_READS {
            let Some(count) = read_some(&self.stream, &mut buffer)? else { break };
            self.last_read = Instant::now();
            self.take_bytes(buffer.get(..count).unwrap_or_default(), log)?;
        }
        check_silence(self.last_read, options.housekeeping_interval)
    }

    fn take_bytes(&mut self, mut bytes: &[u8], log: &CommitLog) -> Result<(), Ended> {
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(REPORT_SIZE - self.partial.len()));
            self.partial.extend_from_slice(now);
            bytes = later;
            if let Ok(report) = <[u8; REPORT_SIZE]>::try_from(self.partial.as_slice()) {
                self.partial.clear();
                self.take_report(wire::decode_report(report)?, log)?;
            }
        }
        Ok(())
    }

    /// The first report says what the slave wants, and nothing of what it has counts: its log may have gone on otherwise.
    fn take_report(&mut self, found: u64, log: &CommitLog) -> Result<(), Ended> {
        let Some(request) = self.request_offset else {
            let max = log.max_offset();
            if found > max {
                return Err(WireFault::AsksBehindEnd { found, max }.into());
            }
            self.request_offset = Some(found);
            self.transfer_from_where = if found == 0 { max - max % log.files().file_size() } else { found };
            self.next_transfer_from_where = self.transfer_from_where;
            self.ack_offset = found;
            return Ok(());
        };
        if found > self.next_transfer_from_where {
            return Err(WireFault::NotSent { found, sent: self.next_transfer_from_where }.into());
        }
        self.ack_offset = self.ack_offset.max(found);
        self.confirmed = Some(Confirmed {
            connection: self.number,
            claimed_from: if request == 0 { self.transfer_from_where } else { 0 },
            sent_from: self.transfer_from_where,
            to: self.ack_offset,
        });
        Ok(())
    }

    /// What the slave has confirmed since this was last asked.
    pub(super) const fn take_confirmed(&mut self) -> Option<Confirmed> {
        self.confirmed.take()
    }

    /// Sends what the slave does not have yet, as much as it takes now.
    pub(super) fn transfer(&mut self, log: &CommitLog, options: &MasterOptions) -> Result<Turn, Ended> {
        let turn_end = self.next_transfer_from_where + TURN_BYTES;
        loop {
            if let Some(outgoing) = &mut self.outgoing {
                if !outgoing.send(&self.stream)? {
                    return Ok(Turn::Blocked);
                }
                self.outgoing = None;
                self.last_write = Instant::now();
            }
            if !self.has_asked() {
                return Ok(Turn::Idle);
            }
            if self.next_transfer_from_where >= turn_end {
                return Ok(Turn::More);
            }
            self.outgoing = self.next_frame(log, options)?;
            if self.outgoing.is_none() {
                return Ok(Turn::Idle);
            }
        }
    }

    /// The next part of the log, or a heartbeat when it is time for one.
    fn next_frame(&mut self, log: &CommitLog, options: &MasterOptions) -> Result<Option<Outgoing>, Ended> {
        let phy_offset = self.next_transfer_from_where;
        let max_size = num::offset(options.transfer_batch_size);
        if let Some(body) = log.get_bytes(phy_offset, max_size)? {
            let header = Header { phy_offset, body_size: body.len() };
            self.next_transfer_from_where += num::offset(body.len());
            return Ok(Some(Outgoing { header: header.encode(), body: Some(body), sent: 0 }));
        }
        if let Some(min) = log.min_offset().filter(|&min| phy_offset < min) {
            return Err(WireFault::BeforeMaster { found: phy_offset, min }.into());
        }
        if self.last_write.elapsed() < options.send_heartbeat_interval {
            return Ok(None);
        }
        let header = Header { phy_offset, body_size: 0 };
        Ok(Some(Outgoing { header: header.encode(), body: None, sent: 0 }))
    }
}

impl Outgoing {
    /// Sends what the socket takes. Gives whether that was all.
    fn send(&mut self, stream: &TcpStream) -> Result<bool, Ended> {
        loop {
            let header = self.header.get(self.sent..).unwrap_or_default();
            let body = self.body.as_deref().unwrap_or_default();
            let body = body.get(self.sent.saturating_sub(HEADER_SIZE)..).unwrap_or_default();
            if header.is_empty() && body.is_empty() {
                return Ok(true);
            }
            // A slave that has gone must not end the process by a signal, whatever that does with it.
            let parts = [IoSlice::new(header), IoSlice::new(body)];
            match sendmsg::<()>(stream.as_raw_fd(), &parts, &[], MsgFlags::MSG_NOSIGNAL, None) {
                Ok(0) => return Err(Ended::ByPeer),
                Ok(count) => self.sent += count,
                Err(Errno::EWOULDBLOCK) => return Ok(false),
                Err(Errno::EINTR) => {}
                Err(error) => return Err(io::Error::from(error).into()),
            }
        }
    }
}
