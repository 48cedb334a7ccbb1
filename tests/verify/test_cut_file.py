"""The only file of a log, cut short by somebody: how long it is says nothing of the store's files."""

import itertools
from pathlib import Path

import pytest

import mqstore
from mqstore.verify import repair, verify
from tests.compat.java_store import JavaStore
from tests.compat.naive_model import NaiveModel
from tests.compat.streams import SMALL_FILES
from tests.store_files import copy_store, forget_derived
from tests.verify.damage import LOG_FILE_SIZE

FIRST = f"commitlog/{0:020}"
BODY = b"x" * 600


def cut(path: Path, at: int) -> None:
    with (path / FIRST).open("r+b") as file:
        file.truncate(at)


@pytest.fixture
def store(tmp_path: Path) -> tuple[Path, list[int]]:
    """A closed store of one log file with room left, and where its messages stand and end."""
    path = tmp_path / "store"
    with mqstore.open(path, "rw", **SMALL_FILES) as opened:
        offsets = [opened.put("t", BODY, keys=f"k{number}", queue_id=0).wrote_offset or 0 for number in range(20)]
        return path, [*offsets, opened.get_max_phy_offset()]


# In a first record's head, in another's, in a body, before a last byte; where one ends; less than a blank behind that.
PLACES = [(0, 3), (0, 20), (10, 5), (10, 90), (10, 400), (11, -1), (10, 0), (20, 0), (20, 7)]


@pytest.mark.parametrize("with_queues", [False, True])
@pytest.mark.parametrize(("number", "more"), PLACES)
def test_the_repaired_store_has_files_of_the_size_that_options_say(
    java: JavaStore, store: tuple[Path, list[int]], tmp_path: Path, number: int, more: int, *, with_queues: bool
) -> None:
    path, offsets = store
    at = offsets[number] + more
    cut(path, at)
    if not with_queues:
        forget_derived(path, clean=True)
    left = [offset for offset, end in itertools.pairwise(offsets) if end <= at]
    done = repair(path, tmp_path / "whole", **SMALL_FILES)
    assert done.message_count == len(left)
    with_java = NaiveModel.of(java.run("dump", copy_store(done.path, tmp_path / "java"), SMALL_FILES))
    assert set(with_java.records) == set(left)
    with mqstore.open(done.path, "rw", **SMALL_FILES) as opened:
        assert [found.commit_log_offset for found in opened.topic("t").queue(0)] == left
        opened.put("t", BODY, queue_id=0)
    assert (done.path / FIRST).stat().st_size == LOG_FILE_SIZE
    _, findings = verify(done.path, **SMALL_FILES)
    assert {finding.kind for finding in findings} <= {"offset_gap"}


def test_without_options_it_has_a_broker_s_default(store: tuple[Path, list[int]], tmp_path: Path) -> None:
    path, offsets = store
    cut(path, offsets[10] + 90)
    done = repair(path, tmp_path / "whole")
    assert (done.path / FIRST).stat().st_size == 1 << 30
    with mqstore.open(done.path, "rw") as opened:
        opened.put("t", BODY, queue_id=0)


def test_in_place_it_is_refused_and_verify_tells_it(store: tuple[Path, list[int]]) -> None:
    path, offsets = store
    cut(path, offsets[10] + 90)
    expected = f"expected {LOG_FILE_SIZE} bytes.*, found {offsets[10] + 90} bytes"
    with pytest.raises(mqstore.StoreLayoutError, match=f"{expected}: nothing was changed, repair into another"):
        repair(path, **SMALL_FILES)
    _, findings = verify(path, **SMALL_FILES)
    assert FIRST in [str(Path(finding.path).relative_to(path)) for finding in findings]


def full(path: Path) -> int:
    """A store of one log file that a blank ends; gives where that begins."""
    with mqstore.open(path, "rw", **SMALL_FILES) as opened:
        while opened.put("t", BODY, queue_id=0).wrote_offset != LOG_FILE_SIZE:
            end = opened.get_max_phy_offset()
    (path / f"commitlog/{LOG_FILE_SIZE:020}").unlink()
    return end


def test_a_file_that_a_blank_ends_is_whole(tmp_path: Path) -> None:
    full(tmp_path / "store")
    done = repair(tmp_path / "store", tmp_path / "whole")
    assert (done.path / FIRST).stat().st_size == LOG_FILE_SIZE


def test_a_file_that_is_cut_in_its_blank_is_not(tmp_path: Path) -> None:
    end = full(tmp_path / "store")
    cut(tmp_path / "store", end + 8)
    done = repair(tmp_path / "store", tmp_path / "whole", **SMALL_FILES)
    assert (done.path / FIRST).stat().st_size == LOG_FILE_SIZE


def test_a_damaged_size_in_a_whole_file_is_not_taken_for_a_cut(store: tuple[Path, list[int]], tmp_path: Path) -> None:
    """Its other lengths tell that it ends where it does."""
    path, offsets = store
    with (path / FIRST).open("r+b") as file:
        file.seek(offsets[19] + 1)
        file.write(b"\x10")
    done = repair(path, tmp_path / "whole")
    assert (done.path / FIRST).stat().st_size == LOG_FILE_SIZE
    assert len(done.lost) == 1


def test_a_torn_end_is_not_taken_for_a_cut(store: tuple[Path, list[int]], tmp_path: Path) -> None:
    path, offsets = store
    with (path / FIRST).open("r+b") as file:
        file.seek(offsets[19] + 300)
        file.write(bytes(offsets[20] - offsets[19] - 300))
    done = repair(path, tmp_path / "whole")
    assert (done.path / FIRST).stat().st_size == LOG_FILE_SIZE
