"""A log whose files get old, in the test's time."""

from pathlib import Path

import mqstore

HOUR = 3_600_000
FOUR_IN_THE_MORNING = 1_780_027_200_000
"""In UTC, which the tests' process has for its time zone."""


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        """An hour in which nothing is deleted by default."""
        self.now_ms = FOUR_IN_THE_MORNING - 2 * HOUR

    def __call__(self) -> int:
        """The time in milliseconds."""
        return self.now_ms


def fill(store: mqstore.MessageStore, files: int, topic: str = "t") -> None:
    """Puts until so many files of the log are full."""
    end = (store.get_max_phy_offset() // 65_536 + files) * 65_536
    while store.get_max_phy_offset() <= end:
        store.put_many(topic, [bytes(900)] * 10, keys=["k"] * 10, queue_id=0)
    store.flush()


def names_in(folder: Path) -> list[str]:
    """The files of a folder."""
    return [path.name for path in folder.iterdir()]


def log_files(store: mqstore.MessageStore) -> list[int]:
    """The first offsets of the log's files, in files."""
    names = sorted(names_in(store.path / "commitlog"))
    return [int(name) // 65_536 for name in names if int(name) <= store.get_max_phy_offset()]
