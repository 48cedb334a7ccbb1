"""Offsets are written by themselves."""

import contextlib
from pathlib import Path

import pytest

import mqstore
from mqstore.consumer.offsets import nobody_else_writes
from mqstore.services import PersistConsumerOffsetService, ServiceThread, persist
from mqstore.store.config_consumer_offset import ConsumerOffsetManager
from mqstore.store.config_manager import read_only
from tests.services.delivery import service_of
from tests.store.conftest import Opener
from tests.waiting import wait_until


def put(store: mqstore.MessageStore, count: int) -> None:
    store.put_many("orders", [b"%d" % number for number in range(count)], queue_id=0)


def kept_in(path: Path, group: str) -> int:
    """The sum of a group's offsets in a file."""
    return sum(ConsumerOffsetManager(path, read_only).offsets(group, "orders").values())


@pytest.mark.parametrize(
    ("mode", "model"), [("rw", "clustering"), ("r", "clustering"), ("rw", "broadcasting"), ("r", "broadcasting")]
)
def test_offsets_are_written_though_nobody_polls(
    open_store: Opener, monkeypatch: pytest.MonkeyPatch, mode: str, model: str
) -> None:
    monkeypatch.setattr(persist, "_PERSIST_INTERVAL_MS", 1)
    writer = open_store()
    put(writer, 3)
    store = writer if mode == "rw" else open_store(mode="r")
    consumers = [
        store.consumer(group, "orders", from_where="first", consumer_id="one", message_model=model)
        for group in ("g", "h")
    ]
    for consumer in consumers:
        message = consumer.poll(30)
        assert message is not None
        consumer.ack(message)
    config = writer.path / "config" / "consumerOffset.json"
    for group in ("g", "h"):
        folder = writer.consumers.folder(group)
        path = config if mode == "rw" else folder / "consumerOffset.json"
        if model == "broadcasting":
            path = folder / "broadcast" / "one.json"
        wait_until(lambda path=path: path.exists())  # type: ignore[misc]
        wait_until(lambda path=path, group=group: kept_in(path, group) == 1)  # type: ignore[misc]


def test_offsets_that_could_not_be_written_are_once_they_can(
    store: mqstore.MessageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(persist, "_PERSIST_INTERVAL_MS", 1)
    monkeypatch.setattr(ServiceThread, "failed", lambda self, _error: self.wait(1))
    put(store, 1)
    failing, other = (store.consumer(group, "orders", from_where="first") for group in ("g", "h"))
    refused: list[bool] = []

    def refuse() -> bool:
        refused.append(True)
        raise mqstore.StoreIOError("no space left")

    path = store.path / "config" / "consumerOffset.json"
    with monkeypatch.context() as full:
        full.setattr(failing._offsets, "persist_if_free", refuse)
        for consumer in (failing, other):
            message = consumer.poll(30)
            assert message is not None
            consumer.ack(message)
        wait_until(lambda: len(refused) > 1)
        wait_until(lambda: path.exists() and kept_in(path, "h") == 1)
    service = service_of(store, persist.PersistConsumerOffsetService)
    wait_until(lambda: service.failed_count == 0)
    assert service.is_alive()


@pytest.mark.parametrize("mode", ["rw", "r"])
@pytest.mark.parametrize("held", ["consumer", "file"])
def test_a_handler_closes_the_store_while_they_are_to_be_written(
    open_store: Opener, monkeypatch: pytest.MonkeyPatch, mode: str, held: str
) -> None:
    """It comes where the thread that it is called in has what the service needs, and waits for that."""
    monkeypatch.setattr(persist, "_PERSIST_INTERVAL_MS", 1)
    monkeypatch.setattr(persist, "_AGAIN_MS", 1)
    writer = open_store()
    put(writer, 3)
    store = writer if mode == "rw" else open_store(mode="r")
    consumers = [store.consumer("g", "orders", from_where="first", consumer_id=name) for name in ("a", "b")]
    service = service_of(store, PersistConsumerOffsetService)
    tried: list[bool] = []
    try_it = service._persist

    def noted() -> bool:
        tried.append(try_it())
        return tried[-1]

    monkeypatch.setattr(service, "_persist", noted)
    shared = writer.consumers.folder("g") / "consumerOffset.json"
    lock: contextlib.AbstractContextManager[object]
    if held == "consumer":
        lock = consumers[0]._lock
    elif mode == "rw":
        lock = writer.consumers.offsets._lock
    else:
        lock = nobody_else_writes(shared)
    with lock:
        message = consumers[0].poll(30)
        assert message is not None
        consumers[0].ack(message)
        wait_until(lambda: False in tried)
        is_refused = held == "file" and mode == "r"
        with pytest.raises(mqstore.StoreIOError, match="deadlock") if is_refused else contextlib.nullcontext():
            store.close()
    assert not service.is_alive()


def test_a_topic_without_queues_is_written_once(open_store: Opener) -> None:
    writer = open_store()
    reader = open_store(mode="r")
    with reader.consumer("g", "orders") as consumer:
        assert consumer.poll(0) is None
        consumer.persist()
        shared = writer.path / "mqstore" / "consumers" / "g" / "consumerOffset.json"
        assert ConsumerOffsetManager(shared, read_only).which_topic_by_consumer("g") == {"orders", "%RETRY%g"}
        consumer._rebalance._next_check = 0
        assert consumer.poll(0) is None
        with nobody_else_writes(shared):
            assert consumer.persist_if_free()
