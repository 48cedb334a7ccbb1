"""Pieces of a log: they begin where records do, whatever bodies look like, and read what is asked for."""

import datetime as dt
import json
import shutil
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest
from pyspark.sql.datasource import EqualNullSafe, EqualTo, Filter, GreaterThan, GreaterThanOrEqual, In, LessThan

import mqstore
from mqstore import _native
from mqstore.errors import OptionError, RecordError, StoreChangedError
from mqstore.spark import schema
from mqstore.spark.columns import has_bodies
from mqstore.spark.narrowing import Narrowing
from mqstore.spark.piece import DataLossError, read_piece
from mqstore.spark.planning import _piece_size, plan
from mqstore.spark.read_options import ReadOptions
from tests.spark.made import SMALL, START_MS, damage, fill, read_directly
from tests.store_files import HEAD_SIZE, forged, forget_derived
from tests.verify.damage import QUEUE_OFFSET_AT


def put_forgeries(path: Path) -> int:
    """Puts messages whose bodies are forged records end to end; gives how many true ones there are."""
    with mqstore.open(path, "rw", **(SMALL | {"mappedFileSizeCommitLog": 4 << 20})) as store:
        for _ in range(60):
            body_at = store.get_max_phy_offset() + HEAD_SIZE
            body = b"".join(forged(body_at + at, b"forged", 500) for at in range(0, 20_000, 500))
            store.put("true", body, queue_id=0)
        first = next(iter(store.select()))
        assert bytes(first.body)[:500] == forged(HEAD_SIZE, b"forged", 500)
    return 60


@pytest.mark.parametrize("has_queues", [True, False], ids=["queues", "log-alone"])
def test_forged_records_are_no_boundaries(tmp_path: Path, *, has_queues: bool) -> None:
    count = put_forgeries(tmp_path / "store")
    if not has_queues:
        forget_derived(tmp_path / "store", clean=True)
    # A search from any byte does find them: what confirms a boundary is what keeps them out.
    data = next((tmp_path / "store" / "commitlog").iterdir()).read_bytes()
    assert data.count(b"\xda\xa3\x20\xa7") > count * 40
    for partitions in (1, 7, 50, 400):
        for columns in (("topic", "commit_log_offset", "body"), ("topic", "commit_log_offset")):
            table, pieces = read_directly(tmp_path / "store", *columns, minPartitions=partitions)
            assert table["topic"].to_pylist() == ["true"] * count
            assert len(set(table["commit_log_offset"].to_pylist())) == count
            assert min(partitions, count) * 0.7 <= len(pieces) <= count


def test_every_boundary_is_the_next_record(tmp_path: Path) -> None:
    known = [row["commit_log_offset"] for row in fill(tmp_path / "store", 400)]
    with mqstore.open(tmp_path / "store") as store:
        end = store.get_max_phy_offset()
        for offset in range(0, end, 97):
            behind = store._boundary_at(offset)
            # A file's blank lies between its last record and the next file's first.
            assert behind == min(each for each in [*known, end] if each >= offset)
            assert behind >= offset


def test_pieces_without_bodies_are_larger(tmp_path: Path) -> None:
    """They cost little beside their task; an option that is given goes for both."""
    for given, sizes in {None: (128 << 20, 1 << 30), "64m": (64 << 20, 64 << 20)}.items():
        options = ReadOptions.of({"path": str(tmp_path)} | ({} if given is None else {"maxBytesPerPartition": given}))
        found = (_piece_size(options, 1 << 44, has_bodies=True), _piece_size(options, 1 << 44, has_bodies=False))
        assert found == sizes
    assert [has_bodies(schema(*names)) for names in (("topic",), ("topic", "body"), ("raw_body",))] == [
        False,
        True,
        True,
    ]


# ---- how much is read ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of 40 MB: bodies of 20 KB."""
    path = tmp_path_factory.mktemp("large") / "store"
    fill(path, 2000, body_size=20_000, mappedFileSizeCommitLog=1 << 20, mappedFileSizeConsumeQueue=6000)
    return path


def bytes_read(path: Path, *columns: str, **options: Any) -> tuple[int, int]:
    """Rows, and the bytes that planning and reading them took at the engine's seam."""
    from mqstore.spark import opened  # noqa: PLC0415 - what it keeps open is let go of

    for _, store in opened._followed.values():
        store.close()
    for known in (opened._followed, opened._logs, opened._parts):
        known.clear()
    before = _native.read_bytes()
    table, _ = read_directly(path, *columns, pread="true", **options)
    return table.num_rows, _native.read_bytes() - before


def test_what_is_not_asked_for_is_not_read(large: Path) -> None:
    size = sum(file.stat().st_size for file in (large / "commitlog").iterdir())
    rows, everything = bytes_read(large)
    assert rows == 2000
    assert everything > size * 0.9
    without_bodies = bytes_read(large, "topic", "commit_log_offset", "keys", "properties")
    assert without_bodies[0] == 2000
    assert without_bodies[1] < size * 0.1
    # Where queues or index are asked for, opening looks at the newest three of the log's files.
    opening = 3 << 20
    with mqstore.open(large) as store:
        unique_key = next(iter(store.topic("topic-1").queue(2))).unique_key
    moment = dt.datetime.fromtimestamp(START_MS / 1000 + 3990, dt.UTC)
    few: dict[str, tuple[int, dict[str, Any]]] = {
        "queue": (167, {"assign": '{"topic-0": [1]}'}),
        "offsets": (
            5,
            {
                "assign": '{"topic-0": [1]}',
                "startingOffsets": '{"topic-0": {"1": 20}}',
                "endingOffsets": '{"topic-0": {"1": 25}}',
            },
        ),
        "key": (1, {"keys": "key-77"}),
        "time": (0, {"startingTimestamp": START_MS + 1_000_000_000}),
        "filter on the queue": (
            167,
            {"filters": [EqualTo(("topic",), "topic-0"), EqualTo(("queue_id",), 1)]},
        ),
        "filter on the key": (1, {"filters": [EqualTo(("unique_key",), unique_key)]}),
        "filter on the time": (5, {"filters": [GreaterThanOrEqual(("store_timestamp",), moment)]}),
        "filter on the time in queues": (
            1,
            {"filters": [GreaterThanOrEqual(("store_timestamp",), moment), EqualTo(("topic",), "topic-0")]},
        ),
        "filter on the log": (1, {"filters": [EqualTo(("commit_log_offset",), 0)]}),
    }
    for name, (count, options) in few.items():
        rows, found = bytes_read(large, "commit_log_offset", "body", **options)
        assert rows >= count, name
        assert found - opening < rows * 21_000 + (3 << 20), name


# ---- what is damaged or gone -----------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"subscribe": "topic-0,topic-1,topic-2"}], ids=["log", "queues"])
def test_damaged_records(tmp_path: Path, options: dict[str, Any]) -> None:
    path = tmp_path / "store"
    known = fill(path, 600)
    in_body, in_head = known[100], known[300]
    damage(path, in_body["commit_log_offset"] + HEAD_SIZE + 5)
    damage(path, in_head["commit_log_offset"] + 4)
    lost = {in_body["commit_log_offset"], in_head["commit_log_offset"]}
    left = [row["commit_log_offset"] for row in known if row["commit_log_offset"] not in lost]
    columns = ("commit_log_offset", "body", "bad_range")
    for partitions in (1, 9):
        table, _ = read_directly(path, *columns, minPartitions=partitions, **options)
        good = table.filter(pc.is_null(table["bad_range"]))
        assert sorted(good["commit_log_offset"].to_pylist()) == left
        bad = [row for row in table["bad_range"].to_pylist() if row is not None]
        assert {(row["begin"], row["end"]) for row in bad} == {
            (row["commit_log_offset"], row["commit_log_offset"] + row["store_size"]) for row in (in_body, in_head)
        }
        assert len(bad) == 2
        reasons = " ".join(row["reason"] for row in bad)
        assert "expected body CRC" in reasons
        assert "expected magic code" in reasons
        table, _ = read_directly(path, "commit_log_offset", "body", minPartitions=partitions, **options)
        assert sorted(table["commit_log_offset"].to_pylist()) == left
        table, _ = read_directly(path, *columns, mode="dropMalformed", minPartitions=partitions, **options)
        assert sorted(table["commit_log_offset"].to_pylist()) == left
        with pytest.raises(RecordError, match=f"{path}: the log from "):
            read_directly(path, *columns, mode="FAILFAST", minPartitions=partitions, **options)
    # A body that is not asked for is not read, and not missed.
    table, _ = read_directly(path, "commit_log_offset", **options)
    assert table.num_rows == 599


@pytest.mark.parametrize("at", [4, QUEUE_OFFSET_AT + 6], ids=["magic code", "queue offset"])
def test_a_damaged_record_of_a_queue_that_is_made_in_memory(tmp_path: Path, at: int) -> None:
    """Its place in the queue is a blank unit, which leads to no record, nor to the log's first one."""
    path = tmp_path / "store"
    with mqstore.open(path, "rw", **SMALL) as store:
        store.put("other", b"first", queue_id=0)
        begins = [store.put("t", b"%04d" % number, queue_id=0).wrote_offset or 0 for number in range(20)]
    shutil.rmtree(path / "consumequeue" / "t")
    damage(path, begins[10] + at)
    columns = ("topic", "queue_offset", "bad_range")
    table, _ = read_directly(path, *columns, subscribe="t")
    bad = [row for row in table["bad_range"].to_pylist() if row is not None]
    assert [(row["begin"], row["end"]) for row in bad] == [(begins[10], begins[11])]
    given = table.filter(pc.is_null(table["bad_range"]))
    assert set(given["topic"].to_pylist()) == {"t"}
    assert sorted(given["queue_offset"].to_pylist()) == [number for number in range(20) if number != 10]
    with pytest.raises(RecordError, match=f"the log from {begins[10]} to {begins[11]}"):
        read_directly(path, *columns, subscribe="t", mode="FAILFAST")


@pytest.mark.parametrize("options", [{}, {"subscribe": "t"}, {"keys": "k"}], ids=["log", "queues", "keys"])
def test_a_body_that_does_not_inflate_is_a_bad_record(tmp_path: Path, options: dict[str, Any]) -> None:
    path = tmp_path / "store"
    with mqstore.open(path, "rw", **SMALL) as store:
        for number in range(40):
            body = b"no stream of zlib" if number in {0, 7, 8, 39} else zlib.compress(b"%d" % number)
            store.put("t", body, sys_flag=1, queue_id=0, keys="k")
        known = list(store.select())
    bad = {(message.commit_log_offset, message.commit_log_offset + message.store_size) for message in known[7:9]}
    bad |= {(message.commit_log_offset, message.commit_log_offset + message.store_size) for message in known[::39]}
    left = sorted(b"%d" % number for number in range(40) if number not in {0, 7, 8, 39})
    # One row a batch, so that some batches have none.
    for rows in (1, 8192):
        given = {"maxRecordsPerBatch": rows, **options}
        table, _ = read_directly(path, "commit_log_offset", "body", "bad_range", **given)
        found = [row["bad_range"] for row in table.to_pylist() if row["bad_range"]]
        assert {(row["begin"], row["end"]) for row in found} == bad
        assert len(found) == 4
        assert all("expected a body compressed with zlib" in row["reason"] for row in found)
        assert sorted(row["body"] for row in table.to_pylist() if row["bad_range"] is None) == left
        table, _ = read_directly(path, "body", mode="DROPMALFORMED", **given)
        assert sorted(table["body"].to_pylist()) == left
        with pytest.raises(RecordError, match="expected a body compressed with zlib"):
            read_directly(path, "body", mode="FAILFAST", **given)
        # As it is stored a body is what it is.
        table, _ = read_directly(path, "raw_body", mode="FAILFAST", **given)
        assert table.num_rows == 40


def test_a_forged_record_in_a_damaged_body_is_none(tmp_path: Path) -> None:
    put_forgeries(tmp_path / "store")
    with mqstore.open(tmp_path / "store") as store:
        tenth = list(store.select())[10]
    path = next((tmp_path / "store" / "commitlog").iterdir())
    with path.open("r+b") as file:
        file.seek(tenth.commit_log_offset + HEAD_SIZE + 19_999)
        file.write(b"\x55")
    for partitions in (1, 9, 200):
        table, _ = read_directly(tmp_path / "store", "topic", "body", mode="DROPMALFORMED", minPartitions=partitions)
        assert table["topic"].to_pylist() == ["true"] * 59


def test_what_is_gone_is_told(tmp_path: Path) -> None:
    path = tmp_path / "store"
    known = fill(path, 600)
    files = sorted((path / "commitlog").iterdir())
    files[1].unlink()
    size = SMALL["mappedFileSizeCommitLog"]
    left = [row["commit_log_offset"] for row in known if not size <= row["commit_log_offset"] < 2 * size]
    for partitions in (1, 9):
        with pytest.raises(DataLossError, match="failOnDataLoss=false reads what is left"):
            read_directly(path, "commit_log_offset", minPartitions=partitions)
        table, _ = read_directly(path, "commit_log_offset", minPartitions=partitions, failOnDataLoss="false")
        assert table["commit_log_offset"].to_pylist() == left


def test_filters_on_places_say_any_number(tmp_path: Path) -> None:
    """None makes damage, loss or a message of what lies around it; none gives more than the options do."""
    path = tmp_path / "store"
    put_forgeries(path)
    with mqstore.open(path) as store:
        places = [message.commit_log_offset for message in store.select()]
    inside = places[10] + HEAD_SIZE

    def left(place_filter: Filter, **options: Any) -> list[int]:
        table, _ = read_directly(path, "commit_log_offset", filters=[place_filter], mode="FAILFAST", **options)
        found: list[int] = table["commit_log_offset"].to_pylist()
        return found

    name = ("commit_log_offset",)
    for options in ({}, {"subscribe": "true"}):
        for begin in (places[10] + 1, inside, inside + 1):
            assert left(GreaterThanOrEqual(name, begin), **options) == places[11:]
        assert left(GreaterThan(name, -5), **options) == places
        assert not left(LessThan(name, -5), **options)
        assert not left(EqualTo(name, -1), **options)
        assert not left(GreaterThan(name, -5), startingOffsets="latest", **options)
    # As retention leaves a log: what is gone was not asked for.
    fill(tmp_path / "retained", 600)
    min((tmp_path / "retained" / "commitlog").iterdir()).unlink()
    filters: list[Filter] = [GreaterThan(name, 5)]
    table, _ = read_directly(tmp_path / "retained", "commit_log_offset", filters=filters)
    with mqstore.open(tmp_path / "retained") as store:
        assert table.num_rows == store.select().count() > 0


@pytest.mark.parametrize("options", [{}, {"subscribe": "topic-0"}, {"keys": "key-0"}], ids=["log", "queues", "keys"])
def test_a_store_that_was_made_anew_is_not_the_one_before(tmp_path: Path, options: dict[str, Any]) -> None:
    path = tmp_path / "store"
    for count, body_size in ((300, 160), (200, 80)):
        if path.exists():
            shutil.rmtree(path)
        known = [row["body"] for row in fill(path, count, body_size=body_size)]
        table, _ = read_directly(path, "body", **options)
        found = table["body"].to_pylist()
        assert found
        assert set(found) <= set(known)
        assert len(found) == len(known) or options


def note_opening(path: Path) -> None:
    """Says that a writer has opened a store and makes all of its queues anew."""
    with (path / "mqstore/published").open("r+b") as published:
        published.seek(56)
        (count,) = struct.unpack(">q", published.read(8))
        published.seek(64 + count % 64 * 24)
        published.write(struct.pack(">qqq", START_MS, 2**62, 0))
        published.seek(56)
        published.write(struct.pack(">q", count + 1))


def test_units_that_a_writer_makes_anew_are_not_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "store"
    known = [row["queue_offset"] for row in fill(path, 900, topics=1) if row["queue_id"] == 0]
    options = ReadOptions.of({"path": str(path), "assign": '{"topic-0": [0]}', "maxRecordsPerBatch": "8"})
    columns = schema("queue_offset")
    (piece,) = plan(options, Narrowing(), has_bodies=False)

    def read() -> Iterator[int]:
        for batch in read_piece(piece, columns, options):
            yield from batch["queue_offset"].to_pylist()

    assert list(read()) == known
    last = max((path / "consumequeue/topic-0/0").iterdir())
    units = last.read_bytes()
    reading = read()
    assert next(reading) == known[0]
    with last.open("r+b") as file:
        file.write(bytes(len(units)))
    note_opening(path)
    with pytest.raises(StoreChangedError, match="read again") as raised:
        list(reading)
    assert (raised.value.path, raised.value.offset) == (str(path), 0)
    # So it is for a task that begins now. Once the writer is through each has all of them.
    with pytest.raises(StoreChangedError, match="read again"):
        list(read())
    with last.open("r+b") as file:
        file.write(units)
    assert list(read()) == known


def test_queue_files_that_a_writer_has_not_made_again_yet_are_no_loss(tmp_path: Path) -> None:
    path = tmp_path / "store"
    fill(path, 900, topics=1)
    options = ReadOptions.of({"path": str(path), "assign": '{"topic-0": [0]}'})
    (piece,) = plan(options, Narrowing(), has_bodies=False)
    for file in (path / "consumequeue/topic-0/0").iterdir():
        file.unlink()
    with pytest.raises(DataLossError, match="shorter"):
        list(read_piece(piece, schema("queue_offset"), options))
    note_opening(path)
    with pytest.raises(StoreChangedError, match="read again"):
        list(read_piece(piece, schema("queue_offset"), options))


@pytest.mark.parametrize("options", [{}, {"subscribe": "topic-0,topic-1,topic-2"}], ids=["log", "queues"])
def test_damaged_records_with_keys(tmp_path: Path, options: dict[str, Any]) -> None:
    """Whether a damaged record is meant nobody knows: where the index leads to it, it is told."""
    path = tmp_path / "store"
    known = fill(path, 600)
    hit = next(row for row in known[100:] if row["keys"])
    key = hit["keys"][0]
    meant = [row["commit_log_offset"] for row in known if key in row["keys"]]
    assert hit["commit_log_offset"] in meant
    damage(path, hit["commit_log_offset"] + HEAD_SIZE + 5)
    given = {"keys": json.dumps([key]), **options}
    with pytest.raises(RecordError, match="expected body CRC"):
        read_directly(path, "commit_log_offset", "body", mode="FAILFAST", **given)
    table, _ = read_directly(path, "commit_log_offset", "body", "bad_range", **given)
    rows = table.select(["commit_log_offset", "bad_range"]).to_pylist()
    assert [row["bad_range"]["begin"] for row in rows if row["bad_range"]] == [hit["commit_log_offset"]]
    left = [row["commit_log_offset"] for row in rows if row["bad_range"] is None]
    assert left == [place for place in meant if place != hit["commit_log_offset"]]
    table, _ = read_directly(path, "commit_log_offset", mode="FAILFAST", **given)
    assert table["commit_log_offset"].to_pylist() == meant, "the body is not read, and its CRC does not count"


def test_keys_of_what_is_prepared_where_no_queue_is(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with mqstore.open(path, "rw", **SMALL) as store:
        for topic, flag in (("seen", 0), ("seen", 4), ("prepared", 4)):
            store.put(topic, b"x", keys="k", sys_flag=flag, queue_id=0, properties={"UNIQ_KEY": f"{topic} {flag}"})
        assert len(list(store.select(key="k"))) == 3
    filters: list[Filter] = [EqualTo(("unique_key",), "prepared 4")]
    for given, expected in (({"keys": "k"}, ["prepared", "seen", "seen"]), ({"filters": filters}, ["prepared"])):
        table, _ = read_directly(path, "topic", **given)
        assert sorted(table["topic"].to_pylist()) == expected
    with mqstore.open(path) as store:
        assert [message.topic for message in store.select(key="k")] == ["seen", "seen", "prepared"]
        # It is in no queue, whatever leads to it.
        assert not list(store.select("prepared", key="k"))
    (path / "config" / "topics.json").write_text("{")
    (path / "config" / "topics.json.bak").unlink(missing_ok=True)
    with mqstore.open(path) as store:
        assert [message.topic for message in store.select(key="k")] == ["seen", "seen"]


def test_keys_are_what_they_are(tmp_path: Path) -> None:
    with mqstore.open(tmp_path / "store", "rw") as store:
        for keys in ("a,b", "a", "b", "[a"):
            store.put("t,u", keys.encode(), keys=keys)
    cases: list[tuple[dict[str, Any], list[str]]] = [
        ({"keys": '["a,b"]'}, ["a,b"]),
        ({"keys": "a,b"}, ["a", "b"]),
        ({"keys": '["[a", "b"]', "subscribe": '["t,u"]'}, ["b", "[a"]),
    ]
    for given, expected in cases:
        table, _ = read_directly(tmp_path / "store", "body", **given)
        assert [body.decode() for body in table["body"].to_pylist()] == expected
    for text in ("[a", "[]", '[""]', "[1]"):
        with pytest.raises(OptionError, match=r"option keys=\["):
            read_directly(tmp_path / "store", "body", keys=text)


@pytest.mark.parametrize("gone", ["all", "one", "none was made"])
def test_a_filter_on_the_key_does_not_go_by_an_index_that_lacks_messages(tmp_path: Path, gone: str) -> None:
    path = tmp_path / "store"
    options = SMALL | {"maxHashSlotNum": 10, "maxIndexNum": 50, "messageIndexEnable": gone != "none was made"}
    with mqstore.open(path, "rw", **options) as store:
        for number in range(200):
            store.put(f"t{number % 2}", b"x", queue_id=0, properties={"UNIQ_KEY": f"u{number % 100}"})
    files = sorted(path.glob("index/*"))
    for file in files if gone == "all" else files[1:2]:
        file.unlink()
    for given in ({}, {"subscribe": "t1"}):
        for number in (1, 75):
            filters: list[Filter] = [EqualTo(("unique_key",), f"u{number}")]
            table, _ = read_directly(path, "queue_offset", "unique_key", filters=filters, **given)
            found = [row for row in table.to_pylist() if row["unique_key"] == f"u{number}"]
            assert [row["queue_offset"] for row in found] == [number // 2, 50 + number // 2]


def test_a_filter_on_a_text_whose_bytes_are_no_utf_8_loses_no_row(tmp_path: Path) -> None:
    """Columns show such bytes as U+FFFD, which is what a filter on what they show says."""
    path = tmp_path / "store"
    with mqstore.open(path, "rw") as store:
        store.put("t", b"body", tags="zzz", properties={"UNIQ_KEY": "uuu"})
        store.put("top", b"body", tags="tag", properties={"UNIQ_KEY": "key"})
    file = next((path / "commitlog").iterdir())
    content = file.read_bytes()
    for text, other in ((b"zzz", b"z\xffz"), (b"uuu", b"u\xffu"), (b"\x03top", b"\x03t\xffp")):
        content = content.replace(text, other)
    file.write_bytes(content)
    columns = ("topic", "unique_key", "tags")
    rows = read_directly(path, *columns)[0].to_pylist()
    assert [row["tags"] for row in rows] == ["z\ufffdz", "tag"]
    for row, name in ((rows[0], "tags"), (rows[0], "unique_key"), (rows[1], "topic")):
        for given in (EqualTo((name,), row[name]), EqualNullSafe((name,), row[name]), In((name,), ("a", row[name]))):
            assert row in read_directly(path, *columns, filters=[given])[0].to_pylist(), given


def test_a_filter_leaves_out_no_queue_that_an_option_names(tmp_path: Path) -> None:
    fill(tmp_path / "store", 60)
    starting = json.dumps({"topic-0": {"0": 2}, "topic-1": {"0": 1}})
    options = {"subscribe": "topic-0,topic-1", "startingOffsets": starting}
    table, _ = read_directly(
        tmp_path / "store", "topic", "queue_id", "queue_offset", filters=[EqualTo(("topic",), "topic-0")], **options
    )
    assert set(table["topic"].to_pylist()) == {"topic-0"}
    assert min(row["queue_offset"] for row in table.to_pylist() if row["queue_id"] == 0) == 2


@pytest.mark.parametrize("partitions", [1, 9])
def test_a_message_is_given_once_under_the_topic_that_it_was_put_to(tmp_path: Path, partitions: int) -> None:
    path = tmp_path / "store"
    further = {"INNER_MULTI_DISPATCH": "%LMQ%a,%LMQ%a,twin"}
    with mqstore.open(path, "rw", enableMultiDispatch=True, enableLmq=True, **SMALL) as store:
        for number in range(9):
            store.put("t", b"of t", queue_id=0, keys=f"k{number}", tags="x", properties=further)
            store.put("twin", b"of twin", queue_id=0, keys=f"k{number}", tags="x")
            store.put("%LMQ%a", b"of a", queue_id=0, keys=f"k{number}", tags="x", properties=further)

    def given(**options: Any) -> list[tuple[str, bytes]]:
        table, _ = read_directly(path, "topic", "body", minPartitions=partitions, **options)
        return sorted((row["topic"], row["body"]) for row in table.to_pylist())

    of = {topic: [(topic, body)] * 9 for topic, body in (("t", b"of t"), ("twin", b"of twin"), ("%LMQ%a", b"of a"))}
    everything = given()
    assert everything == sorted(row for rows in of.values() for row in rows)
    assert given(subscribePattern=".*") == given(subscribePattern=".*", tags="x") == everything
    assert given(filters=[In(("topic",), tuple(of))]) == everything
    for topic, expected in of.items():
        assert given(subscribe=topic) == given(subscribe=topic, endingTimestamp=1 << 50) == expected
        assert given(subscribe=topic, keys="k2,k5") == expected[:2]
    with mqstore.open(path) as store:
        assert [len(list(store.select(topic))) for topic in of] == [9, 27, 18]
