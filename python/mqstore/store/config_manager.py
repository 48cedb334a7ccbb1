"""What RocketMQ's configuration files share: read once, held, written back whole.

A file that is missing, empty, damaged or cannot be read gives way to the ``.bak`` beside it; where both are there and
damaged nothing is made up. What a file holds that this version does not know is kept.
Source: ``ConfigManager``.
"""

import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from mqstore.errors import MQStoreError, ReadOnlyError, StoreClosedError, StoreIOError
from mqstore.store import config_json
from mqstore.store.arguments import LONG_MAX
from mqstore.store.file_kinds import read_file

if TYPE_CHECKING:
    from mqstore._native import Engine

__all__ = [
    "ConfigManager",
    "Json",
    "checked_int",
    "checked_object",
    "of_closed_store",
    "read_only",
    "unless_damaged",
    "write_behind_log",
]

_LONG = re.compile(r"-?[0-9]{1,19}")

Json = dict[str, Any]


class ConfigManager:
    """A configuration file."""

    def __init__(self, path: Path, write: Callable[[Path, bytes], None]) -> None:
        """Reads the file; ``write`` replaces it as a whole and keeps what was there as ``.bak``.

        Raises:
            MQStoreError: file and ``.bak`` are damaged, or the one that there is.
        """
        self._path, self._write = path, write
        self._lock = threading.RLock()
        self._content: Json = {}
        self._written: bytes | None = None
        self._is_there = False
        self._has_given_way = False
        """Whether it was read from the ``.bak``, which has to stay until the file is whole again."""
        self.load()

    def load(self) -> None:
        """Reads the file again.

        Raises:
            MQStoreError: file and ``.bak`` are damaged, or the one that there is.
            StoreIOError: one of them cannot be read, and the other is no way out.
        """
        reasons: list[str] = []
        refused: OSError | None = None
        for candidate in (self._path, self._path.with_name(self._path.name + ".bak")):
            try:
                text = read_file(candidate).decode()
                if not text.strip():
                    continue
                content = checked_object("the file", config_json.loads(text))
                with self._lock:
                    self.decode(content)
                    self._content = content
                    self._has_given_way = candidate != self._path
                    self._is_there = True
            except FileNotFoundError:
                continue
            except PermissionError as error:
                # It may be whole, and the other one older.
                raise StoreIOError.of(f"read {candidate}: {error.strerror}", error.errno, str(candidate)) from error
            except OSError as error:
                refused = refused or error
                reasons.append(f"read {candidate}: {error.strerror or error}")
            except ValueError as error:
                reasons.append(f"{candidate}: expected JSON as RocketMQ writes it, {error}")
            else:
                return
        if refused is not None:
            raise StoreIOError.of("; ".join(reasons), refused.errno, refused.filename) from refused
        if reasons:
            raise MQStoreError("; ".join(reasons))

    @property
    def is_there(self) -> bool:
        """Whether there is a file, or was when it was read: an empty one counts as none."""
        return self._is_there

    def persist(self) -> None:
        """Writes the file where it would change.

        Raises:
            StoreIOError: it cannot be written; it has its old content then.
            StoreClosedError: the store is closed.
            ReadOnlyError: the file is another process's to write.
        """
        with self._lock:
            content = self._content | self.encode()
            encoded = config_json.dumps(content).encode(errors="replace")
            if encoded != self._written:
                # Beside a writer the damaged file is left to it as well.
                if self._has_given_way and self._write is not read_only:
                    self._set_aside()
                self._write(self._path, encoded)
                self._content, self._written, self._is_there = content, encoded, True

    def persist_if_free(self) -> bool:
        """Writes it, unless another thread is at it; gives whether that was so.

        Raises:
            MQStoreError: as for :meth:`persist`.
        """
        if not self._lock.acquire(blocking=False):
            return False
        try:
            self.persist()
        finally:
            self._lock.release()
        return True

    def _set_aside(self) -> None:
        """Keeps a damaged file under another name: the next one's ``.bak`` would be it, and the one that is not go.

        Raises:
            StoreIOError: it cannot be renamed.
        """
        try:
            self._path.rename(self._path.with_name(self._path.name + ".damaged"))
        except FileNotFoundError:
            pass
        except OSError as refused:
            text = f"rename {self._path}: {refused.strerror}"
            raise StoreIOError.of(text, refused.errno, str(self._path)) from refused
        self._has_given_way = False

    def end(self) -> None:
        """The store is about to be closed: from now on the file may be another writer's."""
        with self._lock:
            self._write, self._has_given_way = of_closed_store, False

    def abandon(self) -> None:
        """In a forked process: the file is the other one's to write, and so may be the lock."""
        self._lock = threading.RLock()
        self._write, self._has_given_way = of_closed_store, False

    def decode(self, content: Json) -> None:
        """Takes over what a file holds.

        Raises:
            ValueError: it is not what the file has to hold; nothing was taken over.
        """
        raise NotImplementedError

    def encode(self) -> Json:
        """What the file has to hold."""
        raise NotImplementedError

    def next_version(self, now_ms: int) -> Json:
        """The file's next ``dataVersion``. Source: ``DataVersion.nextVersion``."""
        version = self._content.get("dataVersion")
        counter = version.get("counter", 0) if isinstance(version, dict) else 0
        return {"counter": (counter if isinstance(counter, int) else 0) + 1, "timestamp": now_ms}


def checked_object(what: str, value: object) -> Json:
    """A value that has to be an object.

    Raises:
        ValueError: it is none.
    """
    if not isinstance(value, dict):
        raise ValueError(f"{what}: expected an object, found {_shown(value)}")
    return value


def checked_int(what: str, value: object, most: int = LONG_MAX) -> int:
    """A value that has to be a number of Java's: a ``long``, or by its largest one an ``int``.

    Raises:
        ValueError: it is none.
    """
    if isinstance(value, str) and _LONG.fullmatch(value):
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not -most - 1 <= value <= most:
        raise ValueError(f"{what}: expected a number, found {_shown(value)}")
    return value


def _shown(value: object) -> str:
    return repr(value)[:80]


def of_closed_store(path: Path, _content: bytes) -> None:
    """Refuses to write a file of a store that is closed.

    Raises:
        StoreClosedError: always.
    """
    raise StoreClosedError(f"{path} is not written: the store is closed")


def write_behind_log(engine: "Engine", *, is_writer: bool = True) -> Callable[[Path, bytes], None]:
    """What replaces a file of offsets once the log is on the disk, as far as it has been put or was seen.

    Offsets say that what stands before them is done. Were the log to lose that, what is put next would get the
    same places in its queues, and be passed over.
    """

    def write(path: Path, content: bytes) -> None:
        if is_writer:
            engine.commit(0)
            engine.flush_commit_log(0)
        else:
            engine.sync_log_seen()
        engine.replace_config(path, content)

    return write


def read_only(path: Path, _content: bytes) -> None:
    """Refuses to write a file that somebody else writes.

    Raises:
        ReadOnlyError: always.
    """
    raise ReadOnlyError(f"{path} is somebody else's to write")


_Opened = TypeVar("_Opened", bound=ConfigManager)


def unless_damaged(read: Callable[[], _Opened]) -> _Opened | None:
    """What a file holds, for who can do without one that is damaged; ``None`` of such.

    Raises:
        StoreIOError: it cannot be read: what it holds is not known.
    """
    try:
        return read()
    except StoreIOError:
        raise
    except MQStoreError:
        return None
