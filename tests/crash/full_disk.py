"""Fills the disk that a store lies on, makes room again and goes on; run by ``test_full_disk``.

``python -m tests.crash.full_disk DIRECTORY`` with a small file system of its own at the directory.
"""

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

_BALLAST_SIZE = 200_000
_MOST_PUTS = 100_000


def _put(store: mqstore.MessageStore, name: str) -> Acknowledged:
    done = store.put("orders", body_of(name), keys=name, queue_id=0)
    return Acknowledged(name, "orders", 0, done.wrote_offsets[0], done.logics_offsets[0])


def _put_until_full(store: mqstore.MessageStore, acks: list[Acknowledged]) -> None:
    while len(acks) < _MOST_PUTS:
        acks.append(_put(store, f"0.0.{len(acks)}"))


def _expire(folder: Path) -> None:
    """What has expired goes though there is no room to dispatch what was put: then there is."""
    options = SMALL | {"maxHashSlotNum": 10, "maxIndexNum": 40, "fileReservedTime": 0}
    acks: list[Acknowledged] = []
    ballast = folder.parent / "ballast"
    with mqstore.open(folder, "rw", **options) as store:
        acks += [_put(store, f"0.0.{number}") for number in range(500)]
        store.flush()
        disk = os.statvfs(folder)
        with ballast.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, disk.f_bavail * disk.f_frsize)
        acks += [_put(store, f"0.0.{number}") for number in range(500, 600)]
        with pytest.raises(DiskFullError, match="index"):
            store.query_message("orders", "none")
        assert store.execute_delete_files_manually() > 0
        begin = store.get_min_phy_offset()
        acks += [_put(store, f"0.0.{number}") for number in range(600, 700)]
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
            _put_until_full(store, acks)
        ballast.unlink()
        acks += [_put(store, f"0.0.{number}") for number in range(len(acks), len(acks) + 100)]
        known = check_messages(store, acks, {})
        assert len(known) == len(acks)
    for mode in ("r", "rw"):
        with mqstore.open(disk / "store", mode, **SMALL) as store:
            check_messages(store, acks, known)
    check_stays(disk / "store", SMALL)


if __name__ == "__main__":
    main()
