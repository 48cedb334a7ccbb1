"""Listing folders. One that may not be listed is an error: ``Path.glob`` takes it for an empty one without a word."""

import os
from collections.abc import Iterator
from pathlib import Path

from mqstore.errors import StoreIOError

__all__ = ["listed", "listed_below"]


def listed(folder: Path) -> list[Path]:
    """What is in a folder, sorted; nothing where there is none.

    Raises:
        StoreIOError: it cannot be listed.
    """
    return [Path(entry.path) for entry in _entries(folder)]


def listed_below(folder: Path) -> Iterator[Path]:
    """What is in a folder and in those below it, which links do not lead to; nothing where there is none.

    Raises:
        StoreIOError: one cannot be listed.
    """
    folders = [folder]
    while folders:
        for entry in _entries(folders.pop()):
            yield Path(entry.path)
            if entry.is_dir(follow_symlinks=False):
                folders.append(Path(entry.path))


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as refused:
        text = f"list the folder {folder}: {refused.strerror}"
        raise StoreIOError.of(text, refused.errno, str(folder)) from refused
