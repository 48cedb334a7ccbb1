"""What goes into a store from Spark: every row, once, in its order, whoever is killed when."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import BinaryType, IntegerType, MapType, StringType, StructType

import mqstore
import mqstore.spark
from mqstore.errors import OptionError
from mqstore.spark.sink import BATCH_PROPERTY, MessageStreamWriter
from mqstore.spark.source import MQStoreDataSource
from mqstore.verify import repair
from tests.expiring import expire
from tests.spark.made import SMALL, fill

SCHEMA = "topic string, body binary, keys string, properties map<string, string>"
KILLED = 9


def given(count: int) -> list[tuple[str, bytes, str, dict[str, str]]]:
    """Rows for a sink."""
    return [(f"t{number % 2}", b"%06d" % number, f"k{number}", {"n": str(number)}) for number in range(count)]


def store_options(**more: Any) -> dict[str, Any]:
    """Small files."""
    return {f"store.{name}": value for name, value in SMALL.items()} | more


def test_rows_become_messages(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "store"
    frame = spark.createDataFrame(given(500), SCHEMA).repartition(3)
    for _ in range(2):
        frame.write.format("mqstore").options(**store_options()).mode("append").save(str(path))
    with mqstore.open(path) as store:
        found = Counter(
            (message.topic, bytes(message.body), message.keys, message.properties["n"]) for message in store.select()
        )
    assert found == Counter({(topic, body, (key,), own["n"]): 2 for topic, body, key, own in given(500)})
    assert not [file for file in (path / "mqstore" / "spark").rglob("*") if file.is_file()]
    assert max(file.stat().st_size for file in (path / "commitlog").iterdir()) == SMALL["mappedFileSizeCommitLog"]


def test_queues_and_order(spark: SparkSession, tmp_path: Path) -> None:
    rows = [(number, f"user-{number % 9}", b"%06d" % number) for number in range(900)]
    ordered = spark.createDataFrame(rows, "n int, keys string, body binary").coalesce(1).orderBy("n")
    path = tmp_path / "store"
    ordered.drop("n").write.format("mqstore").options(topic="t", partitioner="keys").mode("append").save(str(path))
    by_queue = ordered.selectExpr("body", "cast(n % 3 as int) queue_id")
    by_queue.write.format("mqstore").options(topic="u").mode("append").save(str(path))
    with mqstore.open(path) as store:
        queues: dict[str, set[int]] = {}
        for message in store.select("t"):
            queues.setdefault(message.keys[0], set()).add(message.queue_id)
        assert all(len(ids) == 1 for ids in queues.values())
        assert len({queue_id for ids in queues.values() for queue_id in ids}) > 1
        for topic in ("t", "u"):
            last: dict[int, bytes] = {}
            for message in store.select(topic):
                assert last.get(message.queue_id, b"") < bytes(message.body)
                last[message.queue_id] = bytes(message.body)
        assert {message.queue_id for message in store.select("u")} == {0, 1, 2}
        assert store.select("t").count() == store.select("u").count() == 900


def parse(schema: str) -> StructType:
    """A schema as Spark reads it."""
    parsed = StructType.fromDDL(schema)
    assert isinstance(parsed, StructType)
    return parsed


@pytest.mark.parametrize(
    ("schema", "options", "message"),
    [
        ("body binary", {}, "option topic=: it is needed"),
        ("topic string, body binary", {"topic": "t"}, "option topic=t: it contradicts the column topic"),
        ("topic string", {}, "option schema=topic: a sink needs the column body"),
        ("topic string, body int", {}, "option schema=body int: the column's type is binary or string"),
        ("topic string, body binary, x int", {}, "option schema=x: a sink takes the columns"),
        ("topic string, body binary, keys array<int>", {}, "option schema=keys array<int>"),
        ("body binary", {"topic": "t", "partitioner": "hash"}, "option partitioner=hash: expected one of turns, keys"),
        ("body binary", {"topic": "t", "sinkId": "a/b"}, "option sinkId=a/b: expected letters"),
        ("body binary", {"topic": "t", "sinkId": ".."}, "option sinkId=..: expected letters"),
        ("body binary", {"topic": "t", "sinkId": "."}, "option sinkId=.: expected letters"),
        ("body binary", {"topic": "t", "nope": "1"}, "option nope=1: there is no such option"),
        ("body binary", {"topic": "t", "store.nope": "1"}, "option store.nope=1: there is no such option of a store"),
        ("body binary", {"topic": "t", "store.maxMessageSize": "x"}, "option max_message_size=x: "),
        ("body binary", {"topic": "t"}, "option sinkId=: a stream needs it"),
        ("body binary", {"topic": "t", "checkpointLocation": "/nowhere"}, "option checkpointLocation=/nowhere: "),
        ("body binary", {"topic": "t", "checkpointLocation": "dbfs:/x"}, "option checkpointLocation=dbfs:/x: "),
    ],
)
@pytest.mark.usefixtures("spark")  # which parses the schemas
def test_contradictions_are_errors(tmp_path: Path, schema: str, options: dict[str, str], message: str) -> None:
    source = MQStoreDataSource({"path": str(tmp_path / "store"), **options})
    with pytest.raises(OptionError) as caught:
        source.streamWriter(parse(schema), overwrite=False)
    assert message in str(caught.value)


def test_errors_on_the_driver(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.createDataFrame(given(5), SCHEMA)
    writer = frame.write.format("mqstore")
    with pytest.raises(PySparkException, match="option mode=overwrite: a store is only appended to"):
        writer.mode("overwrite").save(str(tmp_path / "store"))
    with mqstore.open(tmp_path / "store", "rw", **SMALL), pytest.raises(PySparkException, match="StoreLockedError"):
        writer.mode("append").save(str(tmp_path / "store"))
    assert not [file for file in (tmp_path / "store" / "mqstore" / "spark").rglob("*") if file.is_file()]


def test_a_stream_from_one_store_into_another(spark: SparkSession, tmp_path: Path) -> None:
    known = fill(tmp_path / "from", 200)
    frame = (
        spark.readStream.format("mqstore")
        .schema(mqstore.spark.schema("topic", "body", "properties"))
        .options(startingOffsets="earliest", maxOffsetsPerTrigger=90)
        .load(str(tmp_path / "from"))
    )
    checkpoint = tmp_path / "checkpoint"
    for _ in range(2):
        writer = frame.writeStream.format("mqstore").options(checkpointLocation=str(checkpoint), **store_options())
        writer.trigger(availableNow=True).start(str(tmp_path / "to")).awaitTermination()
    query_id = json.loads((checkpoint / "metadata").read_text())["id"]
    with mqstore.open(tmp_path / "to") as store:
        found = list(store.select())
        assert sorted(message.properties["number"] for message in found) == sorted(
            row["properties"]["number"] for row in known
        )
        batches = Counter(message.properties[BATCH_PROPERTY] for message in found)
    assert batches == {f"{query_id}:0": 90, f"{query_id}:1": 90, f"{query_id}:2": 20}


# ---- exactly once ----------------------------------------------------------------------------------

_COMMIT = """
import functools, os, sys
import pyarrow as pa
import mqstore
from mqstore.spark import sink
from tests.spark.test_sink import stage, stream_writer
path, batch, left = sys.argv[1], int(sys.argv[2]), [int(sys.argv[3])]

def step():
    if left[0] == 0:
        os._exit(9)
    left[0] -= 1

def dying(call):
    @functools.wraps(call)
    def counted(*args, **kwargs):
        step()
        result = call(*args, **kwargs)
        step()
        return result
    return counted

def dying_batches(rows):
    for batch in rows:
        step()
        yield batch
        step()

def dying_rows(file, skipped, rows_behind=sink.rows_behind):
    skipped, rows = rows_behind(file, skipped)
    return skipped, rows and pa.RecordBatchReader.from_batches(rows.schema, dying_batches(rows))

sink.rows_behind = dying_rows
for name in ("put_arrow", "flush", "_replace_config", "close"):
    setattr(mqstore.MessageStore, name, dying(getattr(mqstore.MessageStore, name)))
writer = stream_writer(path)
writer.commit(stage(writer, batch, int(sys.argv[4])), batch)
"""


def stream_writer(path: str, **more: Any) -> MessageStreamWriter:
    """What Spark runs on the driver."""
    source = MQStoreDataSource({"path": path, "sinkId": "once", "topic": "t"} | store_options(**more))
    schema = StructType().add("body", BinaryType()).add("queue_id", IntegerType()).add("tags", StringType())
    writer = source.streamWriter(schema, overwrite=False)
    assert isinstance(writer, MessageStreamWriter)
    return writer


def stage(writer: MessageStreamWriter, batch: int, turn: int) -> list[Any]:
    """What a batch's tasks stage; each attempt deals its rows differently, as a shuffle may."""
    rows = [{"body": b"%d-%04d" % (batch, number), "queue_id": number % 3, "tags": "x"} for number in range(300)]
    if turn:
        rows.reverse()
    middle = 100 + 50 * turn

    def batches(part: list[dict[str, Any]]) -> Iterator[pa.RecordBatch]:
        for at in range(0, len(part), 50):
            yield pa.RecordBatch.from_pylist(part[at : at + 50])

    return [writer.write(batches(part)) for part in (rows[:middle], rows[middle:], [])]


def test_a_batch_is_there_once_wherever_its_driver_is_killed(tmp_path: Path) -> None:
    path = str(tmp_path / "store")
    expected: list[bytes] = []
    ended = KILLED
    batch = 0
    partial = 0
    while ended == KILLED:
        # Some steps more each time, before a call or a batch or behind it, until none is left to be killed in.
        command = [sys.executable, "-c", _COMMIT, path, str(batch), str(batch * 4), str(batch % 2)]
        ended = subprocess.run(command, cwd=Path(__file__).parents[2], check=False).returncode
        assert ended in {0, KILLED}
        with mqstore.open(path, "rw", **SMALL) as store:
            there = sum(message.properties[BATCH_PROPERTY] == f"once:{batch}" for message in store.select())
            partial += 0 < there < 300
        # Another attempt, then one that comes again though the batch is done, and a stale one.
        for turn in (1 - batch % 2, 0):
            writer = stream_writer(path)
            writer.commit(stage(writer, batch, turn), batch)
        if batch:
            writer.commit(stage(writer, batch - 1, 0), batch - 1)
        expected += [b"%d-%04d" % (batch, number) for number in range(300)]
        with mqstore.open(path) as store:
            assert sorted(bytes(message.body) for message in store.select()) == sorted(expected)
        assert not list((tmp_path / "store" / "mqstore" / "spark" / "once" / "staged").iterdir())
        batch += 1
    assert batch > 5
    assert partial > 1, "no driver was killed in the middle of a batch"


def test_what_a_store_makes_of_messages_is_not_taken_for_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker runs between a driver that was killed and the next: it delivers, and a consumer gives back."""
    path = str(tmp_path / "store")
    levels = "1s 1s 1s"
    due_ms = time.time_ns() // 1_000_000 + 3_000
    options = {"path": path, "sinkId": "once", "topic": "t", "store.messageDelayLevel": levels}
    schema = StructType().add("body", BinaryType()).add("properties", MapType(StringType(), StringType()))

    def commit() -> None:
        writer = MQStoreDataSource(options).streamWriter(schema, overwrite=False)
        assert isinstance(writer, MessageStreamWriter)
        of = {0: [("DELAY", "1")], 1: [("MQSTORE_DELIVER_AT", str(due_ms))]}
        rows = [{"body": b"%d" % at, "properties": of.get(at % 4, [])} for at in range(20)]
        arrow = pa.schema({"body": pa.binary(), "properties": pa.map_(pa.string(), pa.string())})
        writer.commit([writer.write(iter([pa.RecordBatch.from_pylist(rows, arrow)]))], 0)

    def half(store: mqstore.MessageStore, rows: pa.RecordBatchReader, **given: Any) -> None:
        put_arrow(store, rows.read_all().slice(0, 10), **given)
        raise ZeroDivisionError

    put_arrow = mqstore.MessageStore.put_arrow
    with monkeypatch.context() as killed:
        killed.setattr(mqstore.MessageStore, "put_arrow", half)
        with pytest.raises(ZeroDivisionError):
            commit()
    with mqstore.open(path, "rw", schedule_messages=True, messageDelayLevel=levels) as store:
        with store.consumer("g", "t", timeout=60, from_where="first") as consumer:
            for number, message in enumerate(consumer):
                if number < 5:
                    consumer.reconsume_later(message)
                if number == 14:
                    break
        assert store.select().count() > 20
    commit()
    with mqstore.open(path) as store:
        rows = [message for message in store.select() if BATCH_PROPERTY in message.properties]
        found = {int(bytes(message.body)) for message in rows}
    assert found == set(range(20))


def test_a_batch_says_that_it_begins_once_its_rows_are_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "store"
    writer = stream_writer(str(path))
    messages = stage(writer, 0, 0)
    synced: set[int] = set()
    told: list[set[str]] = []
    needed = [path / "mqstore", path / "mqstore" / "spark", path / "mqstore" / "spark" / "once"]
    needed += [needed[-1] / "staged", *(Path(each.file) for each in messages if each.file)]
    fsync, replace = os.fsync, mqstore.MessageStore._replace_config

    def sync(handle: int) -> None:
        synced.add(os.fstat(handle).st_ino)
        fsync(handle)

    def tell(store: mqstore.MessageStore, *given: Any) -> None:
        told.append({each.name for each in needed if each.stat().st_ino not in synced})
        replace(store, *given)

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(mqstore.MessageStore, "_replace_config", tell)
    monkeypatch.setattr("mqstore.spark.sink.remove", lambda _: None)
    writer.commit(messages, 0)
    assert told == [set(), set()]


def test_an_abort_keeps_what_a_begun_batch_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "store")
    writer = stream_writer(path)
    messages = stage(writer, 0, 0)
    with monkeypatch.context() as broken:
        broken.setattr(mqstore.MessageStore, "flush", lambda _: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            writer.commit(messages, 0)
    writer.abort(messages, 0)
    writer.abort(unneeded := stage(writer, 0, 1), 0)
    assert not any(Path(each.file).exists() for each in unneeded if each.file)
    writer.commit(stage(writer, 0, 1), 0)
    with mqstore.open(path) as store:
        assert len({bytes(message.body) for message in store.select()}) == store.select().count() == 300


@pytest.mark.parametrize("way", ["moved", "repaired"])
def test_a_begun_batch_is_put_where_its_store_lies_by_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    path, elsewhere = tmp_path / "store", tmp_path / "elsewhere"
    writer = stream_writer(str(path))
    begin_batch(writer, 70, monkeypatch)
    if way == "moved":
        path.rename(elsewhere)
    else:
        repair(path, elsewhere, **SMALL)
        shutil.rmtree(path)
    writer = stream_writer(str(elsewhere))
    writer.abort(stage(writer, 0, 1), 0)
    writer.commit(stage(writer, 0, 1), 0)
    assert bodies(elsewhere) == [b"0-%04d" % number for number in range(300)]


def begin_batch(writer: MessageStreamWriter, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver that dies once it has put some rows of batch 0."""
    put_arrow = mqstore.MessageStore.put_arrow

    def some(store: mqstore.MessageStore, rows: pa.RecordBatchReader, **given: Any) -> None:
        if count:
            put_arrow(store, rows.read_all().slice(0, count), **given)
        raise ZeroDivisionError

    with monkeypatch.context() as killed:
        killed.setattr(mqstore.MessageStore, "put_arrow", some)
        with pytest.raises(ZeroDivisionError):
            writer.commit(stage(writer, 0, 0), 0)


def bodies(path: Path) -> list[bytes]:
    """What a store's messages say, in the log's order."""
    with mqstore.open(path) as store:
        return [bytes(message.body) for message in store.select()]


def test_a_batch_of_which_nothing_is_put_is_taken_as_it_is_staged_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "store"
    writer = stream_writer(str(path))
    begin_batch(writer, 0, monkeypatch)
    known = json.loads((path / "mqstore" / "spark" / "once" / "batch.json").read_text())
    with mqstore.open(path, "rw", **SMALL) as store:
        store.put("other", b"meanwhile")
    writer = stream_writer(str(path))
    again = stage(writer, 0, 1)
    begin_again = [each.file and Path(each.file).name for each in again]
    with monkeypatch.context() as killed:
        killed.setattr(MessageStreamWriter, "_put", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            writer.commit(again, 0)
    writer.abort(again, 0)
    folder = path / "mqstore" / "spark" / "once"
    begun = json.loads((folder / "batch.json").read_text())
    assert begun["files"] == [name for name in begin_again if name] != known["files"]
    assert begun["from_phy_offset"] > known["from_phy_offset"]
    assert {file.name for file in (folder / "staged").iterdir()} == set(begun["files"])
    writer.commit(stage(writer, 0, 0), 0)
    assert bodies(path) == [b"meanwhile", *(b"0-%04d" % number for number in range(300))]


def test_a_row_that_the_store_refuses_goes_with_the_query_that_is_repaired(tmp_path: Path) -> None:
    path = tmp_path / "store"
    refused = pa.RecordBatch.from_pylist([{"body": b"good"}, {"body": b"x" * 5000}])
    # Whoever staged it did not know of the option.
    staging, writer = stream_writer(str(path)), stream_writer(str(path), **{"store.maxMessageSize": 2000})
    for _ in range(2):
        messages: list[Any] = [staging.write(iter(rows)) for rows in ([], [refused])]
        with pytest.raises(mqstore.errors.MessageIllegalError, match="row 1: option maxMessageSize=2000") as caught:
            writer.commit(messages, 0)
        assert caught.value.__notes__ == [f"it is row 1 of the staged file {messages[1].file}"]
        writer.abort(messages, 0)
    writer.commit([writer.write(iter([refused.slice(0, 1)]))], 0)
    assert bodies(path) == [b"good"]
    assert not list((path / "mqstore" / "spark" / "once" / "staged").iterdir())


@pytest.mark.parametrize("count", [0, 70])
def test_a_batch_whose_first_rows_retention_may_have_removed_is_not_put_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    path = tmp_path / "store"
    begin_batch(stream_writer(str(path)), count, monkeypatch)
    with mqstore.open(path, "rw", **SMALL) as store:
        for _ in range(400):
            store.put("other", b"x" * 400)
        expire(store, 1)
    left = bodies(path)
    state = path / "mqstore" / "spark" / "once" / "batch.json"
    known = state.read_bytes()
    writer = stream_writer(str(path))
    for _ in range(2):
        with pytest.raises(mqstore.MQStoreError, match=r"batch once:0 .* begun at 0 .* begins at 65536") as caught:
            writer.commit(stage(writer, 0, 0), 0)
        assert str(state) in str(caught.value)
        assert bodies(path) == left
        assert state.read_bytes() == known
    # As the error says.
    state.write_text(json.dumps(json.loads(known) | {"is_done": True}))
    writer.commit(stage(writer, 0, 0), 0)
    assert bodies(path) == left
    state.unlink()
    writer.commit(stage(writer, 0, 0), 0)
    assert bodies(path) == left + [b"0-%04d" % number for number in range(300)]


def test_a_batch_that_is_done_stays_done_where_retention_removed_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "store"
    with mqstore.open(path, "rw", **SMALL) as store:
        for _ in range(400):
            store.put("other", b"x" * 400)
    begin_batch(stream_writer(str(path)), 70, monkeypatch)
    with mqstore.open(path, "rw", **SMALL) as store:
        expire(store, 1)
    for number in (0, 0, 1):
        writer = stream_writer(str(path))
        writer.commit(stage(writer, number, 0), number)
        if number == 0:
            assert [body for body in bodies(path) if body[:2] == b"0-"] == [b"0-%04d" % row for row in range(300)]
        with mqstore.open(path, "rw", **SMALL) as store:
            expire(store, 1)


def test_a_refused_row_behind_those_that_are_in_the_store_is_told_by_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "store"
    begin_batch(stream_writer(str(path)), 70, monkeypatch)
    staged = stage(stream_writer(str(path)), 0, 1)
    writer = stream_writer(str(path), **{"store.maxMessageSize": 10})
    with pytest.raises(mqstore.errors.MessageIllegalError, match="row 0: option maxMessageSize=10") as caught:
        writer.commit(staged, 0)
    assert "it is row 70 of the staged file " in caught.value.__notes__[0]
    assert "70 rows of the batch are in the store" in caught.value.__notes__[1]
