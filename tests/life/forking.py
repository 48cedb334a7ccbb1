"""A process that forks while it has a store open. Prints nothing where all is as it has to be.

``python -m tests.life.forking SCENARIO FOLDER``
"""

import contextlib
import faulthandler
import os
import signal
import socket
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import mqstore
from mqstore import _native
from mqstore.options import StoreOptions
from tests.store.conftest import SMALL
from tests.waiting import wait_until

_CHILD_TIMEOUT_S = 180
OPTIONS: dict[str, Any] = SMALL | {"flushDiskType": "SYNC_FLUSH"}


def in_child(run: Callable[[], object]) -> int:
    """Runs something in a forked process, which ends as an interpreter does; gives its id."""
    with warnings.catch_warnings():
        # Forking beside threads is what this is about.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid:
        return pid
    # One that waits for ever ends, and says where it waited.
    faulthandler.register(signal.SIGALRM, chain=True)
    signal.alarm(_CHILD_TIMEOUT_S)
    run()
    sys.exit(0)


def ended_well(pid: int) -> None:
    _, status = os.waitpid(pid, 0)
    assert status == 0, f"the forked process ended with {status}"


def use(store: mqstore.MessageStore, consumer: Any, messages: Iterator[mqstore.Message]) -> None:
    """Everything that there is to do with a store of another process."""
    for name, *given in (
        ("put", "t", b""),
        ("put_many", "t", [b""]),
        ("put_message", mqstore.MessageExtBrokerInner(topic="t", body=b"")),
        ("get_message", "t", 0, 0),
        ("query_message", "t", "k"),
        ("get_max_offset_in_queue", "t", 0),
        ("topic", "t"),
        ("select", "t"),
        ("consumer", "other", "t"),
        ("aio",),
        ("replication",),
        ("transaction",),
        ("flush",),
        ("refresh",),
        ("destroy",),
        ("report",),
        ("__enter__",),
    ):
        with pytest.raises(mqstore.StoreForkedError, match="forked"):
            getattr(store, name)(*given)
    with pytest.raises(mqstore.StoreForkedError):
        consumer.poll(0)
    with pytest.raises(mqstore.StoreForkedError):
        list(messages)
    assert store.is_closed
    assert "another process" in repr(store)
    consumer.close()
    store.close()


def children_touch_nothing(folder: Path) -> None:
    store = mqstore.open(folder, "rw", **OPTIONS)
    store.put("t", b"before", queue_id=0, keys="k")
    consumer = store.consumer("g", "t", from_where="first")
    message = consumer.poll(30)
    assert message is not None
    messages = iter(store.select("t"))

    def child() -> None:
        nonlocal consumer, store
        use(store, consumer, messages)
        assert bytes(message.body) == b"before"
        del consumer, store
        with mqstore.open(folder, **OPTIONS) as reader:
            assert [bytes(found.body) for found in reader.topic("t")] == [b"before"]
        with pytest.raises(mqstore.StoreLockedError):
            mqstore.open(folder, "rw", **OPTIONS)

    ended_well(in_child(child))
    assert _native.locked_by(folder / "lock", folder / "mqstore") is not None
    assert (folder / "abort").exists()
    store.put("t", b"behind", queue_id=0)
    consumer.ack(message)
    store.close()
    with mqstore.open(folder, **OPTIONS) as reader:
        assert reader.report().closed_cleanly
        assert [bytes(found.body) for found in reader.topic("t")] == [b"before", b"behind"]
        assert reader.consumers.consume_stats("g", ["t"])[0].consumer_offset == 1


def a_living_child_holds_nothing(folder: Path) -> None:
    """What the parent lets go of is free, though its child lives on."""
    # Another process of this machine may be given the port in between.
    assert any(is_free_beside_a_living_child(folder) for _ in range(10))


def is_free_beside_a_living_child(folder: Path) -> bool:
    """Whether the port is to be had again, as lock and consumer have to be."""
    listening = OPTIONS | {"replication": True, "ha_listen_port": 0}
    store = mqstore.open(folder, "rw", **listening)
    consumer = store.consumer("g", "t", consumer_id="one")
    port = int((store.replication.listen_address or "").rpartition(":")[2])
    reading, writing = os.pipe()

    def child() -> None:
        os.close(writing)
        os.read(reading, 1)

    pid = in_child(child)
    consumer.close()
    store.close()
    try:
        with mqstore.open(folder, "rw", **(listening | {"ha_listen_port": port})) as again:
            again.consumer("g", "t", consumer_id="one").close()
    except mqstore.StoreIOError as error:
        if "listen on" not in str(error):
            raise
        is_free = False
    else:
        is_free = True
    os.write(writing, b".")
    ended_well(pid)
    os.close(reading)
    os.close(writing)
    return is_free


def fork_one_that_lives(reading: int, writing: int, tells: int) -> None:
    """A child that tells of itself, and lives until nobody has the other end of what it reads."""

    def child() -> None:
        os.close(writing)
        os.write(tells, b".")
        os.read(reading, 1)
        os._exit(0)

    in_child(child)


def a_slave_sees_the_end_of_a_master_that_was_killed(folder: Path) -> None:
    """A child of it lives on, and had its sockets."""
    (reading, writing), (told, tells) = os.pipe(), os.pipe()

    def killed() -> None:
        store = mqstore.open(folder, "rw", **OPTIONS, replication=True, ha_listen_port=0)
        os.write(tells, (store.replication.listen_address or "").encode() + b"\n")
        wait_until(lambda: bool(store.replication.slaves))

        fork_one_that_lives(reading, writing, tells)
        signal.pause()

    pid = in_child(killed)
    with os.fdopen(told, "rb", buffering=0) as lines:
        host, _, port = lines.readline().decode().strip().rpartition(":")
        with socket.create_connection((host, int(port)), _CHILD_TIMEOUT_S) as slave:
            slave.sendall(bytes(8))
            assert lines.read(1) == b"."
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            with contextlib.suppress(ConnectionResetError):
                while slave.recv(4096):
                    pass
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((host, int(port)), _CHILD_TIMEOUT_S).close()
    for end in (reading, writing, tells):
        os.close(end)


def a_child_of_a_process_that_was_killed_holds_nothing(folder: Path) -> None:
    """Its parent was opening a store in another thread, had one open, and repaired one."""
    mqstore.open(folder / "repaired", "rw", **OPTIONS).close()
    (reading, writing), (told, tells) = os.pipe(), os.pipe()

    def killed() -> None:
        is_opening, go_on = threading.Event(), threading.Event()

        def clock() -> int:
            if (folder / "opening" / "lock").exists():
                is_opening.set()
                go_on.wait(_CHILD_TIMEOUT_S)
            return 1_000_000

        store = mqstore.open(folder / "open", "rw", **OPTIONS)
        opening = threading.Thread(target=mqstore.open, args=(folder / "opening", "rw"), kwargs={"clock": clock})
        opening.daemon = True
        opening.start()
        assert is_opening.wait(_CHILD_TIMEOUT_S)
        options = StoreOptions.of(str(folder / "repaired"), OPTIONS)
        view = _native.LogView(options.engine(compat=False, truncate_on_damage=False, pread=False), locked=True)

        fork_one_that_lives(reading, writing, tells)
        os.read(told, 1)
        assert view.end == 0
        assert not store.is_closed
        os.kill(os.getpid(), signal.SIGKILL)

    assert os.waitstatus_to_exitcode(os.waitpid(in_child(killed), 0)[1]) == -signal.SIGKILL
    for name in ("open", "opening", "repaired"):
        mqstore.open(folder / name, "rw", **OPTIONS).close()
    os.close(writing)
    for end in (reading, told, tells):
        os.close(end)


def forks_beside_busy_threads(folder: Path) -> None:
    """Whatever lock a thread has at that moment: the child waits for none."""
    with mqstore.open(folder, "rw", **OPTIONS) as store:
        ending = threading.Event()

        def write(number: int) -> None:
            while not ending.is_set():
                store.put("t", b"x" * 1000, queue_id=number)

        def read(number: int) -> None:
            while not ending.is_set():
                store.get_message("t", number, 0)
                store.query_message("t", "k")

        threads = [threading.Thread(target=run, args=(number,)) for number in range(2) for run in (write, read)]
        for thread in threads:
            thread.start()
        messages = iter(store.select("t"))
        with store.consumer("g", "t") as consumer:
            for _ in range(20):
                ended_well(in_child(lambda: use(store, consumer, messages)))
        ending.set()
        for thread in threads:
            thread.join()
        # All that was put, dispatched or not.
        end = store.topic("t").queue(0).max_offset
    with mqstore.open(folder, **OPTIONS) as reader:
        assert reader.report().closed_cleanly
        assert reader.get_max_offset_in_queue("t", 0) == end


def the_first_use_of_all_there_is(folder: Path) -> None:
    """What a process makes once, a thread of it may be about to make just now."""
    with mqstore.open(folder, "rw", **OPTIONS) as store:
        ending = threading.Event()

        def put() -> None:
            while not ending.is_set():
                store.put("t", b"x", queue_id=0)

        def read() -> None:
            while not ending.is_set():
                with mqstore.open(folder, **OPTIONS) as reader:
                    assert reader.select().count() >= 0

        def use_others() -> None:
            with mqstore.open(folder, **OPTIONS) as reader:
                assert {bytes(message.body) for message in reader.topic("t")} <= {b"x"}
            with mqstore.open(folder.parent / "other", "rw", **OPTIONS) as other:
                other.put("t", b"x", queue_id=0)

        threads = [threading.Thread(target=run) for run in (put, put, put, put, read, read)]
        for thread in threads:
            thread.start()
        try:
            ended_well(in_child(use_others))
        finally:
            ending.set()
            for thread in threads:
                thread.join()


if __name__ == "__main__":
    scenarios = (
        children_touch_nothing,
        a_living_child_holds_nothing,
        a_slave_sees_the_end_of_a_master_that_was_killed,
        a_child_of_a_process_that_was_killed_holds_nothing,
        forks_beside_busy_threads,
        the_first_use_of_all_there_is,
    )
    {scenario.__name__: scenario for scenario in scenarios}[sys.argv[1]](Path(sys.argv[2]))
