"""Folders where a store has files, and files where it has folders.

The operating system refuses what is tried with them in words that name neither what belongs there nor what to do.
"""

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from mqstore.errors import StoreIOError, StoreLayoutError
from mqstore.store.byte_ranges import is_remote

__all__ = ["layout_told", "read_file", "wrong_kind", "wrong_kinds"]

_FOLDER, _FILE = "a folder", "a file"
_FOLDERS = ("config", "consumequeue", "mqstore")
_FILES = (
    "checkpoint",
    *(f"mqstore/{name}" for name in ("closed", "positions", "published", "removed_queues")),
    *(
        f"config/{name}.json"
        for name in ("topics", "subscriptionGroup", "consumerOffset", "lmqConsumerOffset", "delayOffset")
    ),
)


def wrong_kinds(store: str) -> Iterator[tuple[str, str, str]]:
    """What of a store that is on this machine's disks is of another kind than belongs there.

    Args:
        store: Its path; of another file system nothing is looked at.

    Yields:
        The path, what belongs there, and what is there.
    """
    if is_remote(store):
        return
    for expected, names in ((_FOLDER, _FOLDERS), (_FILE, _FILES)):
        for path in (Path(store, name) for name in names):
            found = _kind(path)
            if found not in {None, expected}:
                yield str(path), expected, str(found)


def wrong_kind(path: str, expected: str, found: str) -> StoreLayoutError:
    """The error that tells of something that is of another kind than belongs there."""
    error = StoreLayoutError(
        f"{path}: expected {expected}, found {found}; move it out of the store, or restore what was there"
    )
    error.path, error.expected, error.found = path, expected, found
    return error


def _no_folder(store: str) -> StoreLayoutError:
    found = str(_kind(Path(store)))
    error = StoreLayoutError(f"{store}: expected a store, which is {_FOLDER}, found {found}")
    error.path, error.expected, error.found = store, _FOLDER, found
    return error


@contextlib.contextmanager
def layout_told(store: str) -> Iterator[None]:
    """Has what the operating system refuses for a file's kind told with what belongs there, where that is known.

    Raises:
        StoreLayoutError: it is.
    """
    try:
        yield
    except StoreIOError as error:
        if error.errno in {errno.EISDIR, errno.ENOTDIR}:
            if not is_remote(store) and _kind(Path(store)) not in {None, _FOLDER}:
                raise _no_folder(store) from error
            for path, expected, found in wrong_kinds(store):
                if Path(path) in (Path(str(error.filename)), *Path(str(error.filename)).parents):
                    raise wrong_kind(path, expected, found) from error
        raise


def _kind(path: Path) -> str | None:
    """What is there; ``None`` for nothing, or what can't be looked at."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return None
    if stat.S_ISDIR(mode):
        return _FOLDER
    return _FILE if stat.S_ISREG(mode) else _other_kind(mode)


def _other_kind(mode: int) -> str:
    if stat.S_ISFIFO(mode):
        return "a FIFO"
    return "a socket" if stat.S_ISSOCK(mode) else "a device"


def read_file(path: Path) -> bytes:
    """What a file holds. Nobody is waited for who is at the other end of what is none.

    Raises:
        ValueError: a FIFO, a socket or a device is there.
        OSError: it cannot be read.
    """
    with open(path, "rb", opener=_open_file) as file:
        return file.read()


def _open_file(path: str, flags: int) -> int:
    try:
        handle = os.open(path, flags | os.O_NONBLOCK)
    except OSError as error:
        # A socket says the one, and the other a file that a server has lent out and is to be given back first.
        if error.errno not in {errno.ENXIO, errno.EWOULDBLOCK}:
            raise
        _check_is_file(Path(path).stat().st_mode)
        return os.open(path, flags)
    try:
        # What was there before it was opened may be something else by now.
        _check_is_file(os.fstat(handle).st_mode)
    except BaseException:
        os.close(handle)
        raise
    return handle


def _check_is_file(mode: int) -> None:
    """Refuses what is there instead of a file; a folder says so itself."""
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise ValueError(f"found {_other_kind(mode)}")
