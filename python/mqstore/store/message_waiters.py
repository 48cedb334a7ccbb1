"""Who waits for a message in a queue, in threads and in asyncio."""

import asyncio
import contextlib
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from mqstore._native import Arrival
from mqstore.errors import StoreClosedError
from mqstore.store.listeners import Listener

if TYPE_CHECKING:
    from mqstore.store.message_store import MessageStore

__all__ = ["MessageWaiters", "TaskWaking", "Wanted"]

Wanted = Callable[[int], bool]
"""Whether a queue that ends at an offset is what somebody waits for."""


class TaskWaking:
    """Wakes a task that waits. Made in its loop."""

    def __init__(self) -> None:
        """It is not woken."""
        self._loop, self._event = asyncio.get_running_loop(), asyncio.Event()

    def set(self) -> None:
        """Wakes it, or has its next wait end at once. Called by any thread."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._event.set)

    async def wait(self, timeout: float | None) -> bool:
        """Waits at most so many seconds; gives whether it was woken."""
        try:
            # Not `wait_for`: before Python 3.12 it keeps a cancellation to itself that comes with what it waits for.
            async with asyncio.timeout(timeout):
                await self._event.wait()
        except TimeoutError:
            return False
        self._event.clear()
        return True


class _Waiter:
    """Somebody who waits: whoever does has it, so that nothing is left of one that Ctrl-C ends anywhere."""

    def __init__(self, wanted: Wanted, woken: Callable[[], None]) -> None:
        self.wanted = wanted
        self.woken = woken


class MessageWaiters:
    """Calls back when a queue's end is what somebody waits for."""

    def __init__(self, store: "MessageStore") -> None:
        """Nobody waits yet."""
        self._store = store
        # A signal's handler may wait, or close the store, where this thread has it.
        self._lock = threading.RLock()
        self._waiting: dict[tuple[str, int], dict[weakref.ref[_Waiter], None]] = {}

    @contextlib.contextmanager
    def waiting(self, topic: str, queue_id: int, wanted: Wanted, woken: Callable[[], None]) -> Iterator[None]:
        """Calls ``woken``, once or more, as soon as the queue's end is what is wanted, or was for a while."""
        queue, waiter = (topic, queue_id), _Waiter(wanted, woken)
        known = weakref.ref(waiter)
        try:
            with self._lock:
                of_queue = self._waiting.get(queue, {})
                of_queue[known] = None
                # At last: a handler that waited meanwhile has taken away what was empty.
                self._waiting[queue] = of_queue
                self._store._listeners.add(self._listener)
            # What came before the listener was there is seen here.
            if wanted(self._store.get_max_offset_in_queue(topic, queue_id)):
                woken()
            yield
        finally:
            self._remove(queue, known)

    def _remove(self, queue: tuple[str, int], known: "weakref.ref[_Waiter]") -> None:
        with self._lock:
            of_queue = self._waiting.get(queue, {})
            of_queue.pop(known, None)
            if not of_queue:
                self._waiting.pop(queue, None)
            if not self._waiting:
                self._store._listeners.remove(self._listener)

    def _listener(self) -> Listener | None:
        return self._arrived if self._waiting else None

    def _arrived(self, arrivals: list[Arrival]) -> None:
        # However many came to a queue, who waits for it is asked for two of its ends and not for each: between
        # them it may have begun anew.
        ends: dict[tuple[str, int], set[int]] = {}
        for arrival in arrivals:
            ends.setdefault((arrival.topic, arrival.queue_id), set()).add(arrival.max_offset)
        bounds = [(queue, {min(those), max(those)}) for queue, those in ends.items()]
        self._wake(
            lambda: (waiter for queue, those in bounds for waiter in self._of(queue) if any(map(waiter.wanted, those)))
        )

    def wake_all(self) -> None:
        """The store is closed: whoever waits looks again, and finds that."""
        self._wake(lambda: (waiter for queue in list(self._waiting) for waiter in self._of(queue)))

    def _of(self, queue: tuple[str, int]) -> list[_Waiter]:
        """Who waits for a queue; those that Ctrl-C has ended go."""
        waiters = []
        of_queue = self._waiting.get(queue, {})
        for known in list(of_queue):
            waiter = known()
            if waiter is None:
                of_queue.pop(known, None)
            else:
                waiters.append(waiter)
        if not of_queue:
            self._waiting.pop(queue, None)
        return waiters

    def _wake(self, due: Callable[[], Iterable[_Waiter]]) -> None:
        try:
            with self._store._holding(self._lock):
                waiters = list(due())
        except (ReferenceError, StoreClosedError):  # nobody has it any more, or who closes it wakes all
            return
        for waiter in waiters:
            waiter.woken()
