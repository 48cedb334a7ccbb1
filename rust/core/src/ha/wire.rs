//! What goes over the wire between master and slave.
//!
//! All numbers are big-endian. A slave sends its log's end, first of all and whenever it moved, and
//! every `haSendHeartbeatInterval`:
//!
//! | at | size | field          | meaning                                                       |
//! |----|------|----------------|---------------------------------------------------------------|
//! | 0  | 8    | `maxPhyOffset` | behind the slave's last byte; the first one is its request      |
//!
//! The first one of a slave here stands a little before its end: it holds what it is sent again against what it has,
//! since an end alone does not tell whether two logs are the same. It reports nothing more before that is done. What
//! follows the first one confirms what was sent since, to 4.9.3 the first one too.
//!
//! A master sends frames:
//!
//! | at | size       | field       | meaning                                                       |
//! |----|------------|-------------|---------------------------------------------------------------|
//! | 0  | 8          | `phyOffset` | where the body stands in the log, the end of what was sent before |
//! | 8  | 4          | `bodySize`  | bytes of the body; 0 is a heartbeat                           |
//! | 12 | `bodySize` | `body`      | bytes of one log file; may begin and end inside a record      |
//!
//! A slave whose log is empty asks for 0 and is sent the master's newest file alone.

use crate::format::be;
use crate::num;

/// Bytes of a slave's report.
pub const REPORT_SIZE: usize = 8;
/// Bytes of a frame's header.
pub const HEADER_SIZE: usize = 12;
/// Largest frame: a Java slave's buffer holds no more.
pub const MAX_FRAME_SIZE: usize = 4 << 20;
/// Largest body of a frame.
pub const MAX_BODY_SIZE: usize = MAX_FRAME_SIZE - HEADER_SIZE;

const BODY_SIZE_AT: usize = 8;
const _: () = assert!(BODY_SIZE_AT + size_of::<i32>() == HEADER_SIZE);

/// What is wrong with what the other side sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WireFault {
    /// An offset is negative.
    #[error("expected an offset of the log, found {found}")]
    Offset {
        /// What was sent.
        found: i64,
    },
    /// A body's size is negative or larger than a frame's may be.
    #[error("expected a body of 0 to {MAX_BODY_SIZE} bytes, found {found}")]
    BodySize {
        /// What was sent.
        found: i32,
    },
    /// A slave asks for what its master does not have. Where its log ends it does not say: there, or behind it.
    #[error(
        "the slave asks for the log from {found}, behind the master's end {max}: its log is another one, or has what the \
         master's has not. A copy of the master's log makes it a slave again"
    )]
    AsksBehindEnd {
        /// From where the slave asks for it.
        found: u64,
        /// The master's end.
        max: u64,
    },
    /// A slave has more than its master.
    #[error(
        "the slave's log ends at {found}, behind the master's end {max}: it is another log, or has what the master's has \
         not. A copy of the master's log makes it a slave again; what stands behind {max} is in the slave's alone"
    )]
    AheadOfMaster {
        /// The slave's end.
        found: u64,
        /// The master's.
        max: u64,
    },
    /// A master has sent nothing of what its slave has asked for, though the slave has something there.
    #[error(
        "the master sends nothing from {asked} on, where the slave's log goes on to {found}: either it ends there, and what \
         stands behind {asked} is in the slave's alone, or it no longer has that part. A copy of the master's log makes it a \
         slave again"
    )]
    NothingSent {
        /// From where the slave has asked for it.
        asked: u64,
        /// The slave's end.
        found: u64,
    },
    /// A slave confirms what it was not sent.
    #[error("the slave confirms {found}, it was sent no more than {sent}")]
    NotSent {
        /// What it confirms.
        found: u64,
        /// What it was sent.
        sent: u64,
    },
    /// A slave needs what its master no longer has.
    #[error("the slave needs the log from {found}, the master's begins at {min}")]
    BeforeMaster {
        /// From where the slave asks for it.
        found: u64,
        /// Where the master's begins.
        min: u64,
    },
    /// A master has other bytes than its slave.
    #[error("the master's log has other bytes from {from} to {to}: it is another log, or goes on otherwise")]
    OtherLog {
        /// Where what was compared begins.
        from: u64,
        /// Where it ends.
        to: u64,
    },
    /// A master's log files are of another size.
    #[error(
        "the master's log at {offset} is none of files of {file_size} bytes: both logs need the same mappedFileSizeCommitLog"
    )]
    FileSize {
        /// Where that is seen.
        offset: u64,
        /// The slave's size.
        file_size: u64,
    },
    /// A master sends what does not follow the slave's end.
    #[error("the master sends from {found}, the slave's log ends at {end}")]
    NotAtEnd {
        /// What the master sends.
        found: u64,
        /// Where the slave's log ends.
        end: u64,
    },
}

/// A frame's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Where the body stands in the log.
    pub phy_offset: u64,
    /// Bytes of the body.
    pub body_size: usize,
}

impl Header {
    /// Its bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; HEADER_SIZE] {
        let mut bytes = [0; HEADER_SIZE];
        let (offset, size) = bytes.split_at_mut(BODY_SIZE_AT);
        offset.copy_from_slice(&num::java_long(self.phy_offset).to_be_bytes());
        size.copy_from_slice(&num::java_int(self.body_size).to_be_bytes());
        bytes
    }

    /// The header at the begin of some bytes; `None` where it is not all there yet.
    ///
    /// # Errors
    /// Where its fields cannot be.
    pub fn decode(bytes: &[u8]) -> Result<Option<Self>, WireFault> {
        let (Some(offset), Some(size)) = (be::i64_at(bytes, 0), be::i32_at(bytes, BODY_SIZE_AT)) else {
            return Ok(None);
        };
        let phy_offset = num::from_java_long(offset).ok_or(WireFault::Offset { found: offset })?;
        let body_size = num::from_java_int(size)
            .map(|size| size as usize)
            .filter(|&size| size <= MAX_BODY_SIZE)
            .ok_or(WireFault::BodySize { found: size })?;
        Ok(Some(Self { phy_offset, body_size }))
    }
}

/// A slave's report.
#[must_use]
pub fn encode_report(max_phy_offset: u64) -> [u8; REPORT_SIZE] {
    num::java_long(max_phy_offset).to_be_bytes()
}

/// A slave's report.
///
/// # Errors
/// Where it is no offset.
pub fn decode_report(bytes: [u8; REPORT_SIZE]) -> Result<u64, WireFault> {
    let found = i64::from_be_bytes(bytes);
    num::from_java_long(found).ok_or(WireFault::Offset { found })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_twelve_bytes_of_big_endian() {
        let header = Header { phy_offset: 0x0102_0304_0506, body_size: 0x0708 };
        assert_eq!(header.encode(), [0, 0, 1, 2, 3, 4, 5, 6, 0, 0, 7, 8]);
        assert_eq!(Header::decode(&header.encode()), Ok(Some(header)));
        assert_eq!(Header::decode(&header.encode()[..11]), Ok(None));
    }

    #[test]
    fn a_header_is_bounded() {
        let with_size = |size: i32| {
            let mut bytes = [0; HEADER_SIZE];
            bytes[8..].copy_from_slice(&size.to_be_bytes());
            Header::decode(&bytes)
        };
        let largest = num::java_int(MAX_BODY_SIZE);
        assert_eq!(with_size(largest), Ok(Some(Header { phy_offset: 0, body_size: MAX_BODY_SIZE })));
        assert_eq!(with_size(largest + 1), Err(WireFault::BodySize { found: largest + 1 }));
        assert_eq!(with_size(-1), Err(WireFault::BodySize { found: -1 }));
        assert_eq!(Header::decode(&[0xff; HEADER_SIZE]), Err(WireFault::Offset { found: -1 }));
    }

    #[test]
    fn a_report_is_an_offset() {
        assert_eq!(encode_report(258), [0, 0, 0, 0, 0, 0, 1, 2]);
        assert_eq!(decode_report(encode_report(258)), Ok(258));
        assert_eq!(decode_report([0xff; 8]), Err(WireFault::Offset { found: -1 }));
    }
}
