"""Parts of a bench that run in a process of their own, and what a process takes."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

Figures = dict[str, float]


def run_part(script: str, part: str, store: Path, **options: object) -> Figures:
    """Runs a part of a script in a process that has seen nothing yet, and gives its figures."""
    given = [argument for name, value in options.items() for argument in (f"--{name}", str(value))]
    return _figures_of([sys.executable, script, "--part", part, "--store", str(store), *given])


def mqstore_command(command: str, store: Path, **options: object) -> Figures:
    """Runs a command of ``mqstore`` that prints figures."""
    given = [argument for name, value in options.items() for argument in ("-o", f"{name}={value}")]
    return _figures_of([str(Path(sys.executable).with_name("mqstore")), command, str(store), *given])


def _figures_of(command: list[str]) -> Figures:
    done = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)  # noqa: S603 (ourselves)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    figures: Figures = json.loads(done.stdout.splitlines()[-1])
    return figures


def end_part(figures: Mapping[str, float], *, crash: bool = False) -> None:
    """Prints a part's figures; with ``crash`` the process ends here, as a killed one does."""
    print(json.dumps(figures), flush=True)
    if crash:
        os._exit(0)


@dataclass
class Spent:
    """What something took."""

    wall_s: float = 0.0
    cpu_s: float = 0.0
    """Processor time of all threads: what others do on the machine matters less to it."""


@contextmanager
def spent() -> Iterator[Spent]:
    """Times what runs inside it."""
    found = Spent()
    wall, cpu = time.perf_counter(), time.process_time()
    yield found
    found.wall_s, found.cpu_s = time.perf_counter() - wall, time.process_time() - cpu


def resources(of: str = "") -> Figures:
    """What this process holds now: memory that is no file's, maps, open files."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    (kilobytes,) = (line.split()[1] for line in status.splitlines() if line.startswith("RssAnon:"))
    maps = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace").count("\n")
    return {
        f"anonymous_mib{of}": int(kilobytes) / 1024,
        f"maps{of}": maps,
        f"files{of}": len(list(Path("/proc/self/fd").iterdir())),
    }


def table(header: list[str], rows: list[list[str]]) -> str:
    """A table in Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
