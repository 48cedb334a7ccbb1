"""A store whose files the kernel holds, and the same store when they have to come from the disk.

``mqstore bench`` fills a store of 1 KiB messages and leaves it as after a crash. It is then opened, opened without its
queues and index, and asked for messages by key, each time with its files in memory and each time without.

    python benches/scale/cold.py [--messages 3500000] [--folder FOLDER]
"""

import argparse
import os
import random
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from parts import end_part, mqstore_command, run_part, table

import mqstore

LOOKUPS = 100


def make_warm(store: Path) -> None:
    """Reads all files, so that the kernel holds them where there is memory."""
    for path in _files(store):
        with path.open("rb", buffering=0) as file:
            while file.read(1 << 20):
                pass


def make_cold(store: Path) -> None:
    """Has the kernel let go of all files, which are on the disk then."""
    for path in _files(store):
        with path.open("rb+") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _files(store: Path) -> list[Path]:
    return [path for path in store.rglob("*") if path.is_file()]


def recover_s(store: Path) -> float:
    """How long the store takes to open; it is left as it is."""
    return mqstore_command("recover", store, compat="false", crash="true")["open_s"]


def rebuild_s(store: Path, make: Callable[[Path], None]) -> float:
    """How long it takes to open without queues and index, its files made warm or cold before."""
    for derived in ("consumequeue", "index"):
        shutil.rmtree(store / derived)
    make(store)
    return recover_s(store)


def look_up(store: Path, messages: int) -> None:
    """The part that looks up keys one by one, and then as many others in one call."""
    rnd = random.Random(1)
    with mqstore.open(store, "r") as opened:
        one, other = ([f"key{rnd.randrange(messages)}" for _ in range(LOOKUPS)] for _ in range(2))
        begin = time.perf_counter()
        found = sum(len(opened.query_message("bench", key)) for key in one)
        between = time.perf_counter()
        found += sum(len(records) for records in opened.query_messages("bench", other))
        end = time.perf_counter()
    assert found >= 2 * LOOKUPS, "the look-ups missed messages"
    end_part({"one_ms": (between - begin) / LOOKUPS * 1e3, "together_ms": (end - between) / LOOKUPS * 1e3})


def main() -> None:
    """Compares both and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=3_500_000)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--part", help="what a process of its own does")
    parser.add_argument("--store", type=Path)
    given = parser.parse_args()
    if given.part:
        look_up(given.store, given.messages)
        return
    with tempfile.TemporaryDirectory(dir=given.folder) as scratch:
        store = Path(scratch, "store")
        mqstore_command("bench", store, crash="true", **{"bench.messages": given.messages, "bench.lookups": 1000})
        columns = []
        for make in (make_warm, make_cold):
            make(store)
            figures = [recover_s(store), rebuild_s(store, make)]
            mqstore_command("recover", store, compat="false")
            make(store)
            found = run_part(__file__, "look_up", store, messages=given.messages)
            columns.append([*figures, found["one_ms"], found["together_ms"]])
    names = [
        "open after a crash, s",
        "open without queues and index, s",
        f"query by key, the first {LOOKUPS}, ms a key",
        f"query by keys, the next {LOOKUPS} in one call, ms a key",
    ]
    rows = [
        [name, f"{warm:.3f}", f"{cold:.3f}", f"{cold / warm:.2f}"]
        for name, warm, cold in zip(names, *columns, strict=True)
    ]
    print(table([f"{given.messages:,} messages of 1 KiB", "in memory", "on the disk", "disk / memory"], rows))


if __name__ == "__main__":
    main()
