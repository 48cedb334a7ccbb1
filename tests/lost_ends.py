"""Logs whose end was on the disk and is not there any more."""

from collections.abc import Callable
from pathlib import Path

import mqstore
from tests.compat.streams import SMALL_FILES

__all__ = ["COUNT", "FROM_FILES", "change_last_body", "log_files", "make", "remove_all"]

COUNT = 300
"""Messages of the one queue of such a store."""


def make(path: Path) -> int:
    """A closed store of several log files; gives where its log ends."""
    with mqstore.open(path, "rw", **SMALL_FILES) as opened:
        for number in range(COUNT):
            opened.put("t", b"x" * 600, keys=f"k{number}", queue_id=0)
        assert len(log_files(path)) > 2
        return opened.get_max_phy_offset()


def log_files(path: Path) -> list[Path]:
    """The files of a store's log."""
    return sorted((path / "commitlog").iterdir())


def remove_all(path: Path) -> None:
    """As where the log's disk is not mounted."""
    for file in log_files(path):
        file.unlink()


def remove_last(path: Path) -> None:
    """Removes the newest file."""
    log_files(path)[-1].unlink()


def zero_last(path: Path) -> None:
    """Leaves zeros in the newest file."""
    file = log_files(path)[-1]
    file.write_bytes(bytes(file.stat().st_size))


def change_last_body(path: Path) -> None:
    """Changes bytes in the body of the last record."""
    file = log_files(path)[-1]
    written = bytearray(file.read_bytes())
    at = written.rindex(b"x" * 600)
    written[at : at + 4] = b"else"
    file.write_bytes(written)


FROM_FILES: tuple[Callable[[Path], None], ...] = (remove_all, remove_last, zero_last)
"""Ways to lose more than a record."""
