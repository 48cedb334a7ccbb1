"""By what a log is known again at a place that a stream has come to.

A place is a number, which another log has too once it is long enough: one that was made anew, restored from a backup,
or cut and written on. The last record before the place tells: where it begins, and what hardly another one has there.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mqstore.store.selection import SelectionSpec
from mqstore.verify.filler import is_filler

if TYPE_CHECKING:
    from mqstore import _native

__all__ = ["LogMark", "is_still_there", "mark_before"]

_SPANS = (64 << 10, 1 << 20, 16 << 20)
"""How far before a place its last record is looked for: the first is enough unless it is a large one, or is damaged."""
_CHUNK_COUNT = 1000
_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True)
class LogMark:
    """A record by which a log is known."""

    begin: int
    """Where it begins."""
    store_timestamp: int
    body_crc: int


def mark_before(log: "_native.Store", position: int) -> LogMark | None:
    """The last record that begins before a place of a log; none where retention, or damage, has left none near it."""
    first = max(0, log.get_min_phy_offset())
    for span in _SPANS:
        begin = log._boundary_at(max(first, position - span))
        if (last := _last_between(log, begin, position)) is not None:
            return LogMark(last.commit_log_offset, last.store_timestamp, last.body_crc)
        if begin <= first:
            break
    return None


def is_still_there(log: "_native.Store", mark: LogMark) -> bool:
    """Whether a log has the record that it had, as far as that can be told: not where the record was damaged since.

    So it is where retention has removed it: what that means to who has more to read is for the log's begin to tell.
    """
    if not _has_file_of(log, mark.begin):
        return True
    if log._boundary_at(mark.begin) != mark.begin:
        return False
    found = _last_between(log, mark.begin, mark.begin + 1)
    if found is None or is_filler(found):
        # What is damaged there, or was and is repaired, was read before.
        return True
    return LogMark(found.commit_log_offset, found.store_timestamp, found.body_crc) == mark


def _has_file_of(log: "_native.Store", offset: int) -> bool:
    return any(first <= offset < first + log._log_file_size for _, first in log._log_files())


def _last_between(log: "_native.Store", begin: int, end: int) -> "_native.Message | None":
    """The last record that begins in a part of a log, which begins at a boundary."""
    cursor = log._cursor(SelectionSpec(own_only=True, from_phy_offset=begin, to_phy_offset=end))
    last = None
    while chunk := cursor.next_messages(_CHUNK_COUNT, _CHUNK_BYTES):
        last = chunk[-1]
    return last
