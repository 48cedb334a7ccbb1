"""Rebuilds that were stopped, killed or broken off: called again they go on, and give what one gives that was not."""

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from mqstore.errors import StoreLayoutError
from mqstore.spark import rebuild as rebuild_module
from mqstore.spark.rebuild import rebuild
from tests.command import MQSTORE
from tests.spark.test_rebuild import SMALL, assert_same, make_store, rebuilt_by_engine
from tests.store_files import index_contents, queue_contents
from tests.waiting import wait_until


class StoppedError(Exception):
    """Ends a rebuild in the middle."""


@pytest.mark.parametrize("stage", ["fold", "write"])
def test_a_rebuild_that_was_stopped_goes_on(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stage: str
) -> None:
    store = make_store(tmp_path / "store", count=1000)
    expected = rebuilt_by_engine(store, tmp_path / "expected", SMALL)
    out = tmp_path / "out"

    def stop(*_given: object, **_named: object) -> None:
        raise StoppedError

    with monkeypatch.context() as patch:
        patch.setattr(rebuild_module, f"_{stage}", stop)
        with pytest.raises(StoppedError):
            rebuild(store, out, spark=spark, range_size=20_000)
    work = out / "mqstore" / "rebuild"
    staged = {path: path.stat().st_mtime_ns for path in work.glob("*.range")}
    assert staged
    torn, *whole = sorted(staged)
    torn.with_suffix(".units").write_bytes(b"torn")
    log = store / "commitlog"
    with pytest.raises(StoreLayoutError, match="range_size"):
        rebuild(store, out, spark=spark, range_size=30_000)
    seen: dict[Path, int] = {}
    fold = rebuild_module._fold

    def look(*given: Any, **named: Any) -> Any:
        seen.update({path: path.stat().st_mtime_ns for path in work.glob("*.range")})
        return fold(*given, **named)

    monkeypatch.setattr(rebuild_module, "_fold", look)
    rebuild(store, out, spark=spark, range_size=20_000)
    assert all(seen[path] == staged[path] for path in whole), "what was whole was not walked again"
    assert seen[torn] != staged[torn]
    assert_same(out, expected)
    assert log.is_dir()


@pytest.mark.parametrize("removed_count", [0, 3, None])
def test_a_rebuild_that_was_stopped_in_its_last_step_is_done(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, removed_count: int | None
) -> None:
    """What is left then are work files that nobody needs."""
    store, out = make_store(tmp_path / "store", count=300), tmp_path / "out"
    expected = rebuilt_by_engine(store, tmp_path / "expected", SMALL)
    left = out / "mqstore" / "rebuild.done"

    def stop(*_given: object) -> None:
        raise StoppedError

    unlink = Path.unlink
    removed: list[Path] = []

    def remove(path: Path, *, missing_ok: bool = False) -> None:
        if path.parent == left:
            if len(removed) == removed_count:
                raise StoppedError
            removed.append(path)
        unlink(path, missing_ok=missing_ok)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", remove)
        if removed_count is None:
            patch.setattr(rebuild_module.__dict__["shutil"], "rmtree", stop)
        with pytest.raises(StoppedError):
            rebuild(store, out, spark=spark, range_size=5000)
    assert left.exists()
    with pytest.raises(StoreLayoutError, match="one with consumequeue"):
        rebuild(store, out, spark=spark, range_size=6000)
    done = rebuild(store, out, spark=spark, range_size=5000)
    assert (done.out, done.record_count, done.unit_count, done.gaps) == (str(out), 300, 300, ())
    assert_same(out, expected)
    assert not list((out / "mqstore").iterdir())


_JOB = """
import sys
from mqstore.spark import spark_session
from mqstore.spark.rebuild import rebuild
from tests.spark.made import QUICK
store, out = sys.argv[1:]
rebuild(store, out, spark=spark_session(master="local[2]", conf=QUICK), range_size=4000)
"""


@pytest.mark.timeout(600)
def test_a_rebuild_whose_processes_are_killed_goes_on(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    """Driver and workers are killed once there are so many files: while ranges are walked, while files are written."""
    store = make_store(tmp_path / "store")
    expected = rebuilt_by_engine(store, tmp_path / "expected", SMALL)
    out = tmp_path / "out"
    chances = random.Random(seed)
    range_count = sum(file.stat().st_size for file in (store / "commitlog").iterdir()) // 4000
    results = len(queue_contents(expected)) + len(index_contents(expected))
    staged = range(1, range_count // 2)
    limits = [
        ("mqstore/rebuild/*.range", chances.choice(staged)),
        ("mqstore/rebuild/*.range", chances.choice(staged) + range_count // 3),
        ("[ci]*/**/*0*", chances.randrange(1, results // 2)),
    ]
    killed = [killed_at(out, pattern, limit, [str(store), str(out)]) for pattern, limit in limits]
    assert any(killed), "each was done before it was killed"
    if (out / "mqstore" / "rebuild").exists():
        rebuild(store, out, spark=spark, range_size=4000)
    assert_same(out, expected)
    assert not (out / "mqstore" / "rebuild").exists()


@pytest.mark.timeout(600)
def test_a_rebuild_that_is_broken_off_goes_on(spark: SparkSession, tmp_path: Path) -> None:
    """Ctrl-C at a terminal goes to all processes of the command."""
    store = make_store(tmp_path / "store", count=20_000)
    assert sum(file.stat().st_size for file in (store / "commitlog").iterdir()) > 4 << 20
    # A test that is kept waiting may come once the command is done.
    for attempt in range(5):
        out = tmp_path / f"out-{attempt}"
        returncode, told = break_off(store, out)
        if count_of(out, "mqstore/rebuild/*.range"):
            break
    assert returncode == 130, told
    assert f"broken off; the same call goes on in {out}" in told
    assert count_of(out, "mqstore/rebuild/*.range")
    rebuild(store, out, spark=spark, range_size=1 << 20)
    assert_same(out, rebuilt_by_engine(store, tmp_path / "expected", SMALL))
    assert not list((out / "mqstore").iterdir())


def break_off(store: Path, out: Path) -> tuple[int, str]:
    """Starts a rebuild by the command and presses Ctrl-C once a range is walked; its exit code, and what it told."""
    command = [str(MQSTORE), "spark", "rebuild", str(store), "--out", str(out), "--range-size", str(1 << 20)]
    job = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    with job:
        wait_until(lambda: count_of(out, "mqstore/rebuild/*.range") > 0 or job.poll() is not None, timeout_s=300)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(job.pid, signal.SIGINT)
        _, told = job.communicate(timeout=120)
    wait_until(lambda: is_gone(job.pid))
    return job.returncode, told


def count_of(out: Path, pattern: str) -> int:
    """How many files there are; none where a folder goes while it is looked through."""
    try:
        return sum(1 for _ in out.glob(pattern))
    except FileNotFoundError:
        return 0


def is_gone(session: int) -> bool:
    """Whether no process of a session is left. Spark's workers have a process group of their own in it."""
    return all(session_of(process) != session for process in Path("/proc").glob("[0-9]*"))


def session_of(process: Path) -> int | None:
    """The session of a process that has not ended."""
    try:
        # Behind its name, which may have anything in it: state, parent, process group, session.
        state, _, _, session, *_ = (process / "stat").read_bytes().rpartition(b")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if state in {b"Z", b"X"} else int(session)


def killed_at(out: Path, pattern: str, limit: int, arguments: list[str]) -> bool:
    """Starts a rebuild and kills its processes once there are so many files; whether it came to that."""
    job = subprocess.Popen(
        [sys.executable, "-c", _JOB, *arguments],
        cwd=Path(__file__).parents[2],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        while job.poll() is None:
            if count_of(out, pattern) >= limit:
                return True
            time.sleep(0.001)
        return False
    finally:
        if job.poll() is None:
            os.killpg(job.pid, signal.SIGKILL)
        job.wait()
        # Workers end by themselves, a moment later.
        wait_until(lambda: is_gone(job.pid))
