"""A process that is killed while it delivers timed messages loses none and repeats what it had not written down."""

import json
import os
import random
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import mqstore
from mqstore.store.delayed import TIMED_TOPIC
from tests.crash.killing import KilledProcess
from tests.waiting import wait_until

LIVES = int(os.environ.get("MQSTORE_KILLS", "6"))
MOST_ACKS = 150
OPTIONS: dict[str, Any] = {
    "mappedFileSizeCommitLog": 1 << 20,
    "mappedFileSizeConsumeQueue": 20_000,
    "maxHashSlotNum": 997,
    "maxIndexNum": 40_000,
    "flushDelayOffsetInterval": 3,
    "max_timed_in_memory": 100,
}


def live(store: Path, life: int, rnd: random.Random) -> list[int]:
    """Lets a process put and deliver, and kills it; gives what it said that it had put."""
    acks: list[int] = []
    with KilledProcess("tests.crash.timed_writer", str(store), json.dumps(OPTIONS), str(life)) as writer:
        assert writer.line() == "opened"
        for _ in range(rnd.randint(1, MOST_ACKS)):
            acks += writer.line()
        time.sleep(rnd.random() * 0.002)  # between two acknowledgements too
        writer.kill()
        while (line := writer.line()) is not None:
            acks += line
        writer.check_killed()
    return acks


def test_nothing_is_lost_and_repeated_what_was_not_written_down(tmp_path: Path, seed: int) -> None:
    rnd, store = random.Random(seed), tmp_path / "store"
    acks: list[int] = []
    ends: list[int] = []
    for number in range(LIVES):
        acks += live(store, number, rnd)
        with mqstore.open(store, **OPTIONS) as reader:
            ends.append(reader.get_max_phy_offset())
    with mqstore.open(store, "rw", schedule_messages=True, **OPTIONS) as last:
        wait_until(lambda: last._timed_waiting() == (0, None))
        delivered: dict[int, list[int]] = defaultdict(list)
        for message in last.topic("orders"):
            name, due_ms = map(int, bytes(message.body).split())
            assert message.store_timestamp >= due_ms
            delivered[name].append(message.commit_log_offset)
        assert set(acks) <= set(delivered)
        written = [message.commit_log_offset for message in last.topic(TIMED_TOPIC).queue(1)]
    assert len(written) > LIVES
    for offsets in delivered.values():
        for first in offsets[:-1]:
            end_of_life = next(end for end in ends if first < end)
            # Nothing that was written afterwards speaks of it.
            assert not [offset for offset in written if first < offset < end_of_life]
