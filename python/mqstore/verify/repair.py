"""Making a store whole again: every record that checks out is kept where it is, all else is made anew."""

import bisect
import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mqstore
from mqstore import _native
from mqstore.errors import OptionError, StoreLockedError
from mqstore.options import StoreOptions, snake_case
from mqstore.store.byte_ranges import refuse_remote, resolved
from mqstore.verify.log_ranges import log_view

__all__ = ["LostMessage", "RepairResult", "repair"]

_UNITS_AT_ONCE = 10_000
_BLANK_SIZE = 2**31 - 1
_DERIVED = ("consumequeue", "consumequeue_ext", "index", "checkpoint", "abort")
"""What follows from the log, by the names that it has in a store."""


@dataclass(frozen=True, kw_only=True)
class LostMessage:
    """A message that the store had and that cannot be read."""

    topic: str
    """Its topic."""
    queue_id: int
    """Its queue."""
    queue_offset: int
    """Its offset there."""


@dataclass(frozen=True, kw_only=True)
class RepairResult:
    """What a repair did."""

    path: Path
    """The store that is whole now."""
    saved: Path | None
    """Where the old files are, after a repair in place."""
    holes: tuple[tuple[int, int, str | None], ...]
    """Parts of the log that held no record: begin, end, what was wrong there."""
    lost: tuple[LostMessage, ...]
    """Messages that are lost, as far as queues or offsets tell."""
    message_count: int
    """Messages that are in the queues now."""


def repair(store: str | os.PathLike[str], out: str | os.PathLike[str] | None = None, **options: Any) -> RepairResult:
    """Makes a store whole again, into another folder or in place.

    No record moves: what lies between two that check out is filled with records of rolled back
    transactions, which are in no queue and no index, so that the Java store walks over them and loses
    nothing behind. A torn end is cut. Queues, index and checkpoint are made anew from the log, the
    configuration is kept.

    Args:
        store: Its folder.
        out: A folder that does not exist yet; ``None`` repairs in place, and keeps what is changed
            under ``mqstore/repaired-…`` in the store.
        **options: RocketMQ's options, as the store's broker has them.

    Raises:
        StoreNotFoundError: there is no store.
        OptionError: ``out`` exists, or an option does not work.
        StoreLockedError: somebody has the store open for writing.
        StoreLayoutError: a whole log file is missing, and the repair is to be in place.
        StoreIOError: the operating system refused something.
    """
    refuse_remote("store", store)
    source = Path(resolved(store))
    given = {snake_case(name): value for name, value in options.items()}
    of_source = StoreOptions.of(str(source), given)
    writer = _native.locked_by(source / "lock", source / "mqstore")
    if writer is not None:
        error = StoreLockedError(f"{source} cannot be repaired while it is open for writing: {writer}")
        error.path, error.holder = str(source / "lock"), writer
        raise error
    view = log_view(str(source), of_source, compat=False)
    lost = _units_in_holes(view)
    saved: Path | None = None
    if out is not None:
        target = Path(os.path.realpath(out))
        if target.exists():
            in_the_way = OptionError(f"out={str(out)!r}: expected a folder that does not exist yet")
            in_the_way.option, in_the_way.value = "out", str(out)
            raise in_the_way
        holes = view.copy_repaired(target / "commitlog")
        if (source / "config").is_dir():
            shutil.copytree(source / "config", target / "config")
    else:
        target, saved = source, source / "mqstore" / f"repaired-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"
        holes = view.repair_in_place(saved)
        _set_aside(source, saved)
    del view
    # Without queues, index and checkpoint the engine dispatches the whole log when it opens the store.
    with mqstore.open(target, "rw", on_damage="truncate", **_without_paths(given)) as repaired:
        blanks = _blanks(repaired)
        message_count = sum(end - first for _, _, first, end, _ in repaired._queues()) - len(blanks)
    in_order = sorted(lost | blanks, key=lambda lost: (lost.topic, lost.queue_id, lost.queue_offset))
    return RepairResult(path=target, saved=saved, holes=tuple(holes), lost=tuple(in_order), message_count=message_count)


def _without_paths(given: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in given.items() if not name.startswith("store_path_")}


def _set_aside(store: Path, saved: Path) -> None:
    """Moves what will be made anew."""
    for name in _DERIVED:
        if (store / name).exists():
            (store / name).rename(saved / name)
    if (store / "mqstore" / "positions").exists():
        (store / "mqstore" / "positions").rename(saved / "positions")


def _units_in_holes(view: _native.LogView) -> set[LostMessage]:
    """The messages that the damaged store's queues have in the log's holes and behind its end."""
    holes = [(begin, behind) for begin, behind, _ in view.holes()]
    begins = [begin for begin, _ in holes]

    def is_gone(offset: int) -> bool:
        at = bisect.bisect_right(begins, offset) - 1
        return offset >= view.end or (at >= 0 and offset < holes[at][1])

    return {
        LostMessage(topic=topic, queue_id=queue_id, queue_offset=number)
        for topic, queue_id, begin, end in view.queue_files()
        for first in range(begin, end, _UNITS_AT_ONCE)
        for number, (offset, size, _) in enumerate(
            view.units(topic, queue_id, first, min(_UNITS_AT_ONCE, end - first)), first
        )
        if 0 < size < _BLANK_SIZE and is_gone(offset)
    }


def _units(store: mqstore.MessageStore) -> Iterator[tuple[str, int, int, int, int]]:
    for topic, queue_id, first, end, _ in store._queues():
        number = first
        # A call gives units of one file at most, and none where that file is missing.
        while number < end and (units := store._units(topic, queue_id, number, min(_UNITS_AT_ONCE, end - number))):
            for offset, size, _ in units:
                yield topic, queue_id, number, offset, size
                number += 1


def _blanks(store: mqstore.MessageStore) -> set[LostMessage]:
    return {
        LostMessage(topic=topic, queue_id=queue_id, queue_offset=number)
        for topic, queue_id, number, _, size in _units(store)
        if size == _BLANK_SIZE
    }
