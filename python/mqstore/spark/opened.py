"""Stores that are open in this process, so that one of its many tasks opens what the others need too.

Spark's workers live longer than their tasks. A store is kept with what it was opened for; one whose
first file has gone with retention, or is another's by now, whose queues were set aside or made anew, or that
does not go as far as a task needs, is opened again.
"""

import glob
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

import mqstore
from mqstore import _native
from mqstore.errors import StoreNotFoundError
from mqstore.option_error import bad_option
from mqstore.options import StoreOptions
from mqstore.store import byte_ranges
from mqstore.store.mappings import reads_without_mappings

__all__ = ["check_stores", "expand", "followed", "forget_part", "log_of", "part_of"]

_MAX_PARTS = 16

_Inode: TypeAlias = tuple[int, int] | None
_Identity: TypeAlias = tuple[_Inode, _Inode]
"""Which files a store was made of when it was opened: a path says only where another one may be now."""

_followed: dict[tuple[str, bool | None], tuple[_Identity, mqstore.MessageStore]] = {}
_logs: dict[tuple[str, bool | None], tuple[_Identity, _native.Store]] = {}
_parts: dict[tuple[str, bool | None, tuple[str, ...], int, str], tuple[int, _Identity, _native.Store]] = {}


def expand(paths: Sequence[str]) -> list[str]:
    """The stores that paths, URIs and globs of both name, each once, in order; what is a folder is no glob.

    Raises:
        OptionError: a glob finds nothing, or two URIs differ in what is not shown of them alone.
    """
    found: dict[str, None] = {}
    for path in paths:
        if byte_ranges.is_remote(path):
            found.update(dict.fromkeys(byte_ranges.expand(path)))
            continue
        plain = byte_ranges.local_path(path)
        # A folder may have brackets in its name.
        if not glob.has_magic(plain) or Path(plain).is_dir():
            found[str(Path(plain).resolve())] = None
            continue
        matching = map(Path, glob.glob(plain))  # noqa: PTH207 - a pattern as a whole, absolute or not
        names = sorted(str(name.resolve()) for name in matching if (name / "commitlog").is_dir())
        if not names:
            raise bad_option("path", path, "it names no folder with a commitlog in it")
        found.update(dict.fromkeys(names))
    shown: set[str] = set()
    for name in map(byte_ranges.shown, found):
        if name in shown:
            raise bad_option("paths", name, "what is not shown of a URI tells no stores apart")
        shown.add(name)
    return list(found)


def check_stores(paths: Sequence[str]) -> None:
    """Opens the stores that paths, URIs and globs of both name, and closes them again.

    Raises:
        MQStoreError: as :func:`mqstore.open` does.
        OptionError: as for :func:`expand`.
    """
    for path in expand(paths):
        _open_part(path, None, None, None, pread=None)


def followed(path: str, *, pread: bool | None) -> mqstore.MessageStore:
    """A whole store as it is now: queues and index dispatched."""
    known = _followed.get((path, pread))
    if known is not None and _can_go_on(path, *known):
        known[1].refresh()
        return known[1]
    if known is not None:
        known[1].close()
    opened = mqstore.open(path, pread=pread)
    _followed[path, pread] = (_identity(path, opened), opened)
    return opened


def log_of(path: str, *, pread: bool | None) -> _native.Store:
    """A store's log as it is now, with its queues as far as their files go."""
    known = _logs.get((path, pread))
    if known is not None and _can_go_on(path, *known):
        known[1]._refresh()
        return known[1]
    opened = _open_part(path, None, None, None, pread=pread)
    _logs[path, pread] = (_identity(path, opened), opened)
    return opened


def part_of(
    path: str, topics: Sequence[str], log_end: int, openings: int, *, pread: bool | None, run: str = ""
) -> _native.Store:
    """A store's log up to an end that is known, with the queue files of some topics.

    Args:
        path: The store.
        topics: Those topics.
        log_end: That end.
        openings: How many openings of the store by writers were known when what is to be read was planned.
        pread: As :func:`mqstore.open` takes it.
        run: What one that is not local was planned with: nothing else tells whether it is still what lies there.

    Raises:
        StoreNotFoundError: this machine does not see the store.
    """
    key = (path, pread, tuple(topics), openings, run)
    known = _parts.get(key)
    if known is not None and known[0] >= log_end and _is_as_opened(path, *known[1:]):
        return known[2]
    if len(_parts) >= _MAX_PARTS:
        del _parts[next(iter(_parts))]
    opened = _open_part(path, log_end, topics, openings, pread=pread)
    _parts[key] = (log_end, _identity(path, opened), opened)
    return opened


def forget_part(path: str, topics: Sequence[str], openings: int, *, pread: bool | None, run: str = "") -> None:
    """Lets go of a part, so that it is opened as it is now."""
    _parts.pop((path, pread, tuple(topics), openings, run), None)


def _can_go_on(path: str, identity: _Identity, store: "mqstore.MessageStore | _native.Store") -> bool:
    """Whether a store that is open can tell what it is now: one that is not local is as it was when it was opened."""
    return not byte_ranges.is_remote(path) and _is_still(path, identity, store)


def _is_as_opened(path: str, identity: _Identity, part: _native.Store) -> bool:
    """Whether a part is as it was, which is read and not refreshed."""
    return _is_still(path, identity, part) and part._made_anew_from() is None


def _is_still(path: str, identity: _Identity, store: "mqstore.MessageStore | _native.Store") -> bool:
    """Whether what is open is what lies there: not a store that was removed and made anew, or repaired."""
    return _identity(path, store) == identity


def _identity(path: str, store: "mqstore.MessageStore | _native.Store") -> _Identity:
    """The log's first file, which a store that has it open keeps from being another one, and the queues' folder."""
    if byte_ranges.is_remote(path):
        return None, None
    files = store._log_files()
    return _inode(files[0][0]) if files else None, _inode(Path(path, "consumequeue"))


def _inode(path: str | Path) -> _Inode:
    try:
        found = Path(path).stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def _open_part(
    path: str, log_end: int | None, topics: Sequence[str] | None, openings: int | None, *, pread: bool | None
) -> _native.Store:
    options = StoreOptions.of(byte_ranges.shown(path), {})
    ranges = byte_ranges.ranges_of(path)
    pread = reads_without_mappings(options, ranges, given=pread)
    try:
        return _native.Store(
            options.engine(compat=False, truncate_on_damage=False, pread=pread),
            writable=False,
            clock=None,
            born_host="127.0.0.1:0",
            store_host="127.0.0.1:0",
            sync_flush_timeout_ms=0,
            part=(log_end, None if topics is None else list(topics), openings),
            ranges=ranges,
        )
    except StoreNotFoundError as error:
        error.add_note(f"option path={byte_ranges.shown(path)}: {os.uname().nodename} does not see it")
        raise
