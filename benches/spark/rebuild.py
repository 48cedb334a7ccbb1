"""How long a rebuild takes on Spark, next to what the engine does in one process on the same cores.

    python benches/spark/rebuild.py [--sizes 1 2 4 8] [--cores 2] [--body 1024]

For each size (GiB of log) a store is written, its queues and index are thrown away, and both make them
anew: the engine by opening the store to write, Spark by ``mqstore.spark.rebuild``. The session is warm,
and everything ends on the disk in both.
"""

import argparse
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.table import Table

import mqstore
from mqstore.spark import spark_session
from mqstore.spark.rebuild import rebuild

GIB = 1 << 30
BATCH = 1000
DERIVED = ("consumequeue", "index", "checkpoint", "mqstore", "config")


def seconds_of(work: Callable[[], object]) -> float:
    """How long something takes."""
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def grow(path: Path, size: int, body_size: int) -> None:
    """Puts messages of 16 queues, each with two keys, until the log has a size."""
    body = os.urandom(body_size)
    with mqstore.open(path, "rw") as store:
        number = 0
        while store.get_max_phy_offset() < size:
            keys = [f"key-{number + at}" for at in range(BATCH)]
            store.put_many(f"topic-{number // BATCH % 4}", [body] * BATCH, keys=keys, tags="bench")
            number += BATCH
    for name in DERIVED:
        part = path / name
        shutil.rmtree(part, ignore_errors=True) if part.is_dir() else part.unlink(missing_ok=True)


def by_engine(store: Path, scratch: Path) -> float:
    """One process: the log is linked, not copied."""
    target = scratch / "engine"
    (target / "commitlog").mkdir(parents=True)
    for file in (store / "commitlog").iterdir():
        os.link(file, target / "commitlog" / file.name)
    taken = seconds_of(lambda: mqstore.open(target, "rw").close())
    shutil.rmtree(target)
    return taken


def main() -> None:
    """All sizes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=float, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--body", type=int, default=1024)
    parser.add_argument("--folder")
    given = parser.parse_args()
    session = spark_session("rebuild bench", master=f"local[{given.cores}]", conf={"spark.ui.enabled": False})
    table = Table("GiB", "engine s", "Spark s", "Spark / engine", "s / GiB", title=f"{given.cores} cores")
    with tempfile.TemporaryDirectory(prefix="mqstore-bench-", dir=given.folder) as folder:
        scratch = Path(folder)
        store = scratch / "store"
        grow(scratch / "warm", 1 << 22, given.body)
        rebuild(scratch / "warm", scratch / "warmed", spark=session)
        for size in sorted(given.sizes):
            shutil.rmtree(store, ignore_errors=True)
            grow(store, int(size * GIB), given.body)
            engine = by_engine(store, scratch)
            out = scratch / "out"
            spark = seconds_of(lambda out=out: rebuild(store, out, spark=session))
            shutil.rmtree(out)
            table.add_row(f"{size:g}", f"{engine:.2f}", f"{spark:.2f}", f"{engine / spark:.0%}", f"{spark / size:.2f}")
    Console().print(table)


if __name__ == "__main__":
    main()
