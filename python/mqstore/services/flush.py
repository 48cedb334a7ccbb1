"""Flushing. Source: ``FlushRealTimeService``, ``GroupCommitService``, ``FlushConsumeQueueService``."""

import math
import time
from typing import TYPE_CHECKING

from mqstore.errors import ServiceNotAvailableError
from mqstore.services.service import LEAST_WAIT_MS, ServiceThread

if TYPE_CHECKING:
    from mqstore.store.message_store import MessageStore

__all__ = ["FlushConsumeQueueService", "FlushRealTimeService", "GroupCommitService"]


def _now_ms() -> float:
    return time.monotonic() * 1000


class FlushRealTimeService(ServiceThread):
    """Flushes the log every so often, once enough pages are full; now and then all of it."""

    def __init__(self, store: "MessageStore") -> None:
        """A service of a store, not started yet."""
        super().__init__(store)
        self._last_thorough_ms = _now_ms()

    def make_pass(self) -> None:
        """Waits for the interval, or for a put where flushing does not go by time, and flushes."""
        options = self.options
        if options.flush_commit_log_timed:
            self.wait(options.flush_interval_commit_log)
        else:
            self.engine.wait_flush_requested(max(options.flush_interval_commit_log, LEAST_WAIT_MS))
        if self._stopping.is_set():
            return
        least_pages = options.flush_commit_log_least_pages
        if _now_ms() >= self._last_thorough_ms + options.flush_commit_log_thorough_interval:
            self._last_thorough_ms = _now_ms()
            least_pages = 0
        self.engine.flush_commit_log(least_pages)


class GroupCommitService(ServiceThread):
    """Flushes as soon as a put waits for it: one flush serves all that came in meanwhile."""

    _MAX_WAIT_MS = 10

    def __init__(self, store: "MessageStore") -> None:
        """A service of a store, not started yet."""
        super().__init__(store)
        self._waiters = store._flush_waiters

    def make_pass(self) -> None:
        """Waits for puts that wait, and flushes for them until nobody puts any more.

        The engine itself tells those who wait: a loop that has work to do does not give the GIL away for that.
        """
        waiters = self._waiters
        waiters.reached(self.engine.group_commit(self._MAX_WAIT_MS, waiters.bells()))

    def run(self) -> None:
        """As any service; once it has ended who puts in a thread waits for none of its flushes.

        A close comes to what waits for such a put: it would wait as long as the put does. Of one that died who waits is
        told.
        """
        super().run()
        if self._stopping.is_set():
            self.engine.end_group_commit()

    def failed(self, error: BaseException) -> None:
        """A failed flush is final: everybody who waits is told."""
        self._waiters.failed(error)
        super().failed(error)

    def died(self, error: BaseException) -> None:
        """Nobody flushes any more for those who wait."""
        super().died(error)
        self._waiters.failed(ServiceNotAvailableError(f"{self.name} died: {error!r}"))


class FlushConsumeQueueService(ServiceThread):
    """Flushes queues with enough to flush; at first, for what the opening dispatched, and now and then everything."""

    def __init__(self, store: "MessageStore") -> None:
        """A service of a store, not started yet."""
        super().__init__(store)
        self._last_thorough_ms = -math.inf

    def make_pass(self) -> None:
        """Waits for the interval and flushes."""
        options = self.options
        self.wait(options.flush_interval_consume_queue)
        if self._stopping.is_set():
            return
        if _now_ms() >= self._last_thorough_ms + options.flush_consume_queue_thorough_interval:
            self._last_thorough_ms = _now_ms()
            self.engine.flush_everything()
        else:
            self.engine.flush_consume_queues(options.flush_consume_queue_least_pages)
