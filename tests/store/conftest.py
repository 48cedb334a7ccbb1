"""Small stores to test on."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import mqstore
from tests.store.aging import Clock

SMALL: dict[str, Any] = {
    "mappedFileSizeCommitLog": 65_536,
    "mappedFileSizeConsumeQueue": 1000,
    "maxHashSlotNum": 97,
    "maxIndexNum": 400,
    # However long a disk takes that others use.
    "syncFlushTimeout": 60_000,
}

Opener = Callable[..., mqstore.MessageStore]


def open_rw(folder: Path, **given: Any) -> mqstore.MessageStore:
    """Opens a store with small files, which the test closes or drops itself."""
    return mqstore.open(folder, "rw", **(SMALL | given))


@pytest.fixture
def open_store(tmp_path: Path) -> Iterator[Opener]:
    """Opens stores with small files; they are closed when the test ends."""
    opened: list[mqstore.MessageStore] = []

    def opener(name: str = "store", mode: str = "rw", **given: Any) -> mqstore.MessageStore:
        store = mqstore.open(tmp_path / name, mode, **(SMALL | given))
        opened.append(store)
        return store

    yield opener
    for store in opened:
        store.close()


@pytest.fixture
def store(open_store: Opener) -> mqstore.MessageStore:
    """An empty store, open for writing."""
    return open_store()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[Clock]:
    """A clock in the test's hand, and the time zone that it is read in."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield Clock()
    monkeypatch.undo()
    time.tzset()
