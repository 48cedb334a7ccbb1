"""Small stores to test on, and a clock in the test's hand."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.services.ha_peers import Pair, RawMaster
from tests.store.conftest import open_store, store

__all__ = ["HandClock", "clock", "open_store", "store"]


class HandClock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        """Some day in 2026."""
        self.now_ms = 1_780_000_000_000

    def __call__(self) -> int:
        """The time in milliseconds."""
        return self.now_ms


@pytest.fixture
def clock() -> Callable[[], int]:
    """A clock that stands still until it is moved."""
    return HandClock()


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    """Stores that are closed when the test ends."""
    pair = Pair(tmp_path)
    yield pair
    pair.close()


@pytest.fixture
def raw_master() -> Iterator[RawMaster]:
    """A master in the test's hand."""
    master = RawMaster()
    yield master
    master.close()
