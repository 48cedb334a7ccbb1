//! Where the records of what a master sends begin: how a slave sees that its master's log files are of another size.
//!
//! A log's bytes are the same whatever its files' size, but records are not: each file ends with a blank, and none goes on
//! in the next. A slave with larger files has blanks in the middle of one, which hide what stands behind them there; one
//! with smaller files has records that are cut.

use super::Ended;
use super::wire::WireFault;
use crate::commit_log::CommitLog;
use crate::format::be;
use crate::format::message::{BLANK_MAGIC_CODE, FIXED_SIZE, MESSAGE_MAGIC_CODE, MESSAGE_MAGIC_CODE_V2};
use crate::num;

/// Size and magic code, with which everything in a log begins.
const HEAD_SIZE: usize = 4 + 4;
/// Bytes of a slave's own log that are looked at at a time.
const READ_SIZE: u64 = 1 << 20;

/// What stands before a record's begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Before {
    /// A record, or nothing.
    Record,
    /// A blank that ends before its file does.
    ShortBlank,
    /// A record, or a blank, that goes on behind the end of its file.
    TooLong,
}

/// A walk over a log from record to record, as its bytes come in.
#[derive(Debug)]
pub(super) struct Boundaries {
    file_size: u64,
    /// Up to here the walk has seen the log.
    seen_to: u64,
    /// Where the next record begins; `None` where that is not known until the next file begins.
    next: Option<u64>,
    before: Before,
    /// The begin of the next record's head.
    head: Vec<u8>,
}

impl Boundaries {
    /// A walk from a record's begin.
    pub(super) fn from(offset: u64, file_size: u64) -> Self {
        let head = Vec::with_capacity(HEAD_SIZE);
        Self { file_size, seen_to: offset, next: Some(offset), before: Before::Record, head }
    }

    /// Goes on over what a log has up to an offset, its end or where it begins.
    ///
    /// # Errors
    /// As for [`Self::walk`], or where a file can't be read.
    pub(super) fn walk_own(&mut self, log: &CommitLog, to: u64) -> Result<(), Ended> {
        while self.seen_to < to {
            let Some(bytes) = log.get_bytes(self.seen_to, READ_SIZE.min(to - self.seen_to))? else { break };
            self.walk(&bytes)?;
        }
        if self.seen_to != to {
            (self.seen_to, self.next, self.before) = (to, None, Before::Record);
            self.head.clear();
        }
        Ok(())
    }

    /// Goes on over bytes that follow what was seen, all of one file here.
    ///
    /// # Errors
    /// Where the log is none of files of this size. What cannot be a record is nothing of this: it is told elsewhere.
    pub(super) fn walk(&mut self, bytes: &[u8]) -> Result<(), WireFault> {
        let begin = self.seen_to;
        self.seen_to += num::offset(bytes.len());
        if begin.is_multiple_of(self.file_size) {
            self.next = Some(begin);
            self.head.clear();
            if self.before == Before::ShortBlank {
                self.before = Before::Record;
            }
        }
        while let Some(next) = self.next {
            let at = num::index((next + num::offset(self.head.len())).saturating_sub(begin));
            let rest = bytes.get(at..).unwrap_or_default();
            let missing = HEAD_SIZE - self.head.len();
            self.head.extend_from_slice(rest.get(..missing).unwrap_or(rest));
            if self.head.len() < HEAD_SIZE {
                break;
            }
            self.next = self.behind_head(next)?;
            self.head.clear();
        }
        Ok(())
    }

    /// Where what follows the record of this head begins.
    fn behind_head(&mut self, offset: u64) -> Result<Option<u64>, WireFault> {
        let file_end = offset - offset % self.file_size + self.file_size;
        let magic = be::i32_at(&self.head, 4);
        let is_message = magic == Some(MESSAGE_MAGIC_CODE) || magic == Some(MESSAGE_MAGIC_CODE_V2);
        // A size with a flipped bit is no reason to refuse a log: what the bytes behind it are tells the two apart.
        if (self.before == Before::ShortBlank && is_message)
            || (self.before == Before::TooLong && !is_message)
        {
            return Err(WireFault::FileSize { offset, file_size: self.file_size });
        }
        self.before = Before::Record;
        let size = be::i32_at(&self.head, 0).and_then(num::from_java_int).map_or(0, u64::from);
        let is_blank = magic == Some(BLANK_MAGIC_CODE);
        let least = if is_blank { HEAD_SIZE } else { FIXED_SIZE };
        if !(is_message || is_blank) || size < num::offset(least) {
            return Ok(None);
        }
        let end = offset + size;
        if end > file_end {
            self.before = Before::TooLong;
        } else if is_blank && end < file_end {
            self.before = Before::ShortBlank;
        }
        Ok(Some(end.min(file_end)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE_SIZE: u64 = 1024;

    fn head(size: u64, magic: i32) -> Vec<u8> {
        [num::java_int(num::index(size)).to_be_bytes(), magic.to_be_bytes()].concat()
    }

    /// A log of things of these sizes, each with its magic code.
    fn log(things: &[(u64, i32)]) -> Vec<u8> {
        let mut log = Vec::new();
        for &(size, magic) in things {
            let end = log.len() + num::index(size);
            log.extend(head(size, magic));
            log.resize(end, 7);
        }
        log
    }

    /// Sends a log in pieces, none over a file's end.
    fn walk(log: &[u8], file_size: u64, piece_size: usize) -> Result<(), WireFault> {
        let mut boundaries = Boundaries::from(0, file_size);
        for file in log.chunks(num::index(file_size)) {
            for piece in file.chunks(piece_size) {
                boundaries.walk(piece)?;
            }
        }
        assert_eq!(boundaries.seen_to, num::offset(log.len()));
        Ok(())
    }

    const MESSAGE: i32 = MESSAGE_MAGIC_CODE;
    const BLANK: i32 = BLANK_MAGIC_CODE;
    /// Two files, and a record of a third.
    const FILES: [(u64, i32); 6] =
        [(500, MESSAGE), (300, MESSAGE), (224, BLANK), (1000, MESSAGE), (24, BLANK), (200, MESSAGE)];

    #[test]
    fn files_of_one_size_agree() {
        for piece_size in [1, 3, 8, 100, 1024] {
            assert_eq!(walk(&log(&FILES), FILE_SIZE, piece_size), Ok(()));
        }
    }

    #[test]
    fn larger_and_smaller_files_are_seen() {
        for piece_size in [1, 3, 8, 100, 128, 1024] {
            let larger = WireFault::FileSize { offset: FILE_SIZE, file_size: 2 * FILE_SIZE };
            assert_eq!(walk(&log(&FILES), 2 * FILE_SIZE, piece_size), Err(larger));
            let smaller = WireFault::FileSize { offset: FILE_SIZE / 2, file_size: FILE_SIZE / 2 };
            let things = [(400, MESSAGE), (300, MESSAGE), (324, BLANK), (200, MESSAGE)];
            assert_eq!(walk(&log(&things), FILE_SIZE / 2, piece_size), Err(smaller));
        }
    }

    #[test]
    fn a_flipped_bit_is_no_other_size() {
        let good = log(&FILES);
        for bit in 0..8 * good.len() {
            let mut bad = good.clone();
            if let Some(byte) = bad.get_mut(bit / 8) {
                *byte ^= 1 << (bit % 8);
            }
            assert_eq!(walk(&bad, FILE_SIZE, 100), Ok(()), "bit {bit}");
        }
    }
}
