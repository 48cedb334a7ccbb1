//! The unique key that a Java client gives each message.
//!
//! | bytes   | field |
//! |---------|-------|
//! | 4 or 16 | address of the client |
//! | 2       | low half of its process id |
//! | 4       | what tells several clients of one process apart |
//! | 4       | milliseconds since its local month began |
//! | 2       | counter |
//!
//! As text it is upper-case hex. Source: `MessageClientIDSetter`.

use std::net::{IpAddr, Ipv4Addr, UdpSocket};

use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};

use crate::format::message_id::{hex_digits, push_hex};
use crate::sync::{AtomicI64, AtomicU32, Ordering};

/// Hex digits of the longest key, with an IPv6 address.
const MAX_DIGITS: usize = 2 * (16 + 2 + 4 + 4 + 2);

/// A unique key as text.
#[derive(Debug, Clone, Copy)]
pub struct UniqueKey {
    digits: [u8; MAX_DIGITS],
    len: usize,
}

impl Default for UniqueKey {
    fn default() -> Self {
        Self { digits: [0; MAX_DIGITS], len: 0 }
    }
}

impl UniqueKey {
    fn push(&mut self, digits: &[u8]) {
        let end = self.len + digits.len();
        if let Some(free) = self.digits.get_mut(self.len..end) {
            free.copy_from_slice(digits);
            self.len = end;
        }
    }

    /// Its digits.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        self.digits.get(..self.len).unwrap_or_default()
    }
}

/// Makes unique keys.
#[derive(Debug)]
pub struct UniqueKeys {
    prefix: Vec<u8>,
    counter: AtomicU32,
    /// When the current month began, and when the next one does, in milliseconds.
    month_start: AtomicI64,
    month_end: AtomicI64,
}

impl UniqueKeys {
    /// Keys of one client of this process.
    #[must_use]
    pub fn new(instance: u32) -> Self {
        let mut prefix = String::new();
        match local_address() {
            IpAddr::V4(ip) => push_hex(&mut prefix, &ip.octets()),
            IpAddr::V6(ip) => push_hex(&mut prefix, &ip.octets()),
        }
        let [_, _, pid @ ..] = std::process::id().to_be_bytes();
        push_hex(&mut prefix, &pid);
        push_hex(&mut prefix, &instance.to_be_bytes());
        let prefix = prefix.into_bytes();
        let (month_start, month_end) = (AtomicI64::new(i64::MAX), AtomicI64::new(i64::MIN));
        Self { prefix, counter: AtomicU32::new(0), month_start, month_end }
    }

    /// The next key, at a time in milliseconds.
    #[must_use]
    pub fn next(&self, now_ms: i64) -> UniqueKey {
        if now_ms >= self.month_end.load(Ordering::Relaxed) {
            self.enter_month(now_ms);
        }
        let since = now_ms.saturating_sub(self.month_start.load(Ordering::Relaxed)).max(0);
        let [_, _, _, _, since @ ..] = since.to_be_bytes();
        let [_, _, counter @ ..] = self.counter.fetch_add(1, Ordering::Relaxed).to_be_bytes();
        let mut key = UniqueKey::default();
        key.push(&self.prefix);
        for byte in since.into_iter().chain(counter) {
            key.push(&hex_digits(byte));
        }
        key
    }

    fn enter_month(&self, now_ms: i64) {
        let now = Timestamp::from_millisecond(now_ms).unwrap_or_default().to_zoned(TimeZone::system());
        let start = now.first_of_month().and_then(|first| first.start_of_day()).unwrap_or(now);
        let end = start.checked_add(1.month()).unwrap_or_else(|_| start.clone());
        self.month_start.store(start.timestamp().as_millisecond(), Ordering::Relaxed);
        self.month_end.store(end.timestamp().as_millisecond(), Ordering::Relaxed);
    }
}

/// The address from which this machine reaches others; nothing is sent.
fn local_address() -> IpAddr {
    let found = UdpSocket::bind("0.0.0.0:0").and_then(|socket| {
        socket.connect("192.0.2.1:9")?;
        socket.local_addr()
    });
    found.map_or(IpAddr::V4(Ipv4Addr::LOCALHOST), |address| address.ip())
}
