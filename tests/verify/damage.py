"""Stores with small files, and damage in their logs."""

from pathlib import Path

from tests.compat.streams import SMALL_FILES
from tests.store_files import HEAD_SIZE

__all__ = [
    "BODY_AT",
    "LOG_FILE_SIZE",
    "QUEUE_FILE_UNITS",
    "QUEUE_OFFSET_AT",
    "interrupted",
    "lose",
    "overwrite",
]

LOG_FILE_SIZE = int(SMALL_FILES["mappedFileSizeCommitLog"])
QUEUE_FILE_UNITS = int(SMALL_FILES["mappedFileSizeConsumeQueue"]) // 20
BODY_AT = HEAD_SIZE
"""Where a record has its body."""
QUEUE_OFFSET_AT = 20
"""Where a record has its offset in its queue."""


def overwrite(store: Path, offset: int, content: bytes) -> None:
    """Overwrites bytes of the log."""
    with (store / f"commitlog/{offset // LOG_FILE_SIZE * LOG_FILE_SIZE:020}").open("r+b") as file:
        file.seek(offset % LOG_FILE_SIZE)
        file.write(content)


def lose(store: Path, offset: int) -> None:
    """Overwrites a record's size and magic code."""
    overwrite(store, offset, b"\1" * 8)


def interrupted(*_: object, **__: object) -> None:
    """Ctrl-C where something is called."""
    raise KeyboardInterrupt
