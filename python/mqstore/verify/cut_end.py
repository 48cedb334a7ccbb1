"""What stands behind a log's end, where a store that is whole has zeros: a repair cuts it, and has to say so."""

import errno
import os
import struct
from collections.abc import Iterator
from pathlib import Path

from mqstore import _native
from mqstore.options import StoreOptions

__all__ = ["cut_end"]

_AT_ONCE = 1 << 20
_BLANK = struct.Struct(">ii")
"""Its size and its magic code."""
_BLANK_MAGIC_CODE = -875_286_124


def cut_end(view: _native.LogView, options: StoreOptions) -> tuple[int, int] | None:
    """From where to where something is written behind a log's end; ``None`` where there are zeros alone.

    No record that checks out is there, or the log would go on. It goes from the end on, and as far as files follow.

    Args:
        view: The log.
        options: Those of its store, which is on this machine's disks.

    Raises:
        OSError: a file can't be read.
    """
    folders = [Path(folder) for folder in options.log_folders()]
    reached, begin = view.end, view.end - view.end % view.log_file_size
    while (path := _file(folders, begin)) is not None:
        written = _written_to(path, max(view.end - begin, 0))
        is_blank = begin <= view.end and written is not None and _ends_file(path, view.end - begin, written)
        reached = reached if written is None or is_blank else begin + written
        begin += view.log_file_size
    return (view.end, reached) if reached > view.end else None


def _file(folders: list[Path], begin: int) -> Path | None:
    """The log's file that begins at an offset."""
    return next((path for folder in folders if (path := folder / f"{begin:020}").is_file()), None)


def _ends_file(path: Path, at: int, to: int) -> bool:
    """Whether only the blank that ends a file is written from a place on, as where the next file is gone."""
    with path.open("rb") as file:
        file.seek(at)
        return to - at == _BLANK.size and _BLANK.unpack(file.read(_BLANK.size)) == (
            path.stat().st_size - at,
            _BLANK_MAGIC_CODE,
        )


def _written_to(path: Path, begin: int) -> int | None:
    """Behind the last byte of a file that is not zero, where there is one from a place on."""
    last = None
    with path.open("rb", buffering=0) as file:
        for at, to in _on_disk(file.fileno(), begin):
            for place in range(at, to, _AT_ONCE):
                found = os.pread(file.fileno(), min(_AT_ONCE, to - place), place).rstrip(b"\0")
                last = place + len(found) if found else last
    return last


def _on_disk(file: int, at: int) -> Iterator[tuple[int, int]]:
    """The parts of a file from a place on that have blocks: of a file made at full length most has none."""
    while True:
        try:
            at = os.lseek(file, at, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:  # nothing behind has
                return
            raise
        to = os.lseek(file, at, os.SEEK_HOLE)
        yield at, to
        at = to
