"""put_arrow: the records that put_many makes of the same messages, whichever types a table has."""

import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import mqstore
from mqstore import _native
from mqstore.errors import MessageIllegalError, ReadOnlyError, SlaveNotAvailableError, StoreClosedError
from mqstore.options import StoreOptions
from tests.store_files import log_contents, queue_contents

SMALL: dict[str, Any] = {
    "mappedFileSizeCommitLog": 64 << 10,
    "mappedFileSizeConsumeQueue": 2000,
    "maxHashSlotNum": 50,
    "maxIndexNum": 3000,
}
COUNT = 1000
BORN_MS = 1_700_000_000_000


def opened(path: Path, **given: Any) -> mqstore.MessageStore:
    """A store that puts everything at one time."""
    return mqstore.open(path, "rw", clock=lambda: BORN_MS, **(SMALL | given))


def columns() -> dict[str, list[Any]]:
    """Messages of all kinds, by columns."""
    return {
        "body": [bytes([number % 251]) * (number % 400) for number in range(COUNT)],
        "keys": [None if number % 3 == 0 else f"k{number} all" for number in range(COUNT)],
        "tags": [None if number % 4 == 0 else f"t{number % 7}" for number in range(COUNT)],
        "properties": [
            {} if number % 5 == 0 else {f"p{at}": f"v{number}" for at in range(number % 20)} for number in range(COUNT)
        ],
    }


SCHEMA = pa.schema(
    {"body": pa.binary(), "keys": pa.string(), "tags": pa.string(), "properties": pa.map_(pa.string(), pa.string())}
)


def table(**more: Any) -> pa.Table:
    """Those messages as a table."""
    given = columns()
    given["properties"] = [list(each.items()) for each in given["properties"]]
    made = pa.table(given, schema=SCHEMA)
    for name, values in more.items():
        made = made.append_column(name, values)
    return made


def put_many(path: Path, **given: Any) -> Path:
    """What put_many makes of them."""
    values = columns()
    with opened(path) as store:
        store.put_many(
            "orders",
            values["body"],
            keys=values["keys"],
            tags=values["tags"],
            properties=values["properties"],
            born_timestamp=BORN_MS,
            unique_key=False,
            **given,
        )
    return path


def put_arrow(path: Path, data: Any, **given: Any) -> Path:
    """What put_arrow makes of a table."""
    with opened(path) as store:
        assert store.put_arrow(data, topic="orders", born_timestamp=BORN_MS, unique_key=False, **given) == COUNT
    return path


def stored(path: Path) -> tuple[object, object]:
    """All bytes of log and queues."""
    return log_contents(path), queue_contents(path)


@pytest.mark.parametrize("given", [{}, {"queue_id": 3}, {"flag": 7, "wait_store_msg_ok": False}], ids=str)
def test_the_records_of_put_many(tmp_path: Path, given: dict[str, Any]) -> None:
    expected = put_many(tmp_path / "many", **given)
    found = put_arrow(tmp_path / "arrow", table(), **given)
    assert stored(found) == stored(expected)
    assert len(log_contents(found)) > 3, "the log has one file only"


def cast(**types: pa.DataType) -> pa.Table:
    """The table with columns of other types."""
    made = table()
    for name, kind in types.items():
        made = made.set_column(made.schema.get_field_index(name), name, made.column(name).cast(kind))
    return made


def in_batches() -> pa.RecordBatchReader:
    """A reader of slices, each of which begins inside its buffers."""
    whole = table().combine_chunks().to_batches()[0]

    def slices() -> Iterator[pa.RecordBatch]:
        for at in range(0, COUNT, 77):
            yield whole.slice(at, 77)

    return pa.RecordBatchReader.from_batches(SCHEMA, slices())


def key_lists() -> pa.Table:
    """The table with its keys as lists."""
    lists = [None if keys is None else keys.split(" ") for keys in columns()["keys"]]
    return table().set_column(1, "keys", pa.array(lists, pa.list_(pa.string())))


DICTIONARY = pa.dictionary(pa.int32(), pa.string())
FORMS: dict[str, Callable[[], Any]] = {
    "table": table,
    "reader": in_batches,
    "batch": lambda: table().combine_chunks().to_batches()[0],
    "large": lambda: cast(
        body=pa.large_binary(), keys=pa.large_string(), properties=pa.map_(pa.large_string(), pa.large_string())
    ),
    "views": lambda: cast(body=pa.binary_view(), keys=pa.string_view(), tags=pa.string_view()),
    "dictionary": lambda: cast(tags=DICTIONARY),
    "lists": key_lists,
    "large lists": lambda: key_lists().cast(
        pa.schema([pa.field("keys", pa.large_list(pa.string())) if f.name == "keys" else f for f in key_lists().schema])
    ),
    "topic": lambda: table(topic=[["orders"] * COUNT]),
    "topics in a dictionary": lambda: table(topic=pa.array(["orders"] * COUNT).dictionary_encode()),
    "born_timestamp": lambda: table(born_timestamp=[[BORN_MS] * COUNT]),
    "born_timestamp in ns": lambda: table(born_timestamp=pa.array([BORN_MS * 10**6 + 7] * COUNT, pa.timestamp("ns"))),
    "nulls": lambda: table(topic=pa.nulls(COUNT), flag=pa.nulls(COUNT, pa.int8()), queue_id=pa.nulls(COUNT)),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_type_gives_the_same(tmp_path: Path, form: str) -> None:
    expected = put_many(tmp_path / "many")
    assert stored(put_arrow(tmp_path / "arrow", FORMS[form]())) == stored(expected)


def test_topics_and_queues_by_row(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"topic": f"t{n % 3}", "queue_id": n % 5, "flag": -n, "body": f"{n:04}"} for n in range(3000)
    ]
    with opened(tmp_path / "store") as store:
        assert store.put_arrow(pa.Table.from_pylist(rows)) == 3000
        for topic, queue_id in itertools.product(range(3), range(5)):
            found = [(bytes(message.body), message.flag) for message in store.topic(f"t{topic}").queue(queue_id)]
            assert found == [
                (row["body"].encode(), row["flag"])
                for row in rows
                if (row["topic"], row["queue_id"]) == (f"t{topic}", queue_id)
            ]
        assert len({message.unique_key for message in store.select()}) == 3000


def test_messages_of_the_same_keys_share_a_queue(tmp_path: Path) -> None:
    keys = [None if number % 10 == 0 else f"user-{number % 9}" for number in range(900)]
    with opened(tmp_path / "store") as store:
        store.put_arrow(pa.table({"body": ["x"] * 900, "keys": keys}), topic="t", partitioner="keys")
        queues: dict[str, set[int]] = {}
        for message in store.select("t"):
            queues.setdefault(" ".join(message.keys), set()).add(message.queue_id)
    assert len(queues.pop("")) > 1, "those without keys take turns"
    assert all(len(ids) == 1 for ids in queues.values())
    assert len(set.union(*queues.values())) > 1


def test_shared_properties_go_before_a_rows_own(tmp_path: Path) -> None:
    rows = pa.table(
        {"body": ["x", "y"], "properties": pa.array([[("a", "1"), ("UNIQ_KEY", "own")], None], SCHEMA.types[3])}
    )
    with opened(tmp_path / "store") as store:
        store.put_arrow(rows, topic="t", queue_id=0, properties={"a": "2", "b": "3"})
        first, second = store.topic("t").queue(0)
        assert first.properties == {"a": "2", "b": "3", "UNIQ_KEY": "own"}
        assert {name: second.properties[name] for name in "ab"} == {"a": "2", "b": "3"}
        assert len(second.properties["UNIQ_KEY"]) > 20


BAD_ROWS: dict[str, tuple[dict[str, Any], str, str]] = {
    "null body": ({"body": ["x", "x", None]}, "body", "row 2, column body: it is null"),
    "no topic": ({"body": ["x"] * 3, "topic": ["t", "t", None]}, "topic", "row 2, column topic: it is null"),
    "no folder": ({"body": ["x"] * 3, "topic": ["t", "t", "../x"]}, "topic", 'row 2, column topic: "../x" is no topic'),
    "negative queue": ({"body": ["x"] * 3, "queue_id": [0, 1, -1]}, "queue_id", "expected 0 to 2147483647, found -1"),
    "large flag": ({"body": ["x"] * 3, "flag": [0, 1, 1 << 40]}, "flag", "row 2, column flag: expected -2147483648"),
    "queue beyond Java's long": (
        {"body": ["x"] * 3, "queue_id": pa.array([0, None, (1 << 64) - 1], pa.uint64())},
        "queue_id",
        "row 2, column queue_id: expected at most 9223372036854775807, found 18446744073709551615",
    ),
    "time beyond Java's long": (
        {"body": ["x"] * 3, "born_timestamp": pa.array([0, None, 1 << 63], pa.uint64())},
        "born_timestamp",
        "row 2, column born_timestamp: expected at most 9223372036854775807, found 9223372036854775808",
    ),
    "seconds beyond Java's long": (
        {"body": ["x"] * 3, "born_timestamp": pa.array([0, None, (1 << 63) // 1000 + 1], pa.timestamp("s"))},
        "born_timestamp",
        "row 2, column born_timestamp: expected at most 9223372036854775807 ms around 1970, found 9223372036854776 s",
    ),
    "seconds before Java's long": (
        {"body": ["x"] * 3, "born_timestamp": pa.array([0, None, -(1 << 63)], pa.timestamp("s"))},
        "born_timestamp",
        "row 2, column born_timestamp: expected at most 9223372036854775807 ms around 1970, found -9223372036854775808",
    ),
    "space in key": ({"body": ["x"] * 3, "keys": [["a"], [], ["b c"]]}, "keys", "a key has no space"),
    "null key": ({"body": ["x"] * 3, "keys": [["a"], [], [None]]}, "keys", "row 2, column keys: a key is null"),
}


@pytest.mark.parametrize("name", BAD_ROWS)
def test_a_bad_row_is_told_by_number_and_column(tmp_path: Path, name: str) -> None:
    given, column, message = BAD_ROWS[name]
    default = None if "topic" in given else "t"
    with opened(tmp_path / "store") as store:
        for call in (lambda data: store.put_arrow(data, topic=default), _checker(tmp_path, default)):
            with pytest.raises(MessageIllegalError) as caught:
                call(pa.table(given))
            assert message in str(caught.value)
            assert (caught.value.row, caught.value.column) == (2, column)
        assert store.get_max_phy_offset() == 0, "rows before it were put"


def _checker(path: Path, default: str | None) -> Any:
    options = StoreOptions.of(path / "store", {}).engine(compat=False, truncate_on_damage=False, pread=False)
    return lambda data: _native.RowCheck(options, topic=default).check(data)


def test_what_the_store_refuses_is_told_by_number(tmp_path: Path) -> None:
    bodies = ["small"] * 9000 + ["x" * 4000] + ["small"] * 10
    with opened(tmp_path / "store", maxMessageSize=2000) as store:
        with pytest.raises(MessageIllegalError, match=r"row 9000: .*maxMessageSize") as caught:
            store.put_arrow(pa.table({"body": bodies}), topic="t")
        assert caught.value.row == 9000
        assert caught.value.put_count == store.select("t").count() == 8192, "those before its 4,096 are stored"
        null = pa.array([[("name", None)]], pa.map_(pa.string(), pa.string()))
        with pytest.raises(MessageIllegalError, match='row 0, column properties: the value of "name" is null'):
            store.put_arrow(pa.table({"body": ["x"], "properties": null}), topic="t")


def test_what_is_no_table_of_messages(tmp_path: Path) -> None:
    with opened(tmp_path / "store") as store:
        for data, message in [
            ({"text": ["x"]}, 'there is no column "text" to write; the columns are body, topic'),
            ({"topic": ["x"]}, "the column body is missing"),
            ({"body": [1]}, "column body: expected binary or strings, found Int64"),
            ({"body": ["x"], "keys": [[1]]}, "column keys: expected strings or lists of strings"),
            ({"body": ["x"], "properties": ["a=b"]}, "column properties: expected maps of strings to strings"),
            ({"body": ["x"], "born_timestamp": ["now"]}, "column born_timestamp: expected timestamps"),
        ]:
            with pytest.raises(ValueError, match=message):
                store.put_arrow(pa.table(data), topic="t")
        twice = pa.table([["x"], ["y"]], names=["body", "body"])
        with pytest.raises(ValueError, match="the column body is there twice"):
            store.put_arrow(twice, topic="t")
        with pytest.raises(TypeError, match=r"expected a table, a batch or a reader of Arrow .*, found list"):
            store.put_arrow([b"x"], topic="t")  # type: ignore[arg-type]
        with pytest.raises(ValueError, match='partitioner is turns or keys, not "hash"'):
            store.put_arrow(table(), topic="t", partitioner="hash")  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="queue_id=-1: expected an integer from 0"):
            store.put_arrow(table(), topic="t", queue_id=-1)
        assert store.put_arrow(table().slice(0, 0), topic="t") == 0
        assert store.get_max_phy_offset() == 0


def test_texts_that_are_none_are_not_believed(tmp_path: Path) -> None:
    offsets = pa.py_buffer((0).to_bytes(4, "little") + (2).to_bytes(4, "little"))
    broken = pa.Array.from_buffers(pa.string(), 1, [None, offsets, pa.py_buffer(b"\xff\xfe")])
    with opened(tmp_path / "store") as store, pytest.raises(ValueError, match="column tags: "):
        store.put_arrow(pa.table({"body": ["x"], "tags": broken}), topic="t")


def test_a_reader_that_breaks_off(tmp_path: Path) -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict({"body": ["x", "y"]})
        raise RuntimeError("the source is gone")

    reader = pa.RecordBatchReader.from_batches(pa.schema({"body": pa.string()}), batches())
    with opened(tmp_path / "store") as store:
        with pytest.raises(ValueError, match="the source is gone") as caught:
            store.put_arrow(reader, topic="t")
        assert vars(caught.value)["put_count"] == store.select("t").count() == 2


def test_a_store_that_takes_nothing(tmp_path: Path) -> None:
    store = opened(tmp_path / "store")
    store.close()
    with pytest.raises(StoreClosedError):
        store.put_arrow(table(), topic="t")
    with mqstore.open(tmp_path / "store") as reading, pytest.raises(ReadOnlyError):
        reading.put_arrow(table(), topic="t")


def test_it_waits_for_the_disk_once(tmp_path: Path) -> None:
    with opened(tmp_path / "store", flushDiskType="SYNC_FLUSH") as store:
        assert store.put_arrow(table(), topic="t") == COUNT
        assert store.get_flushed_where() == store.get_max_phy_offset()


def test_memory_stays_small(tmp_path: Path) -> None:
    """Of a reader one batch is there at a time."""
    alive: list[int] = []

    def batches() -> Iterator[pa.RecordBatch]:
        for _ in range(64):
            alive.append(pa.total_allocated_bytes())
            yield pa.RecordBatch.from_pydict({"body": [b"x" * 1000] * 1000}, schema=schema)

    schema = pa.schema({"body": pa.binary()})
    with opened(tmp_path / "store", mappedFileSizeCommitLog=16 << 20) as store:
        assert store.put_arrow(pa.RecordBatchReader.from_batches(schema, batches()), topic="t") == 64_000
    assert max(alive) - alive[0] < 4 << 20


def test_every_topic_gets_an_entry_in_topics_json(tmp_path: Path) -> None:
    with opened(tmp_path / "store") as store:
        store.put_arrow(
            pa.table({"body": ["x", "y"], "topic": ["a", "b"], "queue_id": pa.array([0, None], pa.int32())})
        )
        store.put_arrow(pa.table({"body": ["x"]}), topic="c", queue_id=1)
    content = json.loads((tmp_path / "store" / "config" / "topics.json").read_text())
    assert sorted(content["topicConfigTable"]) == ["a", "b", "c"]


def test_rows_that_nobody_confirms_are_counted(tmp_path: Path) -> None:
    with opened(tmp_path / "store", brokerRole="SYNC_MASTER", replication=True, haListenPort=0) as store:
        with pytest.raises(SlaveNotAvailableError) as caught:
            store.put_arrow(table(), topic="t")
        assert vars(caught.value)["put_count"] == store.select("t").count() == COUNT


def test_rows_before_a_bad_one_are_waited_for(tmp_path: Path) -> None:
    first = pa.record_batch({"body": ["x"] * 10, "flag": list(range(10))})
    second = pa.record_batch({"body": ["x"] * 2, "flag": [0, 1 << 40]})
    rows = pa.Table.from_batches([first, second])
    with opened(tmp_path / "flushed", flushDiskType="SYNC_FLUSH") as store:
        with pytest.raises(MessageIllegalError, match="row 11, column flag") as caught:
            store.put_arrow(rows, topic="t")
        assert caught.value.put_count == store.select("t").count() == 10
        assert store.get_flushed_where() == store.get_max_phy_offset()
        assert not hasattr(caught.value, "__notes__")
    with opened(tmp_path / "alone", brokerRole="SYNC_MASTER", replication=True, haListenPort=0) as store:
        with pytest.raises(MessageIllegalError, match="row 11, column flag") as caught:
            store.put_arrow(rows, topic="t")
        assert caught.value.put_count == 10
        assert caught.value.__notes__ == [
            "of the rows before it: the message is stored; no slave is near enough to confirm it"
        ]
