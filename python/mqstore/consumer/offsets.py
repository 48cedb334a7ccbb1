"""Where a group's offsets are kept.

A store that is open for writing has ``config/consumerOffset.json``, as a broker has. Beside another
process's store, and for broadcasting, a file under ``mqstore/consumers/GROUP`` holds them, and the
writer's file is only read. Where a group has offsets in both, the further one counts.
Source: ``RemoteBrokerOffsetStore``, ``LocalFileOffsetStore``.
"""

import contextlib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias

from mqstore.consumer.membership import FileLock
from mqstore.store.config_consumer_offset import ConsumerOffsetManager
from mqstore.store.listing import listed
from mqstore.store.read_offset import NO_OFFSET, ReadOffset, log_end_behind, offset_in_queue

if TYPE_CHECKING:
    from mqstore.store.message_store import MessageStore

__all__ = [
    "BROADCAST",
    "SHARED_OFFSETS",
    "BrokerOffsetStore",
    "FileOffsetStore",
    "LocalOffsetStore",
    "OffsetStore",
    "Queue",
    "Write",
    "broadcast_offset_files",
    "nobody_else_writes",
    "shared_offset_files",
    "shared_offsets",
]

SHARED_OFFSETS = "consumerOffset.json"
"""The file in a group's folder that its consumers beside a writer share."""
BROADCAST = "broadcast"
"""The folder in a group's with a file of each consumer that gets all messages."""

Write = Callable[[Path, bytes], None]
Queue: TypeAlias = tuple[str, int]
"""A topic and a number."""


class OffsetStore(Protocol):
    """A group's offsets."""

    def read_offsets(self, queues: Collection[Queue]) -> dict[Queue, list[ReadOffset]]:
        """The offsets that the group has of each queue, of which the furthest counts that is one of this queue."""

    def add_topic(self, topic: str) -> None:
        """The group reads a topic which has no queue yet: what comes to it is known to be unread."""

    def update_offset(self, topic: str, queue_id: int, read: ReadOffset, openings: int) -> None:
        """Sets an offset in memory; ``openings`` by writers had been seen when it was read so far."""

    def persist(self) -> None:
        """Writes what was set."""

    def persist_if_free(self) -> bool:
        """Writes it, unless that would wait for another thread or process; gives whether it did not have to."""


def nobody_else_writes(path: Path) -> FileLock:
    """A lock on a file of offsets that processes share."""
    return FileLock.wait_for(_lock_of(path))


@contextlib.contextmanager
def shared_offsets(path: Path, write: Write) -> Iterator[ConsumerOffsetManager]:
    """A file of offsets that processes share, as it is now: nobody else writes it meanwhile."""
    with nobody_else_writes(path):
        yield ConsumerOffsetManager(path, write)


def shared_offset_files(store: Path) -> list[Path]:
    """The files of offsets that a store has of groups whose consumers share them beside its writer.

    Raises:
        StoreIOError: a folder of theirs cannot be listed.
    """
    return [path for group in _groups(store) for path in listed(group) if path.name == SHARED_OFFSETS]


def broadcast_offset_files(store: Path) -> list[Path]:
    """The same of consumers that each get all messages.

    Raises:
        StoreIOError: a folder of theirs cannot be listed.
    """
    return [path for group in _groups(store) for path in listed(group / BROADCAST) if path.suffix == ".json"]


def _groups(store: Path) -> list[Path]:
    return listed(store / "mqstore" / "consumers")


def _lock_of(path: Path) -> Path:
    return path.with_suffix(".lock")


def _of_each(
    queues: Iterable[Queue], group: str, tables: Sequence[ConsumerOffsetManager]
) -> dict[Queue, list[ReadOffset]]:
    return {queue: [table.read_offset(group, *queue) for table in tables] for queue in queues}


_Changed: TypeAlias = dict[Queue, tuple[ReadOffset, int]]
"""What was set by topic and queue, and how many openings by writers had been seen then."""


def _as_it_is_now(store: "MessageStore", changed: _Changed) -> Iterator[tuple[str, int, ReadOffset]]:
    """Offsets to be written, where a writer may have come that has cut the log.

    It sets back who is further than the queues go, and is not to find that written again: who reads beside it looks
    whether there is one, where that cannot write just now or would write behind this.
    """
    if store.mode == "r":
        store.refresh()
    seen = store._openings_seen()
    for (topic, queue_id), (read, openings) in changed.items():
        offset = read.offset if openings == seen else offset_in_queue(store, topic, queue_id, read, openings)
        is_same = offset == read.offset
        yield topic, queue_id, read if is_same else ReadOffset(offset, log_end_behind(store, topic, queue_id, offset))


class FileOffsetStore:
    """Offsets in a file that the members of a group share, each writing those of its own queues."""

    def __init__(self, path: Path, group: str, write: Write, broker_path: Path, store: "MessageStore") -> None:
        """Offsets of a group whose store another process writes."""
        self._path, self._group, self._write, self._broker_path = path, group, write, broker_path
        self._changed: _Changed = {}
        self._added, self._written_topics = set[str](), set[str]()
        self._store = store

    def add_topic(self, topic: str) -> None:
        """The group reads a topic. It is told so at each look, and written once."""
        self._added |= {topic} - self._written_topics

    def read_offsets(self, queues: Collection[Queue]) -> dict[Queue, list[ReadOffset]]:
        """This file's, the writer's, and what was set since."""
        tables = [ConsumerOffsetManager(path, self._write) for path in (self._path, self._broker_path)]
        found = _of_each(queues, self._group, tables)
        for queue, kept in found.items():
            changed, _ = self._changed.get(queue, (NO_OFFSET, 0))
            kept.append(changed)
        return found

    def update_offset(self, topic: str, queue_id: int, read: ReadOffset, openings: int) -> None:
        """Sets an offset in memory."""
        self._changed[topic, queue_id] = read, openings

    def persist(self) -> None:
        """Writes what was set into the file; what other members wrote stays."""
        if self._changed or self._added:
            with nobody_else_writes(self._path):
                self._persist()

    def persist_if_free(self) -> bool:
        """Writes it, unless somebody else is at the file."""
        if not (self._changed or self._added):
            return True
        lock = FileLock.take(_lock_of(self._path))
        if lock is None:
            return False
        with lock:
            self._persist()
        return True

    def _persist(self) -> None:
        """Nobody else writes the file meanwhile."""
        table = ConsumerOffsetManager(self._path, self._write)
        for topic, queue_id, read in _as_it_is_now(self._store, self._changed):
            table.commit_offset(self._group, topic, queue_id, *read)
        for topic in self._added:
            table.add_topic(self._group, topic)
        table.persist()
        self._changed.clear()
        self._written_topics |= self._added
        self._added.clear()


class BrokerOffsetStore:
    """Offsets in the ``consumerOffset.json`` of a store that is open for writing."""

    def __init__(self, table: ConsumerOffsetManager, group: str, shared_path: Path, write: Write) -> None:
        """Offsets of a group; other processes may have some of it under ``shared_path``."""
        self._table, self._group, self._shared_path, self._write = table, group, shared_path, write

    def read_offsets(self, queues: Collection[Queue]) -> dict[Queue, list[ReadOffset]]:
        """This file's, and the one of members in other processes."""
        shared = ConsumerOffsetManager(self._shared_path, self._write)
        return _of_each(queues, self._group, (shared, self._table))

    def add_topic(self, topic: str) -> None:
        """The group reads a topic."""
        self._table.add_topic(self._group, topic)

    def update_offset(self, topic: str, queue_id: int, read: ReadOffset, openings: int) -> None:  # noqa: ARG002 (its own)
        """Sets an offset in memory."""
        self._table.commit_offset(self._group, topic, queue_id, *read)

    def persist(self) -> None:
        """Writes what was set."""
        self._table.persist()

    def persist_if_free(self) -> bool:
        """Writes it, unless another consumer is at the table."""
        return self._table.persist_if_free()


class LocalOffsetStore:
    """Offsets of one consumer that broadcasts: nobody else reads or writes them."""

    def __init__(self, path: Path, group: str, write: Write, store: "MessageStore") -> None:
        """Reads the consumer's file."""
        self._table, self._group = ConsumerOffsetManager(path, write), group
        self._store = store
        self._changed: _Changed = {}

    def read_offsets(self, queues: Collection[Queue]) -> dict[Queue, list[ReadOffset]]:
        """The offsets at which the consumer goes on."""
        return _of_each(queues, self._group, (self._table,))

    def add_topic(self, topic: str) -> None:
        """The consumer reads a topic."""
        self._table.add_topic(self._group, topic)

    def update_offset(self, topic: str, queue_id: int, read: ReadOffset, openings: int) -> None:
        """Sets an offset in memory."""
        self._changed[topic, queue_id] = read, openings
        self._table.commit_offset(self._group, topic, queue_id, *read)

    def persist(self) -> None:
        """Writes what was set, also once more where a writer has come since: that leaves the file alone."""
        for topic, queue_id, read in _as_it_is_now(self._store, self._changed):
            self._table.commit_offset(self._group, topic, queue_id, *read)
        self._table.persist()

    def persist_if_free(self) -> bool:
        """Writes it: nobody else does."""
        self.persist()
        return True
