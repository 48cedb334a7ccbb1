"""Rows that are no messages, or that a store does not take: told by their tasks, as far as tasks can tell."""

import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

import mqstore
from mqstore.spark.sink import BATCH_PROPERTY
from mqstore.spark.source import MQStoreDataSource
from mqstore.spark.staging import stage
from tests.spark.made import SMALL
from tests.spark.test_sink import SCHEMA, given, parse, store_options


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (("t", None, "k", {}), "row 2, column body: it is null"),
        ((None, b"x", "k", {}), "row 2, column topic: it is null, and no topic is given for all rows"),
        (("a/b", b"x", "k", {}), 'row 2, column topic: "a/b" is no topic'),
        (("t", b"x", "k", {"p": None}), 'row 2, column properties: the value of "p" is null'),
    ],
)
def test_a_bad_row_is_told_before_any_is_put(
    spark: SparkSession, tmp_path: Path, row: tuple[Any, ...], message: str
) -> None:
    rows = [*given(2), row, *given(200)]
    frame = spark.createDataFrame(rows, SCHEMA).coalesce(1)
    with pytest.raises(PySparkException) as caught:
        frame.write.format("mqstore").mode("append").save(str(tmp_path / "store"))
    assert message in str(caught.value)
    assert not (tmp_path / "store" / "commitlog").exists()
    assert not [file for file in (tmp_path / "store").rglob("*") if file.is_file()]


def test_a_bad_row_is_told_by_its_number_in_the_task(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.createDataFrame([*given(25), ("t", None, "k", {})], SCHEMA).coalesce(1)
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", 10)
    try:
        with pytest.raises(PySparkException, match="row 25, column body: it is null"):
            frame.write.format("mqstore").mode("append").save(str(tmp_path / "store"))
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")


REFUSED: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "large": ({"body": b"x" * 5000}, {"store.maxMessageSize": 2000}, "option maxMessageSize=2000: the record has 5"),
    "larger than a file": ({"body": b"x" * 66_000}, {}, "do not fit a log file of 65536 bytes"),
    "long topic": ({"topic": "t" * 128}, {}, "it has 1 to 127 bytes"),
    "topic of others": ({"topic": "MQSTORE_TIMED_TOPIC"}, {}, "option topic=MQSTORE_TIMED_TOPIC: "),
    "queue": ({"queue_id": -1}, {}, "column queue_id: expected 0 to"),
    "long properties": ({"properties": [("a", "x" * 32_760)]}, {}, "properties have at most 32767 bytes"),
    "separator": ({"properties": [("a", "x\x01y")]}, {}, "holds U+0001 or U+0002"),
    "separator in keys": ({"keys": "a\x02b"}, {}, "holds U+0001 or U+0002"),
    "level": ({"properties": [("DELAY", "soon")]}, {}, "a delay level is a number"),
    "time": ({"properties": [("MQSTORE_DELIVER_AT", "soon")]}, {}, "expected a time in milliseconds"),
    "far time": ({"properties": [("MQSTORE_DELIVER_AT", str(1 << 50))]}, {}, "farther ahead than"),
    "both": ({"properties": [("MQSTORE_DELIVER_AT", "1"), ("DELAY", "1")]}, {}, "has a delay level too"),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("is_stream", [True, False], ids=["stream", "batch"])
@pytest.mark.usefixtures("spark")  # which parses the schema
def test_a_row_that_the_store_refuses_is_told_by_its_task(tmp_path: Path, name: str, *, is_stream: bool) -> None:
    """What can be told of a row alone, and by its number in the task."""
    bad, options, message = REFUSED[name]
    path = tmp_path / "store"
    # Its files say how large they are, not the options.
    with mqstore.open(path, "rw", **SMALL) as store:
        store.put("t", b"x")
    source = MQStoreDataSource({"path": str(path), "sinkId": "once", **options})
    schema = parse(SCHEMA + ", queue_id int")
    writer: Any = (source.streamWriter if is_stream else source.writer)(schema, overwrite=False)
    row = {"topic": "t", "body": b"x", "keys": "k", "properties": [("n", "1")], "queue_id": 0}
    arrow = to_arrow_schema(schema)
    batches = [pa.RecordBatch.from_pylist(rows, arrow) for rows in ([row] * 3, [row, row | bad], [row])]
    with pytest.raises(mqstore.errors.MessageIllegalError) as caught:
        writer.write(iter(batches))
    assert str(caught.value).startswith("row 4")
    assert message in str(caught.value)
    assert caught.value.row == 4
    # As the store says of the same row.
    of_store: dict[str, Any] = {name.removeprefix("store."): value for name, value in options.items()}
    with mqstore.open(path, "rw", **of_store) as store:
        with pytest.raises(mqstore.errors.MessageIllegalError) as said:
            store.put_arrow(
                pa.Table.from_batches(batches), properties={BATCH_PROPERTY: "once:0"} if is_stream else None
            )
        assert str(said.value).removeprefix("row 4: ") == str(caught.value).removeprefix("row 4: ")


def test_a_row_that_the_store_alone_refuses_is_told(spark: SparkSession, tmp_path: Path) -> None:
    light = ("t", b"x", "k", {"INNER_MULTI_DISPATCH": "%LMQ%a"})
    frame = spark.createDataFrame([*given(3), light, light], SCHEMA).coalesce(1)
    multi: dict[str, Any] = {"enableMultiDispatch": True, "enableLmq": True, "maxLmqConsumeQueueNum": 0}
    with mqstore.open(tmp_path / "store", "rw", **SMALL, **multi) as store:
        store.put("t", b"x", queue_id=0, properties=light[3])
    options = store_options(**{f"store.{name}": value for name, value in multi.items()})
    with pytest.raises(PySparkException, match="row 3: option maxLmqConsumeQueueNum=0: there are more"):
        frame.write.format("mqstore").options(**options).mode("append").save(str(tmp_path / "store"))
    with pytest.raises(PySparkException, match=r"it is row 3 of the staged file /\S+/job-\w+/task-0-\w+\.arrow"):
        frame.write.format("mqstore").options(**options).mode("append").save(str(tmp_path / "store"))


@pytest.mark.parametrize("is_disk_full", [False, True])
def test_a_task_that_fails_leaves_nothing_that_it_staged(tmp_path: Path, *, is_disk_full: bool) -> None:
    batch = pa.record_batch({"body": [bytes(100_000)]})
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)

    def batches() -> Iterator[pa.RecordBatch]:
        yield batch
        assert len(list(tmp_path.iterdir())) == 1
        if not is_disk_full:
            raise ValueError("a bad row")
        resource.setrlimit(resource.RLIMIT_FSIZE, (150_000, limits[1]))
        yield batch

    try:
        with pytest.raises(OSError if is_disk_full else ValueError) as raised:
            stage(tmp_path, batches(), prefix="task-0-")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert any("staged in" in note and "task-0-" in note for note in raised.value.__notes__)
    assert list(tmp_path.iterdir()) == []
    assert stage(tmp_path, [batch]) == str(next(tmp_path.iterdir()))
