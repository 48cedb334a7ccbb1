"""How far groups are in a repaired store: what is put next has the offsets that a queue's end has lost."""

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from mqstore import _native
from mqstore.errors import MQStoreError
from mqstore.store.config_consumer_offset import ConsumerOffsetManager

__all__ = ["set_back"]


def set_back(store: Path, ends: Mapping[tuple[str, int], int], saved: Path | None = None) -> int:
    """Sets groups that are further than their queues back to the queues' ends: they would not be given what comes.

    Args:
        store: The store, which nobody has open.
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
        too_far = [
            (group, topic, queue_id)
            for group, queues in offsets.by_group().items()
            for (topic, queue_id), read in queues.items()
            if read.offset > ends.get((topic, queue_id), 0)
        ]
        if too_far and saved is not None:
            _keep(path, saved / path.relative_to(store))
        for group, topic, queue_id in too_far:
            offsets.commit_offset(group, topic, queue_id, ends.get((topic, queue_id), 0))
        if too_far:
            offsets.persist()
        count += len(too_far)
    return count


def _files(store: Path) -> Iterator[tuple[Path, ConsumerOffsetManager]]:
    shared = (store / "mqstore" / "consumers").glob("*/consumerOffset.json")
    own = (store / "mqstore" / "consumers").glob("*/broadcast/*.json")
    for path in (store / "config" / "consumerOffset.json", *sorted(shared), *sorted(own)):
        try:
            yield path, ConsumerOffsetManager(path, _native.write_whole)
        except MQStoreError:
            continue  # damaged: it has no offset for anybody, and who asks it is told


def _keep(path: Path, saved: Path) -> None:
    """What a repair before this one kept is what was there at first."""
    saved.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and not saved.exists():
        shutil.copy2(path, saved)
