"""How far groups and delay levels are in a repaired store: what is put next has offsets that a queue's end has lost."""

import functools
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TypeAlias

from mqstore import _native
from mqstore.errors import MQStoreError
from mqstore.store.config_consumer_offset import ConsumerOffsetManager, LmqConsumerOffsetManager
from mqstore.store.config_delay_offset import DelayOffsetManager
from mqstore.store.delayed import SCHEDULE_TOPIC

__all__ = ["keep", "set_back"]

_Offsets: TypeAlias = ConsumerOffsetManager | DelayOffsetManager


def set_back(store: Path, ends: Mapping[tuple[str, int], int], saved: Path | None = None) -> int:
    """Sets groups and delay levels that are further than their queues back to the queues' ends.

    They would not be given what comes, and what is delayed next would not be delivered.

    Args:
        store: The store, which nobody else has open.
        ends: The next offset of each queue that there is, by topic and queue.
        saved: Where a file that changes is kept as it was.

    Returns:
        How many offsets were set back.

    Raises:
        StoreIOError: a file could not be written.
        OSError: one could not be kept.
    """
    count = 0
    for path, offsets in _files(store):
        too_far = [(queue, set_to) for queue, offset, set_to in _rows(offsets) if offset > ends.get(queue, 0)]
        if too_far and saved is not None:
            keep(path, saved / path.relative_to(store))
        for queue, set_to in too_far:
            set_to(ends.get(queue, 0))
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


def _rows(offsets: _Offsets) -> Iterator[tuple[tuple[str, int], int, Callable[[int], None]]]:
    """Each offset with its queue, and what sets it."""
    if isinstance(offsets, DelayOffsetManager):
        for level, offset in offsets.all().items():
            yield (SCHEDULE_TOPIC, level - 1), offset, functools.partial(offsets.update_offset, level)
        return
    for group, queues in offsets.by_group().items():
        for (topic, queue_id), read in queues.items():
            yield (topic, queue_id), read.offset, functools.partial(offsets.commit_offset, group, topic, queue_id)
