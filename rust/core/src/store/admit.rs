//! Whether a store takes a message: its own state, the topic, the sizes.
//!
//! Source: `DefaultMessageStore.checkStoreStatus`, `checkMessage`; `MessageExtEncoder.encode`.

use std::fmt;

use super::put::{NewMessage, PutRefusal, refused};
use super::{Mode, Store};
use crate::clock::Clock;
use crate::commit_log::scan::check_topic;
use crate::commit_log::{AppendRefusal, CommitLog};
use crate::config::StoreConfig;
use crate::consume_queue::table::QueueTable;
use crate::dispatch::TIMED_TOPIC;
use crate::error::{Error, Result};
use crate::format::java_string::utf16_len;
use crate::format::message::{
    END_FILE_MIN_BLANK_LENGTH, MAX_PROPERTIES_LENGTH, MAX_TOPIC_LENGTH, RecordFields,
};
use crate::num;
use crate::status::PutMessageStatus;

/// An append that seems to take longer than this was not timed at all.
const OS_PAGE_CACHE_BUSY_LIMIT_MS: i64 = 10_000_000;

/// Of a name that [`check_topic`] refuses.
const NO_FOLDER: &str = "it becomes a folder's name: not empty, \".\" or \"..\", and without \"/\" and NUL";

/// The outcome of a check.
pub(super) type Checked<T> = Result<T, PutRefusal>;

/// What decides whether a message can be stored, and how: options, the size of log files, the time. A store has it, and
/// so has who only knows these of one.
#[derive(Clone, Copy)]
pub struct Admission<'s> {
    pub(super) config: &'s StoreConfig,
    pub(super) clock: &'s dyn Clock,
    /// Bytes of a log file.
    pub(super) file_size: u64,
    /// The store's queues, where it is there.
    pub(super) queues: Option<&'s QueueTable>,
    /// Its log.
    pub(super) log: Option<&'s CommitLog>,
}

impl<'s> Admission<'s> {
    /// What is known of a store that is not open.
    #[must_use]
    pub const fn new(config: &'s StoreConfig, clock: &'s dyn Clock, file_size: u64) -> Self {
        Self { config, clock, file_size, queues: None, log: None }
    }

    /// Whether the store takes a message, as far as the message alone tells; `encoded` is room for its properties.
    ///
    /// # Errors
    /// The refusal that a put of it gets.
    pub fn check(&self, message: &NewMessage<'_>, encoded: &mut Vec<u8>) -> Result<(), PutRefusal> {
        self.check_message(message)?;
        encoded.clear();
        let prepared = self.prepare(message, encoded)?;
        let size = num::offset(prepared.record(message, encoded).fields.record_size());
        let file_size = self.file_size;
        if size + END_FILE_MIN_BLANK_LENGTH as u64 > file_size {
            return Err(refused(AppendRefusal::FitsNoFile { size, file_size }));
        }
        Ok(())
    }
}

impl fmt::Debug for Admission<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Admission").field("file_size", &self.file_size).finish_non_exhaustive()
    }
}

impl Store {
    /// What decides about its messages.
    #[inline]
    pub(super) fn admission(&self) -> Admission<'_> {
        Admission {
            config: &self.config,
            clock: &*self.clock,
            file_size: self.log.files().file_size(),
            queues: Some(&self.queues),
            log: Some(&self.log),
        }
    }

    /// Source: `checkStoreStatus`.
    pub(super) fn check_store_status(&self) -> Checked<()> {
        let unavailable = |reason: Error| PutRefusal {
            status: PutMessageStatus::ServiceNotAvailable,
            append: None,
            reason: Box::new(reason),
            at: None,
        };
        self.check_open().map_err(unavailable)?;
        if self.mode == Mode::Read {
            return Err(unavailable(Error::ReadOnly { path: self.path().into() }));
        }
        if self.config.is_slave {
            let status = PutMessageStatus::ServiceNotAvailable;
            return Err(PutRefusal::new(
                status,
                "brokerRole",
                "SLAVE",
                "a slave takes messages from its master alone",
            ));
        }
        if !self.flags.is_writeable() {
            let status = PutMessageStatus::ServiceNotAvailable;
            let bits = self.flags.bits();
            let reason = self.queues_failed().unwrap_or_else(|| {
                "the disk is fuller than diskSpaceWarningLevelRatio says, as far as it was looked at".into()
            });
            return Err(PutRefusal::new(status, "runningFlags", bits, reason));
        }
        self.ended.check_runs().map_err(unavailable)?;
        let busy_ms = self.log.lock_time_ms();
        if busy_ms > self.config.os_page_cache_busy_timeout_ms && busy_ms < OS_PAGE_CACHE_BUSY_LIMIT_MS {
            let status = PutMessageStatus::OsPagecacheBusy;
            return Err(PutRefusal::new(
                status,
                "osPageCacheBusyTimeOutMills",
                self.config.os_page_cache_busy_timeout_ms,
                format!("an append has been under way for {busy_ms} ms"),
            ));
        }
        Ok(())
    }

    /// Whether a topic can be put to, before anything is made for it. A refusal is a put that failed.
    ///
    /// # Errors
    /// The refusal that a put to it gets.
    pub fn admit_topic(&self, topic: &[u8]) -> Checked<()> {
        self.admission().check_put_topic(topic).inspect_err(|_| self.stats.put_failed())
    }
}

impl Admission<'_> {
    /// Whether a message can be put to a topic. What is delivered of timed messages stands in theirs.
    pub(super) fn check_put_topic(&self, topic: &[u8]) -> Checked<()> {
        if topic == TIMED_TOPIC {
            let reason = "messages come to this topic by their time of delivery alone";
            return Err(PutRefusal::illegal("topic", String::from_utf8_lossy(topic), reason));
        }
        self.check_topic(topic)
    }

    /// Whether a topic can be stored.
    pub(super) fn check_topic(&self, topic: &[u8]) -> Checked<()> {
        if topic.len() > MAX_TOPIC_LENGTH {
            let reason = format!(
                "a topic has at most {MAX_TOPIC_LENGTH} bytes of UTF-8, this one has {}",
                topic.len()
            );
            return Err(PutRefusal::illegal("topic", String::from_utf8_lossy(topic), reason));
        }
        check_topic(topic)
            .map_err(|_| PutRefusal::illegal("topic", String::from_utf8_lossy(topic), NO_FOLDER))
    }

    /// Source: `checkMessage`.
    pub(super) fn check_message(&self, message: &NewMessage<'_>) -> Checked<()> {
        self.check_put_topic(message.topic)?;
        if self.config.compat {
            return Ok(());
        }
        if message.queue_id < 0 {
            let reason = "expected a number of at least 0";
            return Err(PutRefusal::illegal("queue_id", message.queue_id, reason));
        }
        message.properties.check_separators()
    }

    /// Source: `MessageExtEncoder.encode`.
    #[inline]
    pub(super) fn check_sizes(&self, fields: &RecordFields<'_>, added_later: usize) -> Checked<()> {
        let properties_size = fields.properties_size() + added_later;
        if properties_size > MAX_PROPERTIES_LENGTH {
            return Err(self.properties_refusal(fields.properties, properties_size));
        }
        let size = fields.record_size();
        if size > self.config.max_message_size as usize {
            return Err(self.size_refusal(size));
        }
        Ok(())
    }

    #[cold]
    fn properties_refusal(&self, properties: &[u8], size: usize) -> PutRefusal {
        let in_chars = std::str::from_utf8(properties).map_or(0, utf16_len);
        let status = if self.config.compat && in_chars <= MAX_PROPERTIES_LENGTH {
            PutMessageStatus::PropertiesSizeExceeded
        } else {
            PutMessageStatus::MessageIllegal
        };
        let reason = format!("properties have at most {MAX_PROPERTIES_LENGTH} bytes");
        PutRefusal::new(status, "properties", format!("{size} bytes"), reason)
    }

    #[cold]
    fn size_refusal(&self, size: usize) -> PutRefusal {
        let reason = format!("the record has {size} bytes");
        PutRefusal::illegal("maxMessageSize", self.config.max_message_size, reason)
    }

    /// A message that waits has a longer record once it is delivered, where its topic is longer than the one in
    /// which it waits, or its properties are.
    pub(super) fn check_fits_file(&self, delivered: &RecordFields<'_>, added_later: usize) -> Checked<()> {
        let size = delivered.record_size() + added_later;
        let file_size = self.file_size;
        if num::offset(size + END_FILE_MIN_BLANK_LENGTH) <= file_size {
            return Ok(());
        }
        let reason = format!("the record has {size} bytes when it is delivered, which fit no log file");
        Err(PutRefusal::illegal("mappedFileSizeCommitLog", file_size, reason))
    }
}

/// Whether further queues can have folders: those that cannot would be passed over.
pub(super) fn check_further_queues(names: &[&[u8]]) -> Checked<()> {
    match names.iter().find(|name| !name.is_empty() && check_topic(name).is_err()) {
        None => Ok(()),
        Some(name) => {
            Err(PutRefusal::illegal("INNER_MULTI_DISPATCH", String::from_utf8_lossy(name), NO_FOLDER))
        }
    }
}
