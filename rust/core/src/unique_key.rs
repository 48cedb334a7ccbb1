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
use crate::num;
use crate::sync::{AtomicI64, AtomicU64, Ordering};

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

const COUNTER_BITS: u32 = 16;
const COUNTER_MASK: u64 = (1 << COUNTER_BITS) - 1;

/// Makes unique keys.
#[derive(Debug)]
pub struct UniqueKeys {
    /// What all keys begin with.
    prefix: UniqueKey,
    /// Of the last key: the time, never before an earlier one's, and in the lowest 16 bits the counter, with the first of
    /// which the time goes on: so no two keys have both.
    last: AtomicU64,
    /// When the current month began, and when the next one does, in milliseconds.
    month_start: AtomicI64,
    month_end: AtomicI64,
}

impl UniqueKeys {
    /// Keys of one client of this process.
    #[must_use]
    pub fn new(instance: u32) -> Self {
        let mut digits = String::new();
        match local_address() {
            IpAddr::V4(ip) => push_hex(&mut digits, &ip.octets()),
            IpAddr::V6(ip) => push_hex(&mut digits, &ip.octets()),
        }
        let [_, _, pid @ ..] = std::process::id().to_be_bytes();
        push_hex(&mut digits, &pid);
        push_hex(&mut digits, &instance.to_be_bytes());
        let mut prefix = UniqueKey::default();
        prefix.push(digits.as_bytes());
        let (month_start, month_end) = (AtomicI64::new(i64::MAX), AtomicI64::new(i64::MIN));
        Self { prefix, last: AtomicU64::new(COUNTER_MASK), month_start, month_end }
    }

    /// The next key, at a time in milliseconds, or later where there are many of one time.
    #[must_use]
    pub fn next(&self, now_ms: i64) -> UniqueKey {
        let (now_ms, counter) = self.take(now_ms);
        if now_ms >= self.month_end.load(Ordering::Relaxed) {
            self.enter_month(now_ms);
        }
        let since = now_ms.saturating_sub(self.month_start.load(Ordering::Relaxed)).max(0);
        let [_, _, _, _, since @ ..] = since.to_be_bytes();
        let [a, b, c, d, e, f, g, h] = hex_digits(u32::from_be_bytes(since));
        let [_, _, _, _, i, j, k, l] = hex_digits(counter.into());
        let mut key = self.prefix;
        key.push(&[a, b, c, d, e, f, g, h, i, j, k, l]);
        key
    }

    fn take(&self, now_ms: i64) -> (i64, u16) {
        let now = num::from_java_long(now_ms).unwrap_or(0).min(u64::MAX >> (COUNTER_BITS + 1));
        let follow = |last: u64| {
            let (last_time, last_counter) = (last >> COUNTER_BITS, last & COUNTER_MASK);
            let begins_again = last_counter == COUNTER_MASK;
            let time = now.max(last_time + u64::from(begins_again));
            let counter = if begins_again { 0 } else { last_counter + 1 };
            time << COUNTER_BITS | counter
        };
        let mut last = self.last.load(Ordering::Relaxed);
        loop {
            let next = follow(last);
            match self.last.compare_exchange_weak(last, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => {
                    let [.., high, low] = next.to_be_bytes();
                    return (num::java_long(next >> COUNTER_BITS), u16::from_be_bytes([high, low]));
                }
                Err(now_last) => last = now_last,
            }
        }
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
