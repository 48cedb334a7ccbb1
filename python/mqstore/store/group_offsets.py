"""Groups and delay levels that are further than their queues: what is put next has offsets that a queue has lost."""

import contextlib
import functools
import logging
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from mqstore.consumer.membership import nobody_is
from mqstore.consumer.offsets import Write, broadcast_offset_files, nobody_else_writes, shared_offset_files
from mqstore.store.arguments import INT_MAX
from mqstore.store.config_consumer_filter import ConsumerFilterManager
from mqstore.store.config_consumer_offset import ConsumerOffsetManager, LmqConsumerOffsetManager
from mqstore.store.config_delay_offset import DelayOffsetManager
from mqstore.store.config_manager import ConfigManager, read_only, unless_damaged, write_behind_log
from mqstore.store.config_subscription_group import SubscriptionGroupManager
from mqstore.store.delayed import SCHEDULE_TOPIC
from mqstore.store.follower import settled
from mqstore.store.half_messages import GROUP, HALF_TOPIC, OP_TOPIC
from mqstore.store.read_offset import ReadOffset, log_end_behind

if TYPE_CHECKING:
    from mqstore.store.message_store import MessageStore

__all__ = [
    "GoesOn",
    "SetBack",
    "files_of_groups",
    "first_unread",
    "keep",
    "read_up_to",
    "set_back",
    "set_back_to_ends",
    "unread",
]

_log = logging.getLogger("mqstore")
_MOST_TOLD = 10
_Offsets: TypeAlias = ConsumerOffsetManager | DelayOffsetManager
_Queue: TypeAlias = tuple[str, int]
GoesOn: TypeAlias = Callable[[_Queue, ReadOffset], ReadOffset]
"""Of a topic and queue, and how far somebody is there: where he goes on."""


class SetBack(NamedTuple):
    """Somebody who was further than his queue."""

    queue: _Queue
    group: str | None
    """``None`` for the delay level of the queue."""
    before: int
    """The offset that he had."""
    after: int
    """The one that he has."""


def set_back_to_ends(store: "MessageStore") -> None:
    """Lets nobody go on behind his queue's end, where a log was cut: he would pass over what is put next.

    For the writer of a store, before anything is put. It is on the disk then, and says so in the log.

    Raises:
        StoreIOError: a file could not be written.
    """
    lost_halves = _queues_of_lost_halves(store)

    def goes_on(queue: _Queue, read: ReadOffset) -> ReadOffset:
        if queue in lost_halves:
            # What was lost may be all that was left of halves before: those that no op speaks of are asked for again.
            begin = min(max(0, store.get_min_offset_in_queue(*queue)), read.offset)
            return ReadOffset(begin, log_end_behind(store, *queue, begin))
        end = store.get_max_offset_in_queue(*queue)
        if read.offset <= end:
            return read
        first = first_unread(store, *queue, read.log_end)
        offset = end if first is None else first
        return ReadOffset(offset, log_end_behind(store, *queue, offset))

    done = set_back(store.path, goes_on, write_behind_log(store._engine))
    for (topic, queue_id), group, before, after in done[:_MOST_TOLD]:
        who = f"delay level {queue_id + 1}" if group is None else f"group {group}"
        _log.warning(
            "%s: %s was at %d in queue %d of %s, behind its end, and goes on at %d",
            *(store.path, who, before, queue_id, topic, after),
        )
    if len(done) > _MOST_TOLD:
        _log.warning("%s: %d more groups and delay levels were set back so", store.path, len(done) - _MOST_TOLD)


def _queues_of_lost_halves(store: "MessageStore") -> set[_Queue]:
    """The queues of halves that end before where a check has come or has put halves back, and those of their ops."""
    offsets = _opened(store.path / "config" / "consumerOffset.json", ConsumerOffsetManager, read_only)
    rows = () if offsets is None else _rows(offsets)
    log_end = store.get_max_phy_offset()

    def is_behind(queue_id: int, read: ReadOffset) -> bool:
        return read.log_end > log_end or read.offset > store.get_max_offset_in_queue(HALF_TOPIC, min(queue_id, INT_MAX))

    of_checks = [row for row in rows if (row.group, row.queue[0]) == (GROUP, HALF_TOPIC)]
    lost = {row.queue[1] for row in of_checks if is_behind(row.queue[1], row.read)}
    return {(topic, queue_id) for topic in (HALF_TOPIC, OP_TOPIC) for queue_id in lost}


def first_unread(store: "MessageStore", topic: str, queue_id: int, log_end: int) -> int | None:
    """The first message of a queue that somebody has not read who has read the log up to a place.

    A queue that took the name of one that was removed has what nobody has read yet.

    Args:
        store: The store.
        topic: The topic.
        queue_id: The queue.
        log_end: The place; -1 where nobody knows: then he has read what was there before a removal, if there was one.

    Returns:
        Its offset; ``None`` where there is none.
    """
    place = store._removed_up_to(topic, queue_id) if log_end < 0 else log_end
    if place is None:
        return None
    first, end = settled(
        store,
        lambda: (store._first_unit_at(topic, queue_id, place), store.get_max_offset_in_queue(topic, queue_id)),
    )
    return first if first < end else None


def read_up_to(store: Path) -> set[tuple[str, int, int]]:
    """How far groups have read the log, with topic and queue; -1 where that is not known."""
    found = set()
    for path, manager, _ in _files(store):
        offsets = _opened(path, manager, read_only)
        if isinstance(offsets, ConsumerOffsetManager):
            found |= {(*row.queue, row.read.log_end) for row in _rows(offsets)}
    return found


def unread(store: Path) -> list[Path]:
    """The files of groups and delay levels that are damaged: who asks what they hold is told, and gets nothing.

    Raises:
        StoreIOError: one cannot be read.
    """
    return [path for path, read in files_of_groups(store) if unless_damaged(read) is None]


def files_of_groups(store: Path) -> Iterator[tuple[Path, Callable[[], ConfigManager]]]:
    """The files that a store has, or may have, of groups and delay levels, and of each what reads it."""
    for path, manager, _ in _files(store):
        yield path, functools.partial(manager, path, read_only)
    of_groups = store / "config" / "subscriptionGroup.json"
    yield of_groups, functools.partial(SubscriptionGroupManager, of_groups, read_only, int)
    of_filters = store / "config" / "consumerFilter.json"
    yield of_filters, functools.partial(ConsumerFilterManager, of_filters, read_only, int)


def set_back(store: Path, goes_on: GoesOn, write: Write, saved: Path | None = None) -> list[SetBack]:
    """Has groups and delay levels go on elsewhere, in all the files that a store has of them.

    A file that is damaged has no offset for anybody, and who asks it is told. One of a consumer that is open and
    broadcasts is left to that: it writes what it has in memory, and notices itself.

    Args:
        store: The store, which nobody else has open for writing.
        goes_on: Where somebody goes on.
        write: What replaces a file.
        saved: Where a file that changes is kept as it was.

    Returns:
        Whom that has moved.

    Raises:
        StoreIOError: a file could not be written.
        OSError: one could not be kept.
    """
    done = []
    for path, manager, nobody_writes in _files(store):
        if not _moved(_opened(path, manager, write), goes_on):
            continue
        with nobody_writes(path) as is_free:
            offsets = _opened(path, manager, write)
            moved = _moved(offsets, goes_on) if is_free else []
            if offsets is None or not moved:
                continue
            if saved is not None:
                keep(path, saved / path.relative_to(store))
            for row, read in moved:
                row.set_to(offsets, read)
            offsets.persist()
        done += [SetBack(row.queue, row.group, row.read.offset, read.offset) for row, read in moved]
    return done


def keep(path: Path, saved: Path) -> None:
    """Copies a file before it is changed. What a repair before this one kept is what was there at first."""
    if path.exists() and not saved.exists():
        saved.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, saved)


_NobodyWrites: TypeAlias = Callable[[Path], AbstractContextManager[bool]]
"""Keeps others from writing a file meanwhile; gives whether that can be."""


def _files(store: Path) -> Iterator[tuple[Path, type[_Offsets], _NobodyWrites]]:
    config = store / "config"
    yield config / "consumerOffset.json", ConsumerOffsetManager, _of_writer
    yield config / "lmqConsumerOffset.json", LmqConsumerOffsetManager, _of_writer
    yield config / "delayOffset.json", DelayOffsetManager, _of_writer
    for path in shared_offset_files(store):
        yield path, ConsumerOffsetManager, _of_members
    for path in broadcast_offset_files(store):
        yield path, ConsumerOffsetManager, _of_one_consumer


def _of_writer(_path: Path) -> AbstractContextManager[bool]:
    return contextlib.nullcontext(enter_result=True)


@contextlib.contextmanager
def _of_members(path: Path) -> Iterator[bool]:
    with nobody_else_writes(path):
        yield True


def _of_one_consumer(path: Path) -> AbstractContextManager[bool]:
    return nobody_is(path.parent.parent, path.stem)


def _opened(path: Path, manager: type[_Offsets], write: Write) -> _Offsets | None:
    return unless_damaged(lambda: manager(path, write))


class _Row(NamedTuple):
    """How far a group or a delay level is in a queue."""

    queue: _Queue
    read: ReadOffset
    group: str | None

    def set_to(self, offsets: _Offsets, read: ReadOffset) -> None:
        """Has another offset stand there."""
        topic, queue_id = self.queue
        if isinstance(offsets, DelayOffsetManager):
            offsets.update_offset(queue_id + 1, read.offset)
        elif self.group is not None:
            offsets.commit_offset(self.group, topic, queue_id, *read)


def _moved(offsets: _Offsets | None, goes_on: GoesOn) -> list[tuple[_Row, ReadOffset]]:
    """Who goes on elsewhere, and where."""
    moved = []
    for row in () if offsets is None else _rows(offsets):
        # No store has queues with larger numbers.
        read = goes_on((row.queue[0], min(row.queue[1], INT_MAX)), row.read)
        if read.offset != row.read.offset:
            moved.append((row, read))
    return moved


def _rows(offsets: _Offsets) -> Iterator[_Row]:
    if isinstance(offsets, DelayOffsetManager):
        for level, offset in offsets.all().items():
            yield _Row((SCHEDULE_TOPIC, level - 1), ReadOffset(offset), None)
        return
    for group, queues in offsets.by_group().items():
        for queue, read in queues.items():
            yield _Row(queue, read, group)
