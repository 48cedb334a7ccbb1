"""Folders where a store has files, and files where it has folders: who meets them says what to do."""

import shutil
from pathlib import Path
from typing import Any

import pytest

import mqstore
from mqstore.verify import repair, verify
from tests.compat.streams import SMALL_FILES
from tests.store_files import tree

OPTIONS: dict[str, Any] = SMALL_FILES


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A closed store."""
    path = tmp_path / "store"
    with mqstore.open(path, "rw", **OPTIONS) as opened:
        opened.put("t", b"x", queue_id=0, keys="k")
    return path


def make_wrong(path: Path) -> str:
    """Has a folder where a file belongs, or the other way round; gives what is to be told of that."""
    is_folder = path.is_dir()
    if is_folder:
        shutil.rmtree(path)
        path.write_bytes(b"x")
    else:
        path.unlink(missing_ok=True)
        path.mkdir(parents=True)
    expected, found = ("a folder", "a file") if is_folder else ("a file", "a folder")
    return rf"^{path}: expected {expected}, found {found}; move it out of the store, or restore what was there$"


@pytest.mark.parametrize("name", ["checkpoint", "mqstore/positions", "mqstore/removed_queues", "consumequeue"])
def test_what_stops_every_reader(store: Path, tmp_path: Path, name: str) -> None:
    told = make_wrong(store / name)
    before = tree(tmp_path)
    for mode in ("r", "rw"):
        with pytest.raises(mqstore.StoreLayoutError, match=told) as failed:
            mqstore.open(store, mode, **OPTIONS)
        assert failed.value.path == str(store / name)
        assert {failed.value.expected, failed.value.found} == {"a file", "a folder"}
    with pytest.raises(mqstore.StoreLayoutError, match=told):
        verify(store, **OPTIONS)
    for out in (None, tmp_path / "whole"):
        with pytest.raises(mqstore.StoreLayoutError, match=told):
            repair(store, out, **OPTIONS)
    made_by_a_writer = {store / "lock", store / "abort"}
    assert {path: content for path, content in tree(tmp_path).items() if path not in made_by_a_writer} == {
        path: content for path, content in before.items() if path not in made_by_a_writer
    }


@pytest.mark.parametrize("name", ["config", "config/topics.json", "config/consumerOffset.json"])
def test_what_stops_a_repair_does_so_before_anything_is_changed(store: Path, tmp_path: Path, name: str) -> None:
    told = make_wrong(store / name)
    before = tree(tmp_path)
    for out in (None, tmp_path / "whole"):
        with pytest.raises(mqstore.StoreLayoutError, match=told) as failed:
            repair(store, out, **OPTIONS)
        assert not hasattr(failed.value, "__notes__")
    assert tree(tmp_path) == before
    # A check that is all well would be followed by a repair.
    assert [(finding.kind, finding.path) for finding in verify(store, **OPTIONS)[1]] == [("stray", str(store / name))]


def test_offsets_that_cannot_be_read_stop_a_repair_in_place_before_anything_is_changed(
    store: Path, tmp_path: Path
) -> None:
    """They could not be set back once the queues are made anew."""
    (store / "mqstore" / "consumers" / "g" / "consumerOffset.json").mkdir(parents=True)
    before = tree(tmp_path)
    with pytest.raises(mqstore.StoreIOError, match="g/consumerOffset") as failed:
        repair(store, **OPTIONS)
    assert not hasattr(failed.value, "__notes__")
    assert tree(tmp_path) == before


def test_a_store_that_is_not_local_is_not_looked_at(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyarrow")
    make_wrong(store / "checkpoint")
    monkeypatch.setattr("mqstore.store.byte_ranges.is_remote", lambda path: str(path).startswith("file://"))
    with pytest.raises(mqstore.StoreIOError):
        mqstore.open(f"file://{store}", **OPTIONS)


def test_another_error_stays_as_it_is(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that is in the way is not to be blamed for what it has no part in."""
    make_wrong(store / "config")

    def refuse(*_: object, **__: object) -> None:
        raise mqstore.StoreIOError(13, "not allowed")

    monkeypatch.setattr("mqstore.MessageStore", refuse)
    with pytest.raises(mqstore.StoreIOError) as failed:
        mqstore.open(store, **OPTIONS)
    assert failed.value.errno == 13


@pytest.mark.parametrize("folder", [".", "commitlog", "consumequeue", "index", "config", "mqstore"])
def test_the_root_of_a_disk_can_be_a_folder_of_a_store(tmp_path: Path, folder: str) -> None:
    """ext4 has a folder of its own there."""
    path = tmp_path / "store"
    (path / folder / "lost+found").mkdir(parents=True)
    for number in range(2):
        with mqstore.open(path, "rw", **OPTIONS) as store:
            store.put("t", b"%d" % number, keys="k", queue_id=0)
            assert store.report().is_whole
    assert verify(path, **OPTIONS)[0].is_whole
    repair(path, tmp_path / "out", **OPTIONS)
    with mqstore.open(tmp_path / "out", **OPTIONS) as store:
        assert len(store.query_message("t", "k")) == 2
