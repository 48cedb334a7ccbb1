"""Folders of queues that have another name than before, as after a move by hand: the log says whose they are."""

from collections.abc import Callable
from pathlib import Path

import pytest

import mqstore
from mqstore.verify import repair, verify
from tests.compat.streams import SMALL_FILES
from tests.verify.damage import BODY_AT, QUEUE_FILE_UNITS, overwrite

Told = tuple[str, int, int, int]
BOTH_WAYS = pytest.mark.parametrize("in_place", [False, True], ids=["into a folder", "in place"])


def made(path: Path, count: int) -> list[Told]:
    """Makes a store of two topics with two queues each, by turns; gives where its messages stand."""
    with mqstore.open(path, "rw", **SMALL_FILES) as store:
        for number in range(4 * count):
            store.put("ab"[number % 2], bytes(number % 90), queue_id=number // 2 % 2)
        return told(store)


def told(store: mqstore.MessageStore) -> list[Told]:
    return [
        (message.topic, message.queue_id, message.queue_offset, message.commit_log_offset) for message in store.select()
    ]


def rename_topic(queues: Path) -> None:
    (queues / "a").rename(queues / "c")


def rename_both(queues: Path) -> None:
    (queues / "a").rename(queues / "c")
    (queues / "b").rename(queues / "d")


def rename_queue(queues: Path) -> None:
    (queues / "a/1").rename(queues / "a/7")


def move_queue(queues: Path) -> None:
    (queues / "a/0").rename(queues / "b/2")


def replace_topic(queues: Path) -> None:
    """Puts one topic's folder into the place of another's, which is gone."""
    (queues / "b").rename(queues.parent / "aside")
    (queues / "a").rename(queues / "b")


RENAMES: list[Callable[[Path], None]] = [rename_topic, rename_both, rename_queue, move_queue, replace_topic]
EACH = pytest.mark.parametrize("rename", RENAMES, ids=[rename.__name__ for rename in RENAMES])


def loses_nothing(path: Path, known: list[Told], *, in_place: bool) -> None:
    assert not verify(path, **SMALL_FILES)[0].is_whole
    done = repair(path, None if in_place else path.with_name("whole"), **SMALL_FILES)
    assert (done.lost, done.holes, done.message_count) == ((), (), len(known))
    assert verify(done.path, **SMALL_FILES)[0].is_whole
    with mqstore.open(done.path, "rw", **SMALL_FILES) as store:
        assert told(store) == known
        assert store.topics() == ["a", "b"]


@BOTH_WAYS
@EACH
@pytest.mark.parametrize("count", [2, 5, 3 * QUEUE_FILE_UNITS])
def test_no_message_is_lost_for_a_renamed_folder(
    tmp_path: Path, count: int, rename: Callable[[Path], None], *, in_place: bool
) -> None:
    path = tmp_path / "store"
    known = made(path, count)
    rename(path / "consumequeue")
    loses_nothing(path, known, in_place=in_place)


@BOTH_WAYS
@pytest.mark.parametrize("rename", [rename_topic, rename_both])
def test_queues_of_a_single_message_tell_together(
    tmp_path: Path, rename: Callable[[Path], None], *, in_place: bool
) -> None:
    path = tmp_path / "store"
    known = made(path, 1)
    rename(path / "consumequeue")
    loses_nothing(path, known, in_place=in_place)


def test_a_writer_refuses_a_store_with_a_renamed_folder(tmp_path: Path) -> None:
    """That of the queue's messages none changed is for a repair to find out, which goes over all of its units."""
    path = tmp_path / "store"
    made(path, 5)
    rename_topic(path / "consumequeue")
    with pytest.raises(mqstore.DamagedStoreError, match="repair the store"):
        mqstore.open(path, "rw", **SMALL_FILES)


@BOTH_WAYS
def test_records_that_changed_alike_make_no_queue(tmp_path: Path, *, in_place: bool) -> None:
    """The topic of the first message did not change: the folder is its queue's, and the others were of it too."""
    path = tmp_path / "store"
    changed = [message for message in made(path, 3) if message[:2] == ("a", 0)][1:]
    for _, _, queue_offset, offset in changed:
        body_size = 4 * queue_offset
        overwrite(path, offset + BODY_AT + body_size + 1, b"c")
    done = repair(path, None if in_place else path.with_name("whole"), **SMALL_FILES)
    assert len(done.holes) == len(changed)
    assert [(lost.topic, lost.queue_id, lost.queue_offset) for lost in done.lost] == [one[:3] for one in changed]
    with mqstore.open(done.path, **SMALL_FILES) as store:
        assert store.topics() == ["a", "b"]
