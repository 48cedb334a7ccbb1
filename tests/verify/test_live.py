"""A store that somebody writes to while it is checked: what is still on its way is no damage."""

import importlib
import itertools
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import mqstore
from mqstore.verify import verify
from tests.compat.streams import SMALL_FILES
from tests.expiring import expire

VERIFY = importlib.import_module("mqstore.verify.verify")

OPTIONS: dict[str, Any] = SMALL_FILES | {"maxIndexNum": 400, "maxHashSlotNum": 100}
SMALLER: dict[str, Any] = OPTIONS | {"mappedFileSizeCommitLog": 16 << 10, "mappedFileSizeConsumeQueue": 200}


def put(store: mqstore.MessageStore, count: int) -> None:
    for number in range(count):
        store.put(f"t{number % 3}", bytes(200), keys=[f"k{number}", "all"], queue_id=number % 2)


def test_nothing_is_wrong_with_a_store_that_is_open(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with mqstore.open(path, "rw", **OPTIONS) as store:
        for _ in range(3):
            put(store, 300)
            _, findings = verify(path, **OPTIONS)
            assert not findings
        store.flush()
        put(store, 10)
        # What was flushed counts as ever.
        done, _ = verify(path, **OPTIONS)
        assert done.unit_count >= 900
        queue = min((path / "consumequeue" / "t0" / "0").iterdir())
        with queue.open("r+b") as file:
            file.write(bytes(20))
        done, _ = verify(path, **OPTIONS)
        assert done.counts["unit_missing"] == 1


def test_nothing_is_wrong_with_a_store_that_is_being_written_to(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with mqstore.open(path, "rw", **OPTIONS) as store:
        is_enough = threading.Event()

        def put_on() -> None:
            while not is_enough.is_set():
                put(store, 50)

        writer = threading.Thread(target=put_on)
        writer.start()
        try:
            for _ in range(8):
                _, findings = verify(path, range_size=100_000, **OPTIONS)
                assert not findings
        finally:
            is_enough.set()
            writer.join()


def before_part(monkeypatch: pytest.MonkeyPatch, number: int, act: Callable[[], None]) -> Callable[[], int]:
    """Has something done before a part of the check, all of which follow each other; gives how many there were."""
    numbers = itertools.count()
    check_part, done = VERIFY.check_part, []

    def checked(view: Any, task: Any) -> Any:
        done.append(task)
        if next(numbers) == number:
            act()
        return check_part(view, task)

    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    monkeypatch.setattr(VERIFY, "check_part", checked)
    return lambda: len(done)


@pytest.mark.parametrize("pread", [False, True])
def test_what_retention_removes_meanwhile_is_no_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, pread: bool
) -> None:
    for number in itertools.count():
        path = tmp_path / str(number)
        with mqstore.open(path, "rw", **SMALLER) as store, monkeypatch.context() as patch:
            put(store, 300)
            parts = before_part(patch, number, lambda store=store: expire(store, 3))  # type: ignore[misc]
            done, findings = verify(path, range_size=10_000, pread=pread, **SMALLER)
            assert findings == [], number
            if number >= parts():
                break
            assert done.begin in {0, store.get_min_phy_offset()}
            assert done.end == store.get_max_phy_offset()
    assert number > 10


@pytest.mark.parametrize("pread", [False, True])
def test_what_is_wrong_behind_what_retention_removes_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, pread: bool
) -> None:
    path = tmp_path / "store"
    with mqstore.open(path, "rw", **SMALLER) as store:
        put(store, 300)
        store._reput()
        store.flush()
        for queue in (path / "consumequeue" / "t1").iterdir():
            with sorted(queue.iterdir())[-2].open("r+b") as file:
                file.write(bytes(20))
        before_part(monkeypatch, 0, lambda: expire(store, 3))
        done, _ = verify(path, range_size=10_000, pread=pread, **SMALLER)
        assert (done.begin, done.counts["unit_missing"]) == (store.get_min_phy_offset(), 2)


@pytest.mark.parametrize("pread", [False, True])
def test_a_file_that_goes_from_the_middle_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, pread: bool
) -> None:
    path = tmp_path / "store"
    with mqstore.open(path, "rw", **SMALLER) as store:
        put(store, 300)
    log = sorted((path / "commitlog").iterdir())
    before_part(monkeypatch, 0, log[2].unlink)
    done, findings = verify(path, range_size=10_000, pread=pread, **SMALLER)
    assert (done.begin, done.counts["bad_record"]) == (0, 1)
    (bad,) = [finding for finding in findings if finding.kind == "bad_record"]
    assert bad.phy_offset == int(log[2].name)
    assert "expected a file of the log, found none" in bad.detail


@pytest.mark.parametrize("pread", [False, True])
@pytest.mark.parametrize("stays", [False, True])
def test_a_writer_that_comes_meanwhile_does_no_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, pread: bool, stays: bool
) -> None:
    for number in itertools.count():
        path = tmp_path / str(number)
        with mqstore.open(path, "rw", **SMALLER) as store:
            put(store, 300)
            end = store.get_max_phy_offset()
        writers: list[mqstore.MessageStore] = []

        def write(path: Path = path, writers: list[mqstore.MessageStore] = writers) -> None:
            writers.append(writer := mqstore.open(path, "rw", **SMALLER))
            put(writer, 100)
            writer._reput()
            writer.flush()
            if not stays:
                writer.close()

        with monkeypatch.context() as patch:
            parts = before_part(patch, number, write)
            done, findings = verify(path, range_size=10_000, pread=pread, **SMALLER)
        for writer in writers:
            writer.close()
        assert (findings, done.end) == ([], end), number
        if number >= parts():
            break
    assert number > 10
