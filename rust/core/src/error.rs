//! What can go wrong, each with what a person needs to act on it.

use std::io;
use std::path::{Path, PathBuf};

use crate::format::cq_unit::CqUnit;
use crate::format::message::RecordFault;
use crate::fs::FileSystem;

/// The engine's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of the engine.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system refused a file operation.
    #[error("{operation} {path}: {source}", path = path.display())]
    Io {
        /// What was tried.
        operation: &'static str,
        /// On which file.
        path: PathBuf,
        /// What the operating system said.
        #[source]
        source: io::Error,
    },
    /// A store, or a part of it that must be there, is missing.
    #[error("no store at {path}: {reason}", path = path.display())]
    NotFound {
        /// Where it was looked for.
        path: PathBuf,
        /// What is missing.
        reason: String,
    },
    /// The directory or a file in it is not what a RocketMQ 4.9.3 store has there.
    #[error("{path}: expected {expected}, found {found}", path = path.display())]
    Layout {
        /// The file or folder.
        path: PathBuf,
        /// What a store has there.
        expected: String,
        /// What is there.
        found: String,
    },
    /// The store's layout is another version's.
    #[error("{path}: {found} is not readable here: {reason}", path = path.display())]
    Unsupported {
        /// The file or folder.
        path: PathBuf,
        /// The layout's name.
        found: &'static str,
        /// Why, and what to do.
        reason: &'static str,
    },
    /// A record that should be whole is not.
    #[error("{path} at {offset}: {fault}", path = path.display())]
    Record {
        /// The log file.
        path: PathBuf,
        /// The physical offset of the record.
        offset: u64,
        /// What is wrong with it.
        #[source]
        fault: RecordFault,
    },
    /// The log has valid records behind a damaged place, so that cutting there would lose them.
    #[error(
        "{path} at {offset}: {fault}; valid records follow at {next_valid}, \
         so nothing was cut: open with on_damage=\"truncate\" to lose them, or repair the store",
        path = path.display()
    )]
    Damaged {
        /// The log file.
        path: PathBuf,
        /// The physical offset of the first bad record.
        offset: u64,
        /// What is wrong with it.
        #[source]
        fault: RecordFault,
        /// The physical offset of the next valid record.
        next_valid: u64,
    },
    /// The log ends before what its last writer knew to be on the disk.
    #[error(
        "{path}: the log ends at {offset}, and was on the disk up to {flushed_to}: its last files are missing, or what stands \
         there is damaged. Nothing was changed: bring them back, or open with on_damage=\"truncate\" to do without",
        path = path.display()
    )]
    EndLost {
        /// The log's last file, or the folder where it is missing.
        path: PathBuf,
        /// Where the log ends.
        offset: u64,
        /// Up to where it was on the disk.
        flushed_to: u64,
    },
    /// Another process has the store open for writing.
    #[error("{path}: already open for writing by {holder}: close it there, or open with mode=\"r\"", path = path.display())]
    Locked {
        /// The lock file.
        path: PathBuf,
        /// Who holds it, as far as it can be found out.
        holder: String,
    },
    /// An option has a value that does not work.
    #[error("option {option}={value}: {reason}")]
    Option {
        /// The option.
        option: &'static str,
        /// Its value.
        value: String,
        /// Why it does not work.
        reason: String,
    },
    /// The store was opened for reading.
    #[error("{path}: opened with mode=\"r\", which changes nothing: open with mode=\"rw\"", path = path.display())]
    ReadOnly {
        /// The store.
        path: PathBuf,
    },
    /// The store is closed.
    #[error("the store is closed")]
    Closed,
    /// The process was forked from the one that opened the store.
    #[error("the store was opened by process {pid}: a process that is forked from it opens it anew")]
    Forked {
        /// Who opened it.
        pid: u32,
    },
    /// Something without which the store cannot go on has ended.
    #[error("the store takes no messages any more, reopen it: {reason}")]
    Halted {
        /// What ended.
        reason: String,
    },
    /// A writer opened the store while a part of it was read, and makes units anew that are to be read.
    #[error(
        "{path}: a writer has opened the store and makes its queues anew for the log from {from} on: read again",
        path = path.display()
    )]
    MadeAnew {
        /// The store.
        path: PathBuf,
        /// The physical offset from which on.
        from: u64,
    },
    /// Somebody asked for what took long to be broken off.
    #[error("it was broken off")]
    Interrupted,
    /// A flush or a write failed before; what the disk holds is unknown until the store is reopened.
    #[error("an earlier {operation} failed, reopen the store: {reason}")]
    Poisoned {
        /// What failed.
        operation: &'static str,
        /// How.
        reason: String,
    },
    /// A network connection could not be made or used.
    #[error("{operation} {address}: {source}")]
    Socket {
        /// What was tried.
        operation: &'static str,
        /// With whom, or where.
        address: String,
        /// What the operating system said.
        #[source]
        source: io::Error,
    },
    /// A queue's last unit is of a message that stands elsewhere, as the queue's next one shows. A pass takes it back.
    #[error(
        "expected another message at {index} of queue {queue_id} of {topic}: the next one goes on before it"
    )]
    UnitRefuted {
        /// The queue's topic.
        topic: Box<str>,
        /// The queue's number.
        queue_id: i32,
        /// Where the unit stands in the queue.
        index: u64,
        /// The unit.
        unit: CqUnit,
    },
    /// Bytes of another log that do not follow the end of this one.
    #[error("expected bytes for offset {end}, the log's end, found some for {offset}")]
    NotAtEnd {
        /// Where they belong.
        offset: u64,
        /// Where the log ends.
        end: u64,
    },
    /// Bytes of another log that would go on in the next file: its files have another size.
    #[error(
        "the bytes {offset} to {end} do not end with the log file at {file_end}: \
         both logs need the same mappedFileSizeCommitLog"
    )]
    CrossesFile {
        /// Where they begin.
        offset: u64,
        /// Where they end.
        end: u64,
        /// Where the file ends.
        file_end: u64,
    },
    /// A place in the log that holds nothing readable.
    #[error("expected a record at offset {offset}, the log holds {min} to {max}")]
    OutOfRange {
        /// The offset that was asked for.
        offset: u64,
        /// The log's first.
        min: u64,
        /// The log's end.
        max: u64,
    },
}

impl Error {
    /// An error of the operating system with what was tried on which file.
    pub(crate) fn io(operation: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { operation, path, source }
    }

    /// An error of the operating system with what was tried with whom.
    pub(crate) fn socket(
        operation: &'static str,
        address: impl Into<String>,
    ) -> impl FnOnce(io::Error) -> Self {
        let address = address.into();
        move |source| Self::Socket { operation, address, source }
    }

    /// A file that has fewer bytes than when it was opened.
    pub(crate) fn cut_off(path: &Path, opened_len: u64, found_len: u64) -> Self {
        Self::Layout {
            path: path.into(),
            expected: format!("{opened_len} bytes, as when it was opened"),
            found: format!("{found_len} bytes: it was cut off meanwhile"),
        }
    }

    /// Whether a file of this machine was to be opened that was not there any more: a writer that recovers its store may
    /// have made it again since.
    #[must_use]
    pub(crate) fn is_removed(&self, fs: &dyn FileSystem) -> bool {
        let Self::Io { operation: "open", source, .. } = self else { return false };
        source.kind() == io::ErrorKind::NotFound && !fs.is_remote()
    }

    /// Whether the disk, or the user's share of it, is full.
    #[must_use]
    pub fn is_disk_full(&self) -> bool {
        matches!(self, Self::Io { source, .. }
            if matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded))
    }
}
