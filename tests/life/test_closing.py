"""A close from where its services wait for something, and a drop beside a service that has failed."""

import asyncio
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import mqstore
from mqstore.services import GroupCommitService
from tests.services.delivery import service_of
from tests.store.conftest import open_rw
from tests.waiting import wait_until

UNKNOWN = mqstore.LocalTransactionState.UNKNOW
CHECKED: dict[str, Any] = {
    "transactionCheckInterval": 50,
    "transactionTimeOut": 0,
    "transactionCheckMax": 10**6,
    "fileReservedTime": 10**6,
}


def prepare(folder: Path) -> None:
    """A store with a half message that is checked at once."""
    with open_rw(folder) as store:
        store.transaction().put("orders", b"1", born_timestamp=1000)


def told_of_a_close(store: mqstore.MessageStore, wait: Callable[[], object]) -> list[mqstore.StoreClosedError]:
    """Lets a listener wait, and gives, once it has begun to, what is going to tell it of a close."""
    begun, told = threading.Event(), []

    def listener(_: object) -> None:
        begun.set()
        try:
            wait()
        except mqstore.StoreClosedError as error:
            told.append(error)

    store.add_listener(listener)
    store.put("t", b"", queue_id=0)
    begun.wait()
    return told


def test_a_listener_that_waits_for_a_close_ends_with_it(tmp_path: Path) -> None:
    store = open_rw(tmp_path / "s")

    def wait() -> None:
        wait_until(lambda: store._engine.halted is not None or store._are_services_to_end)
        store.handle_schedule_message_service("ASYNC_MASTER")

    told = told_of_a_close(store, wait)
    store.close()
    assert len(told) == 1


async def _wait_in_a_loop(store: mqstore.MessageStore) -> None:
    await store.aio.wait_for_message("t", 0, 1)


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "wait",
    [
        lambda store: store.wait_for_message("t", 0, 1),
        lambda store: next(store.topic("t").queue(0).follow()),
        lambda store: asyncio.run(_wait_in_a_loop(store)),
        lambda store: store.consumer("group", "nothing").poll(),
    ],
    ids=["message", "follow", "aio", "poll"],
)
def test_a_listener_that_waits_for_a_message_is_told_of_a_close(
    tmp_path: Path, wait: Callable[[mqstore.MessageStore], object]
) -> None:
    store = open_rw(tmp_path / "s")
    told = told_of_a_close(store, lambda: wait(store))
    wait_until(lambda: bool(store._message_waiters._waiting or store.consumers._open))
    store.close()
    assert len(told) == 1


@pytest.mark.timeout(60)
def test_a_listener_that_waits_for_a_slave_is_told_of_a_close(tmp_path: Path) -> None:
    store = open_rw(tmp_path / "s", replication=True, haListenPort=0)
    told = told_of_a_close(store, lambda: store.replication.wait_for_slave(timeout=None))
    store.close()
    assert len(told) == 1


def test_a_check_by_hand_may_close_the_store_beside_the_service(tmp_path: Path) -> None:
    prepare(tmp_path / "s")
    store = open_rw(tmp_path / "s", check_transactions=lambda _: UNKNOWN, **CHECKED)
    comes, waits = threading.Event(), threading.Event()
    holding = store._holding

    @contextmanager
    def told(lock: Any) -> Iterator[None]:
        if not threading.current_thread().name.startswith("Transactional"):
            with holding(lock):
                yield
            return
        waits.set()
        with holding(lock):
            waits.clear()
            comes.set()
            yield

    def decide(_: mqstore.Message) -> mqstore.LocalTransactionState:
        # The service waits for the lock that is held here, or is about to.
        assert waits.wait(60)
        store.close()
        return UNKNOWN

    store._holding = told  # type: ignore[method-assign]
    assert comes.wait(60)
    with pytest.raises(mqstore.StoreClosedError):
        # The service may have put the half back in the moment in which a check begins, which leaves it alone then.
        wait_until(lambda: store.check_transactions(decide) > 0)
    assert store.is_closed


_DROPPED = """
import gc, sys, time, weakref
import mqstore
UNKNOWN = mqstore.LocalTransactionState.UNKNOW
options = dict(transactionCheckInterval=50, transactionTimeOut=0, transactionCheckMax=10**6, fileReservedTime=10**6)
store = mqstore.open(sys.argv[1], "rw", check_transactions=lambda _: UNKNOWN, **options)
(service,) = [each for each in store._services if each.name.startswith("Transactional")]
store._set_disk_full(True)
while service.error is None: time.sleep(0.01)
store._set_disk_full(False)
while service.failed_count: time.sleep(0.01)
gone = weakref.ref(store)
del store
while gone() is not None:
    gc.collect()
    time.sleep(0.01)
"""


def test_a_store_whose_service_has_failed_is_closed_when_it_is_dropped(tmp_path: Path) -> None:
    prepare(tmp_path / "s")
    done = subprocess.run(
        [sys.executable, "-c", _DROPPED, tmp_path / "s"], capture_output=True, check=False, timeout=240
    )
    assert done.returncode == 0


def test_a_thread_flushes_by_itself_once_the_flushing_service_has_ended(tmp_path: Path) -> None:
    """A close lets the service end first, and may wait for who puts."""
    store = open_rw(tmp_path / "s", flushDiskType="SYNC_FLUSH")
    loop = asyncio.new_event_loop()
    # The loop does not run any more: what it would be told by stays.
    loop.run_until_complete(store.aio.put("t", b"of a task", queue_id=0))
    service = service_of(store, GroupCommitService)
    assert store._flush_waiters.bells() != []
    service.stop()
    store._engine.stop_passes()
    service.join()
    assert store.put("t", b"of a thread", queue_id=0).logics_offset == 1
    store.close()
    loop.close()


def test_a_closed_store_takes_no_listener(tmp_path: Path) -> None:
    store = open_rw(tmp_path / "s")
    remove = store.add_listener(lambda _arrivals: None)
    store.close()
    with pytest.raises(mqstore.StoreClosedError):
        store.add_listener(lambda _arrivals: None)
    remove()


def test_a_close_that_fails_tells_what_ended_the_block_as_well(tmp_path: Path) -> None:
    def fail_in_the_block() -> None:
        with open_rw(tmp_path / "s") as store:
            store.put("t", b"", queue_id=0)
            queues = tmp_path / "s" / "consumequeue"
            shutil.rmtree(queues, ignore_errors=True)
            queues.touch()
            raise ValueError("of the block")

    with pytest.raises(mqstore.StoreIOError, match="consumequeue") as raised:
        fail_in_the_block()
    assert str(raised.value.__context__) == "of the block"
