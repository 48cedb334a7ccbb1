"""Pulls that found nothing are held, and no longer than who polls wants."""

import asyncio

import pytest

from mqstore.consumer import Consumer
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
