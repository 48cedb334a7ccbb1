"""mqstore beside the Java store: the same work, interleaved, in one run.

Both do what ``mqstore bench`` and the driver's ``bench`` do. An absolute figure is the machine's; what counts is
the ratio of two figures of one round, of which the median and the spread over all rounds are shown. Both find as much
memory in hand as they use, as far as the machine's host lets it. After each round the table is shown and the file
written.
"""

import argparse
import json
import mmap
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).parents[2]
DRIVER = ROOT / "tests/compat/peer/run"
MQSTORE = Path(sys.executable).with_name("mqstore")

_IN_HAND = 3 << 30
"""Of a store of no size: what is not the log's."""
_IN_HAND_OF_LOG = 3
"""Times the size of the log: Java's files, what it copies and what it reads."""
_TOUCHED = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE


@dataclass(frozen=True, kw_only=True)
class Work:
    """Work that both do, and the ratios that are looked at."""

    name: str
    options: Mapping[str, Any]
    """Options of both."""
    ours_alone: Mapping[str, Any] = field(default_factory=dict)
    figures: Mapping[str, tuple[str, str, float | None]]
    """What is compared: a figure of mqstore, one of Java, and the ratio that is its goal."""
    crash_and_recover: bool = False
    """Whether the stores are left as after a crash, and the time to open them is a figure too."""


def _sizes(messages: int, *, body: int = 1024, **bench: Any) -> dict[str, Any]:
    return {"bench.messages": messages, "bench.body": body, **{f"bench.{name}": value for name, value in bench.items()}}


PUT = "put_and_dispatch_per_s"
LATENCY = "put_latency_p999_us"
RESIDENT = "resident_anonymous_bytes"


def works(scale: float) -> list[Work]:
    """The work; ``scale`` 1 is 2 GiB where the size matters."""
    count = max(2000, int(2_000_000 * scale))
    flushes = max(500, int(100_000 * scale))
    lookups = max(1000, int(200_000 * scale))
    reading: dict[str, tuple[str, str, float | None]] = {
        "get of 32, as one object": ("get_per_s", "get_per_s", 1.5),
        "get decoded to Python objects": ("get_decoded_per_s", "get_decoded_per_s", 2.0),
        "get to Arrow": ("get_arrow_per_s", "get_decoded_per_s", 5.0),
        "get to Arrow, bodies as views": ("get_arrow_views_per_s", "get_decoded_per_s", None),
        "query by key": ("query_by_key_per_s", "query_by_key_per_s", 2.0),
        "query by keys, in one call": ("query_by_keys_per_s", "query_by_key_per_s", 10.0),
        "offset by time": ("offset_by_time_per_s", "offset_by_time_per_s", 4.0),
        "offset by times, in one call": ("offset_by_times_per_s", "offset_by_time_per_s", 10.0),
    }
    return [
        Work(
            name="1 KiB, 8 queues",
            options=_sizes(count, lookups=lookups),
            figures={
                "put, 1 KiB": (PUT, PUT, 6.0),
                **reading,
                "memory that is no file's (less is better)": (RESIDENT, RESIDENT, 0.2),
            },
            crash_and_recover=True,
        ),
        Work(
            name="100 B, 8 queues",
            options=_sizes(count, body=100, lookups=1000),
            figures={"put, 100 B": (PUT, PUT, 4.0)},
        ),
        Work(
            name="16 KiB, 8 queues",
            options=_sizes(count // 16, body=16384, lookups=1000),
            figures={"put, 16 KiB": (PUT, PUT, None)},
        ),
        Work(
            name="1 KiB, 1 queue",
            options=_sizes(count // 2, queues=1, lookups=1000),
            figures={"put, 1 KiB, one queue": (PUT, PUT, None)},
        ),
        Work(
            name="1 KiB, 1,000 queues",
            options=_sizes(count // 2, queues=1000, lookups=1000),
            figures={"put, 1 KiB, 1,000 queues": (PUT, PUT, None)},
        ),
        Work(
            name="1 KiB, 100,000 a second",
            options=_sizes(count // 4, rate=100_000, lookups=1000),
            figures={"99.9th percentile of put latency (less is better)": (LATENCY, LATENCY, 0.5)},
        ),
        Work(
            name="1 KiB in batches",
            options=_sizes(count, batch=32, lookups=1000),
            ours_alone={"bench.batch": 1000},
            figures={"put_many of 1,000 against batches of 32, 1 KiB": (PUT, PUT, 10.0)},
        ),
        Work(
            name="100 B in batches",
            options=_sizes(count, body=100, batch=32, lookups=1000),
            ours_alone={"bench.batch": 1000},
            figures={"put_many of 1,000 against batches of 32, 100 B": (PUT, PUT, 10.0)},
        ),
        Work(
            name="synchronous flush, 4 threads",
            options={"flushDiskType": "SYNC_FLUSH", **_sizes(flushes, threads=4, warm=1000, lookups=1000)},
            figures={"put, synchronous flush, 4 threads": ("put_per_s", "put_per_s", 1.5)},
        ),
        Work(
            name="synchronous flush, asyncio",
            options={"flushDiskType": "SYNC_FLUSH", **_sizes(flushes, threads=4, warm=1000, lookups=1000)},
            ours_alone={"bench.inflight": 256},
            figures={"put, synchronous flush, 256 in flight against 4 threads": ("put_per_s", "put_per_s", 20.0)},
        ),
    ]


def _run(command: list[str]) -> dict[str, float]:
    done = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)  # noqa: S603 (our own)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def _java(command: str, store: Path, options: Mapping[str, Any]) -> dict[str, float]:
    return _run([str(DRIVER), command, str(store), *(f"{name}={value}" for name, value in options.items())])


def _mqstore(command: str, store: Path, options: Mapping[str, Any]) -> dict[str, float]:
    given = [argument for name, value in options.items() for argument in ("-o", f"{name}={value}")]
    return _run([str(MQSTORE), command, str(store), "-o", "compat=false", *given])


def _take_memory_in_hand(work: Work) -> None:
    """Touches as much of the memory that is free as a work uses.

    The host of a virtual machine hands memory out page by page when it is touched first, which can cost more than all
    that a put does, and takes back what is free for some seconds: it would be whose who has bad luck. The system gives
    what was freed last first.
    """
    size = _IN_HAND + _IN_HAND_OF_LOG * work.options["bench.messages"] * work.options["bench.body"]
    lines = Path("/proc/meminfo").read_text(encoding="utf-8").splitlines()
    free_kib = next(int(line.split()[1]) for line in lines if line.startswith("MemFree:"))
    mmap.mmap(-1, min(free_kib * 1024 // 10 * 9, size), flags=_TOUCHED).close()


def ratios(work: Work, folder: Path) -> Iterator[tuple[str, float]]:
    """One round of a work: each ratio by its name."""
    crash = {"crash": "true"} if work.crash_and_recover else {}
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        ours, javas = Path(scratch, "mqstore"), Path(scratch, "java")
        _take_memory_in_hand(work)
        java = _java("bench", javas, {**work.options, **crash})
        _take_memory_in_hand(work)
        mqstore = _mqstore("bench", ours, {**work.options, **work.ours_alone, **crash})
        for name, (our_figure, java_figure, _) in work.figures.items():
            yield name, mqstore[our_figure] / java[java_figure]
        if work.crash_and_recover:
            java = _java("recover", javas, {})
            mqstore = _mqstore("recover", ours, {})
            yield "open after a crash", java["open_s"] / mqstore["open_s"]
            for store in (ours, javas):
                for derived in ("consumequeue", "index"):
                    shutil.rmtree(store / derived)
            # As after a crash, which it is left by, 4.9.3 makes nothing of what its checkpoint covers.
            (javas / "abort").unlink()
            java = _java("recover", javas, {})
            mqstore = _mqstore("recover", ours, {})
            yield "rebuild of queues and index", java["open_s"] / mqstore["open_s"]


def table_of(found: Mapping[str, list[float]], wanted: Mapping[str, float | None]) -> Table:
    """The ratios as a table."""
    table = Table("work", "ratio", "least", "most", "goal")
    for name, values in found.items():
        middle, goal = statistics.median(values), wanted.get(name)
        row = (f"{middle:.2f}", f"{min(values):.2f}", f"{max(values):.2f}", "" if goal is None else f"{goal:g}")
        table.add_row(name, *row)
    return table


def plot(found: Mapping[str, list[float]], wanted: Mapping[str, float | None], path: Path) -> None:
    """Draws the ratios with their spread, on a logarithmic axis."""
    import matplotlib as mpl  # noqa: PLC0415 (slow to import, and needed here alone)

    mpl.use("svg")
    from matplotlib import pyplot as plt  # noqa: PLC0415 (as above)

    names = list(found)[::-1]
    figure, axes = plt.subplots(figsize=(9, 0.38 * len(names) + 1.2), layout="constrained")
    for row, name in enumerate(names):
        values = found[name]
        axes.plot([min(values), max(values)], [row, row], color="tab:blue", linewidth=5, alpha=0.4)
        axes.plot(statistics.median(values), row, "o", color="tab:blue")
        if (goal := wanted.get(name)) is not None:
            axes.plot(goal, row, "|", color="tab:red", markersize=14)
    axes.axvline(1, color="gray", linewidth=1)
    axes.set(xscale="log", xlabel="mqstore over Java; red: the goal", yticks=range(len(names)), yticklabels=names)
    figure.savefig(path)


def main() -> None:
    """Runs the work and prints the ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="how often each work is done")
    parser.add_argument("--scale", type=float, default=1.0, help="1 is 2 GiB where the size matters")
    parser.add_argument("--only", help="a part of the names of the work to do")
    parser.add_argument("--folder", type=Path, help="where the stores are made")
    parser.add_argument("--json", type=Path, help="writes the ratios to a file")
    parser.add_argument("--plot", type=Path, help="draws the ratios into an SVG file")
    given = parser.parse_args()
    chosen = [work for work in works(given.scale) if not given.only or given.only in work.name]
    if not chosen:
        parser.error(f"--only {given.only!r}: no work has that in its name")
    wanted = {name: goal for work in chosen for name, (_, _, goal) in work.figures.items()}
    wanted |= {"open after a crash": 4.0, "rebuild of queues and index": 4.0}
    found: dict[str, list[float]] = {}
    console = Console()
    for _ in range(given.rounds):
        for work in chosen:
            with console.status(work.name):
                for name, ratio in ratios(work, given.folder or Path(tempfile.gettempdir())):
                    found.setdefault(name, []).append(ratio)
        console.print(table_of(found, wanted))
        if given.json:
            given.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    if given.plot:
        plot(found, wanted, given.plot)


if __name__ == "__main__":
    main()
