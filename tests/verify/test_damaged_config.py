"""A check of a store whose configuration is damaged: who needs it is refused, though every message is there."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

import mqstore
from mqstore.cli.main import main
from mqstore.verify import repair, verify
from mqstore.verify.meanings import MEANINGS
from tests.compat.streams import SMALL_FILES
from tests.permissions import refuse_listing

TOPICS = "config/topics.json"
OFFSETS = "config/consumerOffset.json"
SHARED = "mqstore/consumers/shared/consumerOffset.json"
FILES = [
    TOPICS,
    OFFSETS,
    "config/lmqConsumerOffset.json",
    "config/delayOffset.json",
    "config/subscriptionGroup.json",
    "config/consumerFilter.json",
    SHARED,
    "mqstore/consumers/all/broadcast/one.json",
]
DAMAGED = b"{damaged"
OPTIONS = [part for name, value in SMALL_FILES.items() for part in ("-o", f"{name}={value}")]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A closed store that has each of the files."""
    path = tmp_path / "store"
    with mqstore.open(path, "rw", **SMALL_FILES) as opened:
        opened.put("t", b"x", queue_id=0, keys="k")
    for name in FILES:
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        if not (path / name).exists():
            (path / name).write_text("{}")
    return path


def damage(store: Path, *names: str) -> None:
    for name in names:
        for path in (store / name, store / f"{name}.bak"):
            path.write_bytes(DAMAGED)


def found(store: Path) -> list[tuple[str, str]]:
    return [(finding.kind, finding.path) for finding in verify(store, **SMALL_FILES)[1]]


def test_nothing_is_wrong_with_files_that_are_whole_or_missing(store: Path) -> None:
    assert found(store) == []
    for name in FILES:
        (store / name).unlink()
    assert found(store) == []


@pytest.mark.parametrize("name", FILES)
def test_each_file_that_nobody_can_read_is_told(store: Path, name: str) -> None:
    damage(store, name)
    audit, (finding,) = verify(store, **SMALL_FILES)
    assert (finding.kind, finding.path) == ("config_damaged", str(store / name))
    assert finding.detail.startswith("expected JSON as RocketMQ writes it, Expecting property name")
    assert f"; {store / name}.bak: expected JSON" in finding.detail
    assert (audit.counts, audit.is_whole) == ({"config_damaged": 1}, False)


def test_all_of_them_are_told_one_by_one(store: Path) -> None:
    damage(store, *FILES)
    assert sorted(found(store)) == [("config_damaged", str(store / name)) for name in sorted(FILES)]


@pytest.mark.parametrize("name", FILES)
def test_a_whole_bak_is_what_the_file_is(store: Path, name: str) -> None:
    damage(store, name)
    (store / f"{name}.bak").write_text("{}")
    assert found(store) == []


def test_the_command_says_what_it_means(store: Path) -> None:
    damage(store, TOPICS)
    done = CliRunner().invoke(main, ["verify", str(store), *OPTIONS, "--table"])
    assert done.exit_code == 1
    assert f"\n{MEANINGS['config_damaged'].title}: 1\n" in done.stdout
    assert f"    {store / TOPICS}: expected JSON" in done.stdout


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo], ids=["folder", "FIFO"])
@pytest.mark.parametrize("name", [TOPICS, OFFSETS])
def test_what_is_no_file_is_told_once(store: Path, name: str, make: Callable[[Path], None]) -> None:
    (store / name).unlink()
    make(store / name)
    (store / f"{name}.bak").unlink(missing_ok=True)
    assert found(store) == [("stray", str(store / name))]


@pytest.mark.parametrize(
    ("make", "expected"), [(Path.mkdir, "Is a directory"), (os.mkfifo, "found a FIFO")], ids=["folder", "FIFO"]
)
def test_what_is_no_file_of_a_consumer_or_no_bak_is_told_as_damage(
    store: Path, make: Callable[[Path], None], expected: str
) -> None:
    (store / SHARED).unlink()
    make(store / SHARED)
    (store / OFFSETS).write_bytes(DAMAGED)
    make(store / f"{OFFSETS}.bak")
    details = {finding.path: finding.detail for finding in verify(store, **SMALL_FILES)[1]}
    assert list(details) == [str(store / OFFSETS), str(store / SHARED)]
    assert all(expected in detail for detail in details.values())


def test_a_file_that_the_system_refuses_to_read_is_no_damage(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("mqstore.store.config_manager.read_file", refuse)
    with pytest.raises(mqstore.StoreIOError, match=r"topics.json: Permission denied"):
        verify(store, **SMALL_FILES)


def test_files_of_a_store_that_is_not_local_are_not_looked_at(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    damage(store, *FILES)
    monkeypatch.setattr("mqstore.verify.damaged_config.is_remote", lambda _: True)
    assert found(store) == []


@pytest.mark.parametrize("in_place", [False, True])
def test_what_a_repair_leaves_is_told_of_the_new_store(store: Path, tmp_path: Path, *, in_place: bool) -> None:
    damage(store, TOPICS, OFFSETS)
    done = repair(store, None if in_place else tmp_path / "whole", **SMALL_FILES)
    assert done.topics_anew == ("t",)
    assert found(done.path) == [("config_damaged", str(done.path / OFFSETS))]


@pytest.mark.parametrize("folder", ["mqstore/consumers", "mqstore/consumers/shared", "mqstore/consumers/all/broadcast"])
def test_a_group_s_folder_that_the_system_refuses_to_list_is_no_missing_group(
    store: Path, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    """Another user's consumer may have made it for himself alone: the group would begin anew, or pass over messages."""
    refuse_listing(monkeypatch, store / folder)
    expected = f"^list the folder {store / folder}: Permission denied$"
    with pytest.raises(mqstore.StoreIOError, match=expected):
        verify(store, **SMALL_FILES)
    for target in (store.with_name("whole"), None):
        with pytest.raises(mqstore.StoreIOError, match=expected):
            repair(store, target, **SMALL_FILES)
    assert [path.name for path in store.parent.iterdir()] == ["store"]
    if "broadcast" not in folder:
        with mqstore.open(store, **SMALL_FILES) as opened, pytest.raises(mqstore.StoreIOError, match=expected):
            opened.consumers.consume_stats_of_groups()
