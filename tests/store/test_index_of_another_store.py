"""An index of another store's log: what is wrong of it is made anew, and nothing is blamed on the log."""

import shutil
from pathlib import Path

import pytest

import mqstore
from tests.compat.streams import SMALL_FILES

MESSAGES = 300


def made(path: Path, body_size: int) -> None:
    with mqstore.open(path, "rw", **SMALL_FILES) as store:
        for number in range(MESSAGES):
            store.put("t", bytes(body_size), keys=f"k{number}")


@pytest.mark.parametrize("mode", ["r", "rw"])
def test_dispatch_does_not_begin_inside_a_record(tmp_path: Path, mode: str) -> None:
    path, other = tmp_path / "store", tmp_path / "other"
    made(path, 300)
    # Longer: its last index file goes behind the end of the log, and the one before ends inside a record.
    made(other, 307)
    shutil.rmtree(path / "index")
    shutil.copytree(other / "index", path / "index")
    with mqstore.open(path, mode, **SMALL_FILES) as store:
        assert store.report().is_whole, str(store.report())
        found = [store.query_message("t", f"k{number}") for number in range(MESSAGES)]
        assert [len(messages) for messages in found] == [1] * MESSAGES
        assert store.report().is_whole, str(store.report())


@pytest.mark.parametrize("mode", ["r", "rw"])
@pytest.mark.parametrize("is_shorter", [False, True])
def test_an_index_that_ends_where_the_log_has_a_record_is_another_store_s_all_the_same(
    tmp_path: Path, mode: str, *, is_shorter: bool
) -> None:
    path, other = tmp_path / "store", tmp_path / "other"
    made(path, 300)
    with mqstore.open(other, "rw", **SMALL_FILES) as store:
        for number in range(MESSAGES // 3 if is_shorter else 4 * MESSAGES):
            # As long, under other keys.
            store.put("t", bytes(300), keys=f"o{number % 1000}")
    shutil.rmtree(path / "index")
    shutil.copytree(other / "index", path / "index")
    with mqstore.open(path, mode, **SMALL_FILES) as store:
        found = [store.query_message("t", f"k{number}") for number in range(MESSAGES)]
        assert [len(messages) for messages in found] == [1] * MESSAGES
