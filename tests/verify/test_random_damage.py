"""Random damage to random stores: a repair keeps all that is whole, invents nothing, and says what is lost.

``MQSTORE_DAMAGES`` says how many stores there are.
"""

import os
import random
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import mqstore
from mqstore.verify import repair, verify
from tests.compat.streams import SMALL_FILES
from tests.store_files import copy_store, log_contents

STORES = int(os.environ.get("MQSTORE_DAMAGES", "20"))
LOG_FILE_SIZE = int(SMALL_FILES["mappedFileSizeCommitLog"])
HOLE_TOPIC = "-"
NOT_COVERED = {"offset_gap", "record_odd", "time_backwards", "clock_set_back"}
"""What a repaired store still has: offsets of lost messages, and flips in what no checksum covers."""

Place: TypeAlias = tuple[str, int, int]
Told: TypeAlias = tuple[str, int, int, bytes]


def make(path: Path, rnd: random.Random, options: dict[str, Any]) -> None:
    """A store that was closed, or that its writer's end left; retention has deleted its first files, or has not."""
    expires = rnd.random() < 0.4
    topics, queues = [f"t{number}" for number in range(rnd.choice([1, 3]))], rnd.choice([1, 2, 4, 9])
    store = mqstore.open(path, "rw", **options, **dict[str, Any]({"fileReservedTime": 0} if expires else {}))

    def put(count: int) -> None:
        for _ in range(count):
            body = rnd.randbytes(rnd.choice([0, 1, 50, 900, 901, 3000]))
            delay = rnd.choice([1, 5, 18]) if rnd.random() < 0.05 else 0
            key, queue_id = f"k{rnd.randrange(1000)}", rnd.randrange(queues)
            store.put(rnd.choice(topics), body, queue_id=queue_id, keys=key, delay_time_level=delay)

    put(rnd.choice([60, 250, 500]))
    if expires:
        store.flush()
        for _ in range(rnd.choice([1, 2, 5])):
            store.execute_delete_files_manually()
        put(rnd.choice([0, 3, 100]))
    store.flush()
    if rnd.random() < 0.5:
        killed = copy_store(path, path.with_name("killed"))
        store.close()
        shutil.rmtree(path)
        killed.rename(path)
    else:
        store.close()


def messages(path: Path, options: dict[str, Any]) -> dict[int, Told]:
    """All messages by their place in the log."""
    found = {}
    with mqstore.open(path, **options) as store:
        for message in store.select():
            if message.topic != HOLE_TOPIC:
                place = (message.topic, message.queue_id, message.queue_offset)
                found[message.commit_log_offset] = (*place, _body(message))
    return found


def _body(message: mqstore.Message) -> bytes:
    try:
        return bytes(message.body)
    except mqstore.MQStoreError as error:  # a flag that nothing covers says that it is compressed
        return str(error).encode()


def change(file: Path, rnd: random.Random) -> None:
    """A flipped bit, a zeroed sector, garbage, or another sector's content, anywhere in a file."""
    content = bytearray(file.read_bytes())
    at = rnd.randrange(max(1, len(content)))
    sector = slice(at - at % 512, at - at % 512 + 512)
    match rnd.choice(["bit", "bit", "bit", "zeros", "garbage", "sector"]) if content else "":
        case "bit":
            content[at] ^= 1 << rnd.randrange(8)
        case "zeros":
            content[sector] = bytes(len(content[sector]))
        case "garbage":
            count = min(rnd.choice([1, 4, 30, 2000]), len(content) - at)
            content[at : at + count] = rnd.randbytes(count)
        case "sector":
            content[sector] = (content * 2)[at : at + len(content[sector])]
    file.write_bytes(content)


def damage(store: Path, rnd: random.Random) -> bool:
    """Damages a store in some places; gives whether all of its log files are still there, and as long."""
    is_there = True
    for _ in range(rnd.choice([1, 1, 1, 2, 3, 6])):
        log = sorted(path for path in (store / "commitlog").iterdir() if any(path.read_bytes()))
        queues = sorted(path for path in (store / "consumequeue").glob("*/*/*") if path.is_file())
        other = [path for path in (*(store / "index").glob("*"), store / "checkpoint") if path.is_file()]
        kind = rnd.choice(["log"] * 8 + ["queue", "queue", "no queue", "other", "no log", "short log"])
        if kind == "log":
            change(rnd.choice(log), rnd)
        elif kind == "queue" and queues:
            change(rnd.choice(queues), rnd)
        elif kind == "no queue" and queues:
            rnd.choice(queues).unlink()
        elif kind == "other" and other:
            change(rnd.choice(other), rnd)
        elif kind == "no log" and len(log) > 3:
            rnd.choice(log[1:-2]).unlink()
            is_there = False
        elif kind == "short log" and len(log) > 2:
            os.truncate(rnd.choice(log[:-1]), rnd.randrange(LOG_FILE_SIZE))
            is_there = False
    return is_there


def places_tell(store: Path, told: Told) -> bool:
    """Whether units can tell that a record says another place than it had: of a queue without its files none do."""
    topic, queue_id, queue_offset, _ = told
    units_size = int(SMALL_FILES["mappedFileSizeConsumeQueue"])
    begin = queue_offset * 20 // units_size * units_size
    return (store / "consumequeue" / topic / str(queue_id) / f"{begin:020}").exists()


def whole(before: dict[str, bytes], after: dict[str, bytes]) -> Callable[[int], bool]:
    """Whether a record that stood at a place of the log stands there still, byte for byte."""

    def is_whole(offset: int) -> bool:
        name, at = f"{offset - offset % LOG_FILE_SIZE:020}", offset % LOG_FILE_SIZE
        (size,) = struct.unpack_from(">I", before[name], at)
        return before[name][at : at + size] == after.get(name, b"")[at : at + size]

    return is_whole


def check_one(folder: Path, rnd: random.Random) -> None:
    """Makes, damages and repairs a store."""
    store, options = folder / "store", dict(SMALL_FILES)
    options |= {"enabledAppendPropCRC": "true"} if rnd.random() < 0.2 else {}
    options |= {"enableConsumeQueueExt": "true"} if rnd.random() < 0.2 else {}
    make(store, rnd, options)
    had, before = messages(store, options), log_contents(store)
    can_be_in_place = damage(store, rnd)
    is_whole = whole(before, log_contents(store))
    untold = {at for at, told in had.items() if not places_tell(store, told)}
    done = repair(store, None if can_be_in_place and rnd.random() < 0.5 else folder / "repaired", **options)
    has = messages(done.path, options)
    assert {at: told for at, told in had.items() if is_whole(at) and has.get(at) != told} == {}, "lost, though whole"
    other = {at: told for at, told in has.items() if had.get(at) != told}
    assert {at: told for at, told in other.items() if at not in untold or told[3] != had[at][3]} == {}, "invented"
    gone: set[Place] = {told[:3] for at, told in had.items() if at not in has}
    assert {(lost.topic, lost.queue_id, lost.queue_offset) for lost in done.lost} <= gone, "told as lost, though there"
    assert {found.kind for found in verify(done.path, **options)[1]} <= NOT_COVERED
    with mqstore.open(done.path, "rw", **options) as writer:
        writer.put("t0", b"next")
    then = messages(done.path, options)
    assert {at: then.get(at) for at in has} == has, "changed by a writer's opening"


def test_a_repair_keeps_what_is_whole(tmp_path: Path, seed: int) -> None:
    for number in range(STORES):
        folder = tmp_path / str(number)
        folder.mkdir()
        check_one(folder, random.Random(seed + number))
        shutil.rmtree(folder)
