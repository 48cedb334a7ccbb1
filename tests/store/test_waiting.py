"""asyncio twins."""

import asyncio
import errno
import math
import os
import threading
from typing import Any

import pytest

import mqstore
from mqstore.services import GroupCommitService
from mqstore.store.message_waiters import TaskWaking
from mqstore.store.offset_waiters import OffsetWaiters
from tests.store.conftest import Opener
from tests.waiting import wait_until


def test_many_puts_in_flight_with_synchronous_flush(open_store: Opener) -> None:
    store = open_store(flushDiskType="SYNC_FLUSH")

    async def main() -> list[mqstore.PutMessageResult]:
        return await asyncio.gather(*(store.aio.put("t", b"%d" % n, queue_id=0) for n in range(256)))

    results = asyncio.run(main())
    assert store.get_flushed_where() >= store.get_max_phy_offset()
    assert {result.logics_offset for result in results} == set(range(256))


def test_puts_of_several_loops_and_some_that_are_cancelled(open_store: Opener) -> None:
    store = open_store(flushDiskType="SYNC_FLUSH")

    async def puts(name: str) -> None:
        for number in range(50):
            result = await store.aio.put("t", b"", keys=f"{name}-{number}")
            assert result.wrote_offset is not None
            assert store.get_flushed_where() >= result.wrote_offset + result.wrote_bytes

    async def main(name: str) -> None:
        impatient = [asyncio.create_task(puts(f"{name}-impatient-{number}")) for number in range(4)]
        patient = [asyncio.create_task(puts(f"{name}-{number}")) for number in range(4)]
        await store.aio.put("t", b"")
        for task in impatient:
            task.cancel()
        await asyncio.gather(*patient)

    threads = [threading.Thread(target=asyncio.run, args=(main(f"loop-{number}"),)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number in range(3):
        for task in range(4):
            assert len(store.query_message("t", f"loop-{number}-{task}-49")) == 1
    wait_until(lambda: store._flush_waiters.bells() == [])


def test_a_put_that_the_disk_does_not_confirm_in_time(open_store: Opener) -> None:
    store = open_store(flushDiskType="SYNC_FLUSH", syncFlushTimeout=20)

    async def main() -> bool:
        return await store._flush_waiters.wait(1 << 40)

    assert not asyncio.run(main())
    wait_until(lambda: store._flush_waiters.bells() == [])


def test_a_loop_that_goes_on_without_puts_is_let_go(open_store: Opener) -> None:
    store = open_store(flushDiskType="SYNC_FLUSH")
    waiters = store._flush_waiters

    async def main() -> None:
        await store.aio.put("t", b"")
        first = waiters.bells()
        await store.aio.put("t", b"")
        assert waiters.bells() == first
        assert len(first) == 1
        await asyncio.to_thread(wait_until, lambda: waiters.bells() == [])
        # A thread flushes by itself again.
        await asyncio.to_thread(store.put, "t", b"")
        await store.aio.put("t", b"")
        assert len(waiters.bells()) == 1

    asyncio.run(main())
    wait_until(lambda: waiters.bells() == [])


def test_a_loop_of_which_nobody_knew_asks_how_far_the_disk_is() -> None:
    changes: list[str] = []
    waiters = OffsetWaiters(60_000, lambda: 10, lambda: changes.append("changed"))

    async def main() -> None:
        # Whoever flushed up to 10 did not know of this loop, and tells nobody.
        assert await waiters.wait(10)
        later = [waiters.wait(20), waiters.wait(30)]
        waiters.reached(20)
        assert await later[0]
        assert not later[1].done()
        waiters.failed(mqstore.StoreClosedError("over"))
        with pytest.raises(mqstore.StoreClosedError):
            await later[1]

    asyncio.run(main())
    assert changes == ["changed"]


def test_a_loop_that_was_closed_before_it_looked_is_let_go() -> None:
    waiters = OffsetWaiters(60_000, lambda: 0)

    async def main() -> None:
        waiters.wait(10)

    loop = asyncio.new_event_loop()
    loop.run_until_complete(main())
    waiters.reached(5)
    loop.close()
    assert len(waiters.bells()) == 1
    waiters.reached(6)
    assert waiters.bells() == []


def test_a_loop_that_cannot_be_told_is_an_error_of_the_stores(
    open_store: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_bell() -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    store = open_store(flushDiskType="SYNC_FLUSH")
    monkeypatch.setattr("mqstore.store.offset_waiters.Bell", no_bell)
    with pytest.raises(mqstore.StoreIOError, match=r"the message is stored; .* Too many open files") as raised:
        asyncio.run(store.aio.put("t", b"body", queue_id=0))
    assert raised.value.errno == errno.EMFILE
    monkeypatch.undo()
    asyncio.run(store.aio.put("t", b"next", queue_id=0))
    assert [bytes(message.body) for message in store.topic("t").queue(0)] == [b"body", b"next"]


def test_put_many_awaits_the_disk(open_store: Opener) -> None:
    store = open_store(flushDiskType="SYNC_FLUSH")
    result = asyncio.run(store.aio.put_many("t", [b"a", b"b"], queue_id=0))
    assert result.msg_num == 2
    assert store.get_flushed_where() >= store.get_max_phy_offset()


def test_a_put_that_does_not_wait(open_store: Opener) -> None:
    store = open_store(flushDiskType="SYNC_FLUSH")
    _, wait_for = store._put_begin("t", b"", wait_store_msg_ok=False)
    assert wait_for is None
    _, wait_for = store._put_begin("t", b"")
    assert wait_for == store.get_max_phy_offset()


def test_following_with_asyncio(store: mqstore.MessageStore) -> None:
    async def main() -> list[int]:
        found = []

        async def follow() -> None:
            async for message in store.aio.follow("t", 0, 0):
                found.append(int(bytes(message.body)))
                if len(found) == 3:
                    return

        task = asyncio.create_task(follow())
        for number in range(3):
            await asyncio.sleep(0)
            store.put("t", b"%d" % number, queue_id=0)
        await asyncio.wait_for(task, 30)
        return found

    assert asyncio.run(main()) == [0, 1, 2]


def test_waiting_for_a_message_with_asyncio_ends(open_store: Opener) -> None:
    store = open_store()

    async def main() -> None:
        assert not await store.aio.wait_for_message("t", 0, 0, timeout=0.01)
        store.put("t", b"", queue_id=0)
        assert await store.aio.wait_for_message("t", 0, 0, timeout=30)
        task = asyncio.create_task(store.aio.wait_for_message("t", 0, 5))
        await asyncio.sleep(0)
        await asyncio.to_thread(store.close)
        with pytest.raises(mqstore.StoreClosedError):
            await task

    asyncio.run(main())


def test_a_closed_store_does_not_leave_puts_waiting(open_store: Opener) -> None:
    store = open_store(flushDiskType="SYNC_FLUSH")

    async def main() -> None:
        waiting = store._flush_waiters.wait(1 << 40)
        await asyncio.to_thread(store.close)
        with pytest.raises(mqstore.StoreClosedError):
            await asyncio.wait_for(waiting, 30)

    asyncio.run(main())


def fail(_: object) -> None:
    """A listener that fails."""
    raise ZeroDivisionError


def test_listeners_see_what_arrived(store: mqstore.MessageStore) -> None:
    seen: list[tuple[str, int, int]] = []
    remove = store.add_listener(lambda arrivals: seen.extend((a.topic, a.queue_id, a.max_offset) for a in arrivals))
    with_error = store.add_listener(fail)
    for number in range(5):
        store.put("t", b"", queue_id=number % 2)
    while len(seen) < 5:
        assert store.wait_for_message("t", 0, 2, timeout=30)
    assert seen == [("t", 0, 1), ("t", 1, 1), ("t", 0, 2), ("t", 1, 2), ("t", 0, 3)]
    remove()
    with_error()
    store.put("t", b"", queue_id=0)
    store.wait_for_message("t", 0, 3, timeout=30)
    assert len(seen) == 5


def test_who_waits_is_asked_for_what_came_at_once_and_not_for_each(store: mqstore.MessageStore) -> None:
    seen: list[mqstore.Arrival] = []
    store.add_listener(seen.extend)
    store.put_many("t", [b""] * 300, queue_id=0)
    wait_until(lambda: len(seen) == 300)
    asked: list[int] = []
    woken: list[bool] = []

    def wanted(end: int) -> bool:
        asked.append(end)
        return end == 1

    with store._message_waiters.waiting("t", 0, wanted, lambda: woken.append(True)):
        asked.clear()
        store._message_waiters._arrived(seen)
    assert len(asked) <= 2
    assert woken == [True]
    with store._message_waiters.waiting("t", 0, lambda end: wanted(end) and False, lambda: fail(None)):
        asked.clear()
        store._message_waiters._arrived(seen)
    assert sorted(asked) == [1, 300]


def test_a_listener_that_comes_while_the_last_one_goes_is_told(
    store: mqstore.MessageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = threading.Event()
    coming = threading.Thread(target=store.add_listener, args=(lambda _arrivals: told.set(),))
    set_listening = store._set_listening

    def set_once_another_has_come(*, listening: bool) -> None:
        if not listening:
            coming.start()
            # It comes in between, or has to wait until this is done.
            coming.join(0.2)
        set_listening(listening=listening)

    remove = store.add_listener(lambda _arrivals: None)
    monkeypatch.setattr(store, "_set_listening", set_once_another_has_come)
    remove()
    coming.join()
    store.put("t", b"", queue_id=0)
    assert told.wait(30)


def test_a_listener_is_a_function(store: mqstore.MessageStore) -> None:
    wrong: Any = 5
    with pytest.raises(TypeError, match="listener=5: expected a function of arrivals"):
        store.add_listener(wrong)


def test_a_wait_beside_a_writer_ends_when_it_is_cancelled(open_store: Opener) -> None:
    writer = open_store()
    writer.put("t", b"", queue_id=0)

    async def impatient(store: mqstore.MessageStore) -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(store.aio.wait_for_message("t", 0, 1), 0.1)
        assert not await store.aio.wait_for_message("t", 0, 1, timeout=0.1)
        waiting = asyncio.create_task(store.aio.wait_for_message("t", 0, 1))
        await asyncio.to_thread(writer.put, "t", b"", queue_id=0)
        assert await waiting
        assert await store.aio.wait_for_message("t", 0, 1)

    with mqstore.open(writer.path) as reader:
        # It would not end as long as a thread waits in it.
        asyncio.run(impatient(reader))


def with_a_message(open_store: Opener, mode: str) -> mqstore.MessageStore:
    store = open_store()
    store.put("t", b"", queue_id=0)
    return store if mode == "rw" else mqstore.open(store.path)


@pytest.mark.parametrize("mode", ["r", "rw"])
def test_nothing_is_awaited_of_a_closed_store(open_store: Opener, mode: str) -> None:
    store = with_a_message(open_store, mode)
    store.close()

    async def wait() -> None:
        await store.aio.wait_for_message("t", 0, 1)

    with pytest.raises(mqstore.StoreClosedError):
        asyncio.run(wait())
    with pytest.raises(mqstore.StoreClosedError):
        store.refresh()


@pytest.mark.parametrize("mode", ["r", "rw"])
def test_a_time_that_is_no_number_is_refused(open_store: Opener, mode: str) -> None:
    store = with_a_message(open_store, mode)
    with pytest.raises(ValueError, match="timeout=nan: expected a number of seconds"):
        store.wait_for_message("t", 0, 1, timeout=math.nan)
    with pytest.raises(ValueError, match="timeout=nan: expected a number of seconds"):
        next(store.topic("t").queue(0).follow(1, timeout=math.nan))
    with pytest.raises(ValueError, match="timeout=nan: expected a number of seconds"):
        asyncio.run(store.aio.wait_for_message("t", 0, 1, timeout=math.nan))
    store.close()


def test_a_close_confirms_what_it_has_flushed_itself(open_store: Opener) -> None:
    store = open_store(flushDiskType="SYNC_FLUSH")
    (service,) = [service for service in store._services if isinstance(service, GroupCommitService)]
    store._queue_for("t", 0)
    # As where it has looked just before the put, and waits for the GIL.
    service.stop()
    service.join()

    async def main() -> mqstore.PutMessageResult:
        putting = asyncio.create_task(store.aio.put("t", b"1", queue_id=0))
        await asyncio.sleep(0)
        assert not putting.done()
        store.close()
        return await putting

    assert asyncio.run(main()).is_ok


def test_endless_and_huge_timeouts(open_store: Opener) -> None:
    store = open_store()

    async def main(timeout: float) -> bool:
        waiting = asyncio.create_task(store.aio.wait_for_message("t", 0, 0, timeout=timeout))
        await asyncio.sleep(0)
        await asyncio.to_thread(store.put, "t", b"", queue_id=0)
        return await waiting

    ended: list[bool] = []
    thread = threading.Thread(target=lambda: ended.append(store.wait_for_message("t", 0, 0, timeout=math.inf)))
    thread.start()
    wait_until(lambda: bool(store._message_waiters._waiting))
    assert asyncio.run(main(math.inf))
    thread.join()
    assert ended == [True]
    assert asyncio.run(main(1e30))


def test_a_queue_that_is_removed_is_followed_into_the_new_one(open_store: Opener) -> None:
    store = open_store()
    store.put_many("t", [b"0", b"1", b"2"], queue_id=0)
    seen: list[bytes] = []

    def begin_anew() -> None:
        assert store.clean_unused_topic([]) == 1
        store.put_many("t", [b"new"] * 4, queue_id=0)

    def follow() -> None:
        for message in store.topic("t").queue(0).follow(0):
            seen.append(bytes(message.body))
            if len(seen) == 7:
                return

    async def follow_async() -> None:
        async for message in store.aio.follow("t", 0, 0):
            seen.append(bytes(message.body))
            if len(seen) == 7:
                return

    for how in (follow, lambda: asyncio.run(follow_async())):
        thread = threading.Thread(target=how)
        thread.start()
        wait_until(lambda: len(seen) == 3 and bool(store._message_waiters._waiting))
        begin_anew()
        thread.join()
        assert seen == [b"0", b"1", b"2", b"new", b"new", b"new", b"new"]
        store.clean_unused_topic([])
        store.put_many("t", [b"0", b"1", b"2"], queue_id=0)
        seen.clear()


def test_an_offset_ahead_of_the_queue_is_waited_for(open_store: Opener) -> None:
    store = open_store()
    store.put_many("t", [b"0", b"1"], queue_id=0)
    following = store.topic("t").queue(0).follow(3, timeout=0)
    assert list(following) == []
    store.put_many("t", [b"2", b"3"], queue_id=0)
    assert [bytes(message.body) for message in store.topic("t").queue(0).follow(3, timeout=0)] == [b"3"]


def test_a_follower_on_a_slave_goes_on_behind_what_retention_took(open_store: Opener) -> None:
    store = open_store()
    store.put_many("t", [b"%d" % number + bytes(900) for number in range(300)], queue_id=0)
    store.close()
    store = open_store(brokerRole="SLAVE", fileReservedTime=0)
    following = store.topic("t").queue(0).follow(0, timeout=0)
    next(following)
    assert store.execute_delete_files_manually() > 0
    first = store.get_min_offset_in_queue("t", 0)
    assert first > 32
    offsets = [message.queue_offset for message in following]
    assert offsets == [*range(1, 32), *range(first, 300)]


def test_a_loop_that_does_not_run_is_told_once(open_store: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(flushDiskType="SYNC_FLUSH")
    loop = asyncio.new_event_loop()
    loop.run_until_complete(store.aio.put("t", b"1"))
    reached, told = OffsetWaiters.reached, 0

    def counted(self: OffsetWaiters, offset: int) -> None:
        nonlocal told
        reached(self, offset)
        told += 1

    monkeypatch.setattr(OffsetWaiters, "reached", counted)
    wait_until(lambda: told > 20)
    assert len(loop._ready) <= 2  # type: ignore[attr-defined]
    assert loop.run_until_complete(store.aio.put("t", b"1")).is_ok
    loop.close()


@pytest.mark.parametrize("timeout", [None, 100])
def test_a_task_that_is_cancelled_as_it_is_woken_is_cancelled(timeout: float | None) -> None:
    async def main(turns: int) -> bool:
        waking = TaskWaking()
        task = asyncio.create_task(waking.wait(timeout))
        for _ in range(5):
            await asyncio.sleep(0)
        waking.set()
        for _ in range(turns):
            await asyncio.sleep(0)
        is_cancelled = task.cancel()
        [outcome] = await asyncio.gather(task, return_exceptions=True)
        assert isinstance(outcome, asyncio.CancelledError) if is_cancelled else outcome is True
        return is_cancelled

    cancelled = [asyncio.run(main(turns)) for turns in range(10)]
    assert cancelled == sorted(cancelled, reverse=True)
    assert set(cancelled) == {True, False}
