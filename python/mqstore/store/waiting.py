"""Waiting: for a message in a queue, for the disk and for a slave; in threads and in asyncio."""

import asyncio
import contextlib
import heapq
import itertools
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import TYPE_CHECKING, Any

from mqstore._native import Arrival, Message, PutMessageResult
from mqstore.errors import FlushDiskTimeoutError, FlushSlaveTimeoutError, SlaveNotAvailableError

if TYPE_CHECKING:
    from mqstore.store.message_store import MessageStore

__all__ = ["AsyncStore", "MessageWaiters", "OffsetWaiters", "wait_in_thread"]

_FOLLOW_INTERVAL = 0.05
"""How often a store that another process writes is looked at, in seconds."""


class MessageWaiters:
    """Calls back when a queue has passed an offset."""

    def __init__(self, store: "MessageStore") -> None:
        """Nobody waits yet."""
        self._store = store
        self._lock = threading.Lock()
        self._waiting: dict[tuple[str, int], dict[int, tuple[int, Callable[[], None]]]] = {}
        self._numbers = itertools.count()
        self._remove_listener: Callable[[], None] | None = None

    @contextlib.contextmanager
    def waiting(self, topic: str, queue_id: int, offset: int, woken: Callable[[], None]) -> Iterator[None]:
        """Calls ``woken``, once or more, as soon as the queue's end is behind the offset."""
        number = next(self._numbers)
        with self._lock:
            self._waiting.setdefault((topic, queue_id), {})[number] = (offset, woken)
            if self._remove_listener is None:
                self._remove_listener = self._store.add_listener(self._arrived)
        try:
            # What came before the listener was there is seen here.
            if self._store.get_max_offset_in_queue(topic, queue_id) > offset:
                woken()
            yield
        finally:
            self._remove((topic, queue_id), number)

    def _remove(self, queue: tuple[str, int], number: int) -> None:
        with self._lock:
            of_queue = self._waiting.get(queue, {})
            of_queue.pop(number, None)
            if not of_queue:
                self._waiting.pop(queue, None)
            if not self._waiting and self._remove_listener is not None:
                self._remove_listener()
                self._remove_listener = None

    def _arrived(self, arrivals: list[Arrival]) -> None:
        with self._lock:
            due = [
                woken
                for arrival in arrivals
                for offset, woken in self._waiting.get((arrival.topic, arrival.queue_id), {}).values()
                if arrival.max_offset > offset
            ]
        for woken in due:
            woken()

    def wake_all(self) -> None:
        """The store is closed: whoever waits looks again, and finds that."""
        with self._lock:
            due = [woken for of_queue in self._waiting.values() for _, woken in of_queue.values()]
        for woken in due:
            woken()


class OffsetWaiters:
    """asyncio tasks that wait until the log is safe up to an offset: on the disk, or at a slave."""

    def __init__(self) -> None:
        """Nobody waits yet."""
        self._lock = threading.Lock()
        self._waiting: list[tuple[int, int, asyncio.AbstractEventLoop, asyncio.Future[None]]] = []
        self._numbers = itertools.count()

    def add(self, offset: int) -> "asyncio.Future[None]":
        """A future of the running loop that is done once the log is safe up to the offset."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        with self._lock:
            heapq.heappush(self._waiting, (offset, next(self._numbers), loop, future))
        return future

    def reached(self, offset: int) -> None:
        """The log is safe up to here."""
        with self._lock:
            due = []
            while self._waiting and self._waiting[0][0] <= offset:
                due.append(heapq.heappop(self._waiting))
        _resolve(due, None)

    def failed(self, error: BaseException) -> None:
        """It will not get there any more."""
        with self._lock:
            due, self._waiting = self._waiting, []
        _resolve(due, error)


def _resolve(
    due: list[tuple[int, int, asyncio.AbstractEventLoop, "asyncio.Future[None]"]], error: BaseException | None
) -> None:
    by_loop: dict[asyncio.AbstractEventLoop, list[asyncio.Future[None]]] = {}
    for _, _, loop, future in due:
        by_loop.setdefault(loop, []).append(future)

    def resolve(futures: list["asyncio.Future[None]"]) -> None:
        for future in futures:
            if not future.done():
                if error is None:
                    future.set_result(None)
                else:
                    future.set_exception(error)

    for loop, futures in by_loop.items():
        # A loop that was closed meanwhile has nobody left who waits.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(resolve, futures)


class AsyncStore:
    """The asyncio twins of what waits: ``store.aio``."""

    def __init__(self, store: "MessageStore") -> None:
        """The twins of a store."""
        self._store = store

    async def put(self, topic: str, body: bytes, **given: Any) -> PutMessageResult:
        """As :meth:`MessageStore.put`; with synchronous flush it awaits the disk, as ``SYNC_MASTER`` a slave.

        Many can be under way at once: one flush serves all that came in meanwhile.

        Raises:
            FlushDiskTimeoutError: stored, but not confirmed within ``syncFlushTimeout``.
            FlushSlaveTimeoutError: stored, but not confirmed by a slave within ``slaveTimeout``.
            SlaveNotAvailableError: stored, but no slave is near enough to confirm it.
            PutError: not stored.
        """
        result, wait_for = self._store._put_begin(topic, body, **given)
        if wait_for is not None:
            await self._confirmed(wait_for, result)
        return result

    async def put_many(self, topic: str, bodies: list[bytes], **given: Any) -> PutMessageResult:
        """As :meth:`MessageStore.put_many`; awaits what :meth:`put` does.

        Raises:
            FlushDiskTimeoutError: stored, but not confirmed within ``syncFlushTimeout``.
            FlushSlaveTimeoutError: stored, but not confirmed by a slave within ``slaveTimeout``.
            SlaveNotAvailableError: stored, but no slave is near enough to confirm it.
            PutError: not stored from some message on.
        """
        result, wait_for = self._store._put_many_begin(topic, bodies, **given)
        if wait_for is not None:
            await self._confirmed(wait_for, result)
        return result

    async def _confirmed(self, offset: int, result: PutMessageResult) -> None:
        """Awaits what a put waits for; what is wrong with the slave counts before what is with the disk."""
        is_slave_ok = self._store._is_slave_ok(offset)
        waits = []
        if is_slave_ok is not None:
            waits.append(self._transferred(offset, result, is_slave_ok=is_slave_ok))
        if self._store.options.is_sync_flush:
            waits.append(self._flushed(offset, result))
        for outcome in await asyncio.gather(*waits, return_exceptions=True):
            if outcome is not None:
                raise outcome

    async def _transferred(self, offset: int, result: PutMessageResult, *, is_slave_ok: bool) -> None:
        store = self._store
        timeout_ms = store.options.slave_timeout
        error: FlushSlaveTimeoutError | SlaveNotAvailableError
        if is_slave_ok:
            waiters = store._transfer_waiters
            if await _is_reached(waiters, offset, store._push2_slave_max_offset, timeout_ms):
                return
            error = FlushSlaveTimeoutError(f"the message is stored; a slave did not confirm it within {timeout_ms} ms")
        else:
            error = SlaveNotAvailableError("the message is stored; no slave is near enough to confirm it")
        error.result = result
        raise error

    async def _flushed(self, offset: int, result: PutMessageResult) -> None:
        store = self._store
        timeout_ms = store.options.sync_flush_timeout
        if not await _is_reached(store._flush_waiters, offset, store.get_flushed_where, timeout_ms):
            error = FlushDiskTimeoutError(f"the message is stored; the disk did not confirm it within {timeout_ms} ms")
            error.result = result
            raise error

    async def wait_for_message(self, topic: str, queue_id: int, offset: int, *, timeout: float | None = None) -> bool:
        """As :meth:`MessageStore.wait_for_message`, without holding up the loop."""
        store = self._store
        if store.mode == "r":
            return await asyncio.to_thread(store.wait_for_message, topic, queue_id, offset, timeout=timeout)
        loop = asyncio.get_running_loop()
        arrived = asyncio.Event()

        def woken() -> None:
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(arrived.set)

        with store._message_waiters.waiting(topic, queue_id, offset, woken), contextlib.suppress(TimeoutError):
            await asyncio.wait_for(arrived.wait(), timeout)
        store._check_open()
        return store.get_max_offset_in_queue(topic, queue_id) > offset

    async def follow(
        self, topic: str, queue_id: int, offset: int | None = None, *, timeout: float | None = None
    ) -> AsyncIterator[Message]:
        """The messages of a queue from an offset on, waiting for new ones; see :meth:`Queue.follow`."""
        store = self._store
        queue = store.topic(topic).queue(queue_id)
        next_offset = queue.max_offset if offset is None else max(offset, queue.min_offset)
        while await self.wait_for_message(topic, queue_id, next_offset, timeout=timeout):
            found = store.get_message(topic, queue_id, next_offset, 32)
            for message in found.messages:
                yield message
            next_offset = found.next_begin_offset

    def __repr__(self) -> str:
        """Whose twins."""
        return f"<AsyncStore of {self._store!r}>"


async def _is_reached(waiters: OffsetWaiters, offset: int, now: Callable[[], int], timeout_ms: int) -> bool:
    """Waits until an offset is reached; gives whether it is, before the time is up."""
    future = waiters.add(offset)
    # What was reached between the put and now is seen here.
    waiters.reached(now())
    try:
        await asyncio.wait_for(future, timeout_ms / 1000)
    except TimeoutError:
        return False
    return True


def wait_in_thread(store: "MessageStore", topic: str, queue_id: int, offset: int, timeout: float | None) -> bool:
    """Waits until a queue has a message at an offset; gives whether it has, before the time is up."""
    if store.get_max_offset_in_queue(topic, queue_id) > offset:
        return True
    arrived = threading.Event()
    if store.mode == "rw":
        with store._message_waiters.waiting(topic, queue_id, offset, arrived.set):
            arrived.wait(timeout)
        store._check_open()
    else:
        _poll(store, topic, queue_id, offset, timeout)
    return store.get_max_offset_in_queue(topic, queue_id) > offset


def _poll(store: "MessageStore", topic: str, queue_id: int, offset: int, timeout: float | None) -> None:
    """Looks again and again at what the writer, another process, has added."""
    end = None if timeout is None else time.monotonic() + timeout
    while True:
        store.refresh()
        if store.get_max_offset_in_queue(topic, queue_id) > offset:
            return
        if end is not None and time.monotonic() >= end:
            return
        time.sleep(_FOLLOW_INTERVAL if end is None else min(_FOLLOW_INTERVAL, max(0.0, end - time.monotonic())))
