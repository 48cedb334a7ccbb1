//! `mqstore/published`: how far the writer of a store is, for those that follow it.
//!
//! The file is mapped by the writer, and its positions change in place while the store's lock is held;
//! without that lock they mean nothing, but for one: the next writer misses what a killed one said to be on the disk. The openings
//! stay: a reader that is behind some of them learns what it must not believe any more.
//!
//! | bytes | field |
//! |-------|-------|
//! | 8     | `mqstpub1`; zeros while the writer that has the lock still recovers the store |
//! | 8     | process id of the writer |
//! | 8     | when it opened the store, in milliseconds |
//! | 8     | wrote: every byte of the log below can be read |
//! | 8     | flushed: every byte of the log below is on the disk |
//! | 8     | dispatched: the units of every record below are in the queues' files |
//! | 8     | `mqstopen` |
//! | 8     | how often an mqstore writer has opened the store |
//! | 64 × 24 | of the last of these openings, each at its number modulo 64: when it was, in milliseconds; up to where the log stayed as it was; and up to where the queues did |
//! | 8     | 1 once a flush of the log has failed: memory may have of it what the disk has not |
//! | 4     | how large the writer makes the log's files |
//! | 4     | the same with each bit the other way round: else it says nothing |
//! | 2480  | zeros |

use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::format::be::i64_at;
use crate::fs::{FileSystem, OpenMode, open_if_there};
use crate::mmap::region::Region;
use crate::num;
use crate::sync::{Ordering, before_visible_change};

const FILE_SIZE: usize = 4096;
const MAGIC: [u8; 8] = *b"mqstpub1";
const PID_AT: usize = 8;
const OPENED_AT: usize = 16;
const WROTE_AT: usize = 24;
const FLUSHED_AT: usize = 32;
const DISPATCHED_AT: usize = 40;
const OPENINGS_AT: usize = 48;
const OPENINGS_MAGIC: [u8; 8] = *b"mqstopen";
const OPENING_SIZE: usize = 24;
/// Of how many openings is known what they changed.
const OPENINGS_KEPT: usize = 64;
const FLUSH_FAILED_AT: usize = OPENINGS_AT + OPENINGS_SIZE;
const LOG_FILE_SIZE_AT: usize = FLUSH_FAILED_AT + 8;
const OPENINGS_SIZE: usize = OPENINGS_MAGIC.len() + 8 + OPENINGS_KEPT * OPENING_SIZE;

const _: () = assert!(LOG_FILE_SIZE_AT + 8 + 2480 == FILE_SIZE, "the table says how many bytes are zeros");

/// The writer's side.
#[derive(Debug)]
pub struct Published {
    path: PathBuf,
    region: Region,
    opening_count: u64,
}

/// The followers' side: what the writer had published when it was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PublishedPositions {
    /// Process id of the writer.
    pub pid: i64,
    /// When it opened the store, in milliseconds.
    pub opened_ms: i64,
    /// Every byte of the log below can be read.
    pub wrote: u64,
    /// Every byte of the log below is on the disk.
    pub flushed: u64,
    /// The units of every record below are in the queues' files.
    pub dispatched: u64,
}

/// How far a store's writer is, as far as it tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// It tells nothing, as a Java writer.
    Untold,
    /// An mqstore writer that recovers the store, and changes what is behind what is known to be on the disk.
    Recovering,
    /// An mqstore writer.
    Published(PublishedPositions),
}

/// Where the file is.
#[must_use]
pub fn path(own_dir: &Path) -> PathBuf {
    own_dir.join("published")
}

/// A store's openings by mqstore writers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Openings {
    count: u64,
    /// The last ones, oldest first.
    last: Vec<Opening>,
}

/// One of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Opening {
    opened_ms: i64,
    unchanged: Unchanged,
}

/// What an opening has left as it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unchanged {
    /// The log before this offset: behind it something may have been cut, and other records be there now.
    pub log: u64,
    /// The units of records before this offset: behind it they were made anew.
    pub queues: u64,
}

impl Unchanged {
    /// All of it.
    pub const ALL: Self = Self { log: u64::MAX, queues: u64::MAX };
    /// Nothing.
    const NOTHING: Self = Self { log: 0, queues: 0 };

    /// What both left as it was.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self { log: self.log.min(other.log), queues: self.queues.min(other.queues) }
    }
}

/// What a writer publishes is withheld from here on until it has recovered the store: so far it is what the one before
/// it published, or nothing, where that was 4.9.3.
#[derive(Debug)]
pub struct Withheld(Before);

/// What was there before something was withheld.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Before {
    /// What a writer had published, and it is to be believed again; up to where that said that the log is on the disk.
    Published { flushed: u64 },
    /// No file; of the folder is said whether it was there.
    Nothing { has_folder: bool },
    /// What nobody believes anyway.
    Other,
}

impl Withheld {
    /// Withholds it, for who has the store's lock.
    ///
    /// # Errors
    /// Where the file is there and can't be written, or is not there and can't be made.
    pub fn begin(fs: &dyn FileSystem, own_dir: &Path) -> Result<Self> {
        let look = |path: &Path| fs.metadata(path).map_err(Error::io("look at", path));
        let before = if let Some(published) = Progress::read(fs, own_dir)?.published() {
            Before::Published { flushed: published.flushed }
        } else if look(&path(own_dir))?.is_none() {
            let has_folder = look(own_dir)?.is_some();
            fs.create_dir_all(own_dir).map_err(Error::io("make the folder", own_dir))?;
            Before::Nothing { has_folder }
        } else {
            Before::Other
        };
        let withheld = Self(before);
        let written = match before {
            Before::Published { .. } => write_at(fs, own_dir, 0, &[0; MAGIC.len()]),
            Before::Nothing { .. } => write_at(fs, own_dir, 0, &[0; OPENINGS_AT]),
            Before::Other => Ok(()),
        };
        match written {
            Ok(()) => Ok(withheld),
            Err(error) => {
                withheld.undo(fs, own_dir);
                Err(error)
            }
        }
    }

    /// Up to where the writer before had published that the log is on the disk; 0 where it had not.
    #[must_use]
    pub const fn flushed(&self) -> u64 {
        if let Before::Published { flushed } = self.0 { flushed } else { 0 }
    }

    /// Leaves the file as it was: the store is not opened.
    pub fn undo(self, fs: &dyn FileSystem, own_dir: &Path) {
        let _opening_fails_with_its_own_error = match self.0 {
            Before::Published { .. } => write_at(fs, own_dir, 0, &MAGIC).is_ok(),
            Before::Nothing { has_folder } => {
                fs.remove_file(&path(own_dir)).is_ok() && (has_folder || fs.remove_dir(own_dir).is_ok())
            }
            Before::Other => true,
        };
    }
}

/// Says to the next writer that what this one writes in the store's log may not come to the disk, though memory has it: until
/// it publishes.
///
/// # Errors
/// Where the file can't be written.
pub fn distrust_disk(fs: &dyn FileSystem, own_dir: &Path) -> Result<()> {
    write_at(fs, own_dir, num::offset(FLUSH_FAILED_AT), &1u64.to_be_bytes())
}

/// Up to where the last writer published that the log is on the disk; 0 where nothing tells, and of a store elsewhere, where each
/// look is a request.
///
/// # Errors
/// Where the file is there and can't be read.
pub fn flushed(fs: &dyn FileSystem, own_dir: &Path) -> Result<u64> {
    if fs.is_remote() {
        return Ok(0);
    }
    Ok(Progress::read(fs, own_dir)?.published().map_or(0, |published| published.flushed))
}

/// Has what a writer published say no more than that the log is on the disk up to an offset, also behind a power cut: behind there it
/// is about to be cut, or was lost.
///
/// # Errors
/// Where the file can't be written.
pub fn lower_flushed(fs: &dyn FileSystem, own_dir: &Path, to: u64) -> Result<()> {
    let path = path(own_dir);
    let handle = fs.open(&path, OpenMode::Write).map_err(Error::io("open", &path))?;
    let written = handle.write_at(&to.to_be_bytes(), num::offset(FLUSHED_AT));
    written.and_then(|()| handle.sync_data()).map_err(Error::io("write", &path))
}

fn write_at(fs: &dyn FileSystem, own_dir: &Path, at: u64, bytes: &[u8]) -> Result<()> {
    let path = path(own_dir);
    let handle = fs.open(&path, OpenMode::Create).map_err(Error::io("open", &path))?;
    handle.write_at(bytes, at).map_err(Error::io("write", &path))
}

impl Published {
    /// Makes or takes over the file of a store whose lock is held, as its newest opening by a writer that makes log files of
    /// a size.
    ///
    /// # Errors
    /// Where the file can't be made.
    pub fn create(
        fs: &dyn FileSystem,
        own_dir: &Path,
        first: PublishedPositions,
        unchanged: Unchanged,
        log_file_size: u64,
    ) -> Result<Self> {
        fs.create_dir_all(own_dir).map_err(Error::io("make the folder", own_dir))?;
        let openings = Openings::read(fs, own_dir)?.with(Opening { opened_ms: first.opened_ms, unchanged });
        let path = path(own_dir);
        let handle = fs.open(&path, OpenMode::Create).map_err(Error::io("open", &path))?;
        let mut bytes = [0; MAGIC.len()].to_vec();
        bytes.extend_from_slice(&first.pid.to_be_bytes());
        bytes.extend_from_slice(&first.opened_ms.to_be_bytes());
        for position in [first.wrote, first.flushed, first.dispatched] {
            bytes.extend_from_slice(&position.to_be_bytes());
        }
        bytes.extend_from_slice(&openings.to_bytes());
        bytes.resize(LOG_FILE_SIZE_AT, 0);
        bytes.extend_from_slice(&size_to_bytes(log_file_size));
        bytes.resize(FILE_SIZE, 0);
        let region = handle
            .write_at(&bytes, 0)
            .and_then(|()| handle.set_len(num::offset(FILE_SIZE)))
            .and_then(|()| handle.map(FILE_SIZE, true))
            .map_err(Error::io("set up", &path))?;
        let published = Self { path, region, opening_count: openings.count() };
        published.store(0, u64::from_be_bytes(MAGIC));
        Ok(published)
    }

    /// How often an mqstore writer has opened the store, with this one.
    #[must_use]
    pub const fn opening_count(&self) -> u64 {
        self.opening_count
    }

    /// Lets go of the file, at the end of a close: what is published from then on nobody sees.
    ///
    /// # Errors
    /// Where the system has no memory to put in its place; the file stays mapped.
    pub fn let_go(&self) -> Result<()> {
        self.region.let_go_of_file().map_err(Error::io("let go of", &self.path))
    }

    #[inline]
    fn store(&self, at: usize, value: u64) {
        if let Some(word) = self.region.atomic_u64(at) {
            before_visible_change();
            word.store(value.to_be(), Ordering::Release);
        }
    }

    /// Publishes how far the log can be read.
    #[inline]
    pub fn set_wrote(&self, offset: u64) {
        self.store(WROTE_AT, offset);
    }

    /// Publishes how far the log is on the disk.
    pub fn set_flushed(&self, offset: u64) {
        self.store(FLUSHED_AT, offset);
    }

    /// Says to the next writer that a flush of the log has failed.
    pub fn set_flush_failed(&self) {
        self.store(FLUSH_FAILED_AT, 1);
    }

    /// Publishes how far the queues' files are complete.
    pub fn set_dispatched(&self, offset: u64) {
        self.store(DISPATCHED_AT, offset);
    }
}

/// Whether a flush of the log has failed since the last writer opened the store.
///
/// # Errors
/// Where the file is there and can't be read.
pub fn has_flush_failed(fs: &dyn FileSystem, own_dir: &Path) -> Result<bool> {
    let word = read_at::<8>(fs, own_dir, num::offset(FLUSH_FAILED_AT))?;
    Ok(word.is_some_and(|word| word != [0; 8]))
}

/// How large the last writer made the log's files; `None` where nothing tells.
///
/// # Errors
/// Where the file is there and can't be read.
pub fn log_file_size(fs: &dyn FileSystem, own_dir: &Path) -> Result<Option<u64>> {
    let bytes = read_at::<8>(fs, own_dir, num::offset(LOG_FILE_SIZE_AT))?;
    let size = bytes.map(|[a, b, c, d, ..]| u64::from(u32::from_be_bytes([a, b, c, d])));
    Ok(size.filter(|&size| size > 0 && bytes == Some(size_to_bytes(size))))
}

/// A size as it stands in the file, and the same with each bit the other way round; zeros for one that no log has.
fn size_to_bytes(size: u64) -> [u8; 8] {
    let Ok(size) = u32::try_from(size) else { return [0; 8] };
    (u64::from(size) << 32 | u64::from(!size)).to_be_bytes()
}

impl Progress {
    /// Reads what the one that has the store's lock tells.
    ///
    /// # Errors
    /// Where the file is there and can't be read.
    pub fn read(fs: &dyn FileSystem, own_dir: &Path) -> Result<Self> {
        let Some(bytes) = read_at::<OPENINGS_AT>(fs, own_dir, 0)? else { return Ok(Self::Untold) };
        if bytes.starts_with(&[0; MAGIC.len()]) {
            return Ok(Self::Recovering);
        }
        if !bytes.starts_with(&MAGIC) {
            return Ok(Self::Untold);
        }
        let field = |at| i64_at(&bytes, at).unwrap_or(0);
        let offset = |at| num::from_java_long(field(at)).unwrap_or(0);
        let wrote = offset(WROTE_AT);
        Ok(Self::Published(PublishedPositions {
            pid: field(PID_AT),
            opened_ms: field(OPENED_AT),
            wrote,
            // What was not written is not on the disk: a bit that changed would have a sound log miss its end.
            flushed: offset(FLUSHED_AT).min(wrote),
            dispatched: offset(DISPATCHED_AT),
        }))
    }

    /// What it published, if it did.
    #[must_use]
    pub const fn published(self) -> Option<PublishedPositions> {
        if let Self::Published(positions) = self { Some(positions) } else { None }
    }
}

impl Openings {
    /// Reads a store's openings; none where nothing tells of them.
    ///
    /// # Errors
    /// Where the file is there and can't be read.
    pub fn read(fs: &dyn FileSystem, own_dir: &Path) -> Result<Self> {
        let Some(bytes) = read_at::<OPENINGS_SIZE>(fs, own_dir, num::offset(OPENINGS_AT))? else {
            return Ok(Self::default());
        };
        let field = |at| i64_at(&bytes, at).unwrap_or(0);
        let Some(count) = num::from_java_long(field(OPENINGS_MAGIC.len())) else {
            return Ok(Self::default());
        };
        if !bytes.starts_with(&OPENINGS_MAGIC) {
            return Ok(Self::default());
        }
        let opening = |number| {
            let at = OPENINGS_MAGIC.len() + 8 + num::index(slot_of(number)) * OPENING_SIZE;
            let offset = |at| num::from_java_long(field(at)).unwrap_or(0);
            let unchanged = Unchanged { log: offset(at + 8), queues: offset(at + 16) };
            Opening { opened_ms: field(at), unchanged }
        };
        Ok(Self {
            count,
            last: (count.saturating_sub(num::offset(OPENINGS_KEPT))..count).map(opening).collect(),
        })
    }

    /// How many there were.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Those that were there when there were so many.
    #[must_use]
    pub fn when_they_were(mut self, count: u64) -> Self {
        let newer = num::index(self.count.saturating_sub(count));
        self.last.truncate(self.last.len().saturating_sub(newer));
        Self { count, last: self.last }
    }

    /// What stayed as it was since others were read that were the last ones then.
    #[must_use]
    pub fn unchanged_since(&self, seen: &Self) -> Unchanged {
        let newer = self.count.checked_sub(seen.count).map(num::index);
        let Some(known) = newer.and_then(|newer| self.last.len().checked_sub(newer)) else {
            return Unchanged::NOTHING;
        };
        let (known, newer) = self.last.split_at_checked(known).unwrap_or_default();
        // Another file may be there by now.
        if known.last() != seen.last.last() {
            return Unchanged::NOTHING;
        }
        newer.iter().fold(Unchanged::ALL, |all, opening| all.and(opening.unchanged))
    }

    fn with(mut self, opening: Opening) -> Self {
        self.count += 1;
        self.last.push(opening);
        let surplus = self.last.len().saturating_sub(OPENINGS_KEPT);
        self.last.drain(..surplus);
        self
    }

    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = OPENINGS_MAGIC.to_vec();
        bytes.extend_from_slice(&self.count.to_be_bytes());
        let oldest = self.count - num::offset(self.last.len());
        for slot in 0..num::offset(OPENINGS_KEPT) {
            let number = (oldest..self.count).find(|&number| slot_of(number) == slot);
            let opening = number.and_then(|number| self.last.get(num::index(number - oldest)));
            bytes.extend_from_slice(&opening.map_or(0, |opening| opening.opened_ms).to_be_bytes());
            let unchanged = opening.map_or(Unchanged::NOTHING, |opening| opening.unchanged);
            bytes.extend_from_slice(&unchanged.log.to_be_bytes());
            bytes.extend_from_slice(&unchanged.queues.to_be_bytes());
        }
        bytes
    }
}

/// At which place an opening stands.
const fn slot_of(number: u64) -> u64 {
    number % num::offset(OPENINGS_KEPT)
}

/// Bytes of the file; `None` where it is not there or has fewer.
fn read_at<const SIZE: usize>(fs: &dyn FileSystem, own_dir: &Path, at: u64) -> Result<Option<[u8; SIZE]>> {
    let path = path(own_dir);
    let Some(handle) = open_if_there(fs, &path)? else { return Ok(None) };
    let mut bytes = [0; SIZE];
    let count = handle.read_at(&mut bytes, at).map_err(Error::io("read", &path))?;
    Ok((count == SIZE).then_some(bytes))
}
