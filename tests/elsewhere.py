"""File systems that are not local: one that counts and lies, and an S3 server on this machine."""

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import urlencode

import pyarrow as pa
from moto.server import ThreadedMotoServer
from pyarrow import fs

__all__ = ["KEY", "SECRET", "Asked", "S3Server", "elsewhere", "s3_server"]

KEY, SECRET = "an-access-key", "a secret/key+with:signs"


@dataclass
class Asked:
    """What was asked of a file system, and the lies that it tells."""

    ranges: list[tuple[str, int, int]] = field(default_factory=list)
    """File's name, offset and bytes of every range that was read."""
    listed: list[str] = field(default_factory=list)
    """Folders that were listed."""
    say: Callable[[fs.FileInfo], fs.FileInfo | None] = lambda info: info
    """What is said of a file in place of the truth."""
    read: Callable[[str, int, bytes], bytes] = lambda _name, _offset, found: found
    """What is given for a range in place of what is there; may raise."""

    @property
    def size(self) -> int:
        """Bytes that were read."""
        return sum(size for _, _, size in self.ranges)

    def size_of(self, part: str) -> int:
        """Bytes that were read below a folder of the store."""
        return sum(size for name, _, size in self.ranges if f"/{part}/" in name)


class _File:
    """A file that counts what is read of it."""

    closed = False

    def __init__(self, name: str, file: BinaryIO, asked: Asked) -> None:
        self._name, self._file, self._asked = name, file, asked

    def seek(self, *where: int) -> int:
        return self._file.seek(*where)

    def tell(self) -> int:
        return self._file.tell()

    def size(self) -> int:
        return os.fstat(self._file.fileno()).st_size

    def read(self, size: int = -1) -> bytes:
        offset = self._file.tell()
        self._asked.ranges.append((self._name, offset, size))
        return self._asked.read(self._name, offset, self._file.read(size))

    def close(self) -> None:
        self._file.close()


class _Handler(fs.FileSystemHandler):  # type: ignore[misc]  # pyarrow has no types
    """A local folder as another file system."""

    def __init__(self, root: Path, asked: Asked) -> None:
        self._inner, self._asked = fs.SubTreeFileSystem(str(root), fs.LocalFileSystem()), asked
        self._root = root

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def get_type_name(self) -> str:
        return "elsewhere"

    def get_file_info(self, paths: list[str]) -> list[fs.FileInfo]:
        found: list[fs.FileInfo] = self._inner.get_file_info(paths)
        return found

    def get_file_info_selector(self, selector: fs.FileSelector) -> list[fs.FileInfo]:
        self._asked.listed.append(selector.base_dir)
        said = (self._asked.say(info) for info in self._inner.get_file_info(selector))
        return [info for info in said if info is not None]

    def open_input_file(self, path: str) -> pa.PythonFile:
        return pa.PythonFile(_File(path, (self._root / path).open("rb"), self._asked), mode="r")

    def _refused(self, *_: Any, **__: Any) -> Any:
        raise AssertionError("a store that is not local is only read")

    normalize_path = staticmethod(lambda path: path)
    create_dir = delete_dir = delete_dir_contents = delete_file = move = copy_file = _refused
    delete_root_dir_contents = open_input_stream = open_output_stream = open_append_stream = _refused


def elsewhere(root: Path) -> tuple[fs.FileSystem, Asked]:
    """A folder as a file system that is not local, and what is asked of it."""
    asked = Asked()
    return fs.PyFileSystem(_Handler(root, asked)), asked


@dataclass(frozen=True)
class S3Server:
    """A server on this machine that speaks S3."""

    endpoint: str

    def filesystem(self) -> fs.S3FileSystem:
        """A client."""
        return fs.S3FileSystem(
            access_key=KEY,
            secret_key=SECRET,
            region="us-east-1",
            scheme="http",
            endpoint_override=self.endpoint,
            allow_bucket_creation=True,
        )

    def uri(self, path: str) -> str:
        """The URI of a path, without keys."""
        query = urlencode({"region": "us-east-1", "scheme": "http", "endpoint_override": self.endpoint})
        return f"s3://{path}?{query}"

    def upload(self, folder: Path, to: str) -> None:
        """Copies a folder to a bucket."""
        client = self.filesystem()
        client.create_dir(to.partition("/")[0])
        for path in folder.rglob("*"):
            if path.is_file():
                with client.open_output_stream(f"{to}/{path.relative_to(folder)}") as out:
                    out.write(path.read_bytes())


@contextlib.contextmanager
def s3_server() -> Iterator[S3Server]:
    """Such a server, on a free port."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        _, port = server.get_host_and_port()
        yield S3Server(f"127.0.0.1:{port}")
    finally:
        server.stop()
