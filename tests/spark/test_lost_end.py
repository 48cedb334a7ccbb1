"""A log that ends before what was on the disk: whoever reads all of it learns that some is missing."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.datasource import LessThan
from pyspark.sql.streaming.datasource import ReadAllAvailable

from mqstore.errors import RecordError
from mqstore.spark import schema
from mqstore.spark.piece import DataLossError
from mqstore.spark.read_options import ReadOptions
from mqstore.spark.stream import MessageStreamReader
from tests.lost_ends import COUNT, change_last_body, make, remove_all, remove_last, zero_last
from tests.spark.made import read_directly


@pytest.fixture
def store(tmp_path: Path) -> tuple[Path, int]:
    """A closed store of several log files, and where its log ends."""
    path = tmp_path / "store"
    return path, make(path)


@pytest.mark.parametrize("chosen", [{}, {"subscribe": "t"}, {"keys": "k1"}], ids=["log", "topic", "key"])
@pytest.mark.parametrize("lose", [remove_all, remove_last])
def test_files_that_are_missing_are_lost_data(
    store: tuple[Path, int], lose: Callable[[Path], None], chosen: dict[str, Any]
) -> None:
    path, end = store
    lose(path)
    with pytest.raises(DataLossError, match=rf"to {end}: .*failOnDataLoss=false reads what is left"):
        read_directly(path, "queue_offset", **chosen)
    table, _ = read_directly(path, "queue_offset", failOnDataLoss=False, **chosen)
    assert table.num_rows < COUNT
    assert (table.num_rows > 0) == (lose is remove_last)


@pytest.mark.parametrize("chosen", [{}, {"subscribe": "t"}], ids=["log", "topic"])
@pytest.mark.parametrize("lose", [zero_last, change_last_body], ids=["zeros", "body"])
def test_what_is_damaged_there_is_a_bad_range(
    store: tuple[Path, int], lose: Callable[[Path], None], chosen: dict[str, Any]
) -> None:
    path, end = store
    lose(path)
    with pytest.raises(RecordError, match=f"to {end}: "):
        read_directly(path, "queue_offset", "body", mode="FAILFAST", **chosen)
    table, _ = read_directly(path, "queue_offset", "body", "bad_range", **chosen)
    *rows, last = table.to_pylist()
    assert [row["queue_offset"] for row in rows] == list(range(len(rows)))
    assert (last["queue_offset"], last["bad_range"]["end"]) == (None, end)


def test_what_ends_before_has_all_there_is(store: tuple[Path, int]) -> None:
    path, _ = store
    remove_last(path)
    bounds: tuple[dict[str, Any], ...] = (
        {"assign": '{"t": [0]}', "endingOffsets": '{"t": {"0": 10}}'},
        {"endingTimestamp": 1},
        {"startingOffsets": "latest"},
    )
    for given in bounds:
        read_directly(path, "queue_offset", **given)
    table, _ = read_directly(path, "queue_offset", filters=[LessThan(("commit_log_offset",), 5000)])
    assert table.num_rows > 0


def test_a_stream_does_not_begin_with_it(store: tuple[Path, int]) -> None:
    path, end = store
    remove_last(path)

    def ends(**options: str) -> dict[str, int]:
        reader = MessageStreamReader(schema("body"), ReadOptions.of({"path": str(path), **options}))
        return reader.latestOffset(reader.initialOffset(), ReadAllAvailable())

    with pytest.raises(DataLossError, match=f"was on the disk up to {end}"):
        ends()
    assert ends(failOnDataLoss="false")[str(path)] < end


def test_of_a_store_that_no_mqstore_wrote_units_tell_once_it_was_closed(store: tuple[Path, int]) -> None:
    path, _ = store
    remove_last(path)
    shutil.rmtree(path / "mqstore")
    with pytest.raises(DataLossError, match="a log file is missing"):
        read_directly(path, "queue_offset")


def test_what_a_crash_left_of_a_store_that_no_mqstore_wrote_is_all_there_was(store: tuple[Path, int]) -> None:
    path, _ = store
    remove_last(path)
    shutil.rmtree(path / "mqstore")
    (path / "abort").touch()
    table, _ = read_directly(path, "queue_offset")
    assert 0 < table.num_rows < COUNT
