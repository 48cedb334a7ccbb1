"""A store that is dropped without being closed, and what keeps one."""

import gc
import sys
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import mqstore
from mqstore import _native
from mqstore.services import (
    CleanFilesService,
    ServiceThread,
    StoreStatsService,
    TransactionalMessageCheckService,
)
from tests.store.conftest import SMALL
from tests.waiting import wait_until

NOT_CLOSED = r"<MessageStore .* was not closed"
EVERYTHING: dict[str, Any] = {
    "schedule_messages": True,
    "retention": True,
    "replication": True,
    "check_transactions": lambda _message: mqstore.LocalTransactionState.UNKNOW,
    "ha_listen_port": 0,
    "transientStorePoolEnable": True,
    "transientStorePoolSize": 2,
}
LOOK_AT_THE_STORE = (CleanFilesService, StoreStatsService, TransactionalMessageCheckService)
HAVE_LOOKED: "weakref.WeakSet[ServiceThread]" = weakref.WeakSet()


@pytest.fixture(autouse=True)
def without_collector() -> Iterator[None]:
    """What is dropped has to go by itself."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.fixture(autouse=True)
def services_look_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some services have the store for a moment, now and then: it would be dropped by them, and later."""

    def wait_for_the_end(service: ServiceThread, _milliseconds: int) -> None:
        HAVE_LOOKED.add(service)
        service._stopping.wait()

    for kind in LOOK_AT_THE_STORE:
        monkeypatch.setattr(kind, "wait", wait_for_the_end)


def wait_until_alone(store: "weakref.ref[mqstore.MessageStore]") -> None:
    """Waits until no service has the store of a test any more, which has it by one name alone."""
    known = store()
    assert known is not None
    services = [service for service in known._services if isinstance(service, LOOK_AT_THE_STORE)]
    del known
    # The test's, and that of this look.
    wait_until(lambda: all(service in HAVE_LOOKED for service in services) and sys.getrefcount(store()) == 2)


def service_threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if isinstance(thread, ServiceThread)}


def is_locked(path: Path) -> bool:
    return _native.locked_by(path / "lock", path / "mqstore") is not None


@pytest.mark.parametrize("given", [{}, {"flushDiskType": "SYNC_FLUSH"}, EVERYTHING], ids=["async", "sync", "all"])
def test_a_dropped_store_is_closed_at_once(tmp_path: Path, given: dict[str, Any]) -> None:
    before = service_threads()
    store = mqstore.open(tmp_path / "store", "rw", **(SMALL | given))
    store.put("t", b"kept", queue_id=0, keys="k")
    assert store.wait_for_message("t", 0, 0, timeout=30)
    assert is_locked(tmp_path / "store")
    wait_until_alone(weakref.ref(store))
    with pytest.warns(ResourceWarning, match=NOT_CLOSED):
        del store
    assert not is_locked(tmp_path / "store")
    assert service_threads() == before
    with mqstore.open(tmp_path / "store", **SMALL) as again:
        assert again.report().closed_cleanly
        assert [bytes(message.body) for message in again.query_message("t", "k")] == [b"kept"]


def test_what_was_asked_of_it_keeps_no_store(tmp_path: Path) -> None:
    store = mqstore.open(tmp_path / "store", "rw", **SMALL)
    told = threading.Event()
    store.add_listener(lambda _arrivals: told.set())
    store.put("t", b"1", queue_id=0)
    assert told.wait(60)
    message = store.get_message("t", 0, 0).messages[0]
    body = message.body
    asked = [store.aio, store.replication, store.consumers.groups, store.consumers.offsets, store.consumers.filters]
    del asked
    with store.consumer("g", "t", from_where="first") as consumer:
        assert consumer.poll(30) is not None
    del consumer
    known = weakref.ref(store)
    wait_until_alone(known)
    with pytest.warns(ResourceWarning, match=NOT_CLOSED):
        del store
    assert known() is None
    assert bytes(body) == b"1"


def test_what_reads_a_store_keeps_it(tmp_path: Path) -> None:
    store = mqstore.open(tmp_path / "store", "rw", **SMALL)
    store.put_many("t", [b"1", b"2"], queue_id=0)
    # Dispatched before somebody listens: nobody is told of it later.
    assert store.wait_for_message("t", 0, 1, timeout=60)
    wait_until_alone(weakref.ref(store))
    messages = iter(store.topic("t"))
    consumer = store.consumer("g", "t", from_where="first")
    del store
    assert [bytes(message.body) for message in messages] == [b"1", b"2"]
    assert is_locked(tmp_path / "store")
    taken = consumer.poll(30)
    assert taken is not None
    consumer.ack(taken)
    del messages
    with pytest.warns(ResourceWarning, match=NOT_CLOSED):
        del consumer
    assert not is_locked(tmp_path / "store")


def test_a_dropped_reader_says_so(tmp_path: Path) -> None:
    mqstore.open(tmp_path / "store", "rw", **SMALL).close()
    reader = mqstore.open(tmp_path / "store", **SMALL)
    with pytest.warns(ResourceWarning, match=NOT_CLOSED):
        del reader


def test_a_store_in_a_cycle_is_closed_by_the_collector(tmp_path: Path) -> None:
    # The clock stands still, so that nothing is delivered of which the consumer is told.
    given: dict[str, Any] = {"schedule_messages": True, "clock": lambda: 1_700_000_000_000}
    store = mqstore.open(tmp_path / "store", "rw", **SMALL, **given)
    store.put("t", b"kept", queue_id=0, delay_time_level=1)
    assert store.wait_for_message("SCHEDULE_TOPIC_XXXX", 0, 0, timeout=60)
    wait_until_alone(weakref.ref(store))
    holder: list[Any] = [store, store.consumer("g", "t")]
    holder.append(holder)
    del store, holder
    with pytest.warns(ResourceWarning, match=NOT_CLOSED):
        gc.collect()
    assert not is_locked(tmp_path / "store")
    with mqstore.open(tmp_path / "store", **SMALL) as again:
        assert again.report().closed_cleanly


def test_a_store_that_could_not_be_set_up_is_let_go(tmp_path: Path) -> None:
    config = tmp_path / "store" / "config" / "topics.json"
    config.parent.mkdir(parents=True)
    config.write_text("[")
    with pytest.raises(mqstore.MQStoreError, match=r"topics\.json"):
        mqstore.open(tmp_path / "store", "rw", **SMALL)
    assert not is_locked(tmp_path / "store")


def test_an_arrow_stream_keeps_its_store(tmp_path: Path) -> None:
    store = mqstore.open(tmp_path / "store", "rw", **SMALL)
    store.put_many("t", [b"%d" % number for number in range(1000)], queue_id=0)
    wait_until_alone(weakref.ref(store))
    reader = store.select("t").to_arrow(max_messages=10)
    del store
    assert sum(batch.num_rows for batch in reader) == 1000
    assert is_locked(tmp_path / "store")
    with pytest.warns(ResourceWarning, match=NOT_CLOSED):
        del reader
    assert not is_locked(tmp_path / "store")


def test_an_arrow_stream_goes_while_the_engine_makes_an_object(tmp_path: Path) -> None:
    """The collector can come while a message's body is asked for, and Arrow lets go of the GIL before it releases."""
    store = mqstore.open(tmp_path / "store", "rw", **SMALL, clock=lambda: 1_700_000_000_000)
    store.put_many("t", [b"%d" % number for number in range(100)], queue_id=0)
    message = store.get_message("t", 0, 7).messages[0]
    wait_until_alone(weakref.ref(store))
    reader = store.select("t").to_arrow(max_messages=10)
    reader.read_next_batch()
    holder: list[Any] = [reader]
    holder.append(holder)
    known = weakref.ref(store)
    del store, reader, holder
    threshold = gc.get_threshold()
    gc.set_threshold(1)

    def body_amid_a_collection() -> memoryview:
        gc.enable()
        body = message.body
        gc.disable()
        return body

    with pytest.warns(ResourceWarning, match=NOT_CLOSED):
        body = body_amid_a_collection()
    gc.set_threshold(*threshold)
    assert known() is None
    assert bytes(body) == b"7"
    assert not is_locked(tmp_path / "store")
