"""The only file of a log, cut short by somebody: how long it is says nothing of the store's files."""

import itertools
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import mqstore
from mqstore.verify import repair, verify
from tests.compat.java_store import JavaStore
from tests.compat.naive_model import NaiveModel
from tests.compat.streams import SMALL_FILES
from tests.store_files import copy_store, forget_derived, tree
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


# The zeros behind the last message: no fewer than a blank takes, or in the middle of them.
ZEROS = [(20, 8), (20, 9), (20, 1000), (20, 40_000)]


@pytest.mark.parametrize("options", [SMALL_FILES, {}], ids=["small files", "default options"])
@pytest.mark.parametrize(("number", "more"), [*PLACES, *ZEROS])
def test_a_writer_refuses_it_and_changes_nothing(
    store: tuple[Path, list[int]], number: int, more: int, options: Mapping[str, Any]
) -> None:
    """What was put behind it would go into files of that length; the writer before has left which one it had."""
    path, offsets = store
    at = offsets[number] + more
    cut(path, at)
    before = tree(path)
    with pytest.raises(mqstore.StoreLayoutError, match="mqstore repair") as refused:
        mqstore.open(path, "rw", **options)
    assert tree(path) == before
    assert refused.value.path == str(path / FIRST)
    assert f"{path / FIRST}: expected {LOG_FILE_SIZE} bytes" in str(refused.value)
    assert f"found {at} bytes: somebody has cut it short" in str(refused.value)
    left = [offset for offset, end in itertools.pairwise(offsets) if end <= at]
    with mqstore.open(path, **options) as opened:
        assert [message.commit_log_offset for message in opened.select("t")] == left


@pytest.mark.parametrize("options", [SMALL_FILES, {}, {"mappedFileSizeCommitLog": "1000"}], ids=str)
@pytest.mark.parametrize(("number", "more"), PLACES)
def test_a_writer_refuses_it_where_records_go_beyond_its_end(
    store: tuple[Path, list[int]], number: int, more: int, options: Mapping[str, Any]
) -> None:
    """No mqstore writer has left how long the file was."""
    path, offsets = store
    at = offsets[number] + more
    cut(path, at)
    forget_derived(path, clean=True)
    size = int(options.get("mappedFileSizeCommitLog", 1 << 30))
    if size == at:
        pytest.skip("as long as the options say")
    expected = f"{size} bytes, as mapped" if size > at else f"more than {at} bytes, since"
    before = tree(path)
    with pytest.raises(mqstore.StoreLayoutError, match=f"expected {expected}.*, found {at} bytes: somebody"):
        mqstore.open(path, "rw", **options)
    assert tree(path) == before


@pytest.mark.parametrize("options", [SMALL_FILES, {}, {"mappedFileSizeCommitLog": "1000"}], ids=str)
@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize("is_full", [True, False])
def test_a_whole_file_is_opened_and_verified_with_any_options(
    tmp_path: Path, store: tuple[Path, list[int]], options: Mapping[str, Any], *, is_known: bool, is_full: bool
) -> None:
    path = store[0]
    if is_full:
        path = tmp_path / "full"
        full(path)
    if not is_known:
        shutil.rmtree(path / "mqstore")
    # The queues of the full one know of the message behind it.
    assert "stray" not in verify(path, **options)[0].counts
    # What its queues know of was in a file that is gone.
    with mqstore.open(path, "rw", on_damage="truncate", **options) as opened:
        opened.put("t", BODY, queue_id=0)
    assert {file.stat().st_size for file in (path / "commitlog").iterdir()} == {LOG_FILE_SIZE}
    assert verify(path, **options)[0].is_whole


@pytest.mark.parametrize("options", [SMALL_FILES, {}], ids=["small files", "default options"])
@pytest.mark.parametrize(("number", "more"), ZEROS)
def test_verify_tells_zeros_that_were_cut_off_and_repair_puts_them_back(
    store: tuple[Path, list[int]], tmp_path: Path, number: int, more: int, options: Mapping[str, Any]
) -> None:
    path, offsets = store
    at = offsets[number] + more
    cut(path, at)
    audit, findings = verify(path, **options)
    expected = f"expected {LOG_FILE_SIZE} bytes, as the files have, found {at} bytes"
    assert [(finding.kind, finding.path, finding.detail) for finding in findings] == [
        ("stray", str(path / FIRST), expected)
    ]
    assert not audit.is_whole
    done = repair(path, tmp_path / "whole", **options)
    assert (done.message_count, done.lost, done.holes, done.cut) == (20, (), (), ())
    assert verify(done.path, **options)[0].is_whole
    with mqstore.open(done.path, "rw", **options) as opened:
        assert opened.put("t", BODY, queue_id=0).wrote_offset == offsets[20]
    assert (done.path / FIRST).stat().st_size == LOG_FILE_SIZE


def test_a_length_that_the_options_say_is_no_cut_whoever_wrote_before(store: tuple[Path, list[int]]) -> None:
    """As where a store was made anew beside what an mqstore writer had left."""
    path, offsets = store
    cut(path, offsets[20] + 2000)
    options = SMALL_FILES | {"mappedFileSizeCommitLog": str(offsets[20] + 2000)}
    assert verify(path, **options)[0].is_whole
    with mqstore.open(path, "rw", **options) as opened:
        opened.put("t", BODY, queue_id=0)
    assert verify(path)[0].is_whole


def test_4_9_3_refuses_it(java: JavaStore, store: tuple[Path, list[int]]) -> None:
    path, offsets = store
    cut(path, offsets[20] + 1000)
    run = java.start("dump", path, SMALL_FILES)
    assert run.wait() != 0


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


def test_without_options_it_has_the_size_that_its_writer_gave_it(store: tuple[Path, list[int]], tmp_path: Path) -> None:
    path, offsets = store
    cut(path, offsets[10] + 90)
    done = repair(path, tmp_path / "whole")
    assert (done.path / FIRST).stat().st_size == LOG_FILE_SIZE


def test_where_mqstore_has_not_written_it_has_a_broker_s_default(store: tuple[Path, list[int]], tmp_path: Path) -> None:
    path, offsets = store
    cut(path, offsets[10] + 90)
    shutil.rmtree(path / "mqstore")
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
