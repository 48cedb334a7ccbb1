"""Who is in a group, and who has which queue: files under ``mqstore/consumers/GROUP`` with locks.

A member holds a lock on a file of its own, and one on a file of each queue that it reads. The operating
system lets go of the locks of a process that died, however it died; so nobody has to be believed dead,
and a queue never has two readers. Consumers of one process are members like those of several.
"""

import contextlib
import fcntl
import os
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Self

from mqstore.errors import StoreIOError
from mqstore.option_error import bad_argument

__all__ = ["FileLock", "Membership", "nobody_joins"]


class FileLock:
    """A lock on a file, held until it is released or the process ends."""

    def __init__(self, file: IO[bytes]) -> None:
        """A file that is locked."""
        self._file = file
        _held.add(self)

    @classmethod
    def take(cls, path: Path) -> "FileLock | None":
        """Takes a lock, making the file where there is none; ``None`` where somebody has it."""
        try:
            return cls._locked(path, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return None

    @classmethod
    def wait_for(cls, path: Path) -> "FileLock":
        """Takes a lock that nobody has for long."""
        return cls._locked(path, fcntl.LOCK_EX)

    @classmethod
    def _locked(cls, path: Path, how: int) -> "FileLock":
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            while True:
                file = path.open("ab")
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
        except BlockingIOError:
            raise
        except OSError as refused:
            error = StoreIOError(f"lock {path}: {refused.strerror}")
            error.errno, error.filename = refused.errno, str(path)
            raise error from refused

    def release(self) -> None:
        """Lets go."""
        _held.discard(self)
        self._file.close()

    def __enter__(self) -> Self:
        """The lock itself."""
        return self

    def __exit__(self, *_raised: object) -> None:
        """Lets go."""
        self.release()


@contextlib.contextmanager
def nobody_joins(folder: Path) -> Iterator[bool]:
    """Keeps consumers from joining a group meanwhile; gives whether it has members, of this process or another."""
    members = folder / "members"
    if not members.is_dir():
        yield False
        return
    with FileLock.wait_for(folder / "members.lock"):
        yield bool(_alive(members))


def _alive(members: Path) -> set[str]:
    """The members whose locks are held; what the others left behind is removed. Nobody joins meanwhile."""
    alive = set()
    for path in members.iterdir():
        lock = FileLock.take(path)
        if lock is None:
            alive.add(path.name)
            continue
        with lock:
            path.unlink(missing_ok=True)
    return alive


class Membership:
    """A consumer's place in its group."""

    def __init__(self, folder: Path, consumer_id: str) -> None:
        """Joins the group.

        Raises:
            OptionError: another consumer of the group has this id.
            StoreIOError: the folder cannot be written to.
        """
        self._members, self._queues = folder / "members", folder / "queues"
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

    def take_queue(self, topic: str, queue_id: int) -> FileLock | None:
        """Takes a queue; ``None`` while another member has it."""
        # A topic can be called what no file can: its bytes in hexadecimal digits stand for it.
        return FileLock.take(self._queues / f"{topic.encode(errors='surrogatepass').hex()}-{queue_id}")

    def leave(self) -> None:
        """Leaves the group."""
        self._own.unlink(missing_ok=True)
        self._lock.release()


_held: "weakref.WeakSet[FileLock]" = weakref.WeakSet()


def _let_go() -> None:
    """In a forked process: a lock is held until all let go who have the open file."""
    for lock in list(_held):
        lock.release()


os.register_at_fork(after_in_child=_let_go)
