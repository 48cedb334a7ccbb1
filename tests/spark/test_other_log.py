"""A log that is not the one that a stream has read, and is long enough to look like it."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

import mqstore
from mqstore.spark.log_mark import mark_before
from mqstore.spark.piece import DataLossError
from mqstore.spark.stream import MessageStreamReader
from mqstore.spark.stream_offset import stores_of
from mqstore.verify import repair
from tests.expiring import expire
from tests.spark.made import SMALL, damage
from tests.spark.test_removed_queues import bodies, forget_opened
from tests.spark.test_stream import stream_reader

TOLD = r"the log goes on behind \d+, but before it is another record .*\(failOnDataLoss=false reads it from its begin\)"
CHOSEN: list[dict[str, Any]] = [{}, {"subscribe": "t"}, {"keys": "k"}]


def put(path: Path, name: str, count: int, **options: Any) -> None:
    """Messages of one size, whose bodies begin with a name."""
    with mqstore.open(path, "rw", **(SMALL | options)) as store:
        store.put_many("t", [b"%s%04d" % (name.encode(), at) for at in range(count)], queue_id=0, keys=["k"] * count)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store of 200 messages, of which a backup has the first 100."""
    put(tmp_path / "store", "old", 100)
    shutil.copytree(tmp_path / "store", tmp_path / "backup")
    put(tmp_path / "store", "old", 100)
    return tmp_path / "store"


def cut(path: Path) -> None:
    """What a power cut left: from the 150th message on there are zeros."""
    with mqstore.open(path) as store:
        begin = [message.commit_log_offset for message in store.select()][150]
    with (path / "commitlog" / f"{0:020d}").open("r+b") as file:
        file.seek(begin)
        file.write(bytes(SMALL["mappedFileSizeCommitLog"] - begin))


def remake(path: Path) -> None:
    """Another store."""
    shutil.rmtree(path)


def restore(path: Path) -> None:
    """The backup in its place."""
    shutil.rmtree(path)
    shutil.copytree(path.with_name("backup"), path)


def started_again(path: Path, **options: Any) -> MessageStreamReader:
    """As in another process."""
    forget_opened()
    return stream_reader(str(path), "body", startingOffsets="earliest", **options)


@pytest.mark.parametrize("chosen", CHOSEN, ids=["log", "topic", "key"])
@pytest.mark.parametrize("new_count", [0, 220], ids=["as long", "longer"])
@pytest.mark.parametrize("change", [cut, remake, restore])
def test_another_log_is_told_or_read_from_its_begin(
    path: Path, change: Callable[[Path], None], new_count: int, chosen: dict[str, Any]
) -> None:
    reader = started_again(path, **chosen)
    start = reader.initialOffset()
    middle = reader.latestOffset(start, ReadMaxRows(160))
    end = json.loads(json.dumps(reader.latestOffset(start, ReadAllAvailable())))
    assert len(bodies(reader, reader.partitions(start, end))) == 200
    forget_opened()
    change(path)
    # As long as it was, to the byte, or longer.
    left = 150 if change is cut else 100 if change is restore else 0
    put(path, "new", new_count or 200 - left, on_damage="truncate")
    left += new_count or 200 - left
    strict = started_again(path, **chosen)
    with pytest.raises(DataLossError, match=TOLD):
        strict.latestOffset(end, ReadAllAvailable())
    # A batch that was planned and not done.
    for begin in (start, middle):
        with pytest.raises(DataLossError, match=TOLD):
            strict.partitions(begin, end)
    lenient = started_again(path, failOnDataLoss=False, **chosen)
    to = lenient.latestOffset(end, ReadAllAvailable())
    assert to != end
    assert len(bodies(lenient, lenient.partitions(end, to))) == left
    assert lenient.latestOffset(to, ReadAllAvailable()) == to
    assert bodies(lenient, lenient.partitions(to, to)) == []


@pytest.mark.parametrize("way", ["grown", "expired", "damaged", "repaired", "file missing"])
def test_the_same_log_is_not_taken_for_another(path: Path, way: str) -> None:
    """Whatever became of the record by which it is known."""
    put(path, "old", 800)
    reader = started_again(path)
    start = reader.latestOffset(reader.initialOffset(), ReadMaxRows(600))
    assert len(bodies(reader, reader.partitions(reader.initialOffset(), start))) == 600
    put(path, "new", 20)
    with mqstore.open(path, "rw", **SMALL) as store:
        last = [message.commit_log_offset for message in store.select()][599]
        assert last > SMALL["mappedFileSizeCommitLog"]
        if way == "expired":
            expire(store, 2)
    if way in {"damaged", "repaired"}:
        damage(path, last + 4)
    if way == "repaired":
        repair(path)
    if way == "file missing":
        (path / "commitlog" / f"{SMALL['mappedFileSizeCommitLog']:020d}").unlink()
    # What is gone behind the offset is told by another error.
    again = started_again(path, failOnDataLoss=way not in {"expired", "file missing"})
    end = again.latestOffset(start, ReadAllAvailable())
    found = bodies(again, again.partitions(start, end))
    assert found[-20:] == [b"new%04d" % at for at in range(20)]
    assert len(found) == 420 if way not in {"expired", "file missing"} else len(found) < 420


def test_an_offset_of_a_version_without_a_mark_is_taken_as_it_is(path: Path) -> None:
    reader = started_again(path)
    end = stores_of(reader.latestOffset(reader.initialOffset(), ReadAllAvailable()))
    assert reader.latestOffset(end, ReadAllAvailable()) == end, "no batch comes of it"
    put(path, "new", 5)
    to = reader.latestOffset(end, ReadAllAvailable())
    assert len(bodies(reader, reader.partitions(end, to))) == 5
    assert stores_of(to) != to


def test_a_mark_is_found_behind_what_is_large_or_damaged(tmp_path: Path) -> None:
    with mqstore.open(tmp_path / "store", "rw") as store:
        for size in (1, 3 << 20):
            store.put("t", b"x" * size)
        known = [message.commit_log_offset for message in store.select()]
        end = store.get_max_phy_offset()
        marks = [mark_before(store, at) for at in (known[0], known[1], end - 1, end)]
    assert [mark and mark.begin for mark in marks] == [None, known[0], known[1], known[1]]
