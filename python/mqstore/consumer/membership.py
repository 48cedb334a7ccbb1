"""Who is in a group, and who has which queue: files under ``mqstore/consumers/GROUP`` with locks.

A member holds a lock on a file of its own, and one on a byte of the group's ``queues.lock`` for each queue that it
reads: a process has fewer files open than a topic has queues. The operating
system lets go of the locks of a process that died, however it died; so nobody has to be believed dead,
and a queue never has two readers. Consumers of one process are members like those of several.
"""

import contextlib
import errno
import fcntl
import hashlib
import os
import struct
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Self

from mqstore._native import LockFile
from mqstore.errors import StoreIOError
from mqstore.option_error import bad_argument
from mqstore.store.listing import listed

__all__ = ["FileLock", "Membership", "QueueLock", "nobody_is", "nobody_joins"]

_FLOCK = struct.Struct("hhqqi0q")
"""The system's ``struct flock``: kind of lock, from where it is counted, begin, length; no process."""
_PLACE_BITS = 62
"""So many that no two topics' queues meet: of a thousand with a thousand each not once in a billion groups."""


class FileLock:
    """A lock on a file, held until it is released or the process ends, whatever processes it has forked."""

    def __init__(self, file: LockFile) -> None:
        """A file that is locked."""
        self._file = file
        self._path: Path | None = None
        """Where it is one that nobody has for long."""

    @classmethod
    def take(cls, path: Path) -> "FileLock | None":
        """Takes a lock, making the file where there is none; ``None`` where somebody has it."""
        try:
            return cls._locked(path, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return None

    @classmethod
    def wait_for(cls, path: Path) -> "FileLock":
        """Takes a lock that nobody has for long.

        Raises:
            StoreIOError: this thread has it, in whose middle a signal's handler runs: it would wait for itself.
        """
        mine = (threading.get_ident(), str(path))
        if mine in _waited_for:
            raise StoreIOError.of(f"lock {path}: {os.strerror(errno.EDEADLK)}", errno.EDEADLK, str(path))
        lock = cls._locked(path, fcntl.LOCK_EX)
        lock._path = path
        _waited_for[mine] = lock
        return lock

    @classmethod
    def _locked(cls, path: Path, how: int) -> "FileLock":
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            while True:
                # A process that is forked has no part in it.
                file = LockFile(path)
                try:
                    fcntl.flock(file, how)
                    # A file that was removed meanwhile is nobody's: the lock has to be on the one that is there.
                    if path.stat().st_ino == os.fstat(file.fileno()).st_ino:
                        return cls(file)
                    file.close()
                except FileNotFoundError:
                    file.close()
                except BaseException:
                    file.close()
                    raise
        except (BlockingIOError, StoreIOError):
            raise
        except OSError as refused:
            raise _not_locked(path, refused) from refused

    def release(self) -> None:
        """Lets go, also where a process that is being started has the open file for a moment."""
        if self._path is not None:
            _waited_for.pop((threading.get_ident(), str(self._path)), None)
        if not self._file.closed:
            fcntl.flock(self._file, fcntl.LOCK_UN)
            self._file.close()

    def __enter__(self) -> Self:
        """The lock itself."""
        return self

    def __exit__(self, *_raised: object) -> None:
        """Lets go."""
        self.release()


class QueueLock:
    """A lock on a queue, held until it is released, or dropped, or the process ends."""

    # Of one that Ctrl-C ends before it is made.
    _is_held = False

    def __init__(self, file: LockFile, place: int) -> None:
        """Of a queue that has a place in a member's open file, which nobody else's has: not locked yet."""
        self._file, self._place = file, place

    def take(self) -> bool:
        """Takes it; gives whether nobody else has it."""
        # First: Ctrl-C may come right behind the system's call.
        self._is_held = True
        try:
            self._set(fcntl.F_WRLCK)
        except BlockingIOError:
            self._is_held = False
        return self._is_held

    def release(self) -> None:
        """Lets go, also where a process that is being started has the open file for a moment."""
        if self._is_held:
            self._is_held = False
            if not self._file.closed:
                self._set(fcntl.F_UNLCK)

    __del__ = release

    def _set(self, kind: int) -> None:
        # A lock of the open file, not of the process, of which several members may be.
        fcntl.fcntl(self._file, fcntl.F_OFD_SETLK, _FLOCK.pack(kind, os.SEEK_SET, self._place, 1, 0))


def _not_locked(path: Path, refused: OSError) -> StoreIOError:
    return StoreIOError.of(f"lock {path}: {refused.strerror}", refused.errno, str(path))


@contextlib.contextmanager
def nobody_joins(folder: Path) -> Iterator[bool]:
    """Keeps consumers from joining a group meanwhile; gives whether it has members, of this process or another."""
    members = folder / "members"
    if members not in listed(folder):
        yield False
        return
    with FileLock.wait_for(folder / "members.lock"):
        yield bool(_alive(members))


@contextlib.contextmanager
def nobody_is(folder: Path, consumer_id: str) -> Iterator[bool]:
    """Keeps a consumer from joining a group meanwhile; gives whether it is no member, of this process or another."""
    with FileLock.wait_for(folder / "members.lock"):
        lock = FileLock.take(folder / "members" / consumer_id)
        if lock is None:
            yield False
            return
        with lock:
            _remove_own(folder / "members" / consumer_id)
            yield True


def _alive(members: Path) -> set[str]:
    """The members whose locks are held; what the others left behind is removed. Nobody joins meanwhile."""
    alive = set()
    for path in listed(members):
        lock = FileLock.take(path)
        if lock is None:
            alive.add(path.name)
            continue
        with lock:
            _remove_own(path)
    return alive


def _remove_own(path: Path) -> None:
    """Removes a member's file whose lock is held; one that stays is that of a member that died, for who looks next."""
    with contextlib.suppress(OSError):
        path.unlink()


class Membership:
    """A consumer's place in its group."""

    def __init__(self, folder: Path, consumer_id: str) -> None:
        """Joins the group.

        Raises:
            OptionError: another consumer of the group has this id.
            StoreIOError: the folder cannot be written to.
        """
        self._members, self._queues_path = folder / "members", folder / "queues.lock"
        self._queues: LockFile | None = None
        self._own, self._scan_lock = self._members / consumer_id, folder / "members.lock"
        # Nobody tries the members' locks while one joins.
        with FileLock.wait_for(self._scan_lock):
            lock = FileLock.take(self._own)
        if lock is None:
            raise bad_argument("consumer_id", consumer_id, "another consumer of the group has it")
        self._lock = lock

    def consumer_ids(self) -> list[str]:
        """The members that are alive, sorted; what the others left behind is removed."""
        with FileLock.wait_for(self._scan_lock):
            return sorted({self._own.name} | _alive(self._members))

    def take_queue(self, topic: str, queue_id: int) -> QueueLock | None:
        """Takes a queue that it does not have; ``None`` while another member has it.

        Raises:
            StoreIOError: the system cannot lock it.
        """
        digest = hashlib.sha256(topic.encode(errors="surrogatepass")).digest()
        # Queues of a topic side by side: the system keeps those of a member as one lock.
        place = (int.from_bytes(digest[:8]) >> (64 - _PLACE_BITS)) + queue_id
        try:
            if self._queues is None:
                # A process that is forked has no part in it.
                self._queues = LockFile(self._queues_path)
            lock = QueueLock(self._queues, place)
            return lock if lock.take() else None
        except StoreIOError:
            raise
        except OSError as refused:
            raise _not_locked(self._queues_path, refused) from refused

    def leave(self) -> None:
        """Leaves the group, and lets go of its queues."""
        if self._queues is not None:
            self._queues.close()
        _remove_own(self._own)
        self._lock.release()


_waited_for: "weakref.WeakValueDictionary[tuple[int, str], FileLock]" = weakref.WeakValueDictionary()
"""The locks that nobody has for long, by the thread that has one."""


# What is held is the other process's.
os.register_at_fork(after_in_child=_waited_for.clear)
