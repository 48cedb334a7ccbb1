"""Fills the disk that a store lies on, makes room again and goes on; run by ``test_full_disk``.

``python -m tests.crash.full_disk DIRECTORY`` with a small file system of its own at the directory.
"""

import contextlib
import os
import shutil
import sys
from pathlib import Path

import pytest

import mqstore
from mqstore import DiskFullError
from tests.crash.checks import check_messages, check_stays
from tests.crash.killing import Acknowledged
from tests.crash.stream import body_of
from tests.crash.test_sigkill import SMALL
from tests.waiting import wait_until

_BALLAST_SIZE = 200_000
_MOST_PUTS = 100_000


def _put(store: mqstore.MessageStore, number: int) -> Acknowledged:
    name = f"0.0.{number}"
    done = store.put("orders", body_of(name), keys=name, queue_id=0)
    return Acknowledged(name, "orders", 0, done.wrote_offsets[0], done.logics_offsets[0])


def fill(ballast: Path, left_count: int = 0) -> None:
    """Fills the disk of a file but for some blocks."""
    size = 0
    with ballast.open("wb") as file, contextlib.suppress(OSError):
        # By halves: a store beside takes some meanwhile, and what is not there as a whole is not had at all.
        while (free := (disk := os.statvfs(ballast.parent)).f_bavail - left_count) > 0:
            step_size = -(-free // 2) * disk.f_frsize
            os.posix_fallocate(file.fileno(), size, step_size)
            size += step_size


def put_up_to(store: mqstore.MessageStore, acks: list[Acknowledged], count: int) -> None:
    """Puts until there are so many; those before one that fails are there."""
    while len(acks) < count:
        acks.append(_put(store, len(acks)))


def _expire(folder: Path) -> None:
    """What has expired goes though there is no room to dispatch what was put: then there is."""
    options = SMALL | {"maxHashSlotNum": 10, "maxIndexNum": 40, "fileReservedTime": 0}
    acks: list[Acknowledged] = []
    ballast = folder.parent / "ballast"
    with mqstore.open(folder, "rw", **options) as store:
        put_up_to(store, acks, 500)
        wait_until(lambda: store.dispatch_behind_bytes() == 0)
        store.flush()
        fill(ballast)
        put_up_to(store, acks, 600)
        with pytest.raises(DiskFullError, match="index"):
            store.query_message("orders", "none")
        assert store.execute_delete_files_manually() > 0
        begin = store.get_min_phy_offset()
        put_up_to(store, acks, 700)
        check_messages(store, [ack for ack in acks if ack.offset >= begin], {})
        ballast.unlink()
    shutil.rmtree(folder)


def main() -> None:
    """Ends well where nothing was lost."""
    disk = Path(sys.argv[1])
    _expire(disk / "expiring")
    ballast = disk / "ballast"
    ballast.write_bytes(b"x" * _BALLAST_SIZE)
    acks: list[Acknowledged] = []
    with mqstore.open(disk / "store", "rw", **SMALL) as store:
        with pytest.raises(DiskFullError, match="commitlog"):
            put_up_to(store, acks, _MOST_PUTS)
        ballast.unlink()
        put_up_to(store, acks, len(acks) + 100)
        known = check_messages(store, acks, {})
        assert len(known) == len(acks)
    for mode in ("r", "rw"):
        with mqstore.open(disk / "store", mode, **SMALL) as store:
            check_messages(store, acks, known)
    check_stays(disk / "store", SMALL)


if __name__ == "__main__":
    main()
