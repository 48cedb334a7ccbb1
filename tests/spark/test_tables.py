"""Tables that are kept up to date."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

import mqstore
from mqstore.cli.main import main
from mqstore.spark.piece import DataLossError
from mqstore.spark.tables import dispatch
from tests.expiring import expire

SMALL: dict[str, Any] = {"mappedFileSizeCommitLog": 64 << 10, "maxHashSlotNum": 50, "maxIndexNum": 300}


def put(path: Path, numbers: range) -> None:
    with mqstore.open(path, "rw", **SMALL) as store:
        for number in numbers:
            store.put(f"topic-{number % 2}", str(number).encode(), queue_id=0)


def bodies(spark: SparkSession, out: Path) -> list[int]:
    return sorted(int(row.body) for row in spark.read.parquet(str(out)).select("body").collect())


def test_each_message_is_in_the_tables_once(spark: SparkSession, tmp_path: Path) -> None:
    store, out = tmp_path / "store", tmp_path / "tables"
    put(store, range(20))
    dispatch(str(store), str(out), spark=spark)
    assert bodies(spark, out) == [*range(20)]
    dispatch(str(store), str(out), spark=spark)
    assert bodies(spark, out) == [*range(20)], "nothing new, nothing twice"
    put(store, range(20, 33))
    dispatch(str(store), str(out), spark=spark)
    assert bodies(spark, out) == [*range(33)]
    assert {path.name for path in out.glob("topic=*")} == {"topic=topic-0", "topic=topic-1"}


def test_the_command(spark: SparkSession, tmp_path: Path) -> None:
    store, out = tmp_path / "store", tmp_path / "tables"
    put(store, range(10))
    call = CliRunner().invoke(
        main, ["spark", "dispatch", str(store), "--out", str(out), "--topic", "topic-1", "--where", "queue_offset > 0"]
    )
    assert call.exit_code == 0, call.output
    assert bodies(spark, out) == [3, 5, 7, 9]


def test_what_retention_removed_before_it_was_in_the_tables(spark: SparkSession, tmp_path: Path) -> None:
    store, out = tmp_path / "store", tmp_path / "tables"
    put(store, range(20))
    dispatch(str(store), str(out), spark=spark)
    with mqstore.open(store, "rw", **SMALL) as opened:
        for number in range(20, 220):
            opened.put("topic-0", str(number).encode().ljust(1000), queue_id=0)
        expire(opened, 2)
        left = [int(message.body) for message in opened.select()]
    assert 20 < left[0] < 220
    said = r"the log from \d+ to \d+ was to be read and it holds \d+ to \d+ \(skip_lost, or --skip-lost, goes on"
    with pytest.raises(DataLossError, match=said):
        dispatch(str(store), str(out), spark=spark)
    command = ["spark", "dispatch", str(store), "--out", str(out)]
    call = CliRunner().invoke(main, command)
    assert call.exit_code == 1
    assert len(call.stderr.splitlines()) == 1, call.stderr
    assert bodies(spark, out) == [*range(20)]
    call = CliRunner().invoke(main, [*command, "--skip-lost"])
    assert call.exit_code == 0, call.output
    assert bodies(spark, out) == [*range(20), *left]


@pytest.mark.parametrize("interval", ["inf", "nan", "1e300"])
def test_an_interval_that_never_ends_is_told(tmp_path: Path, interval: str) -> None:
    out = tmp_path / "tables"
    call = CliRunner().invoke(main, ["spark", "dispatch", str(tmp_path), "--out", str(out), "--follow", interval])
    assert call.exit_code == 1, call.output
    assert isinstance(call.exception, SystemExit), call.exception
    assert "expected a number of seconds from 0 to " in call.stderr
    assert not out.exists()


_FOLLOWS = """
import sys
from mqstore.cli.main import main
from mqstore.spark import spark_session
from tests.spark.made import QUICK
spark_session(master="local[1]", conf=QUICK)  # the command's own session is this one
main(["spark", "dispatch", sys.argv[1], "--out", sys.argv[2], "--follow", "0.05"])
"""


def dispatched(out: Path) -> list[int]:
    """What is in the tables by Spark's own list of files, read without a session."""
    found: list[int] = []
    for entry in (out / "_spark_metadata").glob("[0-9]*"):
        for line in entry.read_text().splitlines()[1:]:
            rows = pq.read_table(json.loads(line)["path"].removeprefix("file://"), columns=["body"], partitioning=None)
            found.extend(int(body) for body in rows["body"].to_pylist())
    return sorted(found)


@pytest.mark.timeout(300)
def test_it_follows_until_it_is_stopped(spark: SparkSession, tmp_path: Path) -> None:
    store, out = tmp_path / "store", tmp_path / "tables"
    put(store, range(20))
    command = [sys.executable, "-c", _FOLLOWS, str(store), str(out)]
    process = subprocess.Popen(
        command,
        cwd=Path(__file__).parents[2],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        for begin, until in ((20, 20), (20, 33), (33, 47)):
            put(store, range(begin, until))
            while dispatched(out) != [*range(until)]:
                assert process.poll() is None, "it ended by itself"
                time.sleep(0.02)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    put(store, range(47, 50))
    dispatch(str(store), str(out), spark=spark)
    assert bodies(spark, out) == [*range(50)], "it goes on where it was stopped, each message once"
