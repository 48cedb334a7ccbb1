//! The statuses of puts and gets, by 4.9.3's names.

/// An enumeration of statuses, each with 4.9.3's name: one place for what there is.
macro_rules! statuses {
    ($(#[$about:meta])* $kind:ident { $($(#[$meaning:meta])* $status:ident = $name:literal,)* }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $kind {
            $($(#[$meaning])* $status,)*
        }

        impl $kind {
            /// The one with 4.9.3's name.
            #[must_use]
            pub fn of_name(name: &str) -> Option<Self> {
                match name {
                    $($name => Some(Self::$status),)*
                    _ => None,
                }
            }

            /// 4.9.3's name.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$status => $name,)*
                }
            }
        }
    };
}

statuses! {
    /// How a put ended. Source: `PutMessageStatus`.
    PutMessageStatus {
        /// Stored, and flushed and replicated as far as it had to be.
        PutOk = "PUT_OK",
        /// Stored; the disk did not confirm it in time.
        FlushDiskTimeout = "FLUSH_DISK_TIMEOUT",
        /// Stored; the slave did not confirm it in time.
        FlushSlaveTimeout = "FLUSH_SLAVE_TIMEOUT",
        /// Stored; there is no slave near enough to confirm it.
        SlaveNotAvailable = "SLAVE_NOT_AVAILABLE",
        /// Not stored: the store takes no messages now.
        ServiceNotAvailable = "SERVICE_NOT_AVAILABLE",
        /// Not stored: no log file could be made, or no space reserved in it.
        CreateMapedFileFailed = "CREATE_MAPEDFILE_FAILED",
        /// Not stored: the message cannot be.
        MessageIllegal = "MESSAGE_ILLEGAL",
        /// Not stored: its properties are too long.
        PropertiesSizeExceeded = "PROPERTIES_SIZE_EXCEEDED",
        /// Not stored: an append before it takes too long.
        OsPagecacheBusy = "OS_PAGECACHE_BUSY",
        /// Not stored.
        UnknownError = "UNKNOWN_ERROR",
        /// Not stored: there are too many light queues.
        LmqConsumeQueueNumExceeded = "LMQ_CONSUME_QUEUE_NUM_EXCEEDED",
    }
}

statuses! {
    /// How an append ended. Source: `AppendMessageStatus`.
    AppendMessageStatus {
        /// Appended.
        PutOk = "PUT_OK",
        /// The file had no room left.
        EndOfFile = "END_OF_FILE",
        /// The message is too large.
        MessageSizeExceeded = "MESSAGE_SIZE_EXCEEDED",
        /// Its properties are too long.
        PropertiesSizeExceeded = "PROPERTIES_SIZE_EXCEEDED",
        /// Anything else.
        UnknownError = "UNKNOWN_ERROR",
    }
}

statuses! {
    /// How a get ended. Source: `GetMessageStatus`.
    GetMessageStatus {
        /// There are messages.
        Found = "FOUND",
        /// None of those that were looked at matches.
        NoMatchedMessage = "NO_MATCHED_MESSAGE",
        /// The messages are being removed.
        MessageWasRemoving = "MESSAGE_WAS_REMOVING",
        /// The queue's file is not there.
        OffsetFoundNull = "OFFSET_FOUND_NULL",
        /// Far behind the queue's end.
        OffsetOverflowBadly = "OFFSET_OVERFLOW_BADLY",
        /// Just behind the queue's end: nothing new yet.
        OffsetOverflowOne = "OFFSET_OVERFLOW_ONE",
        /// Before the queue's first message.
        OffsetTooSmall = "OFFSET_TOO_SMALL",
        /// There is no such queue.
        NoMatchedLogicQueue = "NO_MATCHED_LOGIC_QUEUE",
        /// The queue has no message.
        NoMessageInQueue = "NO_MESSAGE_IN_QUEUE",
    }
}
