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

__all__ = ["BrokerOffsetStore", "FileOffsetStore", "LocalOffsetStore", "OffsetStore", "Write", "shared_offsets"]

Write = Callable[[Path, bytes], None]
_NO_OFFSET = -1


class OffsetStore(Protocol):
    """A group's offsets."""

    def read_offset(self, topic: str, queue_id: int) -> int:
        """The offset at which the group goes on; -1 where it has none."""

    def update_offset(self, topic: str, queue_id: int, offset: int) -> None:
        """Sets an offset in memory."""

    def persist(self) -> None:
        """Writes what was set."""


@contextlib.contextmanager
def shared_offsets(path: Path, write: Write) -> Iterator[ConsumerOffsetManager]:
    """A file of offsets that processes share, as it is now: nobody else writes it meanwhile."""
    with FileLock.wait_for(path.with_suffix(".lock")):
        yield ConsumerOffsetManager(path, write)


class FileOffsetStore:
    """Offsets in a file that the members of a group share, each writing those of its own queues."""

    def __init__(self, path: Path, group: str, write: Write, broker_path: Path) -> None:
        """Offsets of a group whose store another process writes."""
        self._path, self._group, self._write, self._broker_path = path, group, write, broker_path
        self._changed: dict[tuple[str, int], int] = {}

    def read_offset(self, topic: str, queue_id: int) -> int:
        """The further one of this file's and the writer's."""
        places = (self._path, self._broker_path)
        kept = (ConsumerOffsetManager(path, self._write).query_offset(self._group, topic, queue_id) for path in places)
        return max(*kept, self._changed.get((topic, queue_id), _NO_OFFSET))

    def update_offset(self, topic: str, queue_id: int, offset: int) -> None:
        """Sets an offset in memory."""
        self._changed[topic, queue_id] = offset

    def persist(self) -> None:
        """Writes what was set into the file; what other members wrote stays."""
        if not self._changed:
            return
        with shared_offsets(self._path, self._write) as table:
            for (topic, queue_id), offset in self._changed.items():
                table.commit_offset(self._group, topic, queue_id, offset)
            table.persist()
        self._changed.clear()


class BrokerOffsetStore:
    """Offsets in the ``consumerOffset.json`` of a store that is open for writing."""

    def __init__(self, table: ConsumerOffsetManager, group: str, shared_path: Path, write: Write) -> None:
        """Offsets of a group; other processes may have some of it under ``shared_path``."""
        self._table, self._group, self._shared_path, self._write = table, group, shared_path, write

    def read_offset(self, topic: str, queue_id: int) -> int:
        """The further one of this file's and the one of members in other processes."""
        shared = ConsumerOffsetManager(self._shared_path, self._write).query_offset(self._group, topic, queue_id)
        return max(shared, self._table.query_offset(self._group, topic, queue_id))

    def update_offset(self, topic: str, queue_id: int, offset: int) -> None:
        """Sets an offset in memory."""
        self._table.commit_offset(self._group, topic, queue_id, offset)

    def persist(self) -> None:
        """Writes what was set."""
        self._table.persist()


class LocalOffsetStore:
    """Offsets of one consumer that broadcasts: nobody else reads or writes them."""

    def __init__(self, path: Path, group: str, write: Write) -> None:
        """Reads the consumer's file."""
        self._table, self._group = ConsumerOffsetManager(path, write), group

    def read_offset(self, topic: str, queue_id: int) -> int:
        """The offset at which the consumer goes on."""
        return self._table.query_offset(self._group, topic, queue_id)

    def update_offset(self, topic: str, queue_id: int, offset: int) -> None:
        """Sets an offset in memory."""
        self._table.commit_offset(self._group, topic, queue_id, offset)

    def persist(self) -> None:
        """Writes what was set."""
        self._table.persist()
