"""A batch that goes on where a driver was killed: what of the log counts as its rows, and where nobody can tell."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import StringType, StructType

import mqstore
from mqstore.spark.sink import MessageStreamWriter
from mqstore.spark.source import MQStoreDataSource
from mqstore.verify import repair
from tests.spark.made import SMALL, damage
from tests.spark.test_sink import begin_batch, bodies, stage, store_options, stream_writer

ROWS = [b"0-%04d" % number for number in range(300)]


def copy_to(path: Path, topic: str) -> None:
    """What a forwarder or a replay makes of all there is: the same properties under another topic."""
    with mqstore.open(path, "rw", **SMALL) as store:
        for message in list(store.select()):
            own = {name: value for name, value in message.properties.items() if name != "UNIQ_KEY"}
            store.put(topic, bytes(message.body), properties=own, queue_id=0)


@pytest.mark.parametrize("topic", ["forward", "t"])
def test_copies_of_rows_are_no_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, topic: str) -> None:
    path = tmp_path / "store"
    begin_batch(stream_writer(str(path)), 100, monkeypatch)
    copy_to(path, topic)
    writer = stream_writer(str(path))
    writer.commit(stage(writer, 0, 0), 0)
    assert bodies(path) == ROWS[:100] * 2 + ROWS[100:]


@pytest.mark.parametrize(
    ("to", "bodies_differ"), [("t1", True), ("forward", False)], ids=["a topic of rows", "another, of the same body"]
)
def test_copies_are_told_by_topic_and_body(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, to: str, *, bodies_differ: bool
) -> None:
    path = tmp_path / "store"
    schema = StructType().add("topic", StringType()).add("body", StringType())
    rows = [{"topic": f"t{at % 2}", "body": f"row {at * bodies_differ}"} for at in range(40)]

    def commit() -> None:
        source = MQStoreDataSource({"path": str(path), "sinkId": "once", **store_options()})
        writer = source.streamWriter(schema, overwrite=False)
        assert isinstance(writer, MessageStreamWriter)
        parts = (rows[:3], rows[3:11], rows[11:])
        writer.commit([writer.write(iter([pa.RecordBatch.from_pylist(part)])) for part in parts], 0)

    put_arrow = mqstore.MessageStore.put_arrow
    left = [2]

    def some(store: mqstore.MessageStore, given: pa.RecordBatchReader, **options: Any) -> None:
        if not left[0]:
            raise ZeroDivisionError
        left[0] -= 1
        put_arrow(store, given, **options)

    with monkeypatch.context() as killed:
        killed.setattr(mqstore.MessageStore, "put_arrow", some)
        with pytest.raises(ZeroDivisionError):
            commit()
    copy_to(path, to)
    commit()
    with mqstore.open(path) as store:
        found = [(message.topic, bytes(message.body)) for message in store.select()]
    put = [(row["topic"], row["body"].encode()) for row in rows]
    assert found == put[:11] + [(to, body) for _, body in put[:11]] + put[11:]


@pytest.mark.parametrize("way", ["repaired", "damaged", "repaired to another place"])
def test_where_the_log_has_a_hole_nobody_can_tell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    path = tmp_path / "store"
    begin_batch(stream_writer(str(path)), 100, monkeypatch)
    with mqstore.open(path, "rw", **SMALL) as store:
        hole = [message.commit_log_offset for message in store.select()][50]
        # So far back the log is not looked at when it is opened.
        for _ in range(800):
            store.put("other", b"x" * 400, queue_id=0)
    damage(path, hole + 4)
    if way == "repaired":
        repair(path)
    elif way != "damaged":
        repair(path, tmp_path / "elsewhere")
        path = tmp_path / "elsewhere"
    left = Counter(bodies(path))
    state = path / "mqstore" / "spark" / "once" / "batch.json"
    known = state.read_bytes()
    writer = stream_writer(str(path))
    for _ in range(2):
        with pytest.raises(mqstore.MQStoreError, match=rf"batch once:0 .* has a hole at {hole}, .*batch\.json"):
            writer.commit(stage(writer, 0, 0), 0)
        assert (Counter(bodies(path)), state.read_bytes()) == (left, known)
    # As the error says.
    state.write_text(json.dumps(json.loads(known) | {"is_done": True}))
    writer.commit(stage(writer, 0, 0), 0)
    assert Counter(bodies(path)) == left


def test_a_hole_before_a_batch_is_none_of_its(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "store"
    with mqstore.open(path, "rw", **SMALL) as store:
        store.put_many("t", [b"before"] * 10, queue_id=0)
        hole = [message.commit_log_offset for message in store.select()][5]
    damage(path, hole + 4)
    repair(path)
    begin_batch(stream_writer(str(path)), 100, monkeypatch)
    # As of one that recovery came upon.
    monkeypatch.setattr(mqstore.MessageStore, "_gaps", lambda _: [(0, hole, None)])
    writer = stream_writer(str(path))
    writer.commit(stage(writer, 0, 0), 0)
    assert bodies(path)[-300:] == ROWS


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b'{"batch": 3',
        b"\xff",
        b"[]",
        b'{"batch": 0}',
        b'{"batch": 0, "is_done": "true", "from_phy_offset": 0, "files": []}',
        b'{"batch": "x", "is_done": true, "from_phy_offset": 0, "files": []}',
        b'{"batch": 0, "is_done": false, "from_phy_offset": 0, "files": "a"}',
    ],
)
def test_a_damaged_file_of_a_batch_is_told_with_what_to_do(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "store"
    writer = stream_writer(str(path))
    writer.commit(stage(writer, 0, 0), 0)
    state = path / "mqstore" / "spark" / "once" / "batch.json"
    state.write_bytes(content)
    staged = stage(writer, 1, 0)
    with pytest.raises(mqstore.MQStoreError, match=r"once/batch\.json is damaged .*Restore it, or remove it to put"):
        writer.commit(staged, 1)
    assert bodies(path) == ROWS
    state.unlink()
    writer.commit(staged, 1)
    assert len(bodies(path)) == 600
