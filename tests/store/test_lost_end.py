"""A log whose end was on the disk and is not there: nothing is put in its place in silence."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import mqstore
from tests.compat.java_store import JavaStore
from tests.compat.streams import SMALL_FILES
from tests.lost_ends import COUNT, FROM_FILES, make, remove_all


@pytest.fixture
def store(tmp_path: Path) -> tuple[Path, int]:
    """A closed store of several log files, and where its log ends."""
    path = tmp_path / "store"
    return path, make(path)


@pytest.mark.parametrize("lose", FROM_FILES)
def test_a_writer_refuses_it_and_a_reader_tells_it(store: tuple[Path, int], lose: Callable[[Path], None]) -> None:
    path, end = store
    lose(path)
    with pytest.raises(mqstore.DamagedStoreError, match=f"was on the disk up to {end}") as refused:
        mqstore.open(path, "rw", **SMALL_FILES)
    assert refused.value.next_valid is None
    assert (path / "commitlog") in {Path(refused.value.path), Path(refused.value.path).parent}
    with mqstore.open(path) as reader:
        report = reader.report()
        assert not report.is_whole
        assert [(gap.begin_offset, gap.end_offset) for gap in report.gaps] == [(refused.value.offset, end)]
        left = reader.select("t").count()
    with mqstore.open(path, "rw", on_damage="truncate", **SMALL_FILES) as opened:
        assert opened.put("t", b"y", queue_id=0).logics_offset == left < COUNT
    with mqstore.open(path, "rw", **SMALL_FILES) as opened:
        assert opened.report().is_whole


def test_4_9_3_goes_on_at_0(java: JavaStore, store: tuple[Path, int]) -> None:
    """The Java store takes what queues there were away, and gives the same offsets again."""
    path, _ = store
    remove_all(path)
    message = json.dumps({"topic": "t", "queueId": 0, "body": "YWdhaW4="})
    (result,) = (json.loads(line) for line in java.run("put", path, SMALL_FILES, [message]))
    assert (result["wroteOffset"], result["logicsOffset"]) == (0, 0)


def test_a_broker_s_log_that_lies_elsewhere_is_no_empty_one(java: JavaStore, tmp_path: Path) -> None:
    """Who forgets to say where it lies loses no queue, and with the option has all of it."""
    path, log = tmp_path / "store", tmp_path / "log"
    message = json.dumps({"topic": "t", "queueId": 0, "body": "YWdhaW4="})
    assert java.run("put", path, SMALL_FILES, [message] * 3)
    (path / "commitlog").rename(log)
    with pytest.raises(mqstore.DamagedStoreError, match="the log ends at 0, and was on the disk"):
        mqstore.open(path, "rw", **SMALL_FILES)
    with mqstore.open(path, "rw", store_path_commit_log=str(log), **SMALL_FILES) as opened:
        assert opened.put("t", b"y", queue_id=0).logics_offset == 3
