"""Fills a disk but for a few blocks, whose blocks are smaller than a page; run by ``test_full_disk``.

``python -m tests.crash.small_blocks DIRECTORY`` with a small file system of its own at the directory.
"""

import contextlib
import os
import sys
from pathlib import Path

import mqstore
from mqstore import DiskFullError
from tests.crash.checks import check_messages
from tests.crash.killing import Acknowledged
from tests.crash.stream import body_of
from tests.crash.test_sigkill import SMALL

BLOCKS = range(16)
"""So many are left: fewer and more than a page has."""
OPTIONS = SMALL | {"maxHashSlotNum": 100, "maxIndexNum": 40}
"""Its index goes on in a new file all the time."""
PUTS = 1000


def _fill(ballast: Path, left_count: int) -> None:
    disk = os.statvfs(ballast.parent)
    with ballast.open("wb") as file, contextlib.suppress(OSError):
        os.posix_fallocate(file.fileno(), 0, max(1, (disk.f_bavail - left_count) * disk.f_frsize))


def _put(store: mqstore.MessageStore, acks: list[Acknowledged], number: int) -> None:
    name = f"0.0.{number}"
    done = store.put("orders", body_of(name), keys=name, queue_id=0)
    acks.append(Acknowledged(name, "orders", 0, done.wrote_offsets[0], done.logics_offsets[0]))


def _fill_and_go_on(disk: Path, left_count: int) -> None:
    acks: list[Acknowledged] = []
    ballast, folder = disk / "ballast", disk / f"store{left_count}"
    with mqstore.open(folder, "rw", **OPTIONS) as store:
        for number in range(PUTS // 3 + 7 * left_count):
            _put(store, acks, number)
        _fill(ballast, left_count)
        with contextlib.suppress(DiskFullError):
            for number in range(len(acks), PUTS):
                _put(store, acks, number)
        with contextlib.suppress(DiskFullError):
            # What was put is dispatched where there is room for it.
            store.query_message("orders", "none")
        ballast.unlink()
        for number in range(len(acks), PUTS):
            _put(store, acks, number)
        check_messages(store, acks, {})
    with mqstore.open(folder, "rw", **OPTIONS) as store:
        check_messages(store, acks, {})


def main() -> None:
    """Ends well where nothing was lost."""
    for left_count in BLOCKS:
        _fill_and_go_on(Path(sys.argv[1]), left_count)


if __name__ == "__main__":
    main()
