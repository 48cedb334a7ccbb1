"""Times that are asked for: no row besides, and none missing where a filter says them, whatever a clock did."""

import datetime as dt
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.datasource import EqualTo, Filter, GreaterThanOrEqual, LessThanOrEqual

import mqstore
from mqstore.spark import schema
from mqstore.spark.narrowing import Narrowing
from mqstore.spark.piece import read_piece
from mqstore.spark.planning import LogRange, plan
from mqstore.spark.read_options import ReadOptions
from tests.spark.made import SMALL, START_MS, damage, fill, read_directly
from tests.store_files import HEAD_SIZE


@pytest.mark.parametrize("pieces", [1, 4])
def test_no_row_is_outside_of_the_times_where_a_clock_was_set_back(tmp_path: Path, pieces: int) -> None:
    # An hour ahead for 40 messages: with compat a store's times go back as 4.9.3's do.
    now = [START_MS]
    with mqstore.open(tmp_path / "store", "rw", clock=lambda: now[0], compat=True, **SMALL) as store:
        for at in range(400):
            now[0] = START_MS + at * 1000 + (3_600_000 if 100 <= at < 140 else 0)
            store.put("t", b"x" * 300, queue_id=0, keys="k")
        stored = [(message.store_timestamp, message.commit_log_offset) for message in store.select()]
    assert [time for time, _ in stored] != sorted(time for time, _ in stored)
    # Every range of the log's order that begins or ends where times go back: halving finds one place or another.
    for begin, end in (
        (0, 50),
        (130, 300),
        *((at, at + 15) for at in range(85, 160, 3)),
        *((at, 300) for at in range(140, 160, 3)),
    ):
        begin_ms, end_ms = START_MS + begin * 1000, START_MS + end * 1000
        wanted = [offset for time, offset in stored if begin_ms <= time < end_ms]
        times_asked: dict[str, Any] = {
            "startingTimestamp": begin_ms,
            "endingTimestamp": end_ms,
            "minPartitions": pieces,
        }
        for asked in (times_asked, times_asked | {"subscribe": "t"}, times_asked | {"keys": "k"}):
            table, _ = read_directly(tmp_path / "store", "commit_log_offset", **asked)
            assert table["commit_log_offset"].to_pylist() == wanted


@pytest.mark.parametrize("pieces", [1, 4])
def test_a_filter_on_the_time_loses_no_row_where_a_clock_was_set_back(tmp_path: Path, pieces: int) -> None:
    # Each file's first messages are in order all the same, and a queue's halves look as if they were.
    now = [START_MS]
    with mqstore.open(tmp_path / "store", "rw", clock=lambda: now[0], compat=True, **SMALL) as store:
        for at in range(1000):
            now[0] = START_MS + at * 1000 + (3_600_000 if 100 <= at < 104 or 500 <= at < 590 else 0)
            store.put("t", b"x" * 300, queue_id=0, keys="bad" if at == 50 else "k")
        stored = [(message.store_timestamp, message.commit_log_offset) for message in store.select()]
    # What is outside is damaged, and nobody asked for it.
    damage(tmp_path / "store", stored[50][1] + HEAD_SIZE + 5)
    for begin, end in ((3600, 9999), (60, 102), (102, 300), (550, 800), (4101, 4102), (5000, 6000)):
        begin_ms, end_ms = START_MS + begin * 1000, START_MS + end * 1000
        wanted = [offset for time, offset in stored if begin_ms <= time < end_ms]
        filters: list[Filter] = [
            GreaterThanOrEqual(("store_timestamp",), dt.datetime.fromtimestamp(begin_ms / 1000, dt.UTC)),
            LessThanOrEqual(("store_timestamp",), dt.datetime.fromtimestamp(end_ms / 1000 - 1, dt.UTC)),
        ]
        topic = EqualTo(("topic",), "t")
        for columns in (("commit_log_offset",), ("commit_log_offset", "body")):
            for asked in (
                {"filters": filters},
                {"filters": [*filters, topic]},
                {"filters": filters, "subscribe": "t"},
                {"filters": filters, "keys": "k"},
            ):
                how: dict[str, Any] = {"mode": "FAILFAST", "minPartitions": pieces, "pread": pieces > 1, **asked}
                table, _ = read_directly(tmp_path / "store", *columns, **how)
                assert sorted(table["commit_log_offset"].to_pylist()) == wanted, (begin, end, asked)


def test_times_in_a_part_of_a_log_that_goes_on(tmp_path: Path) -> None:
    """A stream's batch: its tasks see the units of what comes behind it, and not the messages."""
    known = fill(tmp_path / "store", 600)
    log_end = known[300]["commit_log_offset"]
    begin = str(known[150]["store_timestamp"])
    options = ReadOptions.of({"path": str(tmp_path / "store"), "subscribe": "topic-1", "startingTimestamp": begin})
    ranges = {str(tmp_path / "store"): LogRange(known[100]["commit_log_offset"], log_end)}
    pieces = plan(options, Narrowing(), ranges, has_bodies=False)
    assert {piece.log_end for piece in pieces} == {log_end}
    batches = [batch for piece in pieces for batch in read_piece(piece, schema("commit_log_offset"), options)]
    found = sorted(offset for batch in batches for offset in batch["commit_log_offset"].to_pylist())
    assert found == [row["commit_log_offset"] for row in known[150:300] if row["topic"] == "topic-1"]
