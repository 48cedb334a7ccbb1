"""What is no store, or none that can be written without loss: a clear error, and nothing changed."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import mqstore
from tests.store.conftest import Opener
from tests.store_files import copy_store, tree

SECOND_FILE = f"{65_536:020}"


def _odd_size(store: Path) -> None:
    os.truncate(store / "commitlog" / SECOND_FILE, 60_000)


def _unknown_name(store: Path) -> None:
    (store / "commitlog" / "notes.txt").write_text("mine")


def _missing_middle(store: Path) -> None:
    (store / "commitlog" / SECOND_FILE).unlink()


def _foreign(store: Path) -> None:
    shutil.rmtree(store)
    store.mkdir()
    (store / "holiday.jpg").write_text("mine")


def _rocksdb(store: Path) -> None:
    (store / "consumequeue" / "CURRENT").write_text("MANIFEST-000001\n")


@pytest.fixture
def whole(open_store: Opener, tmp_path: Path) -> Path:
    """A store of four log files, closed."""
    store = open_store("whole")
    store.put_many("t", [bytes([number]) * 2000 for number in range(100)], queue_id=0)
    store.close()
    return tmp_path / "whole"


@pytest.mark.parametrize(
    ("damage", "error", "words"),
    [
        (_odd_size, mqstore.StoreLayoutError, [SECOND_FILE, "65536 bytes", "60000 bytes"]),
        (_unknown_name, mqstore.StoreLayoutError, ["notes.txt", "20 digits"]),
        (_missing_middle, mqstore.StoreLayoutError, [SECOND_FILE]),
        (_foreign, mqstore.StoreLayoutError, ["holiday.jpg"]),
        (_rocksdb, mqstore.UnsupportedStoreError, ["RocksDB"]),
    ],
)
def test_opening_for_writing_is_refused_and_changes_nothing(
    whole: Path, tmp_path: Path, damage: Callable[[Path], None], error: type[mqstore.MQStoreError], words: list[str]
) -> None:
    store = copy_store(whole, tmp_path / "copy")
    damage(store)
    before = tree(store)
    with pytest.raises(error) as raised:
        mqstore.open(store, "rw")
    for word in words:
        assert word in str(raised.value)
    assert tree(store) == before


@pytest.mark.parametrize("damage", [_odd_size, _unknown_name, _missing_middle])
def test_opening_to_read_goes_as_far_as_it_can_and_changes_nothing(
    whole: Path, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    store = copy_store(whole, tmp_path / "copy")
    damage(store)
    before = tree(store)
    with mqstore.open(store, "r") as reader:
        first = [bytes(message.body)[0] for message in reader.topic("t").queue(0)]
    assert {0, 99} <= set(first)
    assert first == sorted(first)
    assert len(first) >= 65
    assert tree(store) == before


def test_a_second_writer_is_told_who_has_the_store(open_store: Opener, tmp_path: Path) -> None:
    open_store()
    before = tree(tmp_path / "store")
    with pytest.raises(mqstore.StoreLockedError, match=f"mqstore in process {os.getpid()}"):
        mqstore.open(tmp_path / "store", "rw")
    assert tree(tmp_path / "store").keys() == before.keys()
