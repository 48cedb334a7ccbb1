"""Services that fail or die, listeners that raise, and closing from anywhere."""

import asyncio
import errno
import logging
import queue
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import mqstore
from mqstore._native import Bell
from mqstore.services import (
    FlushConsumeQueueService,
    FlushRealTimeService,
    GroupCommitService,
    ReputMessageService,
    ServiceThread,
)
from tests.services.delivery import service_of
from tests.store.conftest import Opener
from tests.store_files import copy_store
from tests.waiting import wait_until


def die(*_given: object) -> None:
    """What ends a thread."""
    raise SystemExit("for a test")


def kill(store: mqstore.MessageStore, kind: type[ServiceThread], monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets a service's next pass end its thread."""
    service = service_of(store, kind)
    monkeypatch.setattr(service, "make_pass", die)
    service.join(60)
    assert not service.is_alive()


def test_what_an_opening_dispatched_again_is_flushed_by_the_first_pass(open_store: Opener, tmp_path: Path) -> None:
    never = {"flush_interval_consume_queue": 3_600_000, "flush_consume_queue_thorough_interval": 3_600_000}
    store = open_store(**never)
    last = store.put("t", b"", queue_id=0)
    copy_store(tmp_path / "store", tmp_path / "killed")
    killed = open_store("killed", **never)
    assert killed._checkpoint()[1] == 0
    killed.close()
    copy_store(tmp_path / "store", tmp_path / "killed again")
    killed = open_store("killed again", **never | {"flush_interval_consume_queue": 10})
    wait_until(lambda: killed._checkpoint()[1] == last.store_timestamp)


@pytest.mark.parametrize("kind", [ReputMessageService, FlushConsumeQueueService])
def test_a_store_says_that_a_service_died(
    open_store: Opener,
    monkeypatch: pytest.MonkeyPatch,
    kind: type[ServiceThread],
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = open_store()
    store.put("t", b"before", queue_id=0)
    kill(store, kind, monkeypatch)
    with pytest.raises(mqstore.ServiceNotAvailableError, match=f"{kind.__name__} died: SystemExit"):
        store.put("t", b"after", queue_id=0)
    result = store.put_message(mqstore.MessageExtBrokerInner(topic="t", body=b"after", queue_id=0))
    assert result.status is mqstore.PutMessageStatus.SERVICE_NOT_AVAILABLE
    assert kind.__name__ in (store.report().halted or "")
    assert kind.__name__ in str(store.report())
    assert not store.report().is_whole
    assert [record.levelno for record in caplog.records if "died" in record.message] == [logging.CRITICAL]
    # What it has is there, and it is closed as ever.
    assert [bytes(message.body) for message in store.topic("t")] == [b"before"]
    store.close()
    again = open_store(mode="r")
    assert again.report().closed_cleanly
    assert [bytes(message.body) for message in again.topic("t")] == [b"before"]


def test_a_store_says_that_its_queues_cannot_be_written(
    open_store: Opener, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = open_store(flush_interval_consume_queue=10)
    store.put("t", b"before", queue_id=0)
    assert store.report().is_whole
    queues, aside = tmp_path / "store" / "consumequeue", tmp_path / "aside"
    queues.rename(aside)
    queues.touch()
    store.put("t", b"after", queue_id=0)
    # Said right behind it, by the thread of the service.
    wait_until(lambda: bool(caplog.records))
    [failing] = store.report().failing
    assert failing.startswith("FlushConsumeQueueService: ")
    assert f"{queues}/t" in failing
    assert [record.levelno for record in caplog.records] == [logging.ERROR], "said once"
    assert f"tried again: {failing}" in str(store.report())
    assert not store.report().is_whole
    store._engine.make_logics_queue_error("no space")
    assert store.report().halted == "its queues could not be written: no space"
    with pytest.raises(mqstore.ServiceNotAvailableError, match=r"runningFlags=4: its queues could not be written: no"):
        store.put("t", b"refused", queue_id=0)
    queues.unlink()
    aside.rename(queues)
    wait_until(lambda: not store.report().failing)


def test_a_store_that_gets_no_thread_is_not_opened(open_store: Opener, tmp_path: Path) -> None:
    stack_size = threading.stack_size(1 << 46)
    try:
        with pytest.raises(mqstore.StoreIOError, match=f"start .*Service of {tmp_path}/store: can't start") as refused:
            open_store()
    finally:
        threading.stack_size(stack_size)
    assert refused.value.errno == errno.EAGAIN
    with open_store() as store:
        store.put("t", b"b", queue_id=0)
        assert [bytes(message.body) for message in store.topic("t")] == [b"b"]


def test_an_interval_of_zero_is_a_millisecond(open_store: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    """A service that does not wait between its passes keeps a core busy."""
    store = open_store(flush_interval_consume_queue=0, flush_interval_commit_log=0, flush_commit_log_timed=False)
    flush_queues = service_of(store, FlushConsumeQueueService)
    waits = queue.SimpleQueue[float | None]()
    sleep = flush_queues._stopping.wait

    def wait(timeout: float | None = None) -> bool:
        waits.put(timeout)
        return sleep(timeout)

    monkeypatch.setattr(flush_queues._stopping, "wait", wait)
    assert waits.get(timeout=60) == 0.001
    flush_log = service_of(store, FlushRealTimeService)
    engine = flush_log.engine
    intervals = queue.SimpleQueue[int]()

    def wait_flush_requested(interval_ms: int) -> None:
        intervals.put(interval_ms)
        engine.wait_flush_requested(interval_ms)

    asked = SimpleNamespace(wait_flush_requested=wait_flush_requested, flush_commit_log=engine.flush_commit_log)
    monkeypatch.setattr(flush_log, "engine", asked)
    assert intervals.get(timeout=60) == 1


def test_a_put_does_not_wait_for_a_flusher_that_died(open_store: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(flushDiskType="SYNC_FLUSH", syncFlushTimeout=600_000)
    service = service_of(store, GroupCommitService)
    raised: list[BaseException] = []

    def put() -> None:
        try:
            store.put("t", b"", queue_id=0)
        except mqstore.MQStoreError as error:
            raised.append(error)

    def die_once_waited_for() -> None:
        # As while asyncio tasks wait: a thread leaves the flush to the service.
        service.engine.group_commit(0, [Bell()])
        threads[0].start()
        wait_until(lambda: store.get_max_phy_offset() > 0)
        die()

    threads = [threading.Thread(target=put)]
    monkeypatch.setattr(service, "make_pass", die_once_waited_for)
    service.join(60)
    threads[0].join(60)
    assert [type(error) for error in raised] == [mqstore.ServiceNotAvailableError]

    async def main() -> None:
        with pytest.raises(mqstore.ServiceNotAvailableError):
            await store.aio.put("t", b"", queue_id=0)

    asyncio.run(main())


def test_a_task_does_not_wait_for_a_flusher_that_dies(open_store: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(flushDiskType="SYNC_FLUSH", syncFlushTimeout=600_000)

    async def main() -> None:
        future = store._flush_waiters.wait(1 << 40)
        await asyncio.to_thread(kill, store, GroupCommitService, monkeypatch)
        with pytest.raises(mqstore.ServiceNotAvailableError):
            await asyncio.wait_for(future, 60)

    asyncio.run(main())


@pytest.mark.parametrize("raised", [ZeroDivisionError, SystemExit, KeyboardInterrupt])
def test_what_a_listener_raises_changes_nothing(
    store: mqstore.MessageStore, raised: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[int] = []

    def listener(arrivals: list[mqstore.Arrival]) -> None:
        seen.extend(arrival.max_offset for arrival in arrivals)
        raise raised("of the listener")

    store.add_listener(listener)
    for number in range(3):
        store.put("t", b"%d" % number, queue_id=0)
        wait_until(lambda: len(seen) > number)  # noqa: B023 - waited for before the next turn
    assert seen == [1, 2, 3]
    assert service_of(store, ReputMessageService).is_alive()
    assert "a listener of" in caplog.text


def test_a_listener_closes_the_store(open_store: Opener) -> None:
    store = open_store()
    closed = threading.Event()

    def listener(_arrivals: list[mqstore.Arrival]) -> None:
        store.close()
        closed.set()

    store.add_listener(listener)
    store.put("t", b"", queue_id=0)
    assert closed.wait(60)
    assert store.is_closed
    assert open_store(mode="r").report().closed_cleanly


def test_a_listener_and_another_thread_close_the_store(open_store: Opener) -> None:
    """Whoever waits for the dispatch thread to end must not be waited for by it."""
    store = open_store()
    called, go_on = threading.Event(), threading.Event()

    def listener(_arrivals: list[mqstore.Arrival]) -> None:
        called.set()
        go_on.wait(60)
        store.close()

    store.add_listener(listener)
    store.put("t", b"", queue_id=0)
    assert called.wait(60)
    closer = threading.Thread(target=store.close)
    closer.start()
    wait_until(lambda: all(service._stopping.is_set() for service in store._services))
    go_on.set()
    closer.join(60)
    assert not closer.is_alive()
    assert store.is_closed


def test_a_close_in_the_middle_of_a_close(open_store: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the handler of a signal does it that comes while the store is being closed."""
    store = open_store()
    close = store.consumers.close

    def close_twice() -> None:
        monkeypatch.setattr(store.consumers, "close", close)
        store.close()
        close()

    monkeypatch.setattr(store.consumers, "close", close_twice)
    store.close()
    assert store.is_closed
    assert open_store(mode="r").report().closed_cleanly


def test_many_threads_close(open_store: Opener) -> None:
    store = open_store()
    failed: list[BaseException] = []

    def live(number: int) -> None:
        try:
            while True:
                store.put("t", b"%d" % number, queue_id=number)
                store.get_message("t", number, 0)
                if store.get_max_offset_in_queue("t", number) > 50:
                    store.close()
        except mqstore.StoreClosedError:
            return
        except BaseException as error:
            failed.append(error)

    threads: list[Any] = [threading.Thread(target=live, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive()
    assert not failed
    assert open_store(mode="r").report().closed_cleanly


@pytest.mark.parametrize("is_async", [False, True])
def test_who_waits_for_a_message_is_told_that_dispatch_died(
    open_store: Opener,
    monkeypatch: pytest.MonkeyPatch,
    is_async: bool,  # noqa: FBT001 (a case)
) -> None:
    store = open_store()
    store.put("t", b"1", queue_id=0)
    outcome: list[BaseException] = []

    def wait() -> None:
        try:
            if is_async:
                asyncio.run(store.aio.wait_for_message("t", 0, 1))
            else:
                store.wait_for_message("t", 0, 1)
        except mqstore.ServiceNotAvailableError as error:
            outcome.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    wait_until(lambda: bool(store._message_waiters._waiting))
    kill(store, ReputMessageService, monkeypatch)
    waiting.join(60)
    assert "ReputMessageService died" in str(outcome[0])
    # What is there is found, and who comes later is told at once.
    assert store.wait_for_message("t", 0, 0)
    with pytest.raises(mqstore.ServiceNotAvailableError):
        store.wait_for_message("t", 0, 1)
