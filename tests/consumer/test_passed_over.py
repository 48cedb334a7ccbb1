"""What a consumer does not want: it is passed over some at a time, and others have their turn in between."""

import asyncio
import threading
from typing import Any

import pytest

import mqstore
from mqstore.consumer import Consumer
from mqstore.consumer import consumer as consumer_module
from mqstore.store.message_store import MessageStore

AT_ONCE = 50
"""Units of a queue file, behind which a get ends."""
MOST_GETS = 2000
"""Whoever is to have a turn has had it long before."""


@pytest.fixture
def endless(store: MessageStore, monkeypatch: pytest.MonkeyPatch) -> MessageStore:
    """A store whose queue 0 has more that is not wanted, however much of it is passed over."""
    monkeypatch.setattr(consumer_module, "_PASSED_OVER_AT_ONCE", 0)
    get_message, count = store.get_message, 0

    def get(topic: str, queue_id: int, *given: Any) -> Any:
        nonlocal count
        if queue_id == 0:
            count += 1
            assert count < MOST_GETS, "nobody else had a turn"
            store.put_many("t", [b""] * 2 * AT_ONCE, tags="other", queue_id=0)
        return get_message(topic, queue_id, *given)

    store.put("t", b"", tags="other", queue_id=0)
    monkeypatch.setattr(store, "get_message", get)
    return store


def wanting(store: MessageStore, **given: Any) -> Consumer:
    return store.consumer("g", "t", tags="wanted", from_where="first", **given)


@pytest.mark.parametrize("of_store", [False, True])
def test_a_close_need_not_wait_until_all_is_passed_over(
    endless: MessageStore, monkeypatch: pytest.MonkeyPatch, *, of_store: bool
) -> None:
    consumer = wanting(endless)
    thread = threading.Thread(target=endless.close if of_store else consumer.close)
    get_message = endless.get_message

    def get(*given: Any) -> Any:
        if not thread.ident:
            thread.start()
        return get_message(*given)

    monkeypatch.setattr(endless, "get_message", get)
    with pytest.raises(mqstore.MQStoreError, match="is closed"):
        consumer.poll()
    thread.join()


def test_a_loop_of_asyncio_goes_on_meanwhile(endless: MessageStore) -> None:
    async def take_for_a_moment() -> None:
        task = asyncio.ensure_future(anext(aiter(wanting(endless))))
        for _ in range(10):
            await asyncio.sleep(0)
        assert not task.done()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(take_for_a_moment())


def test_a_poll_ends_in_time(endless: MessageStore) -> None:
    with wanting(endless) as consumer:
        assert consumer.poll(0) is None
        assert consumer.poll(0.01) is None


def test_other_queues_have_their_turn(endless: MessageStore) -> None:
    endless.put("t", b"wanted", tags="wanted", queue_id=1)
    with wanting(endless) as consumer:
        message = consumer.poll()
        assert message is not None
        assert message.queue_id == 1


@pytest.mark.parametrize("at_once", [0, 3600])
def test_what_is_wanted_is_found_behind_all_that_is_not(
    store: MessageStore, monkeypatch: pytest.MonkeyPatch, at_once: float
) -> None:
    monkeypatch.setattr(consumer_module, "_PASSED_OVER_AT_ONCE", at_once)
    for number in range(3):
        store.put_many("t", [b""] * 5 * AT_ONCE, tags="other", queue_id=0)
        store.put("t", b"%d" % number, tags="wanted", queue_id=0)
    # A loop's time begins behind what is there.
    assert [bytes(message.body) for message in wanting(store, timeout=0)] == [b"0", b"1", b"2"]

    async def read() -> list[bytes]:
        consumer = store.consumer("other", "t", tags="wanted", from_where="first", timeout=0)
        return [bytes(message.body) async for message in consumer]

    assert asyncio.run(read()) == [b"0", b"1", b"2"]
    with store.consumer("third", "t", sql="TAGS = 'wanted'", from_where="first") as consumer:
        polled = [message for _ in range(40) if (message := consumer.poll(0)) is not None]
        assert [bytes(message.body) for message in polled] == [b"0", b"1", b"2"]


def test_what_is_passed_over_does_not_come_again(endless: MessageStore) -> None:
    with wanting(endless) as consumer:
        for _ in range(3):
            assert consumer.poll(0) is None
    (stats,) = [stats for stats in endless.consumers.consume_stats("g", ["t"]) if stats.queue_id == 0]
    assert stats.consumer_offset >= 2 * AT_ONCE
