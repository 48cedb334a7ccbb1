"""Tables that are kept up to date."""

from pathlib import Path
from typing import Any

from click.testing import CliRunner
from pyspark.sql import SparkSession

import mqstore
from mqstore.cli.main import main
from mqstore.spark.tables import dispatch

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
