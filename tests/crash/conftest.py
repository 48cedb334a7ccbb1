"""Where the stores of these tests lie."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

_IN_MEMORY = Path("/dev/shm")  # noqa: S108 - folders of random names are made in it


def _folder() -> "tempfile.TemporaryDirectory[str]":
    """A folder in memory where there is such a file system: killing a process does not lose what is there.

    What is flushed a hundred times a second is flushed at no cost there.
    """
    in_memory = _IN_MEMORY.is_dir() and os.access(_IN_MEMORY, os.W_OK)
    return tempfile.TemporaryDirectory(prefix="mqstore-crash-", dir=_IN_MEMORY if in_memory else None)


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """An empty folder for the test."""
    with _folder() as folder:
        yield Path(folder)


@pytest.fixture(scope="module")
def module_path() -> Iterator[Path]:
    """An empty folder for a module's tests."""
    with _folder() as folder:
        yield Path(folder)
