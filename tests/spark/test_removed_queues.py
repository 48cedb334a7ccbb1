"""Queues that are removed when a read of them is planned and not done."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows

import mqstore
from mqstore.errors import OptionError
from mqstore.spark import opened
from mqstore.spark import piece as piece_module
from mqstore.spark.piece import DataLossError, Piece
from mqstore.spark.stream import MessageStreamReader
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
    assert begin_anew(path, new_count) == 1
    forget_opened()
    if is_open_further:
        read_as_of(path, pieces)

    if is_strict:
        with pytest.raises(DataLossError, match=r"or were removed \(failOnDataLoss=false reads what is left\)"):
            bodies(reader, pieces)
    else:
        assert bodies(reader, pieces) == [b"stays"] * 10
    pieces = reader.partitions(end, reader.latestOffset(end, ReadAllAvailable()))
    assert bodies(reader, pieces) == [b"new"] * new_count


@pytest.mark.parametrize("new_count", [0, 60, 300])
@pytest.mark.parametrize("is_strict", [True, False], ids=["strict", "lenient"])
def test_a_queue_that_is_removed_between_the_look_at_it_and_the_read_is_lost(
    path: Path, monkeypatch: pytest.MonkeyPatch, new_count: int, *, is_strict: bool
) -> None:
    """Of its files those alone stay that were looked at; what it has anew is of the next batch."""
    with mqstore.open(path, "rw", **SMALL) as store:
        store.put_many("t", [b"old"] * 240, queue_id=0)
    options: dict[str, Any] = {"startingOffsets": "earliest", "subscribe": "t", "failOnDataLoss": is_strict}
    reader = stream_reader(str(path), "body", **options)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())
    pieces = reader.partitions(start, end)
    look = piece_module._open

    def removed_behind(*given: Any) -> Any:
        found = look(*given)
        begin_anew(path, new_count)
        return found

    with monkeypatch.context() as patched:
        patched.setattr(piece_module, "_open", removed_behind)
        if is_strict:
            with pytest.raises(DataLossError, match="failOnDataLoss=false reads what is left"):
                bodies(reader, pieces)
        else:
            assert set(bodies(reader, pieces)) <= {b"old"}
    forget_opened()
    assert bodies(reader, reader.partitions(end, reader.latestOffset(end, ReadAllAvailable()))) == [b"new"] * new_count


@pytest.mark.parametrize("is_started_again", [False, True])
def test_numbers_at_which_a_stream_begins_mean_messages_that_were_there(path: Path, *, is_started_again: bool) -> None:
    """A queue that begins anew has others under these numbers: they are read, as all that comes is."""
    options: dict[str, Any] = {"startingOffsets": '{"t": {"0": 30}}', "assign": '{"t": [0]}'}
    reader = stream_reader(str(path), "body", **options)
    start = reader.initialOffset()
    middle = reader.latestOffset(start, ReadMaxRows(35))
    assert bodies(reader, reader.partitions(start, middle)) == [b"old"] * 5
    end = reader.latestOffset(middle, ReadAllAvailable())
    assert bodies(reader, reader.partitions(middle, end)) == [b"old"] * 5
    begin_anew(path, 35)
    if is_started_again:
        forget_opened()
        reader, end = stream_reader(str(path), "body", **options), json.loads(json.dumps(end))
    assert bodies(reader, reader.partitions(end, reader.latestOffset(end, ReadAllAvailable()))) == [b"new"] * 35


@pytest.mark.parametrize("number", [41, 1000])
def test_numbers_that_no_message_has_are_told_when_a_stream_begins(path: Path, number: int) -> None:
    options: dict[str, Any] = {"startingOffsets": f'{{"t": {{"0": {number}}}}}', "subscribe": "t"}
    with pytest.raises(
        OptionError, match=rf"startingOffsets=t 0 {number}: the queue holds 0 to 40; see failOnDataLoss"
    ):
        stream_reader(str(path), "body", **options).initialOffset()
    lenient = stream_reader(str(path), "body", failOnDataLoss=False, **options)
    start = lenient.initialOffset()
    assert bodies(lenient, lenient.partitions(start, lenient.latestOffset(start, ReadAllAvailable()))) == []
    with mqstore.open(path, "rw", **SMALL) as store:
        store.put("t", b"comes", queue_id=0)
    end = lenient.latestOffset(start, ReadAllAvailable())
    assert bodies(lenient, lenient.partitions(start, end)) == [b"comes"]


def test_numbers_of_a_queue_that_is_not_there_yet(path: Path) -> None:
    for number in (-2, 0):
        options: dict[str, Any] = {"startingOffsets": f'{{"v": {{"0": {number}}}}}', "subscribe": "v"}
        reader = stream_reader(str(path), "body", **options)
        assert reader.initialOffset() == {str(path): 0}
    with pytest.raises(OptionError, match="startingOffsets=v 0 1: the queue holds 0 to 0"):
        stream_reader(str(path), "body", startingOffsets='{"v": {"0": 1}}', subscribe="v").initialOffset()


@pytest.mark.parametrize("is_started_again", [False, True])
def test_messages_that_were_removed_with_their_queue_before_a_batch_are_lost(
    path: Path, *, is_started_again: bool
) -> None:
    options: dict[str, Any] = {"subscribe": "t", "startingOffsets": "earliest"}
    reader = stream_reader(str(path), "body", **options)
    start = reader.initialOffset()
    middle = reader.latestOffset(start, ReadMaxRows(20))
    begin_anew(path, 3)
    if is_started_again:
        forget_opened()
        reader, middle = stream_reader(str(path), "body", **options), json.loads(json.dumps(middle))
    # An offset that goes no further says nothing of it, so that the batch behind it does.
    assert reader.latestOffset(middle, ReadMaxRows(0)) == middle
    end = reader.latestOffset(middle, ReadAllAvailable())
    for again in (reader, stream_reader(str(path), "body", **options)):
        with pytest.raises(DataLossError, match=r"queue 0 of t was removed, with messages from \d+ to \d+ of the log"):
            again.partitions(middle, end)
    lenient = stream_reader(str(path), "body", failOnDataLoss=False, **options)
    assert bodies(lenient, lenient.partitions(middle, end)) == [b"new"] * 3
    # Who reads another topic, or all of the log, has lost nothing.
    other = stream_reader(str(path), "body", subscribe="u", startingOffsets="earliest")
    assert bodies(other, other.partitions(middle, end)) == [b"stays"] * 10
    whole = stream_reader(str(path), "body", startingOffsets="earliest")
    assert len(bodies(whole, whole.partitions(middle, end))) == 33


def test_queues_that_were_removed_before_a_query_began_are_no_loss_to_it(path: Path) -> None:
    begin_anew(path, 3)
    reader = stream_reader(str(path), "body", subscribe="t", startingOffsets="earliest")
    found, at = [], reader.initialOffset()
    while (to := reader.latestOffset(at, ReadMaxBytes(500))) != at:
        found += bodies(reader, reader.partitions(at, to))
        at = json.loads(json.dumps(to))
    assert found == [b"new"] * 3
    assert not [key for key in at if key.startswith("removed")], "nothing is noted of what lies behind"


def begin_anew(path: Path, new_count: int) -> int:
    """Removes the queue, which gets so many new messages then; gives how many topics were removed."""
    with mqstore.open(path, "rw", **SMALL) as store:
        removed_count = store.clean_unused_topic({"u"})
        store.put_many("t", [b"new"] * new_count, queue_id=0)
    return removed_count


def bodies(reader: MessageStreamReader, pieces: Sequence[InputPartition]) -> list[bytes]:
    """The bodies of a batch."""
    return [row["body"] for piece in pieces for batch in reader.read(piece) for row in batch.to_pylist()]


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
