"""Queue files that stand in another queue's place, as after a copy that went wrong: the log is whole."""

from collections.abc import Callable
from pathlib import Path

import pytest

import mqstore
from mqstore.verify import repair, verify
from tests.compat.streams import SMALL_FILES
from tests.verify.damage import QUEUE_FILE_UNITS


def made(path: Path) -> list[tuple[int, int, int]]:
    """Makes a store of two queues, whose records' sizes differ; gives where its messages stand."""
    with mqstore.open(path, "rw", **SMALL_FILES) as store:
        for number in range(5 * QUEUE_FILE_UNITS):
            store.put("t", bytes(number), queue_id=number % 2)
        return told(store)


def told(store: mqstore.MessageStore) -> list[tuple[int, int, int]]:
    return [(message.queue_id, message.queue_offset, message.commit_log_offset) for message in store.select()]


def swap_folders(queues: Path) -> None:
    (queues / "0").rename(queues / "other")
    (queues / "1").rename(queues / "0")
    (queues / "other").rename(queues / "1")


def swap_files(queues: Path, number: int) -> None:
    """Swaps the files of one number between two queues."""
    paths = [sorted((queues / name).iterdir())[number] for name in ("0", "1")]
    contents = [path.read_bytes() for path in paths]
    for path, content in zip(paths, reversed(contents), strict=True):
        path.write_bytes(content)


def loses_nothing(path: Path, known: list[tuple[int, int, int]], *, in_place: bool) -> None:
    """A store with swapped queues is not whole, gives its messages all the same, and is whole once it is repaired."""
    assert not verify(path, **SMALL_FILES)[0].is_whole
    with mqstore.open(path, **SMALL_FILES) as store:
        assert told(store) == known
    done = repair(path, None if in_place else path.with_name("whole"), **SMALL_FILES)
    assert (done.lost, done.holes, done.message_count) == ((), (), len(known))
    assert verify(done.path, **SMALL_FILES)[0].is_whole
    with mqstore.open(done.path, **SMALL_FILES) as store:
        assert told(store) == known


SWAPS: list[Callable[[Path], None]] = [
    swap_folders,
    lambda queues: swap_files(queues, 0),
    lambda queues: swap_files(queues, 1),
    lambda queues: swap_files(queues, 2),
]


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("swap", SWAPS, ids=["folders", "first files", "middle files", "last files"])
def test_no_message_is_lost_for_units_of_another_queue(
    tmp_path: Path, swap: Callable[[Path], None], *, in_place: bool
) -> None:
    path = tmp_path / "store"
    known = made(path)
    swap(path / "consumequeue/t")
    loses_nothing(path, known, in_place=in_place)


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("counts", [(1, 1), (1, 3), (QUEUE_FILE_UNITS + 1, 1), (QUEUE_FILE_UNITS + 1, 3)])
@pytest.mark.parametrize("number", [0, -1], ids=["first files", "last files"])
def test_no_message_is_lost_for_a_file_of_a_single_unit(
    tmp_path: Path, counts: tuple[int, int], number: int, *, in_place: bool
) -> None:
    """No unit beside it tells that the file is the other queue's: the other's unit in its own place does."""
    path = tmp_path / "store"
    with mqstore.open(path, "rw", **SMALL_FILES) as store:
        for queue_id, count in enumerate(counts):
            for size in range(count):
                store.put("t", bytes(size), queue_id=queue_id)
        known = told(store)
    swap_files(path / "consumequeue/t", number)
    loses_nothing(path, known, in_place=in_place)
