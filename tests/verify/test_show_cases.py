"""Stores that 4.9.3 refuses to open, or opens with loss, and opens without loss once they are repaired."""

import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

import mqstore
from mqstore.verify import LostMessage, repair, verify
from tests.compat.java_store import JavaStore
from tests.compat.naive_model import NaiveModel
from tests.compat.streams import SMALL_FILES
from tests.store_files import copy_store

MESSAGES = 400
QUEUE_OFFSET_AT = 20
LOG_FILE_SIZE = int(SMALL_FILES["mappedFileSizeCommitLog"])
QUEUE_FILE_SIZE = int(SMALL_FILES["mappedFileSizeConsumeQueue"])
UNIT_SIZE = 20
BLANK_SIZE = 2**31 - 1
"""Of a unit that stands for no message."""

Damage = Callable[[Path, list[int]], set[int]]
"""Damages a store whose messages stand at some offsets; gives the numbers of those that are lost with it."""


@pytest.fixture
def store(tmp_path: Path) -> tuple[Path, list[int]]:
    """A closed store of messages in two queues, and where each stands."""
    path = tmp_path / "store"
    with mqstore.open(path, "rw", **SMALL_FILES) as opened:
        results = [opened.put("t", b"b" * 400, keys=f"k{n}", queue_id=n % 2) for n in range(MESSAGES)]
    return path, [result.wrote_offset for result in results if result.wrote_offset is not None]


def garbage_unit(store: Path, _: list[int]) -> set[int]:
    """A unit in the newest file of a queue is garbage: 4.9.3 ends the queue there, for good."""
    path = max((store / "consumequeue/t/0").iterdir())
    units = bytearray(path.read_bytes())
    units[10 * UNIT_SIZE : 11 * UNIT_SIZE] = b"\xff" * UNIT_SIZE
    path.write_bytes(units)
    return set()


def garbage_behind_the_log(store: Path, _: list[int]) -> set[int]:
    """A unit that says a place behind the log's end, in front of others."""
    path = max((store / "consumequeue/t/0").iterdir())
    units = bytearray(path.read_bytes())
    units[3 * UNIT_SIZE : 4 * UNIT_SIZE] = struct.pack(">qiq", 10**12, 100, 0)
    path.write_bytes(units)
    return set()


def flipped_queue_offset(store: Path, offsets: list[int]) -> set[int]:
    """The queue offset of a queue's first record changed, and the queues were thrown away to be made anew."""
    place = offsets[0] + QUEUE_OFFSET_AT + 7
    with (store / f"commitlog/{place // LOG_FILE_SIZE * LOG_FILE_SIZE:020}").open("r+b") as file:
        file.seek(place % LOG_FILE_SIZE)
        file.write(b"\x10")
    for name in ("consumequeue", "index", "checkpoint"):
        shutil.rmtree(store / name) if (store / name).is_dir() else (store / name).unlink()
    (store / "abort").touch()
    return {0}


def queue_file_of_another_size(store: Path, _: list[int]) -> set[int]:
    """The newest file of a queue was cut: 4.9.3 refuses to start."""
    path = max((store / "consumequeue/t/1").iterdir())
    path.write_bytes(path.read_bytes()[: QUEUE_FILE_SIZE // 2])
    return set()


def empty_log_file(store: Path, offsets: list[int]) -> set[int]:
    """A log file that was made and got no bytes before the power went: 4.9.3 refuses to start."""
    (store / f"commitlog/{(offsets[-1] // LOG_FILE_SIZE + 1) * LOG_FILE_SIZE:020}").touch()
    return set()


def missing_queue_file(store: Path, _: list[int]) -> set[int]:
    """A file in the middle of a queue is gone: 4.9.3 opens, and finds other messages under the offsets."""
    sorted((store / "consumequeue/t/0").iterdir())[1].unlink()
    return set()


def zeroed_first_sector(store: Path, offsets: list[int]) -> set[int]:
    """The begin of the second but last log file is zeros: 4.9.3 cuts off all that follows."""
    begin = (offsets[-1] // LOG_FILE_SIZE - 1) * LOG_FILE_SIZE
    with (store / f"commitlog/{begin:020}").open("r+b") as file:
        file.write(bytes(512))
    return {number for number, offset in enumerate(offsets) if begin <= offset < begin + 512}


DAMAGES = [
    garbage_unit,
    garbage_behind_the_log,
    flipped_queue_offset,
    queue_file_of_another_size,
    empty_log_file,
    missing_queue_file,
    zeroed_first_sector,
]


def of_java(java: JavaStore, store: Path, copy: Path) -> NaiveModel | None:
    """What 4.9.3 has of a store once it has opened it; ``None`` where it refuses to."""
    run = java.start("dump", copy_store(store, copy), SMALL_FILES)
    return NaiveModel.of(run.lines()) if run.wait() == 0 else None


def messages(model: NaiveModel) -> dict[tuple[int, int], int]:
    """Where the messages of the queues stand, by queue and offset, as 4.9.3 serves them."""
    found = {}
    for (_, queue_id), queue in model.queues.items():
        for index, unit in enumerate(queue["entries"], queue["minOffset"]):
            record = model.records.get(unit[0]) if unit[1] != BLANK_SIZE else None
            if record is not None and record["consumeQueueOffset"] == index:
                found[queue_id, index] = unit[0]
    return found


@pytest.mark.parametrize("damage", DAMAGES)
def test_4_9_3_opens_without_loss_what_was_repaired(
    java: JavaStore, store: tuple[Path, list[int]], tmp_path: Path, damage: Damage
) -> None:
    path, offsets = store
    lost = damage(path, offsets)
    whole = {(n % 2, n // 2): offset for n, offset in enumerate(offsets) if n not in lost}
    before = of_java(java, path, tmp_path / "before")
    assert before is None or not whole.items() <= messages(before).items(), "4.9.3 loses something of the damaged store"
    if damage is not empty_log_file:
        assert not verify(path, **SMALL_FILES)[0].is_whole
    done = repair(path, tmp_path / "repaired", **SMALL_FILES)
    # Of what stood before a queue's first message nothing is left that tells.
    told = {n for n in lost if n // 2 > 0}
    assert set(done.lost) == {LostMessage(topic="t", queue_id=n % 2, queue_offset=n // 2) for n in told}
    assert bool(done.holes) == bool(lost)
    after = of_java(java, done.path, tmp_path / "after")
    assert after is not None
    assert messages(after) == whole
