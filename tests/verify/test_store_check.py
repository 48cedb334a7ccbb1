"""How the parts of a check are put together: what is kept of them, in which order they may come."""

import random
import struct
import weakref
from pathlib import Path
from typing import Any

import pytest

import mqstore
from mqstore.verify import verify
from mqstore.verify.log_ranges import log_view
from mqstore.verify.store_check import StoreCheck, check_part
from tests.compat.streams import SMALL_FILES
from tests.verify.damage import QUEUE_OFFSET_AT, lose
from tests.verify.test_store_times import RANGE_SIZES


class Result(dict[str, Any]):
    """What a range gives, which can be seen to be let go of."""


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A closed store of several log files and queues, of which one lacks messages in the middle."""
    path = tmp_path / "store"
    with mqstore.open(path, "rw", **SMALL_FILES) as opened:
        for number in range(400):
            opened.put("t", bytes(400), keys=f"k{number}", queue_id=number % 7)
    with (path / "commitlog" / f"{65_536:020}").open("r+b") as log:
        log.write(bytes(10_000))
    return path


def checked(store: Path, order: random.Random | None, size: int = 5000) -> tuple[StoreCheck, list[weakref.ref[Result]]]:
    """A check whose ranges come in their order, or in any."""
    check = StoreCheck(str(store), SMALL_FILES, compat=False)
    view = log_view(check.path, check.options, compat=False, end=check.end)
    tasks, given = check.tasks(0, size), []
    while tasks:
        if order is not None:
            order.shuffle(tasks)
        for task in tasks:
            result = check_part(view, task)
            if task[0] == "log":
                result = Result(result)
                given.append(weakref.ref(result))
            check.take(task, result)
            del result
            if order is None:
                assert [each() for each in given if each() is not None] == [], "kept behind its turn"
        tasks = check.again(0)
    return check, given


def test_of_ranges_that_come_in_their_order_nothing_is_kept(store: Path) -> None:
    """With many queues a range's first and last offsets take more than all that is told in the end."""
    _, given = checked(store, None)
    assert len(given) > 20


@pytest.mark.parametrize("size", [5000, 1 << 30])
def test_what_is_wrong_between_offsets_has_its_queue_s_folder(store: Path, size: int) -> None:
    """Wherever the log was divided: between two records it is the queue that lacks something."""
    view = log_view(str(store), StoreCheck(str(store), SMALL_FILES, compat=False).options, compat=False)
    lose(store, view.boundary(30_000))
    check, _ = checked(store, None, size)
    gaps = [finding for finding in check.findings() if finding.kind == "offset_gap"]
    assert {Path(gap.path) for gap in gaps} == {store / "consumequeue" / "t" / str(number) for number in range(7)}
    assert len(gaps) == 8
    assert all(Path(gap.path).is_dir() for gap in gaps)


def test_ranges_may_come_in_any_order(store: Path, seed: int) -> None:
    check, _ = checked(store, None)
    found, expected = check.findings(), check.result()
    assert expected.counts["offset_gap"] == 7
    for number in range(20):
        other, given = checked(store, random.Random(seed + number))
        assert sorted(other.findings(), key=str) == sorted(found, key=str)
        assert other.result() == expected
        assert all(each() is None for each in given)


def test_a_queue_that_began_anew_is_told_once_wherever_the_log_is_divided(tmp_path: Path) -> None:
    path, count, anew = tmp_path / "store", 40, 15
    with mqstore.open(path, "rw", **SMALL_FILES) as store:
        for _ in range(count):
            store.put("t", bytes(100), queue_id=0)
        offsets = [message.commit_log_offset for message in store.select()]
    with (path / "commitlog" / f"{0:020}").open("r+b") as log:
        for number in range(anew, count):
            log.seek(offsets[number] + QUEUE_OFFSET_AT)
            log.write(struct.pack(">q", number - anew))
    for range_size in RANGE_SIZES:
        audit, findings = verify(path, range_size=range_size, **SMALL_FILES)
        assert "offset_gap" not in audit.counts, range_size
        assert audit.counts["offset_repeated"] == 1, range_size
        (found,) = [found for found in findings if found.kind == "offset_repeated"]
        assert (found.phy_offset, found.detail) == (offsets[anew], f"expected {anew}, found 0"), range_size


def test_a_unit_far_behind_a_queues_end_is_told(tmp_path: Path) -> None:
    """What lies between is a hole of its file, and read by nobody."""
    path = tmp_path / "store"
    with mqstore.open(path, "rw") as store:
        for _ in range(3):
            store.put("t", b"x", queue_id=0)
    assert verify(path)[1] == []
    with (path / "consumequeue" / "t" / "0" / f"{0:020}").open("r+b") as queue:
        unit = queue.read(20)
        queue.seek(200_001 * 20)
        queue.write(unit)
    assert [(finding.kind, finding.queue_offset) for finding in verify(path)[1]][:1] == [("unit_stray", 200_001)]
