"""Locks and tables that the consumers of a store, a process or a group share."""

import fcntl
import os
import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Literal

import pytest

import mqstore
from mqstore.consumer.manager import ConsumerManager
from mqstore.consumer.membership import FileLock, Membership, QueueLock
from mqstore.services import persist
from mqstore.store.config_consumer_offset import ConsumerOffsetManager
from tests.store.conftest import SMALL, open_rw

if TYPE_CHECKING:
    from _typeshed import FileDescriptorLike, TraceFunction


@pytest.mark.parametrize(("topic", "group"), [("t" * 127, "g"), ("t", "g" * 200)])
def test_long_names(tmp_path: Path, topic: str, group: str) -> None:
    with open_rw(tmp_path / "s") as store:
        store.put(topic, b"1", queue_id=0)
        assert store.consumer(group, topic, from_where="first").poll(30) is not None


def test_a_handler_that_closes_a_consumer_which_writes_its_offsets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_rw(tmp_path / "s") as store, mqstore.open(tmp_path / "s", **SMALL) as reader:
        store.put("t", b"", queue_id=0)
        consumer = reader.consumer("g", "t", from_where="first")
        message = consumer.poll(30)
        assert message is not None
        consumer.ack(message)
        persist = ConsumerOffsetManager.persist

        def interrupted(self: ConsumerOffsetManager) -> None:
            with pytest.raises(mqstore.StoreIOError, match="deadlock"):
                consumer.close()  # as a signal's handler does
            persist(self)

        monkeypatch.setattr(ConsumerOffsetManager, "persist", interrupted)
        consumer.persist()
        assert next(stats.consumer_offset for stats in reader.consumers.consume_stats("g", ["t"])) == 1


def test_threads_that_ask_first_get_one_table_of_offsets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[ConsumerOffsetManager] = []
    has_begun, go_on = threading.Event(), threading.Event()
    load = ConsumerOffsetManager.load

    def slowly(self: ConsumerOffsetManager) -> None:
        made.append(self)
        has_begun.set()
        go_on.wait(60)
        load(self)

    with open_rw(tmp_path / "s") as store:
        monkeypatch.setattr(ConsumerOffsetManager, "load", slowly)
        assert not isinstance(vars(ConsumerManager)["offsets"], cached_property), "from 3.12 on it has no lock"
        with ThreadPoolExecutor(4) as threads:
            tables = [threads.submit(lambda: store.consumers.offsets) for _ in range(4)]
            assert has_begun.wait(60)
            go_on.set()
        assert {id(table.result()) for table in tables} == {id(table) for table in made}
        assert len(made) == 1


@pytest.mark.parametrize("mode", ["r", "rw"])
def test_offsets_are_read_once_for_all_queues_and_once_nobody_else_has_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: Literal["r", "rw"]
) -> None:
    load, take = ConsumerOffsetManager.load, QueueLock.take
    steps: list[str] = []

    def loads(self: ConsumerOffsetManager) -> None:
        steps.append(self._path.name)
        load(self)

    def takes(self: QueueLock) -> bool:
        steps.append("lock")
        return take(self)

    with open_rw(tmp_path / "s") as store:
        for queue_id in range(4):
            store.put("t", b"", queue_id=queue_id)
    with mqstore.open(tmp_path / "s", mode) as opened, opened.consumer("g", "t", from_where="first") as consumer:
        monkeypatch.setattr(ConsumerOffsetManager, "load", loads)
        monkeypatch.setattr(QueueLock, "take", takes)
        assert consumer.poll(0) is not None
        files = 2 if mode == "r" else 1
        assert len(consumer.queues) >= 4
        assert steps == ["lock"] * len(consumer.queues) + ["consumerOffset.json"] * files


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_fork_while_a_consumer_waits_for_the_groups_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    is_asked, flock = threading.Event(), fcntl.flock

    def asks(file: "FileDescriptorLike", how: int) -> None:
        is_asked.set()
        flock(file, how)

    with open_rw(tmp_path / "s") as store:
        consumer = store.consumer("g", "t")
        path = store.consumers.folder("g") / "members.lock"
        with path.open("ab") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            monkeypatch.setattr(fcntl, "flock", asks)
            polling = threading.Thread(target=consumer.poll, args=(0,))
            polling.start()
            assert is_asked.wait(60)
            pid = os.fork()
            if pid == 0:
                held.close()
                signal.pause()
        try:
            polling.join()
            # It looks around among the members again, for which it needs the lock.
            consumer.poll(1.5)
        finally:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_process_that_is_forked_anywhere_in_the_taking_of_a_lock_does_not_have_it(tmp_path: Path) -> None:
    children: list[int] = []
    reading, writing = os.pipe()
    is_forked, says_so = os.pipe()

    def fork(frame: FrameType, event: str, _arg: object) -> "TraceFunction | None":
        if frame.f_code is not FileLock._locked.__func__.__code__:  # type: ignore[attr-defined]
            return None
        if event != "call":
            pid = os.fork()
            if pid == 0:
                os.close(writing)
                os.write(says_so, b"1")
                os.read(reading, 1)
                os._exit(0)
            children.append(pid)
            # It lets go as it begins to run.
            os.read(is_forked, 1)
        return fork

    before = sys.gettrace()
    sys.settrace(fork)
    try:
        lock = FileLock.take(tmp_path / "lock")
    finally:
        sys.settrace(before)
    try:
        assert lock is not None
        assert len(children) > 5
        # As a process's end does it, which unlocks nothing.
        lock._file.close()
        again = FileLock.take(tmp_path / "lock")
        assert again is not None
        again.release()
    finally:
        os.close(writing)
        for pid in children:
            assert os.waitpid(pid, 0)[1] == 0
        for end in (reading, is_forked, says_so):
            os.close(end)


def test_a_consumer_has_any_number_of_queues(tmp_path: Path) -> None:
    """A process has a thousand files open as a rule."""
    with open_rw(tmp_path / "s") as store:
        store.consumers.topics.get_or_add("t", 3000)
        before = len(list(Path("/proc/self/fd").iterdir()))
        with store.consumer("g", "t") as consumer:
            assert consumer.poll(0) is None
            assert len(consumer.queues) == 3001, "the retry topic's too"
            assert len(list(Path("/proc/self/fd").iterdir())) < before + 50


@pytest.mark.parametrize("topics", [("a", "b"), ("a", "a"), ("x" * 127, "\ud800")])
def test_a_queue_has_one_member(tmp_path: Path, topics: tuple[str, str]) -> None:
    first, second = Membership(tmp_path, "first"), Membership(tmp_path, "second")
    one, other = (first.take_queue(topic, queue_id) for queue_id, topic in enumerate(topics))
    assert one is not None
    assert other is not None
    assert second.take_queue(topics[0], 0) is None
    assert second.take_queue(topics[1], 1) is None
    one.release()
    taken = second.take_queue(topics[0], 0)
    assert taken is not None
    assert second.take_queue(topics[1], 1) is None
    # What was let go is somebody else's: to do it again, or to drop it, takes it from nobody.
    one.release()
    del one
    assert first.take_queue(topics[0], 0) is None
    second.leave()
    again = first.take_queue(topics[0], 0)
    assert again is not None
    third = Membership(tmp_path, "third")
    assert third.take_queue(topics[0], 0) is None
    # As where Ctrl-C comes before anybody has it.
    del again
    assert third.take_queue(topics[0], 0) is not None
    first.leave()
    third.leave()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_process_acks_and_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Nor does this one, however long it takes.
    monkeypatch.setattr(persist, "_PERSIST_INTERVAL_MS", 3_600_000)
    with open_rw(tmp_path / "s") as store:
        store.put_many("t", [b"0", b"1"], queue_id=0)
        with mqstore.open(tmp_path / "s", **SMALL) as reader:
            consumer = reader.consumer("g", "t", from_where="first")
            first, second = consumer.poll(30), consumer.poll(30)
            assert first is not None
            assert second is not None
            consumer.ack(first)
            groups = store.consumers.groups
            pid = os.fork()
            if pid == 0:
                refused = 0
                for use in (lambda: consumer.ack(second), consumer.persist, lambda: groups.get_or_add("child")):
                    try:
                        use()
                    except mqstore.StoreClosedError:
                        refused += 1
                os._exit(refused)
            assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 3
            assert not (store.consumers.folder("g") / "consumerOffset.json").exists()
