"""Where a group's offsets are kept.

A store that is open for writing has ``config/consumerOffset.json``, as a broker has. Beside another
process's store, and for broadcasting, a file under ``mqstore/consumers/GROUP`` holds them, and the
writer's file is only read. Where a group has offsets in both, the further one counts.
Source: ``RemoteBrokerOffsetStore``, ``LocalFileOffsetStore``.
"""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

from mqstore.consumer.membership import FileLock
from mqstore.store.config_consumer_offset import ConsumerOffsetManager
from mqstore.store.read_offset import NO_OFFSET, ReadOffset

__all__ = [
    "BrokerOffsetStore",
    "FileOffsetStore",
    "LocalOffsetStore",
    "OffsetStore",
    "Write",
    "nobody_else_writes",
    "shared_offsets",
]

Write = Callable[[Path, bytes], None]


class OffsetStore(Protocol):
    """A group's offsets."""

    def read_offsets(self, topic: str, queue_id: int) -> list[ReadOffset]:
        """The offsets that the group has of a queue, of which the furthest counts that is one of this queue."""

    def update_offset(self, topic: str, queue_id: int, read: ReadOffset) -> None:
        """Sets an offset in memory."""

    def persist(self) -> None:
        """Writes what was set."""


def nobody_else_writes(path: Path) -> FileLock:
    """A lock on a file of offsets that processes share."""
    return FileLock.wait_for(path.with_suffix(".lock"))


@contextlib.contextmanager
def shared_offsets(path: Path, write: Write) -> Iterator[ConsumerOffsetManager]:
    """A file of offsets that processes share, as it is now: nobody else writes it meanwhile."""
    with nobody_else_writes(path):
        yield ConsumerOffsetManager(path, write)


class FileOffsetStore:
    """Offsets in a file that the members of a group share, each writing those of its own queues."""

    def __init__(self, path: Path, group: str, write: Write, broker_path: Path) -> None:
        """Offsets of a group whose store another process writes."""
        self._path, self._group, self._write, self._broker_path = path, group, write, broker_path
        self._changed: dict[tuple[str, int], ReadOffset] = {}

    def read_offsets(self, topic: str, queue_id: int) -> list[ReadOffset]:
        """This file's, the writer's, and what was set since."""
        places = (self._path, self._broker_path)
        kept = [ConsumerOffsetManager(path, self._write).read_offset(self._group, topic, queue_id) for path in places]
        return [*kept, self._changed.get((topic, queue_id), NO_OFFSET)]

    def update_offset(self, topic: str, queue_id: int, read: ReadOffset) -> None:
        """Sets an offset in memory."""
        self._changed[topic, queue_id] = read

    def persist(self) -> None:
        """Writes what was set into the file; what other members wrote stays."""
        if not self._changed:
            return
        with shared_offsets(self._path, self._write) as table:
            for (topic, queue_id), read in self._changed.items():
                table.commit_offset(self._group, topic, queue_id, *read)
            table.persist()
        self._changed.clear()


class BrokerOffsetStore:
    """Offsets in the ``consumerOffset.json`` of a store that is open for writing."""

    def __init__(self, table: ConsumerOffsetManager, group: str, shared_path: Path, write: Write) -> None:
        """Offsets of a group; other processes may have some of it under ``shared_path``."""
        self._table, self._group, self._shared_path, self._write = table, group, shared_path, write

    def read_offsets(self, topic: str, queue_id: int) -> list[ReadOffset]:
        """This file's, and the one of members in other processes."""
        shared = ConsumerOffsetManager(self._shared_path, self._write)
        return [table.read_offset(self._group, topic, queue_id) for table in (shared, self._table)]

    def update_offset(self, topic: str, queue_id: int, read: ReadOffset) -> None:
        """Sets an offset in memory."""
        self._table.commit_offset(self._group, topic, queue_id, *read)

    def persist(self) -> None:
        """Writes what was set."""
        self._table.persist()


class LocalOffsetStore:
    """Offsets of one consumer that broadcasts: nobody else reads or writes them."""

    def __init__(self, path: Path, group: str, write: Write) -> None:
        """Reads the consumer's file."""
        self._table, self._group = ConsumerOffsetManager(path, write), group

    def read_offsets(self, topic: str, queue_id: int) -> list[ReadOffset]:
        """The offset at which the consumer goes on."""
        return [self._table.read_offset(self._group, topic, queue_id)]

    def update_offset(self, topic: str, queue_id: int, read: ReadOffset) -> None:
        """Sets an offset in memory."""
        self._table.commit_offset(self._group, topic, queue_id, *read)

    def persist(self) -> None:
        """Writes what was set."""
        self._table.persist()
