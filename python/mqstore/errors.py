"""What can go wrong. Everything mqstore raises on purpose is an :class:`MQStoreError`."""

import errno
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mqstore._native import PutMessageResult
    from mqstore.status import PutMessageStatus

__all__ = [
    "DamagedStoreError",
    "DiskFullError",
    "FlushDiskTimeoutError",
    "FlushFailedError",
    "FlushSlaveTimeoutError",
    "MQStoreError",
    "MessageIllegalError",
    "OffsetOutOfRangeError",
    "OptionError",
    "PutError",
    "ReadOnlyError",
    "RecordError",
    "ServiceNotAvailableError",
    "SlaveNotAvailableError",
    "StoreChangedError",
    "StoreClosedError",
    "StoreForkedError",
    "StoreIOError",
    "StoreLayoutError",
    "StoreLockedError",
    "StoreNotFoundError",
    "UnsupportedStoreError",
]


class MQStoreError(Exception):
    """The root of all of mqstore's exceptions."""


class StoreNotFoundError(MQStoreError):
    """There is no store where one was to be opened."""

    path: str
    """Where it was looked for."""


class StoreLayoutError(MQStoreError):
    """A file or folder is not what a RocketMQ 4.9.3 store has there."""

    path: str
    """The file or folder."""
    expected: str
    """What a store has there."""
    found: str
    """What is there."""


class UnsupportedStoreError(MQStoreError):
    """The store's layout is another version's."""

    path: str
    """The file or folder."""
    found: str
    """The layout's name."""


class StoreLockedError(MQStoreError):
    """Another process, or another object in this one, has the store open for writing."""

    path: str
    """The lock file."""
    holder: str
    """Who holds it, as far as it can be found out."""


class DamagedStoreError(MQStoreError):
    """Valid records follow a bad one, or what was on the disk at the log's end is not there: going on would lose it.

    Nothing was changed. Open with ``on_damage="truncate"`` to do without, read with ``mode="r"``,
    which reads around the place, or repair the store.
    """

    path: str
    """The log file; the log's folder where that is empty."""
    offset: int
    """Physical offset of the first bad record."""
    next_valid: int | None
    """Physical offset of the next valid record; ``None`` where none follows what is lost at the log's end."""


class RecordError(MQStoreError):
    """Bytes that should be a record are none."""

    path: str | None = None
    """The log file, where the bytes come from one."""
    offset: int | None = None
    """Physical offset of the record, where the bytes come from a log."""


class OptionError(MQStoreError, ValueError):
    """An option has a value that does not work, or there is no such option."""

    option: str
    """The option."""
    value: str
    """Its value."""
    reason: str
    """What is wrong with it."""


class StoreChangedError(MQStoreError):
    """A writer opened the store while a task of Spark read a part of it, and makes units anew that were to be read.

    Reading again, once the store is open, gives all of it.
    """

    path: str
    """The store."""
    offset: int
    """Physical offset from which on the queues are made anew."""


class ReadOnlyError(MQStoreError):
    """The store was opened with ``mode="r"``, which changes nothing."""


class StoreClosedError(MQStoreError):
    """The store is closed."""


class StoreForkedError(StoreClosedError):
    """The store was opened before this process was forked from the one that opened it.

    It is open there, undisturbed. A process that is forked opens the store itself.
    """


class FlushFailedError(MQStoreError):
    """A write or a flush failed before: what the disk holds is unknown until the store is reopened."""


class StoreIOError(MQStoreError, OSError):
    """The operating system refused a file operation. ``errno`` and ``filename`` say which and where."""

    @classmethod
    def of(cls, text: str, number: int | None, filename: str | None = None) -> "StoreIOError":
        """The error for what the system refused with a number: of a full disk a :class:`DiskFullError`."""
        error = (DiskFullError if number in {errno.ENOSPC, errno.EDQUOT} else cls)(text)
        error.errno, error.filename = number, filename
        return error

    def __str__(self) -> str:
        """The engine's sentence, which names operation and file."""
        return str(self.args[0]) if self.args else ""


class DiskFullError(StoreIOError):
    """The disk, or the user's share of it, is full."""


class OffsetOutOfRangeError(MQStoreError, IndexError):
    """The log or a queue holds nothing at an offset."""

    offset: int
    """The offset that was asked for."""
    min: int
    """The first that there is."""
    max: int
    """The end."""


class PutError(MQStoreError):
    """A message was not stored."""

    status: "PutMessageStatus"
    """4.9.3's status for it."""
    result: "PutMessageResult"
    """Which messages are stored all the same; where :meth:`~mqstore.MessageStore.put_many` was called."""
    row: int
    """Which row of a table it is, from 0; where a table was put."""
    column: str
    """Which of the row's columns, where it is one."""
    put_count: int
    """How many rows of the table are stored: the first ones."""


class MessageIllegalError(PutError, ValueError):
    """The message cannot be stored: its topic, properties or size are out of bounds."""


class ServiceNotAvailableError(PutError):
    """The store takes no messages now."""


class FlushDiskTimeoutError(MQStoreError, TimeoutError):
    """The message is stored, but the disk did not confirm it within ``syncFlushTimeout``."""

    result: "PutMessageResult"
    """Where the message went."""


class FlushSlaveTimeoutError(MQStoreError, TimeoutError):
    """The message is stored, but no slave confirmed it within ``slaveTimeout``."""

    result: "PutMessageResult"
    """Where the message went."""


class SlaveNotAvailableError(MQStoreError):
    """The message is stored, but there is no slave near enough to wait for it."""

    result: "PutMessageResult"
    """Where the message went."""
