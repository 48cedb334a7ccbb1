//! A host as a record holds it.
//!
//! | bytes | field |
//! |-------|-------|
//! | 4 or 16 | address, IPv4 or IPv6 as a bit of the record's `sysFlag` says |
//! | 4     | port |

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use super::be::FieldReader;

/// Bytes of a host with an IPv4 address.
pub const V4_SIZE: usize = 4 + 4;
/// Bytes of a host with an IPv6 address.
pub const V6_SIZE: usize = 16 + 4;

/// An address and a port. The port is a Java `int` on disk, so more than 16 bits can stand there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Host {
    /// The address.
    pub ip: IpAddr,
    /// The port.
    pub port: i32,
}

impl Host {
    /// Reads one; `v6` is the record's flag for it. `None` where the bytes end before it does.
    #[inline]
    pub fn read(reader: &mut FieldReader<'_>, v6: bool) -> Option<Self> {
        let ip = if v6 {
            IpAddr::V6(Ipv6Addr::from(reader.array::<16>()?))
        } else {
            IpAddr::V4(Ipv4Addr::from(reader.array::<4>()?))
        };
        Some(Self { ip, port: reader.i32()? })
    }

    /// Whether the record's flag for it has to be set.
    #[must_use]
    pub const fn is_v6(&self) -> bool {
        self.ip.is_ipv6()
    }

    /// Bytes that it takes in a record.
    #[must_use]
    pub const fn size(&self) -> usize {
        size(self.is_v6())
    }

    /// Appends its bytes.
    pub fn write(&self, mut put: impl FnMut(&[u8])) {
        match self.ip {
            IpAddr::V4(ip) => put(&ip.octets()),
            IpAddr::V6(ip) => put(&ip.octets()),
        }
        put(&self.port.to_be_bytes());
    }
}

/// A text that is no host.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a host is written 1.2.3.4:5 or [1::2]:5, found {0:?}")]
pub struct NoHost(pub String);

impl FromStr for Host {
    type Err = NoHost;

    /// As it is displayed, or with brackets around an IPv6 address.
    fn from_str(text: &str) -> Result<Self, NoHost> {
        let parse = || {
            let (ip, port) = text.rsplit_once(':')?;
            let ip = ip.strip_prefix('[').and_then(|ip| ip.strip_suffix(']')).unwrap_or(ip);
            Some(Self { ip: ip.parse().ok()?, port: port.parse().ok()? })
        };
        parse().ok_or_else(|| NoHost(text.to_owned()))
    }
}

impl fmt::Display for Host {
    /// As Java prints it: an IPv6 address in full, without brackets, and one that stands for an
    /// IPv4 address as that (`InetAddress.getByAddress` turns it into one).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.ip.to_canonical() {
            IpAddr::V4(ip) => write!(f, "{ip}:{}", self.port),
            IpAddr::V6(ip) => {
                for group in ip.segments() {
                    write!(f, "{group:x}:")?;
                }
                write!(f, "{}", self.port)
            }
        }
    }
}

/// Bytes of a host.
#[must_use]
pub const fn size(v6: bool) -> usize {
    if v6 { V6_SIZE } else { V4_SIZE }
}
