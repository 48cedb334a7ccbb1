"""What a damaged store had: messages that its queues, or their own heads, tell of."""

import bisect
from collections.abc import Callable, Iterator
from typing import TypeAlias

from mqstore import _native

__all__ = ["Lost", "gone", "known_lost"]

_UNITS_AT_ONCE = 10_000
_BLANK_SIZE = 2**31 - 1

Lost: TypeAlias = frozenset[tuple[str, int, int]]
"""Messages by topic, queue and offset."""
_Places: TypeAlias = list[tuple[int, int]]


def gone(view: _native.LogView) -> Callable[[int], bool]:
    """Whether a place of the log is in a hole, or behind its end."""
    holes = [(begin, behind) for begin, behind, _ in view.holes()]
    begins = [begin for begin, _ in holes]

    def is_gone(offset: int) -> bool:
        at = bisect.bisect_right(begins, offset) - 1
        return offset >= view.end or (at >= 0 and offset < holes[at][1])

    return is_gone


def known_lost(view: _native.LogView, is_gone: Callable[[int], bool]) -> Lost:
    """The messages that the damaged store's queues, or their own heads, have where nothing is by :func:`gone`."""
    files: dict[tuple[str, int], _Places] = {}
    for topic, queue_id, begin, end in view.queue_files():
        files.setdefault((topic, queue_id), []).append((begin, end))
    by_unit = (
        (topic, queue_id, number)
        for (topic, queue_id), of_queue in files.items()
        for number in _lost_by_unit(view, is_gone, _written_backwards(view, topic, queue_id, of_queue))
    )
    # A head that tells of a queue without files is damaged too.
    by_head = (message for message in view.lost_by_head() if message[:2] in files)
    return frozenset((*by_unit, *by_head))


def _lost_by_unit(
    view: _native.LogView, is_gone: Callable[[int], bool], backwards: Iterator[tuple[int, int]]
) -> Iterator[int]:
    """The offsets whose units lead to where nothing is.

    One that leads behind the log's end, and is not among the last, is a damaged unit, and tells nothing.
    """
    is_last = True
    for number, offset in backwards:
        is_last = is_last and offset >= view.end
        if is_gone(offset) and (is_last or offset < view.end):
            yield number


def _written_backwards(view: _native.LogView, topic: str, queue_id: int, files: _Places) -> Iterator[tuple[int, int]]:
    """The offsets of a queue that have units, and the places in the log to which those lead, the last one first."""
    for begin, end in sorted(files, reverse=True):
        for first in reversed(range(begin, end, _UNITS_AT_ONCE)):
            units = view.units(topic, queue_id, first, min(_UNITS_AT_ONCE, end - first))
            for number in reversed(range(len(units))):
                offset, size, _ = units[number]
                if 0 < size < _BLANK_SIZE and offset >= 0:
                    yield first + number, offset
