"""Stores that do not lie on this machine's disks: whatever ``pyarrow.fs`` opens, read by byte ranges.

A store is named by a URI, ``s3://bucket/store``, or by a path and a file system of pyarrow. It is only
read: listings and ranges are all that is asked for. What a URI says beside the place (who asks, and how
the server is reached) may be secret, so no name and no error has it.
"""

import contextlib
import fnmatch
import functools
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self
from urllib.parse import quote, unquote, urlencode

from mqstore.errors import MQStoreError, OptionError, StoreIOError
from mqstore.option_error import HIDDEN_PARAMETER, bad_option
from mqstore.store.arguments import expected_other

if TYPE_CHECKING:
    from pyarrow.fs import FileInfo, FileSystem

__all__ = [
    "ByteRanges",
    "RangeReader",
    "check_local",
    "expand",
    "folder_to_write",
    "is_remote",
    "local_folder",
    "local_path",
    "ranges_of",
    "refuse_remote",
    "resolved",
    "shown",
    "with_parameters",
]

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_ONE_SLASH = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
_FILE = "file:"
_MAGIC = re.compile(r"[*\[]")
_HOST = 2
"""Which part of a URI, taken apart at slashes, is the host or bucket."""
_SECRET = re.compile(HIDDEN_PARAMETER, re.IGNORECASE)
"""What a parameter with a secret value is called."""
_USER, _PASSWORD = "access_key", "secret_key"
"""Parameters that go before the host of a URI, where pyarrow looks for them."""


def is_remote(path: str | os.PathLike[str]) -> bool:
    """Whether a path is a URI of another file system than this machine's."""
    text = os.fspath(path)
    return _SCHEME.match(text) is not None and not text.lower().startswith("file://")


def local_path(path: str | os.PathLike[str]) -> str:
    """The path on this machine that a path or a ``file`` URI names, with one slash or three.

    Of a URI ``%23`` and the like are unquoted. All behind its host is the path: in a folder's name ``#`` and ``?``
    are rarely quoted, and a file has neither parameters nor parts.

    Raises:
        OptionError: the URI names another machine or file system, or nothing is named.
    """
    text = os.fspath(path)
    found = text
    if text.lower().startswith(_FILE):
        found = _path_of_file_uri(text)
    elif _ONE_SLASH.match(text) is not None and not Path(text).exists():
        # Else what was meant for another machine would go to a folder that is made here.
        folder = os.path.abspath(text)  # noqa: PTH100 - as it is given, links and all
        raise _bad_path(
            text, f"a URI of another file system has // behind its scheme; a folder here of this name is {folder}"
        )
    if not found:
        raise _bad_path(text, "it names no folder; the current one is .")
    return found


def _path_of_file_uri(uri: str) -> str:
    """The path of a URI that begins with ``file:``; the part that says the machine may be missing."""
    rest = uri[len(_FILE) :]
    if rest.startswith("//"):
        host, slash, folder = rest[2:].partition("/")
        if host.lower() not in {"", "localhost"}:
            raise _bad_path(uri, f"it names the machine {host}; a file URI begins with file:///")
        rest = slash + folder
    if rest and not rest.startswith("/"):
        raise _bad_path(uri, "a file URI begins with file:/ or file:///")
    return unquote(rest)


def shown(path: str) -> str:
    """A path as it may be shown and kept: of a URI the place alone, without keys and parameters."""
    if not is_remote(path):
        return path
    scheme, _, rest = path.partition("://")
    return f"{scheme}://{_user_and_place(rest.partition('?')[0])[1].rstrip('/')}"


def _user_and_place(named: str) -> tuple[str, str]:
    """Who asks, and for what, of a URI between its scheme and its parameters."""
    host, slash, folder = named.partition("/")
    user, at, host_alone = host.rpartition("@")
    # A secret may have slashes in it that should have been quoted: what stands before one is no port then.
    name, colon, port = host.rpartition(":")
    if not at and colon and name and not port.isdigit() and "@" in folder:
        user, _, place = named.rpartition("@")
        return user, place
    return user, f"{host_alone}{slash}{folder}"


def with_parameters(path: str, given: Mapping[str, str]) -> str:
    """A URI with further parameters of its file system; ``access_key`` and ``secret_key`` go before its host."""
    if not given:
        return path
    scheme, _, rest = path.partition("://")
    place, _, query = rest.partition("?")
    keys = ":".join(quote(given[name], safe="") for name in (_USER, _PASSWORD) if name in given)
    query = "&".join(filter(None, [query, urlencode({k: v for k, v in given.items() if k not in {_USER, _PASSWORD}})]))
    return f"{scheme}://{keys + '@' if keys else ''}{place}{'?' + query if query else ''}"


class RangeReader(Protocol):
    """An open file."""

    def size(self) -> int:
        """Its bytes."""

    def read_at(self, nbytes: int, offset: int) -> bytes:
        """Bytes from an offset on; fewer at the end of the file."""


class ByteRanges:
    """A folder on a file system of pyarrow. The engine calls it."""

    def __init__(self, filesystem: "FileSystem", folder: str, *, name: str, secrets: tuple[str, ...] = ()) -> None:
        """A folder, and what it is called.

        Args:
            filesystem: What it lies on.
            folder: Its path there.
            name: What it is called in paths and errors.
            secrets: What no error shows.
        """
        self._filesystem, self._folder = filesystem, folder.rstrip("/")
        self._secrets = secrets
        self.name = name

    @classmethod
    def of(cls, uri: str) -> Self:
        """The folder that a URI names.

        Raises:
            OptionError: pyarrow does not know such a URI, or can't open its file system.
        """
        filesystem, folder = _opened(uri)
        return cls(filesystem, folder, name=shown(uri), secrets=_secrets(uri))

    @classmethod
    def on(cls, filesystem: "FileSystem", folder: str) -> Self:
        """A folder on a file system of pyarrow.

        Raises:
            TypeError: it is none.
        """
        if not hasattr(filesystem, "type_name"):
            raise expected_other("filesystem", filesystem, "a file system of pyarrow")
        kind = filesystem.type_name.rpartition("::")[2]
        return cls(filesystem, folder, name=f"{kind}://{folder.strip('/')}")

    def list_below(self, folder: str, recursive: bool) -> list[tuple[str, bool, int | None, int]] | None:  # noqa: FBT001 - the engine's call
        """What is in a folder: path below it, whether it is a folder, bytes, time of change in milliseconds.

        Gives ``None`` where there is no folder.
        """
        from pyarrow.fs import FileSelector, FileType  # noqa: PLC0415 - an extra

        base = self._path(folder)
        try:
            found = self._filesystem.get_file_info(FileSelector(base, recursive=recursive))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except Exception as error:
            raise self._told(error) from None
        return [
            (self._below(base, info), info.type == FileType.Directory, info.size, _modified_ms(info)) for info in found
        ]

    def open(self, path: str) -> RangeReader:
        """Opens a file."""
        try:
            return _Reader(self, self._filesystem.open_input_file(self._path(path)))
        except Exception as error:
            raise self._told(error) from None

    def _folders(self, below: str, pattern: str) -> list[str]:
        """The folders in a folder whose names match, in order.

        Raises:
            StoreIOError: it can't be listed.
        """
        try:
            found = self.list_below(below.lstrip("/"), recursive=False) or []
        except OSError as error:
            raise StoreIOError(f"list {self.name}{below}: {error}") from None
        return sorted(name for name, is_dir, *_ in found if is_dir and fnmatch.fnmatchcase(name, pattern))

    def _path(self, below: str) -> str:
        return "/".join(filter(None, [self._folder, below])) if self._folder else below

    def _below(self, base: str, info: "FileInfo") -> str:
        """A listed file's path below what was listed; as it is where it is not below it, which is refused."""
        path: str = info.path.rstrip("/")
        for prefix in (f"{base.rstrip('/')}/", f"{base.strip('/')}/"):
            if path.startswith(prefix):
                return path[len(prefix) :]
        return path.lstrip("/") if not base else f"/{path}"

    def _told(self, error: Exception) -> OSError:
        """An error of the file system in one line, without what is secret."""
        text = " ".join(str(error).split("\n", 1)[0].split()) or type(error).__name__
        for secret in self._secrets:
            text = text.replace(secret, "***")
        kind = next((kind for kind in (FileNotFoundError, PermissionError) if isinstance(error, kind)), OSError)
        return kind(text if isinstance(error, OSError) else f"{type(error).__name__}: {text}")


class _Reader:
    """An open file of pyarrow."""

    def __init__(self, ranges: ByteRanges, file: Any) -> None:
        self._ranges, self._file = ranges, file

    def __del__(self) -> None:
        # The engine lets go of a file that is no longer used; what is closed by nobody stays open there.
        with contextlib.suppress(Exception):
            self._file.close()

    def size(self) -> int:
        try:
            return int(self._file.size())
        except Exception as error:
            raise self._ranges._told(error) from None

    def read_at(self, nbytes: int, offset: int) -> bytes:
        try:
            found: bytes = self._file.read_at(nbytes, offset)
        except Exception as error:
            raise self._ranges._told(error) from None
        return found


def expand(pattern: str) -> list[str]:
    """The URIs of the stores that a URI with ``*`` or ``[...]`` in its path names; another is its own.

    Raises:
        OptionError: it names no store, or its file system can't be opened.
        StoreIOError: a folder can't be listed.
    """
    place, question, query = pattern.partition("?")
    parts = place.rstrip("/").split("/")
    first = next((at for at, part in enumerate(parts) if at > _HOST and _MAGIC.search(part)), None)
    if first is None:
        return [pattern]
    above = "/".join(parts[:first])
    ranges = ByteRanges.of(above + question + query)
    names = [""]
    for part in parts[first:]:
        names = [f"{known}/{name}" for known in names for name in ranges._folders(known, unquote(part))]
    stores = [name for name in names if ranges._folders(name, "commitlog")]
    if not stores:
        raise _bad_path(pattern, "it names no folder with a commitlog in it")
    return [f"{above}{quote(name)}{question}{query}" for name in stores]


def resolved(path: str | os.PathLike[str]) -> str:
    """A store's path in the one spelling by which it is known: a folder's real path, a URI as it is."""
    return os.fspath(path) if is_remote(path) else os.path.realpath(local_path(path))


def ranges_of(path: str | os.PathLike[str]) -> ByteRanges | None:
    """What reads the store of a path, where it is not local.

    Raises:
        OptionError: pyarrow does not know such a URI, or can't open its file system.
    """
    return ByteRanges.of(os.fspath(path)) if is_remote(path) else None


def local_folder(root: str, ranges: ByteRanges | None) -> Path:
    """The folder of a store that is open.

    Raises:
        MQStoreError: it is not on this machine's disks.
    """
    if ranges is not None:
        raise _not_local(ranges.name)
    return Path(root)


def check_local(path: str | os.PathLike[str]) -> None:
    """Refuses a store that is not on this machine's disks by its name, before it is looked for.

    Raises:
        MQStoreError: it is not.
    """
    if is_remote(path):
        raise _not_local(shown(os.fspath(path)))


def _not_local(name: str) -> MQStoreError:
    return MQStoreError(f"{name} is not local: this needs a store on this machine's disks")


def refuse_remote(option: str, path: str | os.PathLike[str]) -> None:
    """Refuses a place to write to that is not local.

    Raises:
        OptionError: it is not.
    """
    if is_remote(path):
        name = shown(os.fspath(path))
        raise bad_option(option, name, "what is not on this machine's disks is only read")


def folder_to_write(option: str, path: str | os.PathLike[str]) -> str:
    """The real path of a folder that an option names as the place for what is made.

    Raises:
        OptionError: it is not local, or is the root, which would be filled with it.
    """
    refuse_remote(option, path)
    folder = resolved(path)
    if not Path(folder).name:
        raise bad_option(option, folder, "expected a folder in another one")
    return folder


@functools.lru_cache(maxsize=32)
def _opened(uri: str) -> "tuple[FileSystem, str]":
    if not uri.partition("://")[2].partition("?")[0]:
        raise _bad_path(uri, "it names no folder")
    try:
        from pyarrow.fs import FileSystem  # noqa: PLC0415 - an extra
    except ModuleNotFoundError:
        raise _bad_path(uri, "this needs pyarrow: pip install 'mqstore[arrow]'") from None
    try:
        filesystem, folder = FileSystem.from_uri(uri)
    except Exception as error:
        text = " ".join(str(error).split("\n", 1)[0].split())
        for secret in (uri, *_secrets(uri)):
            text = text.replace(secret, "***")
        raise _bad_path(uri, text or type(error).__name__) from None
    return filesystem, folder


def _secrets(uri: str) -> tuple[str, ...]:
    """What stands in a URI and is not to be shown, as it is there and as it is meant."""
    place, _, query = uri.partition("://")[2].partition("?")
    user = _user_and_place(place)[0]
    found = user.split(":")
    found += [value for name, _, value in (part.partition("=") for part in query.split("&")) if _SECRET.search(name)]
    return tuple(sorted({value for quoted in found if quoted for value in (quoted, unquote(quoted))}, key=len))[::-1]


def _modified_ms(info: "FileInfo") -> int:
    return 0 if info.mtime_ns is None else int(info.mtime_ns // 1_000_000)


def _bad_path(path: str, reason: str) -> OptionError:
    return bad_option("path", shown(path), reason)
