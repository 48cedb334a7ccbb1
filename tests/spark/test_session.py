"""A session shows a person what it does: a bar on a terminal, tables in a notebook."""

import os
import pty
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from pyspark.sql import SparkSession

from mqstore.spark.audit import audit
from mqstore.spark.session import _defaults
from tests.spark.test_rebuild import SMALL, make_store

ROOT = Path(__file__).parents[2]
_JOB = """
import sys, time
from pathlib import Path
from mqstore.spark import spark_session
from mqstore.spark.tasks import run_tasks
from tests.spark.made import QUICK
seen = Path(sys.argv[1])
def task(_):
    while not seen.exists():
        time.sleep(0.01)
spark = spark_session(master="local[1]", conf=QUICK)
run_tasks(spark, task, [0, 1], name="waits until somebody has seen it")
"""


def test_a_terminal_shows_a_bar(tmp_path: Path) -> None:
    ours, its = pty.openpty()
    seen = tmp_path / "seen"
    job = [sys.executable, "-c", _JOB, str(seen)]
    process = subprocess.Popen(job, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=its)
    os.close(its)
    shown = b""
    try:
        while b"[Stage 0:" not in shown:
            shown += os.read(ours, 4096)
    finally:
        seen.touch()
        # What it still shows has to be read, or it would wait for that.
        while _read(ours):
            pass
        assert process.wait() == 0, shown.decode(errors="replace")
        os.close(ours)


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 4096)
    except OSError:  # the other end is closed
        return b""


@pytest.mark.parametrize("is_terminal", [True, False])
def test_the_bar_is_for_terminals(monkeypatch: pytest.MonkeyPatch, *, is_terminal: bool) -> None:
    monkeypatch.setattr(sys, "stderr", SimpleNamespace(isatty=lambda: is_terminal))
    assert _defaults()["spark.ui.showConsoleProgress"] is is_terminal


@pytest.mark.parametrize(
    ("shell", "is_notebook"), [(None, False), (SimpleNamespace(), False), (SimpleNamespace(kernel=object()), True)]
)
def test_a_notebook_is_known_by_its_kernel(
    monkeypatch: pytest.MonkeyPatch, shell: object, *, is_notebook: bool
) -> None:
    ipython = ModuleType("IPython")
    monkeypatch.setattr(ipython, "get_ipython", lambda: shell, raising=False)
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    assert _defaults()["spark.sql.repl.eagerEval.enabled"] is is_notebook


def test_a_notebook_shows_tables(spark: SparkSession, tmp_path: Path) -> None:
    store = make_store(tmp_path / "store", count=30)
    frame = spark.read.format("mqstore").option("subscribe", "topic-1").load(str(store)).select("topic", "queue_id")
    assert frame._repr_html_() is None
    spark.conf.set("spark.sql.repl.eagerEval.enabled", "true")
    try:
        shown = frame._repr_html_()
    finally:
        spark.conf.unset("spark.sql.repl.eagerEval.enabled")
    assert shown is not None
    assert shown.count("<td>topic-1</td>") == 6
    page = audit(store, spark=spark, **SMALL)._repr_html_()
    assert "All is well: 30 messages" in page
    assert f"<code>{store}</code>" in page
    min((store / "index").iterdir()).unlink()
    page = audit(store, spark=spark, **SMALL)._repr_html_()
    assert "<th>what is wrong</th>" in page
