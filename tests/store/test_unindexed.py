"""Messages that no index file has: nobody finds them by their keys, and the report says so."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import mqstore
from mqstore import Unindexed
from mqstore.cli.main import main
from mqstore.store.messages import MessageExtBrokerInner
from tests.expiring import expire
from tests.store.conftest import SMALL
from tests.store_files import copy_store

OPTIONS: dict[str, Any] = SMALL | {"mappedFileSizeCommitLog": 8192, "maxHashSlotNum": 10, "maxIndexNum": 21}
"""An index file has twenty keys."""


def put(store: mqstore.MessageStore, numbers: range, *, with_keys: bool = True) -> None:
    for number in numbers:
        properties = {"KEYS": f"k{number}"} if with_keys else {}
        message = MessageExtBrokerInner(topic="t", queue_id=0, body=bytes(50), properties=properties)
        assert store.put_message(message).is_ok


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A closed store of a hundred messages with a key each, and five full index files."""
    path = tmp_path / "store"
    with mqstore.open(path, "rw", **OPTIONS) as opened:
        put(opened, range(100))
    assert len(list((path / "index").iterdir())) == 5
    return path


def offsets(path: Path) -> list[int]:
    with mqstore.open(path, **OPTIONS) as opened:
        return [message.commit_log_offset for message in opened.select()] + [opened.get_max_phy_offset()]


def told(path: Path, **options: Any) -> list[Unindexed]:
    with mqstore.open(path, **OPTIONS, **options) as opened:
        report = opened.report()
        assert report.is_whole == (not report.unindexed)
        assert ("are not found by their keys" in str(report)) == bool(report.unindexed)
        return report.unindexed


def test_what_the_index_has_is_not_told(store: Path) -> None:
    assert told(store) == []
    with mqstore.open(store, "rw", **OPTIONS) as writer:
        assert writer.report().is_whole
        put(writer, range(100, 130))
        put(writer, range(130, 140), with_keys=False)
        put(writer, range(140, 161))
        assert told(store) == [], "beside its writer"
        assert writer.report().is_whole
        killed = copy_store(store, store.with_name("killed"))
    assert told(store) == told(killed) == []
    with mqstore.open(store, "rw", **OPTIONS) as writer:
        expire(writer, 1)
        assert writer.report().is_whole
    assert told(store) == []


@pytest.mark.parametrize(
    ("gone", "parts"),
    [
        ([0], [(0, 20)]),
        ([2], [(40, 60)]),
        ([1, 3], [(20, 40), (60, 80)]),
        ([1, 2], [(20, 60)]),
        ([4], [(80, 100)]),
        ([0, 1, 2, 3, 4], [(0, 100)]),
    ],
)
def test_what_index_files_are_missing_is(store: Path, gone: list[int], parts: list[tuple[int, int]]) -> None:
    at = offsets(store)
    files = sorted((store / "index").iterdir())
    for number in gone:
        files[number].unlink()
    expected = [Unindexed(at[begin], at[end]) for begin, end in parts]
    assert told(store) == expected
    with mqstore.open(store, "rw", **OPTIONS) as writer:
        assert writer.report().unindexed == expected
        put(writer, range(100, 103))
    assert told(store) == expected


def test_a_store_without_an_index_that_is_asked_for_keys(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with mqstore.open(path, "rw", messageIndexEnable=False, **OPTIONS) as writer:
        put(writer, range(5), with_keys=False)
        put(writer, range(5, 10))
        assert writer.report().is_whole
    at = offsets(path)
    assert told(path) == [Unindexed(at[5], at[10])]
    assert told(path, messageIndexEnable=False) == []
    found = CliRunner().invoke(main, ["find", str(path), "t", "k7"])
    assert found.exit_code == 3
    assert f"no index file has the messages from {at[5]} to {at[10]} of the log" in found.stderr


def test_many_messages_without_keys_are_not_all_looked_at(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with mqstore.open(path, "rw", **OPTIONS) as writer:
        put(writer, range(20))
        put(writer, range(20, 1500), with_keys=False)
        put(writer, range(1500, 1520))
    assert told(path) == []
    at = offsets(path)
    with mqstore.open(path, **OPTIONS) as reader:
        assert reader._unindexed() == [(at[19], at[1500], False)]


def test_what_was_put_without_an_index_is_told_when_keys_follow(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with mqstore.open(path, "rw", **OPTIONS) as writer:
        put(writer, range(5))
        put(writer, range(5, 8), with_keys=False)
    with mqstore.open(path, "rw", messageIndexEnable=False, **OPTIONS) as writer:
        put(writer, range(8, 12))
    for begin in (12, 14):
        with mqstore.open(path, "rw", **OPTIONS) as writer:
            assert len(writer.report().unindexed) == 1
            put(writer, range(begin, begin + 2))
            assert writer.select("t", key=f"k{begin}").count() == 1
        at = offsets(path)
        assert told(path) == [Unindexed(at[8], at[12])]
    assert len(list((path / "index").iterdir())) == 2
    (path / "abort").touch()
    with mqstore.open(path, "rw", **OPTIONS) as writer:
        assert writer.report().is_whole, "an unclean stop has it made again from there on"
        assert [number for number in range(16) if not writer.select("t", key=f"k{number}").count()] == [5, 6, 7]


def test_an_older_index_is_told_when_keys_follow(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with mqstore.open(path, "rw", **OPTIONS) as writer:
        put(writer, range(5))
    older = copy_store(path / "index", tmp_path / "older")
    with mqstore.open(path, "rw", **OPTIONS) as writer:
        put(writer, range(5, 10))
    shutil.rmtree(path / "index")
    older.rename(path / "index")
    with mqstore.open(path, "rw", **OPTIONS) as writer:
        put(writer, range(10, 12))
    at = offsets(path)
    assert told(path) == [Unindexed(at[5], at[10])]


def test_where_nothing_is_missing_keys_go_on_in_the_same_file(tmp_path: Path) -> None:
    path = tmp_path / "store"
    for begin in range(0, 15, 5):
        with mqstore.open(path, "rw", **OPTIONS) as writer:
            put(writer, range(begin, begin + 3))
            put(writer, range(begin + 3, begin + 5), with_keys=False)
    assert told(path) == []
    assert len(list((path / "index").iterdir())) == 1
