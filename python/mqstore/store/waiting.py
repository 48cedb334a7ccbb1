"""Waiting for the disk, for a slave and for a message; in threads and in asyncio."""

import asyncio
import contextlib
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from mqstore._native import Bell, Message, PutMessageResult
from mqstore.errors import (
    FlushDiskTimeoutError,
    FlushSlaveTimeoutError,
    ServiceNotAvailableError,
    SlaveNotAvailableError,
)
from mqstore.store.arguments import check_timeout
from mqstore.store.follower import Follower
from mqstore.store.message_waiters import Wanted
from mqstore.store.times import Time

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

    from mqstore.store.message_store import MessageStore

__all__ = ["AsyncStore", "OffsetWaiters", "wait_in_thread"]

_FOLLOW_INTERVAL = 0.05
"""How often a store that another process writes is looked at, in seconds."""
_LINGER = 0.1
"""For how long a loop of which nobody waits any more counts as one whose next put comes soon, in seconds."""

# Each is called once a put, of which looking a name up in two modules would be a part.
_Future, _running_loop, _now_s = asyncio.Future, asyncio.get_running_loop, time.monotonic


class _OfLoop:
    """The tasks of one event loop that wait, by their offsets. Used in the loop's thread alone."""

    def __init__(self, waiters: "OffsetWaiters", loop: asyncio.AbstractEventLoop) -> None:
        self.bell = Bell()
        self._waiters = waiters
        self._loop = loop
        loop.add_reader(self.bell.fileno(), self._rung)
        self._timer: asyncio.TimerHandle | None = None
        self.is_told = False
        """Whether it is to look already: a loop that does not run would keep every call."""
        self.told = 0
        """How far it was told that it is."""
        # A loop puts one message after the other: offsets and times come in their order.
        self._waiting: deque[tuple[int, float, asyncio.Future[bool]]] = deque()

    def add(self, offset: int) -> "asyncio.Future[bool]":
        future: asyncio.Future[bool] = _Future(loop=self._loop)
        waiting = self._waiting
        if not waiting:
            self._call_later(self._waiters.timeout_s, self._expire)
        waiting.append((offset, _now_s(), future))
        return future

    def look(self) -> None:
        """Looks how far it is."""
        self.is_told = False
        self.reached(max(self.told, self._waiters.now()))

    def _rung(self) -> None:
        self.bell.silence()
        self.reached(self._waiters.now())

    def reached(self, offset: int) -> None:
        waiting = self._waiting
        if not waiting:
            return
        while waiting and waiting[0][0] <= offset:
            future = waiting.popleft()[2]
            # A task that was cancelled does not wait any more.
            if not future.done():
                future.set_result(True)
        self._rest()

    def failed(self, error: BaseException | None) -> None:
        if not self._waiting:
            return
        while self._waiting:
            future = self._waiting.popleft()[2]
            if future.done():
                continue
            if error is None:
                future.set_result(False)
            else:
                future.set_exception(error)
        self._rest()

    def _expire(self) -> None:
        began_by = _now_s() - self._waiters.timeout_s
        while self._waiting and self._waiting[0][1] <= began_by:
            future = self._waiting.popleft()[2]
            if not future.done():
                future.set_result(False)
        if self._waiting:
            self._call_later(self._waiting[0][1] - began_by, self._expire)
        self._rest()

    def _rest(self) -> None:
        if not self._waiting:
            self._call_later(_LINGER, self._end)

    def _end(self) -> None:
        self._loop.remove_reader(self.bell.fileno())
        self._waiters.drop(self._loop, self)

    def _call_later(self, delay_s: float, call: Callable[[], None]) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(delay_s, call)


class OffsetWaiters:
    """asyncio tasks that wait until the log is safe up to an offset: on the disk, or at a slave."""

    def __init__(self, timeout_ms: int, now: Callable[[], int], changed: Callable[[], None] | None = None) -> None:
        """Nobody waits yet.

        Args:
            timeout_ms: How long each waits.
            now: Up to where the log is safe.
            changed: Called when the bells to ring are others than before.
        """
        self.timeout_s = timeout_ms / 1000
        self.now = now
        self._changed = changed
        # Without a lock: a signal's handler may close the store, and so wait for a service that asks for it.
        self._loops: dict[asyncio.AbstractEventLoop, _OfLoop] = {}

    @property
    def in_time(self) -> str:
        """How long each waits, in words."""
        return f"within {self.timeout_s * 1000:.0f} ms"

    def bells(self) -> list[Bell]:
        """Which bells tell those who wait to look again."""
        return [of_loop.bell for of_loop in list(self._loops.values())]

    def wait(self, offset: int) -> "asyncio.Future[bool]":
        """A future of the running loop: whether the log is safe up to the offset before the time is up."""
        loop = _running_loop()
        of_loop = self._loops.get(loop)
        if of_loop is not None:
            return of_loop.add(offset)
        of_loop = self._loops[loop] = _OfLoop(self, loop)
        self._tell_changed()
        future = of_loop.add(offset)
        # Nobody told this loop of what was reached between the put and now.
        of_loop.reached(self.now())
        return future

    def reached(self, offset: int) -> None:
        """The log is safe up to here. Called by any thread."""
        for loop, of_loop in self._told():
            of_loop.told = max(of_loop.told, offset)
            if not of_loop.is_told:
                of_loop.is_told = True
                self._call_in(loop, of_loop, of_loop.look)

    def failed(self, error: BaseException) -> None:
        """It will not get there any more. Called by any thread."""
        for loop, of_loop in self._told():
            self._call_in(loop, of_loop, of_loop.failed, error)

    def given_up(self) -> None:
        """Nobody will say any more whether it got there. Called by any thread."""
        for loop, of_loop in self._told():
            self._call_in(loop, of_loop, of_loop.failed, None)

    def _told(self) -> list[tuple[asyncio.AbstractEventLoop, _OfLoop]]:
        return list(self._loops.items())

    def _call_in(
        self, loop: asyncio.AbstractEventLoop, of_loop: _OfLoop, call: Callable[..., None], *given: object
    ) -> None:
        try:
            loop.call_soon_threadsafe(call, *given)
        except RuntimeError:
            # A loop that was closed meanwhile has nobody left who waits.
            self.drop(loop, of_loop)

    def drop(self, loop: asyncio.AbstractEventLoop, of_loop: _OfLoop) -> None:
        """Of these tasks none waits any more. Others of the same loop may, by now."""
        if self._loops.get(loop) is not of_loop:
            return
        # By its own thread, or once it is closed and nobody waits in it: another one does not come in between.
        self._loops.pop(loop, None)
        self._tell_changed()

    def _tell_changed(self) -> None:
        if self._changed is not None:
            self._changed()


class AsyncStore:
    """The asyncio twins of what waits: ``store.aio``."""

    def __init__(self, store: "MessageStore") -> None:
        """The twins of a store."""
        self._store = store
        self._put_begin = store._put_begin
        self._disk = store._flush_waiters
        self._awaits_slave = store.options.broker_role == "SYNC_MASTER"

    async def put(
        self,
        topic: str,
        body: "ReadableBuffer",
        *,
        keys: str | Iterable[str] | None = None,
        tags: str | None = None,
        queue_id: int | None = None,
        properties: Mapping[str, str] | None = None,
        flag: int = 0,
        sys_flag: int = 0,
        delay_time_level: int = 0,
        deliver_at: Time | None = None,
        born_timestamp: int | None = None,
        wait_store_msg_ok: bool = True,
        unique_key: bool = True,
    ) -> PutMessageResult:
        """As :meth:`MessageStore.put`; with synchronous flush it awaits the disk, as ``SYNC_MASTER`` a slave.

        Many can be under way at once: one flush serves all that came in meanwhile.

        Raises:
            FlushDiskTimeoutError: stored, but not confirmed within ``syncFlushTimeout``.
            FlushSlaveTimeoutError: stored, but not confirmed by a slave within ``slaveTimeout``.
            SlaveNotAvailableError: stored, but no slave is near enough to confirm it.
            PutError: not stored.
        """
        # By position: names take a fifth longer.
        result, wait_for = self._put_begin(
            topic,
            body,
            keys,
            tags,
            queue_id,
            properties,
            flag,
            sys_flag,
            delay_time_level,
            deliver_at,
            born_timestamp,
            wait_store_msg_ok,
            unique_key,
        )
        if wait_for is None:
            return result
        if self._awaits_slave:
            await self._confirmed(wait_for, result)
        # Without a coroutine in between, which would be a part of what a put takes.
        elif not await self._disk.wait(wait_for):
            raise self._late_on_disk(result)
        return result

    async def put_many(
        self,
        topic: str,
        bodies: "Sequence[ReadableBuffer]",
        *,
        keys: Sequence[str | Iterable[str] | None] | None = None,
        tags: str | Sequence[str | None] | None = None,
        queue_id: int | None = None,
        properties: Mapping[str, str] | Sequence[Mapping[str, str]] | None = None,
        flag: int = 0,
        deliver_at: Time | Sequence[Time | None] | None = None,
        born_timestamp: int | None = None,
        wait_store_msg_ok: bool = True,
        unique_key: bool = True,
    ) -> PutMessageResult:
        """As :meth:`MessageStore.put_many`; awaits what :meth:`put` does.

        Raises:
            FlushDiskTimeoutError: stored, but not confirmed within ``syncFlushTimeout``.
            FlushSlaveTimeoutError: stored, but not confirmed by a slave within ``slaveTimeout``.
            SlaveNotAvailableError: stored, but no slave is near enough to confirm it.
            PutError: not stored from some message on.
        """
        result, wait_for = self._store._put_many_begin(
            topic,
            bodies,
            keys,
            tags,
            queue_id,
            properties,
            flag,
            deliver_at,
            born_timestamp,
            wait_store_msg_ok,
            unique_key,
        )
        if wait_for is not None:
            await self._confirmed(wait_for, result)
        return result

    def _late_on_disk(self, result: PutMessageResult) -> FlushDiskTimeoutError:
        error = FlushDiskTimeoutError(f"the message is stored; the disk did not confirm it {self._disk.in_time}")
        error.result = result
        return error

    async def _confirmed(self, offset: int, result: PutMessageResult) -> None:
        """Awaits what a put waits for; what is wrong with the slave counts before what is with the disk."""
        store, disk, slave = self._store, self._disk, self._store._transfer_waiters
        is_slave_ok = store._is_slave_ok(offset)
        if is_slave_ok is None:
            is_flushed, is_transferred = await disk.wait(offset), True
        elif is_slave_ok and store.options.is_sync_flush:
            is_flushed, is_transferred = await asyncio.gather(disk.wait(offset), slave.wait(offset))
        else:
            is_flushed = await disk.wait(offset) if store.options.is_sync_flush else True
            is_transferred = await slave.wait(offset) if is_slave_ok else False
        if is_flushed and is_transferred:
            return
        if is_transferred:
            raise self._late_on_disk(result)
        error: FlushSlaveTimeoutError | SlaveNotAvailableError
        if is_slave_ok is False:
            error = SlaveNotAvailableError("the message is stored; no slave is near enough to confirm it")
        else:
            error = FlushSlaveTimeoutError(f"the message is stored; a slave did not confirm it {slave.in_time}")
        error.result = result
        raise error

    async def wait_for_message(self, topic: str, queue_id: int, offset: int, *, timeout: float | None = None) -> bool:
        """As :meth:`MessageStore.wait_for_message`, without holding up the loop."""
        return await self._wait(topic, queue_id, lambda end: end > offset, timeout)

    async def _wait(self, topic: str, queue_id: int, wanted: Wanted, timeout: float | None) -> bool:
        check_timeout(timeout)
        store = self._store
        store._check_open()
        time_up = _time_up(timeout)
        if store.mode == "r":
            return await _poll_async(store, topic, queue_id, wanted, time_up)
        loop = asyncio.get_running_loop()
        arrived = asyncio.Event()

        def woken() -> None:
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(arrived.set)

        with store._message_waiters.waiting(topic, queue_id, wanted, woken), contextlib.suppress(TimeoutError):
            while not wanted(store.get_max_offset_in_queue(topic, queue_id)) and _may_come(store):
                await asyncio.wait_for(arrived.wait(), None if time_up is None else time_up - _now_s())
                arrived.clear()
                store._check_open()
        store._check_open()
        return _has_come(store, wanted(store.get_max_offset_in_queue(topic, queue_id)))

    async def follow(
        self, topic: str, queue_id: int, offset: int | None = None, *, timeout: float | None = None
    ) -> AsyncIterator[Message]:
        """The messages of a queue from an offset on, waiting for new ones; see :meth:`Queue.follow`."""
        follower = Follower(self._store.topic(topic).queue(queue_id), offset)
        while await self._wait(topic, queue_id, follower.is_wanted, timeout):
            for message in follower.take():
                yield message

    def __repr__(self) -> str:
        """Whose twins."""
        return f"<AsyncStore of {self._store!r}>"


def wait_in_thread(store: "MessageStore", topic: str, queue_id: int, wanted: Wanted, timeout: float | None) -> bool:
    """Waits until a queue's end is what is wanted; gives whether it is, before the time is up."""
    check_timeout(timeout)
    store._check_open()
    if wanted(store.get_max_offset_in_queue(topic, queue_id)):
        return True
    time_up = _time_up(timeout)
    if store.mode == "r":
        return _poll(store, topic, queue_id, wanted, time_up)
    arrived = threading.Event()
    with store._message_waiters.waiting(topic, queue_id, wanted, arrived.set):
        while not wanted(store.get_max_offset_in_queue(topic, queue_id)) and _may_come(store):
            left = threading.TIMEOUT_MAX if time_up is None else min(time_up - _now_s(), threading.TIMEOUT_MAX)
            if not arrived.wait(left):
                break
            arrived.clear()
            store._check_open()
    store._check_open()
    return _has_come(store, wanted(store.get_max_offset_in_queue(topic, queue_id)))


def _may_come(store: "MessageStore") -> bool:
    """Whether anything comes that is not there yet: not once a service has died, but for what is to be dispatched."""
    if store._engine.halted is None:
        return True
    store._catch_up()
    return False


def _has_come(store: "MessageStore", is_there: bool) -> bool:  # noqa: FBT001 - what it gives
    """Whether what was waited for has come.

    Raises:
        ServiceNotAvailableError: it has not, and never will: a service has died.
    """
    if not is_there and store._engine.halted is not None:
        raise ServiceNotAvailableError(store._engine.halted)
    return is_there


def _poll(store: "MessageStore", topic: str, queue_id: int, wanted: Wanted, time_up: float | None) -> bool:
    """Looks again and again at what the writer, another process, has added."""
    while True:
        store.refresh()
        pause_s = _pause_s(time_up)
        if wanted(store.get_max_offset_in_queue(topic, queue_id)):
            return True
        if pause_s is None:
            return False
        time.sleep(pause_s)


async def _poll_async(store: "MessageStore", topic: str, queue_id: int, wanted: Wanted, time_up: float | None) -> bool:
    """As :func:`_poll`. No thread waits in it: one could not be told that the task was cancelled."""
    while not wanted(store.get_max_offset_in_queue(topic, queue_id)):
        await asyncio.to_thread(store.refresh)
        pause_s = _pause_s(time_up)
        if wanted(store.get_max_offset_in_queue(topic, queue_id)):
            break
        if pause_s is None:
            return False
        await asyncio.sleep(pause_s)
    return True


def _time_up(timeout: float | None) -> float | None:
    """When so many seconds are up."""
    return None if timeout is None else _now_s() + timeout


def _pause_s(time_up: float | None) -> float | None:
    """For how long to wait until the next look; ``None`` once the time is up."""
    if time_up is None:
        return _FOLLOW_INTERVAL
    left = time_up - _now_s()
    return min(_FOLLOW_INTERVAL, left) if left > 0 else None
