"""A follower in another process goes on through kills of one writer after the other: each message once, in order."""

import os
import random
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import mqstore
from tests.waiting import wait_until

LIVES = int(os.environ.get("MQSTORE_KILLS", "8"))
OPTIONS = {
    "mappedFileSizeCommitLog": 1 << 20,
    "mappedFileSizeConsumeQueue": 20_000,
    "maxHashSlotNum": 997,
    "maxIndexNum": 10_000,
    "flushIntervalCommitLog": 50,
    "flushIntervalConsumeQueue": 50,
}
WRITER = f"""
import sys, mqstore
store = mqstore.open(sys.argv[1], "rw", **{OPTIONS!r})
number = store.topic("t").queue(0).max_offset
print("opened", flush=True)
while True:
    store.put("t", b"%d" % number, queue_id=0, keys=f"k{{number}}")
    number += 1
"""


def kill(writer: "subprocess.Popen[bytes]") -> None:
    """Ends a writer wherever it is; a second call does nothing."""
    assert writer.stdout is not None
    writer.kill()
    writer.wait()
    writer.stdout.close()


def start(path: Path) -> "subprocess.Popen[bytes]":
    """A writer that has opened the store, and goes on with its next number until it is killed."""
    writer = subprocess.Popen([sys.executable, "-c", WRITER, path], stdout=subprocess.PIPE)
    try:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"opened\n"
    except BaseException:
        kill(writer)
        raise
    return writer


def test_a_follower_goes_on_through_the_kills_of_writers(tmp_path: Path) -> None:
    rnd = random.Random(int(os.environ.get("MQSTORE_SEED", "1")))
    path = tmp_path / "store"
    writer = start(path)
    with ExitStack() as at_the_end:
        # One that is left puts without end, into memory.
        at_the_end.callback(lambda: kill(writer))
        # Opened before there is a file, and without the sizes of those that come.
        reader = at_the_end.enter_context(mqstore.open(path))
        found: list[int] = []
        is_over = threading.Event()

        def follow() -> None:
            queue = reader.topic("t").queue(0)
            for message in queue.follow(0):
                found.append(int(bytes(message.body)))
                if is_over.is_set() and len(found) == queue.max_offset:
                    break

        follower = ThreadPoolExecutor(1).submit(follow)
        wanted = 0

        def has_come() -> bool:
            return len(found) > wanted or follower.done()

        for life in range(LIVES):
            wanted = len(found) + rnd.randrange(2000)
            wait_until(has_come)
            kill(writer)
            if life == LIVES - 1:
                is_over.set()
            writer = start(path)
        follower.result()
        kill(writer)
        assert found == list(range(len(found)))
        reader.refresh()
        assert reader.report().gaps == []
        for number in rnd.sample(range(len(found)), 20):
            assert len(reader.query_message("t", f"k{number}")) == 1
