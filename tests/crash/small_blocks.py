"""Fills a disk but for a few blocks, whose blocks are smaller than a page; run by ``test_full_disk``.

``python -m tests.crash.small_blocks DIRECTORY`` with a small file system of its own at the directory.
"""

import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import mqstore
from mqstore import DiskFullError
from tests.crash.checks import check_messages
from tests.crash.full_disk import fill, put_up_to
from tests.crash.test_sigkill import SMALL

if TYPE_CHECKING:
    from tests.crash.killing import Acknowledged

BLOCKS = range(16)
"""So many are left: fewer and more than a page has."""
OPTIONS = SMALL | {"maxHashSlotNum": 100, "maxIndexNum": 40}
"""Its index goes on in a new file all the time."""
PUTS = 1000


def _fill_and_go_on(disk: Path, left_count: int) -> None:
    acks: list[Acknowledged] = []
    ballast, folder = disk / "ballast", disk / f"store{left_count}"
    with mqstore.open(folder, "rw", **OPTIONS) as store:
        put_up_to(store, acks, PUTS // 3 + 7 * left_count)
        fill(ballast, left_count)
        with contextlib.suppress(DiskFullError):
            put_up_to(store, acks, PUTS)
        with contextlib.suppress(DiskFullError):
            # What was put is dispatched where there is room for it.
            store.query_message("orders", "none")
        ballast.unlink()
        put_up_to(store, acks, PUTS)
        check_messages(store, acks, {})
    with mqstore.open(folder, "rw", **OPTIONS) as store:
        check_messages(store, acks, {})


def main() -> None:
    """Ends well where nothing was lost."""
    for left_count in BLOCKS:
        _fill_and_go_on(Path(sys.argv[1]), left_count)


if __name__ == "__main__":
    main()
