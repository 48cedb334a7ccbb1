"""Queues that retention emptied, but for lost messages: their newest files say how far they go, the log does not."""

import os
import struct
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from mqstore import _native
from mqstore.errors import StoreLayoutError
from mqstore.verify.lost_messages import BLANK_SIZE

__all__ = ["CQ_STORE_UNIT_SIZE", "ExpiredQueue", "expired_queues", "put_back"]

CQ_STORE_UNIT_SIZE = 20
"""Bytes of a unit."""
_UNIT = struct.Struct(">qiq")
"""Offset in the log, size, tags code."""


class ExpiredQueue(NamedTuple):
    """A queue that has offsets and no messages."""

    topic: str
    queue_id: int
    file: str
    """The name of its newest file."""
    unit_count: int
    """Units of that file up to the last one of an expired message."""

    @property
    def end(self) -> int:
        """The offset at which it goes on."""
        return int(self.file) // CQ_STORE_UNIT_SIZE + self.unit_count

    def path(self, store: Path) -> Path:
        """Where a store has that file."""
        return store / "consumequeue" / self.topic / str(self.queue_id) / self.file


def expired_queues(view: _native.LogView, is_gone: Callable[[int], bool]) -> frozenset[ExpiredQueue]:
    """The queues whose newest file has units of messages before the log's first, and else of lost ones alone behind."""
    newest: dict[tuple[str, int], tuple[int, int]] = {}
    for topic, queue_id, begin, end in view.queue_files():
        newest[topic, queue_id] = max((begin, end), newest.get((topic, queue_id), (begin, end)))
    found = set()
    for (topic, queue_id), (begin, end) in newest.items():
        # Of most queues the first unit tells.
        counts = [
            _expired_count(view.units(topic, queue_id, begin, most), view.min_offset, is_gone)
            for most in (1, end - begin)
        ]
        if all(counts):
            found.add(ExpiredQueue(topic, queue_id, f"{begin * CQ_STORE_UNIT_SIZE:020}", counts[-1]))
    return frozenset(found)


def _expired_count(units: Iterable[tuple[int, int, int]], min_offset: int, is_gone: Callable[[int], bool]) -> int:
    """How many units there are up to the last one of an expired message; 0 where one leads to a message that exists."""
    found = [(offset, size) for offset, size, _ in units]
    # Behind the first unit that is none all have to be none: nothing else says where the queue ends.
    while found and (found[-1] == (0, 0) or is_gone(found[-1][0])):
        found.pop()
    are_expired = all(
        (offset, size) == (0, BLANK_SIZE) or (size > 0 and 0 <= offset <= min_offset - size) for offset, size in found
    )
    return len(found) if are_expired else 0


def put_back(
    queues: Iterable[ExpiredQueue], sources: Iterable[Path], store: Path, file_size: int
) -> dict[tuple[str, int], int]:
    """Gives a store whose queues were made from its log those that the log knows nothing of.

    Args:
        queues: As the store had them before.
        sources: Where their files may lie, as in a store; the first that has one counts.
        store: The store, which nobody else has open.
        file_size: Bytes of its queue files.

    Returns:
        The next offset of each queue that it has now, by topic and queue.

    Raises:
        StoreLayoutError: a queue's file is nowhere.
    """
    folders, ends = list(sources), dict[tuple[str, int], int]()
    for queue in queues:
        target = queue.path(store)
        if target.parent.exists():
            continue
        found = next((path for path in (queue.path(folder) for folder in folders) if path.is_file()), None)
        if found is None:
            expected, places = "the newest file of a queue", ", ".join(map(str, folders))
            error = StoreLayoutError(f"{target}: expected {expected}, found none in {places}")
            error.path, error.expected, error.found = str(target), expected, f"none in {places}"
            raise error
        target.parent.mkdir(parents=True)
        content = found.read_bytes()[: queue.unit_count * CQ_STORE_UNIT_SIZE]
        with target.open("xb") as file:
            # Tags may stand in the queue's extension, which is not put back: a unit that leads there would be cut off.
            file.write(b"".join(_UNIT.pack(offset, size, 0) for offset, size, _ in _UNIT.iter_unpack(content)))
            # What is empty in a queue file takes no space.
            file.truncate(file_size)
            file.flush()
            os.fsync(file.fileno())
        ends[queue.topic, queue.queue_id] = queue.end
    return ends
