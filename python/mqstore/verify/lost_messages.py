"""What a damaged store had and a repaired one has not: messages that queues, or their own heads, tell of."""

import bisect
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple, TypeAlias

from mqstore import _native

__all__ = ["BLANK_SIZE", "Lost", "Told", "gone", "lost", "told"]

BLANK_SIZE = 2**31 - 1
"""In a unit: the queue skips this offset."""
_LOG_FILE_SIZE = 1 << 30
_UNITS_AT_ONCE = 10_000
_REACH_FILE_COUNT = 2
"""Between two messages that the log lost at its end may be so many files of others that nothing tells of."""

_File: TypeAlias = tuple[str, int, int, int]
"""A queue's file: topic, queue, first index, behind the last one."""
Lost: TypeAlias = frozenset[tuple[str, int, int]]
"""Messages by topic, queue and offset."""


class Told(NamedTuple):
    """A message that a damaged store tells of, rightly or not."""

    topic: str
    queue_id: int
    queue_offset: int
    phy_offset: int
    """Where it would be in the log."""
    by_head_alone: bool = False
    """Its head alone tells of its queue, and is damaged too unless the repaired store has that."""


def gone(view: _native.LogView) -> Callable[[int], bool]:
    """Whether a place of the log is in a hole, or behind its end."""
    holes = [(begin, behind) for begin, behind, _ in view.holes()]
    # A lost end is no longer than the rest, or a file; damaged units lead anywhere.
    holes.append((view.end, 2 * view.end + _LOG_FILE_SIZE))
    begins = [begin for begin, _ in holes]

    def is_gone(offset: int) -> bool:
        at = bisect.bisect_right(begins, offset) - 1
        return at >= 0 and offset < holes[at][1]

    return is_gone


def _fits(view: _native.LogView, offset: int, size: int) -> bool:
    """Whether a record could stand there: none goes over a file's end, as of those that garbage names many do."""
    return offset % view.log_file_size + size <= view.log_file_size


def told(view: _native.LogView, is_gone: Callable[[int], bool]) -> frozenset[Told]:
    """The messages that the damaged store's queues, or their own heads, have where nothing is by :func:`gone`.

    So have those that stood in the log's first files where these are there and empty: files that expire are removed.
    """
    emptied = range(view.named_begin, view.min_offset)
    by_file = {
        file: [
            Told(topic, queue_id, number, offset)
            for first in range(begin, end, _UNITS_AT_ONCE)
            for number, (offset, size, _) in enumerate(
                view.units(topic, queue_id, first, min(_UNITS_AT_ONCE, end - first)), first
            )
            if 0 < size < BLANK_SIZE and (is_gone(offset) or offset in emptied) and _fits(view, offset, size)
        ]
        for file in view.queue_files()
        for topic, queue_id, begin, end in [file]
    }
    by_unit = (one for file in _believed(view, by_file) for one in by_file[file])
    queues = {file[:2] for file in by_file}
    by_head = (Told(*message, message[:2] not in queues) for message in view.lost_by_head())
    # Of several units of a queue that lead to one place all but one are copies.
    found = {(one.topic, one.queue_id, one.phy_offset): one for one in sorted((*by_unit, *by_head), reverse=True)}
    return frozenset(_within_reach(view, found.values()))


def _within_reach(view: _native.LogView, ones: Iterable[Told]) -> Iterator[Told]:
    """Those that the log can have had: behind its end none stood much further than the one before it.

    Garbage leads anywhere.
    """
    reached = view.end
    for one in sorted(ones, key=lambda one: one.phy_offset):
        if one.phy_offset > reached + _REACH_FILE_COUNT * view.log_file_size:
            return
        reached = max(reached, one.phy_offset)
        yield one


def _believed(view: _native.LogView, by_file: Mapping[_File, list[Told]]) -> Iterator[_File]:
    """The queue files that tell of something and are this store's: they agree with what the log still has.

    A file with nothing but lost messages is believed by the other files of its queue, and a queue of such files by the
    other queues.
    """
    telling = [file for file, ones in by_file.items() if ones]
    if not telling:
        return
    agreeing = {file: view.agrees_with_log(*file) for file in by_file}
    by_queue = dict[tuple[str, int], Counter[bool]]()
    for (topic, queue_id, _, _), agrees in agreeing.items():
        count = by_queue.setdefault((topic, queue_id), Counter())
        if agrees is not None:
            count[agrees] += 1
    of_store = Counter(count[True] >= count[False] for count in by_queue.values() if count)
    for file in telling:
        count, agrees = by_queue[file[:2]], agreeing[file]
        votes = count or of_store
        if votes[True] >= votes[False] if agrees is None else agrees:
            yield file


def lost(repaired: _native.Store, told: Iterable[Told], holes: Iterable[tuple[int, int]]) -> tuple[Lost, int]:
    """The messages that a repaired store has not, and how many it has.

    They are the offsets of its queues that no message has, and what is told of right before and behind those. Where
    the log had no hole between the messages beside such an offset, none is lost now: one that jumped passed over it,
    or an earlier repair has told of it.
    """
    begins = sorted(begin for begin, _ in holes)
    blanks, spans, count = set[tuple[str, int, int]](), dict[tuple[str, int], tuple[Told, Told]](), 0
    for topic, queue_id, first, end, _ in repaired._queues():
        passed, last = list[int](), -1
        for at, offset, size in _units(repaired, topic, queue_id, first, end):
            if size == BLANK_SIZE:
                passed.append(at)
                continue
            if passed and bisect.bisect(begins, last) < bisect.bisect(begins, offset):
                blanks.update((topic, queue_id, one) for one in passed)
            passed.clear()
            last = offset
            count += 1
            unit = Told(topic, queue_id, at, offset)
            spans[topic, queue_id] = (spans.get((topic, queue_id), (unit,))[0], unit)
    by_queue: dict[tuple[str, int], list[Told]] = {}
    for one in sorted(one for one in told if not one.by_head_alone or one[:2] in spans):
        by_queue.setdefault(one[:2], []).append(one)
    outside = (one[:3] for queue, ones in by_queue.items() for one in _outside(ones, spans.get(queue)))
    return frozenset((*blanks, *outside)), count


def _outside(ones: list[Told], span: tuple[Told, Told] | None) -> Iterator[Told]:
    """What is told of before and behind the messages that a queue has.

    Garbage in a queue's files, or units of messages long expired, tell as well, but not offset by offset from there on.
    """
    first, last = span or (ones[0], ones[0])
    if span is None:
        yield first
    # Units that have something else where the queue has a message are of another store's queue.
    elif any(one.queue_offset in (first.queue_offset, last.queue_offset) for one in ones):
        return
    for one in reversed(ones):
        if one.queue_offset == first.queue_offset - 1 and one.phy_offset < first.phy_offset:
            first = one
            yield one
    for one in ones:
        if one.queue_offset == last.queue_offset + 1 and one.phy_offset > last.phy_offset:
            last = one
            yield one


def _units(store: _native.Store, topic: str, queue_id: int, first: int, end: int) -> Iterator[tuple[int, int, int]]:
    # A call gives units of one file at most, and none where that file is missing.
    while first < end and (units := store._units(topic, queue_id, first, min(_UNITS_AT_ONCE, end - first))):
        yield from ((at, offset, size) for at, (offset, size, _) in enumerate(units, first))
        first += len(units)
