"""How fast rows of Spark become messages, against what Spark itself can write and what the engine can put.

In one run on two cores, each several times in turn, of the same rows in memory: the sink; a Python data
source that only stages the same Arrow batches in files (what Spark can hand over); uncompressed Parquet;
and in this process alone, without Spark, `put_arrow` of the same batches and `put_many` of the same
messages as Python objects. Rates are bytes of bodies over seconds.

    python benches/spark/sink.py [--size 1] [--body 1024] [--rounds 3] [--folder FOLDER]
"""

import argparse
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType
from rich.console import Console
from rich.table import Table

import mqstore
from mqstore.spark import spark_session
from mqstore.spark.staging import stage

GIB = 1 << 30
ROWS_AT_ONCE = 10_000


class Staging(DataSource):
    """Writes what it gets to Arrow files and does nothing else."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "staging"

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:  # noqa: FBT001 - Spark's signature
        """A writer into the folder that the option says."""
        del schema, overwrite
        return StagingWriter(self.options["path"])


class StagingWriter(DataSourceArrowWriter):
    """What the sink's tasks do, without a look at the rows."""

    def __init__(self, folder: str) -> None:
        """A writer into a folder."""
        self._folder = folder

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """A file a task."""
        stage(Path(self._folder), iterator)
        return WriterCommitMessage()


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """Seconds of the clock, and of this process's processors."""
    begin, used = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - begin, time.process_time() - used


def put_arrow(path: Path, batches: list[pa.RecordBatch]) -> None:
    """The engine takes the batches as they are."""
    with mqstore.open(path, "rw") as store:
        store.put_arrow(pa.RecordBatchReader.from_batches(batches[0].schema, iter(batches)), topic="orders")
        store.flush()


def put_many(path: Path, batches: list[pa.RecordBatch]) -> None:
    """The same through Python's objects, as it would be without."""
    with mqstore.open(path, "rw") as store:
        for batch in batches:
            store.put_many("orders", batch["body"].to_pylist(), keys=batch["keys"].to_pylist(), tags="new")
        store.flush()


def main() -> None:
    """Measures, and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=float, default=1.0, help="GiB of bodies")
    parser.add_argument("--body", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder")
    given = parser.parse_args()
    count = max(1, int(given.size * GIB / given.body))
    conf: dict[str, str | int | bool] = {"spark.ui.enabled": False, "spark.driver.memory": "2g"}
    conf["spark.log.level"] = "ERROR"
    spark = spark_session("sink bench", master="local[2]", conf=conf)
    spark.dataSource.register(Staging)
    body = f"unhex('{os.urandom(given.body).hex()}') as body"
    rows = spark.range(0, count, 1, 2).selectExpr(body, "concat('key-', id) as keys", "'new' as tags")
    with tempfile.TemporaryDirectory(prefix="mqstore-bench-", dir=given.folder) as folder:
        out = Path(folder) / "out"
        keys = pa.array([f"key-{number}" for number in range(ROWS_AT_ONCE)])
        columns = {"body": pa.array([os.urandom(given.body)] * ROWS_AT_ONCE), "keys": keys}
        whole = pa.RecordBatch.from_pydict(columns | {"tags": ["new"] * ROWS_AT_ONCE})
        batches = [whole.slice(0, min(ROWS_AT_ONCE, count - at)) for at in range(0, count, ROWS_AT_ONCE)]

        def write(kind: str) -> None:
            options = {"mqstore": {"topic": "orders"}, "parquet": {"compression": "none"}}.get(kind, {})
            rows.write.format(kind).mode("append").options(**options).save(str(out))

        ways: dict[str, Callable[[], None]] = {
            "mqstore's sink": lambda: write("mqstore"),
            "Arrow files alone": lambda: write("staging"),
            "Parquet, uncompressed": lambda: write("parquet"),
            "put_arrow, without Spark": lambda: put_arrow(out, batches),
            "put_many, without Spark": lambda: put_many(out, batches),
        }
        taken: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
        for number in range(given.rounds + 1):
            for name, work in ways.items():
                took = timed(work)
                shutil.rmtree(out)
                if number:  # the first round is to warm up
                    taken[name].append(took)
    table = Table(
        "", "s", "CPU s of this process", "GiB/s", title=f"{count:,} messages of {given.body} bytes, local[2]"
    )
    for name, times in taken.items():
        seconds, used = (statistics.median(column) for column in zip(*times, strict=True))
        table.add_row(name, f"{seconds:.2f}", f"{used:.2f}", f"{count * given.body / GIB / seconds:.2f}")
    Console().print(table)
    spark.stop()


if __name__ == "__main__":
    main()
