"""What a repair in place has found, kept in the store until the repair is done.

Where it is broken off, what it has filled is no hole any more, and the queues that told what was lost are set
aside. The next one goes on from this note. Where the log ends it does not say: there may be more in it by then.
"""

import dataclasses
import json
import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mqstore import _native
from mqstore.errors import StoreIOError, StoreLayoutError
from mqstore.store.arguments import INT_MAX
from mqstore.store.byte_ranges import ranges_of
from mqstore.store.file_kinds import read_file
from mqstore.verify.expired_queues import CQ_STORE_UNIT_SIZE, ExpiredQueue
from mqstore.verify.file_sizes import FileSizes
from mqstore.verify.lost_messages import Told
from mqstore.verify.made_anew import Makes

__all__ = ["Found", "all_is_aside", "begin", "end", "found", "is_begun", "note_of"]

_NOTE = "repairing.json"
_SAVED = "repaired-"
_AGAIN = "again"
_NAME_MAX = 255
"""Bytes of a file's name that every file system takes."""


@dataclass(frozen=True, kw_only=True)
class Found:
    """What was found before anything was changed."""

    first: Path
    """Where the first run saved what it changed; those that went on have folders in it."""
    saved: Path
    """Where this run saves what it changes: in the folder of the first one, or that itself."""
    is_aside: bool
    """Whether a run had set aside all that was to be made anew: what there is of it was made since."""
    holes: tuple[tuple[int, int, str | None], ...]
    """Parts of the log without records: begin, end, what was wrong there."""
    told: frozenset[Told]
    """Messages that the store told of where nothing is."""
    expired: frozenset[ExpiredQueue]
    """Queues of which there were offsets alone."""
    sizes: FileSizes
    """How large the store's files were."""
    makes: Makes
    """Which further queues its options make."""
    cut: tuple[tuple[int, int], ...]
    """Parts of the log behind its end that held something: begin and end."""

    @property
    def all_saved(self) -> Iterator[Path]:
        """Where the runs that were broken off and this one saved what they changed, the first of them first."""
        yield self.first
        yield from sorted(self.first.glob(f"{_AGAIN}*"), key=lambda path: (len(path.name), path.name))

    def set_aside(self, path: Path) -> None:
        """Moves what will be made anew to where it is saved: what was there before all runs into the first one's."""
        at_first = self.first / path.name
        path.rename(self.saved / path.name if self.is_aside or at_first.exists() else at_first)


def found(
    own: Path,
    *,
    holes: Iterable[tuple[int, int, str | None]],
    told: Iterable[Told],
    expired: Iterable[ExpiredQueue],
    sizes: FileSizes,
    makes: Makes,
    cut: Iterable[tuple[int, int]],
) -> Found:
    """What was found, with what a repair found that was broken off; nothing is written yet.

    Args:
        own: The folder ``mqstore`` of the store.
        holes: The log's holes now.
        told: The messages that the store tells of where nothing is now.
        expired: The queues of which there are offsets alone now.
        sizes: How large the store's files are now.
        makes: Which further queues its options make now.
        cut: What holds something behind the log's end now.

    Raises:
        StoreLayoutError: there is a note that can't be read.
    """
    before = _read(own)
    if before is None:
        name = f"{_SAVED}{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"
        saved = _free(own / name)
        return Found(
            first=saved,
            saved=saved,
            is_aside=False,
            holes=tuple(holes),
            told=frozenset(told),
            expired=frozenset(expired),
            sizes=sizes,
            makes=makes,
            cut=tuple(cut),
        )
    known = before.holes
    new = (hole for hole in holes if not any(begin <= hole[0] < behind for begin, behind, _ in known))
    return Found(
        first=before.first,
        saved=_free(before.first / _AGAIN) if before.first.exists() else before.first,
        is_aside=before.is_aside,
        holes=tuple(sorted((*known, *new), key=lambda hole: hole[:2])),
        told=before.told | frozenset(told),
        expired=before.expired | frozenset(expired),
        sizes=before.sizes,
        makes=before.makes,
        cut=tuple(sorted({*before.cut, *cut})),
    )


def begin(own: Path, found: Found) -> None:
    """Notes what was found: from here on the store is changed.

    Raises:
        StoreIOError: the note can't be written.
    """
    own.mkdir(exist_ok=True)
    _write(own, found)


def all_is_aside(own: Path, found: Found) -> None:
    """Notes that all is set aside that will be made anew.

    Raises:
        StoreIOError: the note can't be written.
    """
    _write(own, dataclasses.replace(found, is_aside=True))


def _write(own: Path, found: Found) -> None:
    note = {
        "saved": found.first.name,
        "is_aside": found.is_aside,
        "holes": found.holes,
        "told": sorted(found.told),
        "expired": sorted(found.expired),
        "sizes": found.sizes,
        "makes": found.makes,
        "cut": found.cut,
    }
    _native.write_whole(own / _NOTE, json.dumps(note).encode())


def is_begun(own: Path) -> bool:
    """Whether a repair has changed the store and is not done."""
    return (own / _NOTE).exists()


def note_of(store: str) -> str | None:
    """The note of a repair in place that is not done, where a store has one.

    Args:
        store: Its path as :func:`mqstore.store.byte_ranges.resolved` gives it, on any file system.

    Raises:
        StoreIOError: it can't be looked for.
    """
    ranges = ranges_of(store)
    if ranges is None:
        path = Path(store, "mqstore", _NOTE)
        return str(path) if os.path.lexists(path) else None
    try:
        names = [name for name, *_ in ranges.list_below("mqstore", recursive=False) or ()]
    except OSError as error:
        raise StoreIOError(f"list {ranges.name}/mqstore: {error}") from None
    return f"{ranges.name}/mqstore/{_NOTE}" if _NOTE in names else None


def end(own: Path) -> None:
    """Says that the repair is done."""
    (own / _NOTE).unlink()


def _free(path: Path) -> Path:
    """The path, or the first with a number behind it that nothing has."""
    number, free = 1, path
    while free.exists():
        number += 1
        free = path.with_name(f"{path.name}-{number}")
    return free


def _read(own: Path) -> Found | None:
    path = own / _NOTE
    try:
        return _parsed(own, json.loads(read_file(path)))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, LookupError, OverflowError, RecursionError) as error:
        problem = repr(error)
    expected = "what a repair in place had found when it was broken off"
    told = StoreLayoutError(f"{path}: expected {expected}, found {problem}; remove it to forget that")
    told.path, told.expected, told.found = str(path), expected, problem
    raise told


def _parsed(own: Path, note: Any) -> Found:
    """What a note says, all of it such that the repair can end with it: once more is set aside it is too late.

    Raises:
        ValueError: it names a folder or a file that no repair made, a queue without units, or what no store can have.
        TypeError, LookupError, OverflowError: it is no note at all.
    """
    holes = tuple((int(begin), int(to), None if fault is None else str(fault)) for begin, to, fault in note["holes"])
    # One by an older version has neither by what a message is told, nor what was cut, nor what is aside.
    told = frozenset(
        Told(str(topic), int(queue), int(at), int(place), *(bool(one) for one in by_head[:1]))
        for topic, queue, at, place, *by_head in note["told"]
    )
    cut = tuple((int(begin), int(to)) for begin, to in note.get("cut", ()))
    expired = frozenset(
        ExpiredQueue(str(topic), int(queue), str(file), int(count)) for topic, queue, file, count in note["expired"]
    )
    saved, sizes = str(note["saved"]), FileSizes(*(int(size) for size in note["sizes"]))
    makes = Makes(*(bool(one) for one in note["makes"]))
    for one in told:
        one.topic.encode()
    for queue in expired:
        if queue.unit_count < 1 or not -1 <= queue.queue_id <= INT_MAX:
            raise ValueError(f"expired={queue}")
    if not saved.startswith(_SAVED):
        raise ValueError(f"saved={saved!r}")
    for name in (saved, *(name for queue in expired for name in (queue.topic, queue.file))):
        if name in {"", ".."} or Path(name).name != name or "\0" in name or len(name.encode()) > _NAME_MAX:
            raise ValueError(f"{name!r} is no name of a file")
    if not all(0 < size <= INT_MAX for size in sizes) or sizes.queue % CQ_STORE_UNIT_SIZE:
        raise ValueError(f"sizes={sizes}")
    return Found(
        first=own / saved,
        saved=own / saved,
        is_aside=bool(note.get("is_aside", True)),
        holes=holes,
        told=told,
        expired=expired,
        sizes=sizes,
        makes=makes,
        cut=cut,
    )
