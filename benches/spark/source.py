"""How fast stores are read on Spark, against what Spark itself can take.

In one run on two cores, each several times in turn: a Python data source that yields Arrow batches of
the same bodies from memory (the ceiling), Parquet with the same rows, the source with bodies and
without. Rates are bytes of the log over seconds, so that all are of the same messages.

    python benches/spark/source.py [--size 1] [--rounds 5] [--folder FOLDER]
"""

import argparse
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

import mqstore
from mqstore.spark import schema, spark_session

BODY_SIZE = 1024
ROWS = 8192
WITH_BODY = ("topic", "queue_id", "queue_offset", "store_timestamp", "body")
WITHOUT_BODY = ("topic", "queue_id", "queue_offset", "store_timestamp")


class Ceiling(DataSource):
    """The batches that the source would yield, from memory."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "ceiling"

    def schema(self) -> StructType:
        """The source's."""
        return schema(*WITH_BODY)

    def reader(self, schema: StructType) -> DataSourceReader:
        """A reader of as many rows as the option says."""
        return CeilingReader(schema, int(self.options["rows"]), int(self.options["partitions"]))


class CeilingReader(DataSourceReader):
    """Yields one batch again and again."""

    def __init__(self, given: StructType, rows: int, partitions: int) -> None:
        """A reader of a schema."""
        self._schema, self._rows, self._partitions = given, rows, partitions

    def partitions(self) -> list[InputPartition]:
        """Rows in equal parts."""
        return [InputPartition(self._rows // self._partitions) for _ in range(self._partitions)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The batch, until all rows are there."""
        arrow_schema = to_arrow_schema(self._schema, timezone="UTC")
        columns = [
            pa.array(["orders"] * ROWS),
            pa.array(range(ROWS), pa.int32()),
            pa.array(range(ROWS), pa.int64()),
            pa.array(range(ROWS), pa.timestamp("us", "UTC")),
            pa.array([b"x" * BODY_SIZE] * ROWS, pa.binary()),
        ]
        batch = pa.RecordBatch.from_arrays(columns, schema=arrow_schema)
        left = partition.value
        while left > 0:
            yield batch.slice(0, min(left, ROWS))
            left -= ROWS


def make_store(path: Path, size: int) -> tuple[int, int]:
    """A store of about so many bytes; gives its messages and the log's bytes."""
    bodies = [bytes([number % 256]) * BODY_SIZE for number in range(1000)]
    with mqstore.open(path, "rw") as store:
        while store.get_max_phy_offset() < size:
            store.put_many("orders", bodies, tags="new", unique_key=False)
        return store.select().count(), store.get_max_phy_offset()


def seconds(frame: DataFrame) -> float:
    """How long Spark takes to go through all of a frame's rows and columns."""
    start = time.perf_counter()
    frame.write.format("noop").mode("overwrite").save()
    return time.perf_counter() - start


def main() -> None:
    """Measures, and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=float, default=1.0, help="GiB of log")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder")
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="mqstore-bench-", dir=given.folder))
    conf: dict[str, str | int | bool] = {
        "spark.ui.enabled": False,
        "spark.driver.memory": "2g",
        "spark.log.level": "ERROR",
    }
    spark: SparkSession = spark_session("mqstore bench", master="local[2]", conf=conf)
    try:
        count, size = make_store(folder / "store", int(given.size * (1 << 30)))
        spark.dataSource.register(Ceiling)

        def source(*columns: str) -> DataFrame:
            return spark.read.format("mqstore").schema(schema(*columns)).load(str(folder / "store"))

        partitions = max(2, round(size / (128 << 20)))
        ceiling = spark.read.format("ceiling").options(rows=count, partitions=partitions)
        source(*WITH_BODY).write.option("compression", "none").parquet(str(folder / "parquet"))
        ways: dict[str, Callable[[], DataFrame]] = {
            "ceiling: Arrow batches from memory": ceiling.load,
            "Parquet, uncompressed": lambda: spark.read.parquet(str(folder / "parquet")),
            "mqstore with bodies": lambda: source(*WITH_BODY),
            "mqstore without bodies": lambda: source(*WITHOUT_BODY),
        }
        taken: dict[str, list[float]] = {name: [] for name in ways}
        for frame in ways.values():
            seconds(frame())  # warm
        for _ in range(given.rounds):
            for name, frame in ways.items():
                taken[name].append(seconds(frame()))
        first = statistics.median(next(iter(taken.values())))
        rounds = f"median of {given.rounds}"
        print(f"{size / 2**30:.2f} GiB of log, {count:,} messages of {BODY_SIZE} bytes, local[2], {rounds}")
        print("| | s | GiB/s | of the ceiling |\n|-|-|-|-|")
        for name, times in taken.items():
            median = statistics.median(times)
            print(f"| {name} | {median:.2f} | {size / 2**30 / median:.2f} | {first / median:.2f} |")
    finally:
        spark.stop()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
