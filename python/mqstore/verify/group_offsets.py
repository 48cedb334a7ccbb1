"""How far groups and delay levels are in a repaired store: what is put next has offsets that a queue's end has lost."""

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple, TypeAlias

from mqstore import _native
from mqstore.errors import MQStoreError
from mqstore.store.config_consumer_offset import ConsumerOffsetManager, LmqConsumerOffsetManager
from mqstore.store.config_delay_offset import DelayOffsetManager
from mqstore.store.delayed import SCHEDULE_TOPIC
from mqstore.store.read_offset import ReadOffset

__all__ = ["Unread", "keep", "read_up_to", "set_back"]

_Offsets: TypeAlias = ConsumerOffsetManager | DelayOffsetManager
Unread: TypeAlias = Mapping[tuple[str, int, int], int]
"""Of a topic, a queue and a place in the log: the queue's first message there or behind it."""


def read_up_to(store: Path) -> set[tuple[str, int, int]]:
    """The places in the log up to which groups have read, with topic and queue, where that is known."""
    return {
        (*row.queue, row.read.log_end)
        for _, offsets in _files(store)
        for row in _rows(offsets)
        if row.read.log_end >= 0
    }


def set_back(store: Path, ends: Mapping[tuple[str, int], int], unread: Unread, saved: Path | None = None) -> int:
    """Sets groups and delay levels that are further than their queues back to the queues' ends.

    They would not be given what comes, and what is delayed next would not be delivered. A queue that took the name of
    one that was removed has what nobody has read yet: a group of which it is known how far it has read the log is set
    to the first of that.

    Args:
        store: The store, which nobody else has open.
        ends: The next offset of each queue that there is, by topic and queue.
        unread: What follows each of the places that :func:`read_up_to` gives.
        saved: Where a file that changes is kept as it was.

    Returns:
        How many offsets were set back.

    Raises:
        StoreIOError: a file could not be written.
        OSError: one could not be kept.
    """
    count = 0
    for path, offsets in _files(store):
        too_far = [row for row in _rows(offsets) if row.read.offset > ends.get(row.queue, 0)]
        if too_far and saved is not None:
            keep(path, saved / path.relative_to(store))
        for row in too_far:
            end = ends.get(row.queue, 0)
            row.set_to(offsets, min(end, unread.get((*row.queue, row.read.log_end), end)))
        if too_far:
            offsets.persist()
        count += len(too_far)
    return count


def keep(path: Path, saved: Path) -> None:
    """Copies a file before it is changed. What a repair before this one kept is what was there at first."""
    if path.exists() and not saved.exists():
        saved.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, saved)


def _files(store: Path) -> Iterator[tuple[Path, _Offsets]]:
    config, consumers = store / "config", store / "mqstore" / "consumers"
    managers: dict[Path, type[_Offsets]] = {
        config / "consumerOffset.json": ConsumerOffsetManager,
        config / "lmqConsumerOffset.json": LmqConsumerOffsetManager,
        config / "delayOffset.json": DelayOffsetManager,
    }
    for own in ("*/consumerOffset.json", "*/broadcast/*.json"):
        managers |= dict.fromkeys(sorted(consumers.glob(own)), ConsumerOffsetManager)
    for path, manager in managers.items():
        try:
            yield path, manager(path, _native.write_whole)
        except MQStoreError:
            continue  # damaged: it has no offset for anybody, and who asks it is told


class _Row(NamedTuple):
    """How far a group or a delay level is in a queue."""

    queue: tuple[str, int]
    read: ReadOffset
    group: str | None
    """``None`` for a delay level."""

    def set_to(self, offsets: _Offsets, offset: int) -> None:
        """Has another offset stand there."""
        topic, queue_id = self.queue
        if isinstance(offsets, DelayOffsetManager):
            offsets.update_offset(queue_id + 1, offset)
        elif self.group is not None:
            offsets.commit_offset(self.group, topic, queue_id, offset, self.read.log_end)


def _rows(offsets: _Offsets) -> Iterator[_Row]:
    if isinstance(offsets, DelayOffsetManager):
        for level, offset in offsets.all().items():
            yield _Row((SCHEDULE_TOPIC, level - 1), ReadOffset(offset), None)
        return
    for group, queues in offsets.by_group().items():
        for queue, read in queues.items():
            yield _Row(queue, read, group)
