"""Queues that are removed when a read of them is planned and not done."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

import mqstore
from mqstore.spark import opened
from mqstore.spark.piece import DataLossError, Piece
from tests.spark.made import SMALL, read_directly
from tests.spark.test_stream import stream_reader


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store whose queues have all their units in files."""
    with mqstore.open(tmp_path / "store", "rw", **SMALL) as store:
        store.put_many("t", [b"old"] * 40, queue_id=0)
        store.put_many("u", [b"stays"] * 10, queue_id=0)
    return tmp_path / "store"


@pytest.mark.parametrize("new_count", [0, 5, 100])
@pytest.mark.parametrize("is_open_further", [False, True], ids=["opened for it", "open for a later read"])
@pytest.mark.parametrize("is_strict", [True, False], ids=["strict", "lenient"])
def test_a_queue_that_was_removed_when_its_batch_was_planned_is_lost(
    path: Path, new_count: int, *, is_open_further: bool, is_strict: bool
) -> None:
    """What the queue that began anew has comes with the next batch, and once."""
    # The first piece has one queue alone.
    options: dict[str, Any] = {"subscribe": "t,u", "failOnDataLoss": is_strict, "minPartitions": 5}
    reader = stream_reader(str(path), "body", startingOffsets="earliest", **options)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())
    pieces = reader.partitions(start, end)
    with mqstore.open(path, "rw", **SMALL) as store:
        assert store.clean_unused_topic({"u"}) == 1
        store.put_many("t", [b"new"] * new_count, queue_id=0)
    forget_opened()
    if is_open_further:
        read_as_of(path, pieces)

    def batch() -> list[bytes]:
        return [row["body"] for piece in pieces for found in reader.read(piece) for row in found.to_pylist()]

    if is_strict:
        with pytest.raises(DataLossError, match=r"or were removed \(failOnDataLoss=false reads what is left\)"):
            batch()
    else:
        assert batch() == [b"stays"] * 10
    pieces = reader.partitions(end, reader.latestOffset(end, ReadAllAvailable()))
    assert batch() == [b"new"] * new_count


def forget_opened() -> None:
    """As in another process."""
    for _, store in opened._followed.values():
        store.close()
    for known in (opened._followed, opened._logs, opened._parts):
        known.clear()


def read_as_of(path: Path, pieces: Any) -> None:
    """Reads all that the store has, as a query does that was planned when no other opening was known."""
    _, later = read_directly(path, "body", subscribe="t,u")
    assert isinstance(pieces[0], Piece)
    opened.part_of(str(path), ["t", "u"], later[0].log_end, pieces[0].openings, pread=None)
