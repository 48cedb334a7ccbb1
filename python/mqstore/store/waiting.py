"""Waiting for the disk, for a slave and for a message; in threads and in asyncio."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from mqstore._native import Message, PutMessageResult
from mqstore.errors import (
    FlushDiskTimeoutError,
    FlushSlaveTimeoutError,
    ServiceNotAvailableError,
    SlaveNotAvailableError,
)
from mqstore.store.arguments import LONG_MIN, check_timeout, checked_integer
from mqstore.store.follower import Follower
from mqstore.store.message_waiters import TaskWaking, Wanted
from mqstore.store.times import Time

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

    from mqstore.store.message_store import MessageStore

__all__ = ["AsyncStore", "wait_in_thread"]

_FOLLOW_INTERVAL = 0.05
"""How often a store that another process writes is looked at, in seconds."""
_now_s = time.monotonic


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
        born_timestamp: Time | None = None,
        wait_store_msg_ok: bool = True,
        unique_key: bool = True,
    ) -> PutMessageResult:
        """As :meth:`MessageStore.put`; with synchronous flush it awaits the disk, as ``SYNC_MASTER`` a slave.

        Many can be under way at once: one flush serves all that came in meanwhile.

        Raises:
            FlushDiskTimeoutError: stored, but not confirmed within ``syncFlushTimeout``.
            FlushSlaveTimeoutError: stored, but not confirmed by a slave within ``slaveTimeout``.
            SlaveNotAvailableError: stored, but no slave is near enough to confirm it.
            StoreIOError: the disk refused it; or stored, but no descriptor is left by which the loop is told of more.
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
        born_timestamp: Time | None = None,
        wait_store_msg_ok: bool = True,
        unique_key: bool = True,
    ) -> PutMessageResult:
        """As :meth:`MessageStore.put_many`; awaits what :meth:`put` does.

        Raises:
            FlushDiskTimeoutError: stored, but not confirmed within ``syncFlushTimeout``.
            FlushSlaveTimeoutError: stored, but not confirmed by a slave within ``slaveTimeout``.
            SlaveNotAvailableError: stored, but no slave is near enough to confirm it.
            StoreIOError: the disk refused it; or stored, but no descriptor is left by which the loop is told of more.
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
        start = result.wrote_offset or 0
        is_slave_ok = store._is_slave_ok(offset)
        if is_slave_ok is None:
            is_flushed, is_transferred = await disk.wait(offset), True
        elif is_slave_ok and store.options.is_sync_flush:
            is_flushed, is_transferred = await asyncio.gather(disk.wait(offset), slave.wait(offset, start))
        else:
            is_flushed = await disk.wait(offset) if store.options.is_sync_flush else True
            is_transferred = await slave.wait(offset, start) if is_slave_ok else False
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
        checked_integer("offset", offset, LONG_MIN)
        return await self._wait(topic, queue_id, lambda end: end > offset, timeout)

    async def _wait(self, topic: str, queue_id: int, wanted: Wanted, timeout: float | None) -> bool:
        check_timeout(timeout)
        store = self._store
        store._check_open()
        time_up = _time_up(timeout)
        if store.mode == "r":
            return await _poll_async(store, topic, queue_id, wanted, time_up)
        arrived = TaskWaking()
        with store._message_waiters.waiting(topic, queue_id, wanted, arrived.set):
            while not wanted(store.get_max_offset_in_queue(topic, queue_id)) and _may_come(store):
                store._check_goes_on()
                if not await arrived.wait(None if time_up is None else time_up - _now_s()):
                    break
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
            store._check_goes_on()
            if not arrived.wait(left):
                break
            arrived.clear()
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
