"""The statuses of puts and gets, by RocketMQ 4.9.3's names."""

from enum import StrEnum

__all__ = ["GetMessageStatus", "PutMessageStatus"]


class PutMessageStatus(StrEnum):
    """How a put ended."""

    PUT_OK = "PUT_OK"
    """Stored, and flushed and replicated as far as it had to be."""
    FLUSH_DISK_TIMEOUT = "FLUSH_DISK_TIMEOUT"
    """Stored; the disk did not confirm it in time."""
    FLUSH_SLAVE_TIMEOUT = "FLUSH_SLAVE_TIMEOUT"
    """Stored; the slave did not confirm it in time."""
    SLAVE_NOT_AVAILABLE = "SLAVE_NOT_AVAILABLE"
    """Stored; there is no slave near enough to confirm it."""
    SERVICE_NOT_AVAILABLE = "SERVICE_NOT_AVAILABLE"
    """Not stored: the store takes no messages now."""
    CREATE_MAPEDFILE_FAILED = "CREATE_MAPEDFILE_FAILED"
    """Not stored: no log file could be made, or no space reserved in it."""
    MESSAGE_ILLEGAL = "MESSAGE_ILLEGAL"
    """Not stored: the message cannot be."""
    PROPERTIES_SIZE_EXCEEDED = "PROPERTIES_SIZE_EXCEEDED"
    """Not stored: its properties are too long."""
    OS_PAGECACHE_BUSY = "OS_PAGECACHE_BUSY"
    """Not stored: an append before it takes too long."""
    UNKNOWN_ERROR = "UNKNOWN_ERROR"
    """Not stored."""
    LMQ_CONSUME_QUEUE_NUM_EXCEEDED = "LMQ_CONSUME_QUEUE_NUM_EXCEEDED"
    """Not stored: there are too many light queues."""


class GetMessageStatus(StrEnum):
    """How a get ended."""

    FOUND = "FOUND"
    """There are messages."""
    NO_MATCHED_MESSAGE = "NO_MATCHED_MESSAGE"
    """None of those that were looked at matches."""
    MESSAGE_WAS_REMOVING = "MESSAGE_WAS_REMOVING"
    """The messages are being removed."""
    OFFSET_FOUND_NULL = "OFFSET_FOUND_NULL"
    """The queue's file is not there."""
    OFFSET_OVERFLOW_BADLY = "OFFSET_OVERFLOW_BADLY"
    """Far behind the queue's end."""
    OFFSET_OVERFLOW_ONE = "OFFSET_OVERFLOW_ONE"
    """Just behind the queue's end: nothing new yet."""
    OFFSET_TOO_SMALL = "OFFSET_TOO_SMALL"
    """Before the queue's first message."""
    NO_MATCHED_LOGIC_QUEUE = "NO_MATCHED_LOGIC_QUEUE"
    """There is no such queue."""
    NO_MESSAGE_IN_QUEUE = "NO_MESSAGE_IN_QUEUE"
    """The queue has no message."""
