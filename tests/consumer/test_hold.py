"""Pulls that found nothing are held, and no longer than who polls wants."""

import asyncio
from typing import Any

import pytest

import mqstore
from mqstore.consumer import Consumer, process_queue
from tests.store.conftest import Opener

pytestmark = pytest.mark.timeout(60)


@pytest.fixture
def consumer(open_store: Opener) -> Consumer:
    """One of a store that holds no pull."""
    return open_store(longPollingEnable=False, shortPollingTimeMills=0).consumer("group", "orders")


def test_a_poll_that_holds_no_pull_ends_in_time(consumer: Consumer) -> None:
    assert consumer.poll(timeout=0.01) is None


def test_a_loop_that_holds_no_pull_lets_other_tasks_have_their_turn(consumer: Consumer) -> None:
    async def read() -> None:
        async for _ in consumer:
            pass

    async def beside_another_task() -> None:
        reading = asyncio.create_task(read())
        await asyncio.sleep(0.01)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading

    asyncio.run(beside_another_task())


@pytest.mark.parametrize("mode", ["rw", "r"])
def test_a_queue_without_anything_new_is_not_asked_for_messages(
    open_store: Opener, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """Many queues would be for each message of one."""
    writer = open_store()
    for queue_id in range(8):
        writer.put("orders", b"", queue_id=queue_id)
    store = writer if mode == "rw" else open_store(mode="r")
    asked: list[int] = []
    get_message = mqstore.MessageStore.get_message

    def noted(store: mqstore.MessageStore, topic: str, queue_id: int, *given: Any) -> Any:
        asked.append(queue_id)
        return get_message(store, topic, queue_id, *given)

    with store.consumer("group", "orders", timeout=0) as consumer:
        assert sum(1 for _ in consumer) == 8
        consumer.poll(timeout=0)
        monkeypatch.setattr(mqstore.MessageStore, "get_message", noted)
        monkeypatch.setattr(process_queue, "_LOOKED_AT_EVERY", 3600.0)
        consumer.poll(timeout=0)
        asked.clear()
        assert consumer.poll(timeout=0) is None
        assert asked == []
        writer.put("orders", b"new", queue_id=5)
        message = consumer.poll(timeout=0)
        assert message is not None
        assert bytes(message.body) == b"new"
        assert set(asked) == {5}
