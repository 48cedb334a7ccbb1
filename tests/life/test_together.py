"""Each way to read and put, beside each thing that takes something away from it: what is deleted, the end.

Threads put while one more reads in some way; files are deleted, or the store is closed, or closed and opened again.
What is read is what was put, nothing of it is passed over that is not deleted, whoever holds something has it to the
end, and everybody is told once the store is closed.
"""

import asyncio
import random
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

import mqstore
from tests.life.together_messages import QUEUES, TOPIC, Seen, body_of, key_of
from tests.store.conftest import SMALL
from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]
TIMEOUT_S = 60
FILES = 3
"""So many log files are deleted before it is over."""
PUTS = 600
"""So many messages go into each queue before somebody has read some."""
MESSAGES = 150
"""So many messages are read before it is over."""
MANUAL: dict[str, Any] = {"fileReservedTime": 0}
"""Everything but the newest file has expired, and goes when it is asked for."""
SERVICE: dict[str, Any] = {
    "retention": mqstore.Retention(disk_usage=lambda _folder: 0.87),
    "cleanResourceInterval": 10,
    "deleteCommitLogFilesInterval": 0,
    "deleteConsumeQueueFilesInterval": 0,
}
"""The disk is so full that the service deletes what it can, and not so full that nothing is taken."""


class Scene:
    """A store that is written to, and those who read it."""

    def __init__(self, store: mqstore.MessageStore) -> None:
        """Begins to put."""
        self.store = store
        self.put_counts = [store.get_max_offset_in_queue(TOPIC, queue_id) for queue_id in range(QUEUES)]
        self.ended: list[BaseException] = []
        self.at_end: list[Callable[[], None]] = []
        self._threads: list[threading.Thread] = []
        self._changed = threading.Condition()
        self._is_closing = False
        self._most = 0
        self.put_more()
        for queue_id in range(QUEUES):
            self.start(self._put, queue_id)

    def start(self, run: Callable[..., object], *given: object) -> None:
        """Lets something run until it is told that the store is closed."""

        def live() -> None:
            try:
                while True:
                    run(*given)
            except BaseException as error:
                self.ended.append(error)

        self._threads.append(threading.Thread(target=live))
        self._threads[-1].start()

    def put_more(self) -> None:
        """Lets some more messages be put: readers that are slow have to come to an end."""
        with self._changed:
            self._most = max(self.put_counts) + PUTS
            self._changed.notify_all()

    def go_on(self) -> None:
        """Lets more be put once all is that may be: what a slow reader waits for may be deleted before it comes."""
        if min(self.put_counts) >= self._most:
            self.put_more()

    def _put(self, queue_id: int) -> None:
        number = self.put_counts[queue_id]
        with self._changed:
            self._changed.wait_for(lambda: number < self._most or self._is_closing)
        done = self.store.put(TOPIC, body_of(queue_id, number), keys=key_of(queue_id, number), queue_id=queue_id)
        assert done.logics_offsets == [number]
        self.put_counts[queue_id] += 1

    def check_runs(self) -> None:
        """Nobody has failed so far."""
        if self.ended:
            raise self.ended[0]

    def close(self) -> None:
        """Closes the store: everybody is told, and has what it holds."""
        self.store.close()
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join(TIMEOUT_S)
            assert not thread.is_alive()
        assert len(self.ended) == len(self._threads)
        for error in self.ended:
            is_told = isinstance(error, mqstore.StoreClosedError) or "the store is closed" in str(error)
            if not is_told:
                raise error
        for check in self.at_end:
            check()
        # What was raised refers to frames that refer to the store and its files.
        self.ended.clear()
        self.at_end.clear()


# ---- ways to read --------------------------------------------------------------------------------

Reader = Callable[[Scene, Seen], None]


def queues(scene: Scene, seen: Seen) -> None:
    """Gets, one after the other."""
    scene.start(lambda: seen.read_queues(scene.store))


def held(scene: Scene, seen: Seen) -> None:
    """Gets whose messages are held until all is over."""
    kept: list[mqstore.Message] = []

    def get() -> None:
        found = seen.read_queues(scene.store)
        kept.extend(found if len(kept) < MESSAGES else [])

    def check() -> None:
        assert kept
        for message in kept:
            Seen().one(message.queue_id, message.queue_offset, message.body)

    scene.at_end.append(check)
    scene.start(get)


def selection(scene: Scene, seen: Seen) -> None:
    """Walks over the whole topic, again and again."""

    def walk() -> None:
        of_walk = Seen()
        for message in scene.store.select(TOPIC):
            of_walk.next_of_queue(message.queue_id, message.queue_offset, message.body)
            seen.count += 1
        for queue_id, number in of_walk.gone_before.items():
            seen.passed_over(queue_id, number)

    scene.start(walk)


def arrow(scene: Scene, seen: Seen) -> None:
    """Arrow batches whose bodies are views, held until all is over."""
    batches: list[Any] = []

    def read() -> None:
        columns = ["queue_id", "queue_offset", "body"]
        for batch in scene.store.select(TOPIC).to_arrow(columns, body="view", max_messages=50):
            check_rows(batch)
            seen.count += batch.num_rows
            batches.extend([batch] if len(batches) < MESSAGES else [])

    def check_rows(batch: Any) -> None:
        for row in zip(*batch.to_pydict().values(), strict=True):
            Seen().one(*row)

    def check() -> None:
        for batch in batches:
            check_rows(batch)

    scene.at_end.append(check)
    scene.start(read)


def keys(scene: Scene, seen: Seen) -> None:
    """Look-ups of what was put just now, or some time ago."""
    rnd = random.Random(1)

    def look_up() -> None:
        queue_id = rnd.randrange(QUEUES)
        count, first = scene.put_counts[queue_id], scene.store.get_min_offset_in_queue(TOPIC, queue_id)
        number = rnd.randrange(min(rnd.choice([0, first]), count - 1), count)
        found = scene.store.query_message(TOPIC, key_of(queue_id, number), 32, 0, 2**62)
        for message in found:
            seen.one(queue_id, number, message.body)
        assert len(found) <= 1
        if not found:
            seen.passed_over(queue_id, number + 1)

    wait_until(lambda: all(scene.put_counts))
    scene.start(look_up)


def following(scene: Scene, seen: Seen) -> None:
    """Waits for each next message of a queue."""

    def follow() -> None:
        for message in scene.store.topic(TOPIC).queue(0).follow(0):
            seen.next_of_queue(0, message.queue_offset, message.body)

    wait_until(lambda: scene.put_counts[0] > 0)
    scene.start(follow)


def tasks(scene: Scene, seen: Seen) -> None:
    """Follows a queue, and puts into one more for each of its messages, as tasks."""

    async def put(number: int) -> None:
        done = await scene.store.aio.put(TOPIC, body_of(QUEUES, number), queue_id=QUEUES)
        assert done.logics_offsets == [number]

    async def follow() -> None:
        number = scene.store.get_max_offset_in_queue(TOPIC, QUEUES)
        async for message in scene.store.aio.follow(TOPIC, 1, 0):
            seen.next_of_queue(1, message.queue_offset, message.body)
            _, is_there = await asyncio.gather(put(number), scene.store.aio.wait_for_message(TOPIC, QUEUES, number))
            assert is_there
            number += 1

    wait_until(lambda: scene.put_counts[1] > 0)
    scene.start(lambda: asyncio.run(follow()))


def consumer(scene: Scene, seen: Seen) -> None:
    """A group's only member."""
    member = scene.store.consumer("g", TOPIC, from_where="first")

    def poll() -> None:
        message = member.poll()
        assert message is not None
        seen.one(message.queue_id, message.queue_offset, message.body)
        member.ack(message)

    scene.start(poll)


READERS: list[Reader] = [queues, held, selection, arrow, keys, following, tasks, consumer]


# ---- what comes between --------------------------------------------------------------------------


def delete_by_hand(scene: Scene) -> None:
    """Deletes files one after the other."""
    deleted = 0
    while deleted < FILES:
        scene.check_runs()
        scene.put_more()
        deleted += scene.store.execute_delete_files_manually()


def let_the_service_delete(scene: Scene) -> None:
    """Waits until the service has deleted some."""
    end: int = scene.store.get_min_phy_offset() + FILES * SMALL["mappedFileSizeCommitLog"]

    def is_deleted() -> bool:
        scene.check_runs()
        scene.put_more()
        return scene.store.get_min_phy_offset() >= end

    wait_until(is_deleted)


def nothing(_scene: Scene) -> None:
    """The end comes in the middle of everything."""


DISTURBANCES: dict[str, tuple[dict[str, Any], Callable[[Scene], None]]] = {
    "close": ({}, nothing),
    "manual delete": (MANUAL, delete_by_hand),
    "retention": (SERVICE, let_the_service_delete),
}


def read_some(scene: Scene, seen: Seen) -> None:
    """Waits until something more was read, for as long as anything is."""
    before, enough = seen.count, seen.count + MESSAGES
    scene.put_more()

    def is_more() -> bool:
        scene.go_on()
        return bool(scene.ended) or seen.count > before

    while before < enough and not scene.ended:
        wait_until(is_more)
        before = seen.count
    scene.check_runs()


def live(path: Path, readers: list[Reader], disturbance: str) -> None:
    """One life of a store, from its opening to its close."""
    options, disturb = DISTURBANCES[disturbance]
    scene, seen = Scene(mqstore.open(path, "rw", **SMALL, **options)), [Seen() for _ in readers]
    try:
        for reader, of_reader in zip(readers, seen, strict=True):
            reader(scene, of_reader)
        for of_reader in seen:
            read_some(scene, of_reader)
        disturb(scene)
        if disturbance != "close":
            for of_reader in seen:
                read_some(scene, of_reader)
    finally:
        scene.close()
    with mqstore.open(path, **SMALL) as store:
        assert store.report().closed_cleanly
        assert store.rejected_count == 0
        counts = [store.get_max_offset_in_queue(TOPIC, queue_id) for queue_id in range(QUEUES)]
        assert counts == scene.put_counts
        for of_reader in seen:
            of_reader.check_gone(store)
        left = Seen()
        left.read_to_the_end(store)
        minima = [store.get_min_offset_in_queue(TOPIC, queue_id) for queue_id in range(QUEUES)]
        assert left.count == sum(counts) - sum(minima)


@pytest.mark.parametrize("disturbance", DISTURBANCES)
@pytest.mark.parametrize("reader", READERS)
def test_a_reader_beside(tmp_path: Path, reader: Reader, disturbance: str) -> None:
    live(tmp_path / "store", [reader], disturbance)


def test_all_readers_at_once(tmp_path: Path) -> None:
    for _life in range(2):
        live(tmp_path / "store", READERS, "close")


# ---- another process -----------------------------------------------------------------------------


@contextmanager
def follower(path: Path) -> Iterator[Callable[[Scene], None]]:
    """A process that follows the store; gives what waits until it has seen more."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.life.together_follower", str(path)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )
    assert process.stdin is not None
    assert process.stdout is not None
    output = process.stdout

    def wait_for_more(scene: Scene) -> None:
        count = int(output.readline())
        scene.put_more()
        while int(output.readline()) < count + MESSAGES:
            pass

    try:
        yield wait_for_more
        _, errors = process.communicate(timeout=TIMEOUT_S)
        assert (process.returncode, errors) == (0, "")
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("disturbance", DISTURBANCES)
def test_a_follower_in_another_process_beside(tmp_path: Path, disturbance: str) -> None:
    """It goes on from one life to the next: the store is closed and opened again beside it."""
    path = tmp_path / "store"
    mqstore.open(path, "rw", **SMALL).close()
    with ExitStack() as stack:
        wait_for_more = None
        for _life in range(3):
            options, disturb = DISTURBANCES[disturbance]
            scene = Scene(mqstore.open(path, "rw", **SMALL, **options))
            try:
                wait_for_more = wait_for_more or stack.enter_context(follower(path))
                wait_for_more(scene)
                disturb(scene)
                wait_for_more(scene)
            finally:
                scene.close()
