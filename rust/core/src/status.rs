//! The statuses of puts and gets, by 4.9.3's names.

/// How a put ended. Source: `PutMessageStatus`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PutMessageStatus {
    /// Stored, and flushed and replicated as far as it had to be.
    PutOk,
    /// Stored; the disk did not confirm it in time.
    FlushDiskTimeout,
    /// Stored; the slave did not confirm it in time.
    FlushSlaveTimeout,
    /// Stored; there is no slave near enough to confirm it.
    SlaveNotAvailable,
    /// Not stored: the store takes no messages now.
    ServiceNotAvailable,
    /// Not stored: no log file could be made, or no space reserved in it.
    CreateMapedFileFailed,
    /// Not stored: the message cannot be.
    MessageIllegal,
    /// Not stored: its properties are too long.
    PropertiesSizeExceeded,
    /// Not stored: an append before it takes too long.
    OsPagecacheBusy,
    /// Not stored.
    UnknownError,
    /// Not stored: there are too many light queues.
    LmqConsumeQueueNumExceeded,
}

impl PutMessageStatus {
    const ALL: [Self; 11] = [
        Self::PutOk,
        Self::FlushDiskTimeout,
        Self::FlushSlaveTimeout,
        Self::SlaveNotAvailable,
        Self::ServiceNotAvailable,
        Self::CreateMapedFileFailed,
        Self::MessageIllegal,
        Self::PropertiesSizeExceeded,
        Self::OsPagecacheBusy,
        Self::UnknownError,
        Self::LmqConsumeQueueNumExceeded,
    ];

    /// The one with 4.9.3's name.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.name() == name)
    }

    /// 4.9.3's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::PutOk => "PUT_OK",
            Self::FlushDiskTimeout => "FLUSH_DISK_TIMEOUT",
            Self::FlushSlaveTimeout => "FLUSH_SLAVE_TIMEOUT",
            Self::SlaveNotAvailable => "SLAVE_NOT_AVAILABLE",
            Self::ServiceNotAvailable => "SERVICE_NOT_AVAILABLE",
            Self::CreateMapedFileFailed => "CREATE_MAPEDFILE_FAILED",
            Self::MessageIllegal => "MESSAGE_ILLEGAL",
            Self::PropertiesSizeExceeded => "PROPERTIES_SIZE_EXCEEDED",
            Self::OsPagecacheBusy => "OS_PAGECACHE_BUSY",
            Self::UnknownError => "UNKNOWN_ERROR",
            Self::LmqConsumeQueueNumExceeded => "LMQ_CONSUME_QUEUE_NUM_EXCEEDED",
        }
    }
}

/// How an append ended. Source: `AppendMessageStatus`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AppendMessageStatus {
    /// Appended.
    PutOk,
    /// The file had no room left.
    EndOfFile,
    /// The message is too large.
    MessageSizeExceeded,
    /// Its properties are too long.
    PropertiesSizeExceeded,
    /// Anything else.
    UnknownError,
}

impl AppendMessageStatus {
    const ALL: [Self; 5] = [
        Self::PutOk,
        Self::EndOfFile,
        Self::MessageSizeExceeded,
        Self::PropertiesSizeExceeded,
        Self::UnknownError,
    ];

    /// The one with 4.9.3's name.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.name() == name)
    }

    /// 4.9.3's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::PutOk => "PUT_OK",
            Self::EndOfFile => "END_OF_FILE",
            Self::MessageSizeExceeded => "MESSAGE_SIZE_EXCEEDED",
            Self::PropertiesSizeExceeded => "PROPERTIES_SIZE_EXCEEDED",
            Self::UnknownError => "UNKNOWN_ERROR",
        }
    }
}

/// How a get ended. Source: `GetMessageStatus`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GetMessageStatus {
    /// There are messages.
    Found,
    /// None of those that were looked at matches.
    NoMatchedMessage,
    /// The messages are being removed.
    MessageWasRemoving,
    /// The queue's file is not there.
    OffsetFoundNull,
    /// Far behind the queue's end.
    OffsetOverflowBadly,
    /// Just behind the queue's end: nothing new yet.
    OffsetOverflowOne,
    /// Before the queue's first message.
    OffsetTooSmall,
    /// There is no such queue.
    NoMatchedLogicQueue,
    /// The queue has no message.
    NoMessageInQueue,
}

impl GetMessageStatus {
    /// 4.9.3's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Found => "FOUND",
            Self::NoMatchedMessage => "NO_MATCHED_MESSAGE",
            Self::MessageWasRemoving => "MESSAGE_WAS_REMOVING",
            Self::OffsetFoundNull => "OFFSET_FOUND_NULL",
            Self::OffsetOverflowBadly => "OFFSET_OVERFLOW_BADLY",
            Self::OffsetOverflowOne => "OFFSET_OVERFLOW_ONE",
            Self::OffsetTooSmall => "OFFSET_TOO_SMALL",
            Self::NoMatchedLogicQueue => "NO_MATCHED_LOGIC_QUEUE",
            Self::NoMessageInQueue => "NO_MESSAGE_IN_QUEUE",
        }
    }
}
