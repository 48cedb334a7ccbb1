"""Ctrl-C in the middle of every call that waits: it is raised at once, and nothing is lost."""

import contextlib
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import pyarrow as pa
import pytest

import mqstore
from mqstore._native import Bell
from mqstore.consumer.membership import FileLock
from mqstore.consumer.pull import Pulled
from mqstore.services import GroupCommitService, HAService, ServiceThread
from mqstore.verify import verify
from tests.services.ha_peers import FAST, RawSlave
from tests.store.conftest import Opener
from tests.waiting import wait_until

SOON_S = 60
"""Far more than it takes, and far less than anybody waits here."""
FOREVER_MS = 600_000
STILL_LOOKS = 10
MANY = 300_000
BIG: dict[str, Any] = {"mappedFileSizeCommitLog": 64 << 20, "maxHashSlotNum": 97, "maxIndexNum": 400}


@pytest.fixture(autouse=True)
def pythons_own_handler() -> Iterator[None]:
    """Polars, which other tests load, takes SIGINT with a handler behind which system calls go on."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def is_still(main: int) -> Callable[[], bool]:
    """Whether the main thread stays where it is: it waits."""
    seen: list[object] = []

    def look() -> bool:
        frame = sys._current_frames()[main]
        seen.append((frame.f_code, frame.f_lasti, id(frame)))
        return len(seen) > STILL_LOOKS and len(set(seen[-STILL_LOOKS:])) == 1

    return look


@contextlib.contextmanager
def ctrl_c_while_it_waits(has_begun: Callable[[], bool] = lambda: True) -> Iterator[None]:
    """Presses Ctrl-C once what the block does waits; it has to raise then, and soon.

    Who waits for the processor is as still: where it matters that it came so far, ``has_begun`` says whether it did.
    """
    main = threading.main_thread().ident
    assert main is not None
    assert threading.current_thread() is threading.main_thread()
    pressed: list[float] = []
    begun = threading.Event()

    def press() -> None:
        # A busy machine may keep the main thread where it starts this one.
        begun.wait()
        wait_until(has_begun)
        wait_until(is_still(main))
        pressed.append(time.monotonic())
        signal.pthread_kill(main, signal.SIGINT)

    presser = threading.Thread(target=press)
    presser.start()
    with pytest.raises(KeyboardInterrupt):  # noqa: PT012 - it may be pressed as soon as that is set
        begun.set()
        yield
    ended = time.monotonic()
    presser.join()
    assert ended - pressed[0] < SOON_S


def is_joining_a_service() -> bool:
    """Whether the main thread closes a store, and waits for a service."""
    frames = traceback.walk_stack(sys._current_frames()[threading.main_thread().ident or 0])
    return any(frame.f_code is ServiceThread.join_stopped.__code__ for frame, _ in frames)


def stop(store: mqstore.MessageStore, kind: type[Any]) -> None:
    """Ends a service, so that what waits for it waits."""
    (service,) = [service for service in store._services if isinstance(service, kind)]
    service.stop()
    service.join()


def with_topic(store: mqstore.MessageStore) -> None:
    """Makes the topic, which waits for the disk as well: a put that is interrupted there has put nothing."""
    store._queue_for("t", 0)


def bodies(store: mqstore.MessageStore, topic: str = "t") -> list[bytes]:
    return [bytes(message.body) for message in store.topic(topic)]


PUTS: dict[str, Callable[[mqstore.MessageStore], object]] = {
    "put": lambda store: store.put("t", b"1", queue_id=0),
    "put_many": lambda store: store.put_many("t", [b"1"], queue_id=0),
    "put_message": lambda store: store.put_message(mqstore.MessageExtBrokerInner(topic="t", body=b"1")),
    "put_messages": lambda store: store.put_messages(mqstore.MessageExtBatch(topic="t", messages=[(b"1", 0, {})])),
}


@pytest.mark.parametrize("put", PUTS.values(), ids=PUTS)
def test_a_put_that_waits_for_the_disk(open_store: Opener, put: Callable[[mqstore.MessageStore], object]) -> None:
    store = open_store(flushDiskType="SYNC_FLUSH", syncFlushTimeout=FOREVER_MS)
    stop(store, GroupCommitService)
    # As while asyncio tasks wait: a thread leaves the flush to the service.
    store._engine.group_commit(0, [Bell()])
    with_topic(store)
    with ctrl_c_while_it_waits(lambda: store.get_max_phy_offset() > 0):
        put(store)
    assert bodies(store) == [b"1"]
    store.close()
    assert bodies(open_store(mode="r")) == [b"1"]


def test_a_put_that_waits_for_a_slave(open_store: Opener) -> None:
    store = open_store(brokerRole="SYNC_MASTER", **(FAST | {"slaveTimeout": FOREVER_MS}))
    slave = RawSlave(store)
    slave.report(0)
    wait_until(lambda: any(it.request_offset == 0 for it in store.replication.slaves))
    with_topic(store)
    with ctrl_c_while_it_waits(lambda: store.get_max_phy_offset() > 0):
        store.put("t", b"1", queue_id=0)
    with ctrl_c_while_it_waits():
        store.replication.wait_for_slave(timeout=FOREVER_MS)
    # The slave has it all the same.
    assert slave.frame()[0] == 0
    stop(store, HAService)
    slave.socket.close()
    assert bodies(store) == [b"1"]


def test_waiting_for_a_message(open_store: Opener) -> None:
    store = open_store()
    with ctrl_c_while_it_waits():
        store.wait_for_message("t", 0, 0)
    with ctrl_c_while_it_waits():
        next(iter(store.topic("t").queue(0).follow(0)))
    store.put("t", b"1", queue_id=0)
    assert store.wait_for_message("t", 0, 0, timeout=60)


def test_waiting_beside_a_writer(open_store: Opener) -> None:
    writer = open_store()
    writer.put("t", b"0", queue_id=0)
    reader = open_store(mode="r")
    main = threading.main_thread().ident
    assert main is not None
    # It looks again and again: it never stays where it is.
    presser = threading.Timer(0.2, signal.pthread_kill, (main, signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):  # noqa: PT012 - it may be pressed as soon as that is started
        presser.start()
        reader.wait_for_message("t", 0, 1)
    writer.put("t", b"1", queue_id=0)
    assert reader.wait_for_message("t", 0, 1, timeout=60)


@pytest.mark.parametrize("orderly", [False, True])
def test_a_consumer_that_waits(store: mqstore.MessageStore, *, orderly: bool) -> None:
    with store.consumer("g", "t", from_where="first", orderly=orderly) as consumer:
        with ctrl_c_while_it_waits():
            consumer.poll()
        with ctrl_c_while_it_waits():
            for _message in consumer:
                raise AssertionError("there is none")
        with ctrl_c_while_it_waits():
            consumer.run(lambda _message: None)
        store.put("t", b"1", queue_id=0)
        message = consumer.poll(60)
        assert message is not None
        assert bytes(message.body) == b"1"


def test_a_message_that_was_about_to_be_given_comes_again(
    store: mqstore.MessageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put("t", b"1", queue_id=0)
    with store.consumer("g", "t", from_where="first", orderly=True) as consumer:
        poll_now = consumer._poll_now

        def interrupted(given: list[Any]) -> Any:
            assert poll_now(given) is Pulled.FOUND
            signal.raise_signal(signal.SIGINT)

        monkeypatch.setattr(consumer, "_poll_now", interrupted)
        with pytest.raises(KeyboardInterrupt):
            consumer.poll()
        monkeypatch.undo()
        message = consumer.poll(60)
        assert message is not None
        consumer.ack(message)


def test_a_lock_that_somebody_has(tmp_path: Path) -> None:
    lock = FileLock.take(tmp_path / "lock")
    assert lock is not None
    with ctrl_c_while_it_waits():
        FileLock.wait_for(tmp_path / "lock")
    lock.release()
    FileLock.wait_for(tmp_path / "lock").release()


def test_a_close_that_waits_for_a_service(open_store: Opener) -> None:
    store = open_store(schedule_messages=True)
    called, go_on = threading.Event(), threading.Event()

    def listener(_arrivals: list[mqstore.Arrival]) -> None:
        called.set()
        go_on.wait(60)

    store.add_listener(listener)
    store.put("t", b"1", queue_id=0)
    assert called.wait(60)
    with ctrl_c_while_it_waits(is_joining_a_service):
        store.close()
    with pytest.raises(mqstore.ServiceNotAvailableError, match="broken off"):
        store.put("t", b"2", queue_id=0)
    go_on.set()
    store.close()
    with pytest.raises(mqstore.StoreClosedError):
        store.put("t", b"3", queue_id=0)
    again = open_store(mode="r")
    assert again.report().closed_cleanly
    assert bodies(again) == [b"1"]


def test_retention_between_two_files(open_store: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store()
    store.put_many("t", [bytes(1000)] * 300, queue_id=0)
    end = store.get_max_phy_offset()
    monkeypatch.setattr(store._cleaner, "_keep_from", lambda: time.sleep(FOREVER_MS))
    with ctrl_c_while_it_waits():
        store.execute_delete_files_manually()
    monkeypatch.undo()
    assert store.execute_delete_files_manually() == 0
    assert store.get_max_phy_offset() == end


# ---- what takes long without waiting -------------------------------------------------------------


def big_store(folder: Path) -> Path:
    """A store whose log takes a while to walk over."""
    with mqstore.open(folder, "rw", **BIG) as store:
        for _ in range(15):
            store.put_many("t", [bytes(100)] * (MANY // 15), queue_id=0, unique_key=False)
    return folder


@pytest.fixture(scope="module")
def big(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return big_store(tmp_path_factory.mktemp("big") / "store")


def press_soon(run: Callable[[], object]) -> None:
    """Presses Ctrl-C a moment after it began, which is asked for within it."""
    main = threading.main_thread().ident
    assert main is not None
    presser = threading.Timer(0.06, signal.pthread_kill, (main, signal.SIGINT))

    def run_again() -> NoReturn:
        presser.start()
        while True:  # what is done sooner is done again
            run()

    with pytest.raises(KeyboardInterrupt):
        run_again()


def open_and_close(path: Path, mode: str = "r") -> None:
    """Leaves no store open, wherever Ctrl-C comes behind the opening."""
    store = mqstore.open(path, mode, **BIG)
    try:
        store.close()
    except KeyboardInterrupt:
        store.close()
        raise


def read_arrow(reader: mqstore.MessageStore) -> None:
    """Arrow knows of no Ctrl-C: the stream ends with an error of its own before Python raises."""
    with contextlib.suppress(pa.ArrowInvalid):
        reader.select("t", tags="none").to_arrow(["body"]).read_all()


def test_many_rows_of_a_table(open_store: Opener) -> None:
    store = open_store()
    table = pa.table({"body": [b""] * 1_000_000})
    put_counts: list[int] = []

    def put() -> None:
        try:
            store.put_arrow(table, topic="t", queue_id=0)
        except KeyboardInterrupt as pressed:
            # It may have come before the call, or behind it.
            if "put_count" in vars(pressed):
                put_counts.append(vars(pressed)["put_count"])
            raise

    while not put_counts:
        press_soon(put)
    assert put_counts[0] < len(table)
    assert store.select("t").count() % len(table) == put_counts[0]


def test_walks_over_a_log(big: Path) -> None:
    (big / "abort").touch()
    press_soon(lambda: open_and_close(big))
    press_soon(lambda: open_and_close(big, "rw"))
    press_soon(lambda: verify(big, **BIG))
    with mqstore.open(big, **BIG) as reader:
        press_soon(lambda: list(reader.select("t", tags="none")))
        press_soon(lambda: reader.select("t", tags="none").count())
        press_soon(lambda: read_arrow(reader))
        press_soon(lambda: reader.get_message("t", 0, 0, MANY, mqstore.SqlFilter("absent IS NOT NULL")))
        assert reader.get_max_offset_in_queue("t", 0) == MANY
    with mqstore.open(big, pread=True, **BIG) as reader:
        press_soon(lambda: reader.select(tags="none").count())
    with mqstore.open(big, "rw", **BIG) as store:
        assert store.get_max_offset_in_queue("t", 0) == MANY
    with mqstore.open(big, **BIG) as reader:
        assert reader.report().closed_cleanly
