"""Pulls that found nothing are held until something arrives.

With long polling a pull is held for up to fifteen seconds; what arrives ends it at once where its tag may
be wanted, and every five seconds it is looked whether something came unnoticed. With short polling it is
held for ``shortPollingTimeMills``, a millisecond at least. Beside another process's store its writer is looked at
meanwhile.
Source: ``PullRequestHoldService``, ``NotifyMessageArrivingListener``.
"""

import asyncio
import contextlib
import queue
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from mqstore._native import Arrival
from mqstore.store.message_waiters import TaskWaking

if TYPE_CHECKING:
    from mqstore.store.message_store import MessageStore

__all__ = ["Held", "PullHold", "Waking"]

_BROKER_SUSPEND_MAX_TIME_MS = 15_000
_CHECK_INTERVAL_MS = 5_000
_LEAST_HOLD_MS = 1
"""Not held at all, a poll would neither see that its time is up nor let other tasks of its loop have their turn."""
_FOLLOW_INTERVAL_MS = 50

Held = Mapping[tuple[str, int], tuple[int, frozenset[int] | None]]
"""Queues with the offsets and the tags' hashes that are waited for."""


class Waking:
    """Wakes a thread that polls. An event of ``threading``'s would keep its lock where Ctrl-C comes into its middle."""

    def __init__(self) -> None:
        """It is not woken."""
        self._signs: queue.SimpleQueue[None] = queue.SimpleQueue()

    def set(self) -> None:
        """Wakes it, or has its next wait end at once."""
        if self._signs.empty():
            self._signs.put(None)

    def wait(self, timeout: float) -> bool:
        """Waits at most so many seconds; gives whether it was woken."""
        try:
            self._signs.get(timeout=max(timeout, 0))
        except queue.Empty:
            return False
        return True


class PullHold:
    """Holds a consumer's pulls."""

    def __init__(self, store: "MessageStore") -> None:
        """Holds pulls of a store."""
        self._store = store

    @property
    def longest(self) -> float:
        """For how many seconds a pull is held at most."""
        options = self._store.options
        if options.long_polling_enable:
            return _BROKER_SUSPEND_MAX_TIME_MS / 1000
        return max(options.short_polling_time_mills, _LEAST_HOLD_MS) / 1000

    def wait(self, held: Held | None, timeout: float, woken: Waking) -> bool:
        """Waits until something may have come, at most so many seconds; gives whether it may.

        Where pulls have only been broken off, so that others have their turn, that is all that it waits for.
        """
        if held is None:
            time.sleep(timeout)
            return True
        end = time.monotonic() + timeout
        with self._told(held, woken.set):
            while not self._has_come(held):
                left = end - time.monotonic()
                if left <= 0:
                    return False
                if woken.wait(min(left, self._interval())):
                    break
        return True

    async def wait_async(self, held: Held | None, timeout: float, woken: TaskWaking) -> bool:
        """As :meth:`wait`, without holding up the loop."""
        if held is None:
            await asyncio.sleep(timeout)
            return True
        end = time.monotonic() + timeout
        with self._told(held, woken.set):
            while not await asyncio.to_thread(self._has_come, held):
                left = end - time.monotonic()
                if left <= 0:
                    return False
                if await woken.wait(min(left, self._interval())):
                    break
        return True

    def _interval(self) -> float:
        if self._store.mode == "r":
            return _FOLLOW_INTERVAL_MS / 1000
        is_long = self._store.options.long_polling_enable
        return self._store._at_once((_CHECK_INTERVAL_MS if is_long else _BROKER_SUSPEND_MAX_TIME_MS) / 1000)

    def _has_come(self, held: Held) -> bool:
        store = self._store
        store._check_goes_on()
        if store.mode == "r":
            store.refresh()
        elif not store.options.long_polling_enable:
            return False
        return any(
            store.get_max_offset_in_queue(topic, queue_id) > offset for (topic, queue_id), (offset, _) in held.items()
        )

    @contextlib.contextmanager
    def _told(self, held: Held, wake: Callable[[], None]) -> Iterator[None]:
        """Calls ``wake`` when something arrives that may be wanted."""
        if self._store.mode == "r" or not self._store.options.long_polling_enable:
            yield
            return

        def arrived(arrivals: list[Arrival]) -> None:
            for arrival in arrivals:
                offset, codes = held.get((arrival.topic, arrival.queue_id), (arrival.max_offset, None))
                if arrival.max_offset > offset and (codes is None or _as_int(arrival.tags_code) in codes):
                    wake()
                    return

        found = weakref.ref(arrived)
        try:
            self._store._listeners.add(found)
            yield
        finally:
            self._store._listeners.remove(found)


def _as_int(tags_code: int) -> int:
    """Java's ``intValue``."""
    return ((tags_code + (1 << 31)) & 0xFFFFFFFF) - (1 << 31)
