"""Which messages a repair tells as lost: what heads say where queues say nothing."""

import struct
from pathlib import Path

import pytest

import mqstore
from mqstore.verify import LostMessage, repair
from tests.compat.streams import SMALL_FILES
from tests.store_files import forget_derived
from tests.verify.damage import BODY_AT, overwrite


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A closed store without queues; of one queue the last message's body is damaged, of another all there are."""
    path = tmp_path / "store"
    with mqstore.open(path, "rw", **SMALL_FILES) as opened:
        queues = [0, 0, 0, 1, 0, 2, 2]
        offsets = [opened.put("t", b"x" * 600, queue_id=queue).wrote_offset or 0 for queue in queues]
    for number in (3, 4):
        overwrite(path, offsets[number] + BODY_AT, b"\1")
    forget_derived(path, clean=True)
    return path


@pytest.mark.parametrize("in_place", [False, True])
def test_a_head_is_believed_where_the_repaired_store_has_its_queue(
    store: Path, tmp_path: Path, *, in_place: bool
) -> None:
    """Of a queue that nothing else tells of it is as likely damaged too."""
    done = repair(store, None if in_place else tmp_path / "whole", **SMALL_FILES)
    assert done.lost == (LostMessage(topic="t", queue_id=0, queue_offset=3),)
    assert done.message_count == 5


def test_what_empty_files_had_at_the_log_s_begin_did_not_expire(tmp_path: Path) -> None:
    """One queue goes on behind them, of another nothing is left but where it goes on."""
    store, sizes = tmp_path / "store", SMALL_FILES
    with mqstore.open(store, "rw", **sizes) as opened:
        first = [opened.put("first", b"x" * 600, queue_id=0) for _ in range(3)]
        both = [opened.put("both", b"x" * 600) for _ in range(300)]
    files = sorted((store / "commitlog").iterdir())
    for file in files[:2]:
        file.write_bytes(b"")
    begin = int(files[2].name)
    gone = [result for result in (*first, *both) if (result.wrote_offset or 0) < begin]
    done = repair(store, tmp_path / "whole", **sizes)
    assert [lost.topic for lost in done.lost] == ["both"] * (len(gone) - 3) + ["first"] * 3
    assert done.message_count == len(first) + len(both) - len(gone)
    with mqstore.open(done.path, "rw", **sizes) as opened:
        assert opened.report().is_whole
        assert opened.put("first", b"next", queue_id=0).logics_offset == 3


@pytest.mark.parametrize("in_place", [False, True])
def test_the_last_message_is_told_by_its_head_though_no_queue_has_it(tmp_path: Path, *, in_place: bool) -> None:
    store = tmp_path / "store"
    with mqstore.open(store, "rw", **SMALL_FILES) as opened:
        offsets = [opened.put("t", b"x" * 600, queue_id=0).wrote_offset or 0 for _ in range(5)]
    overwrite(store, offsets[-1] + BODY_AT, b"\1")
    forget_derived(store, clean=True)
    done = repair(store, None if in_place else tmp_path / "whole", **SMALL_FILES)
    assert [begin for begin, _ in done.cut] == [offsets[-1]]
    assert done.lost == (LostMessage(topic="t", queue_id=0, queue_offset=4),)
    assert done.message_count == 4


def test_a_unit_that_leads_far_behind_the_log_s_end_tells_of_no_message(tmp_path: Path) -> None:
    """Garbage does; what a log lost at its end stood right behind that."""
    store = tmp_path / "store"
    with mqstore.open(store, "rw", **SMALL_FILES) as opened:
        for _ in range(5):
            opened.put("t", b"x" * 600, queue_id=0)
    units = min((store / "consumequeue" / "t" / "0").iterdir())
    with units.open("r+b") as file:
        file.seek(5 * 20)
        file.write(struct.pack(">qiq", 35_738_880, 600, 0))
    done = repair(store, tmp_path / "whole", **SMALL_FILES)
    assert (done.lost, done.message_count) == ((), 5)
