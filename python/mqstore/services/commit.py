"""Committing the transient store pool. Source: ``CommitRealTimeService``."""

import time
from typing import TYPE_CHECKING

from mqstore.services.service import ServiceThread

if TYPE_CHECKING:
    from mqstore.store.message_store import MessageStore

__all__ = ["CommitRealTimeService"]


class CommitRealTimeService(ServiceThread):
    """Writes what puts left in memory to the log's files."""

    def __init__(self, store: "MessageStore") -> None:
        """A service of a store, not started yet."""
        super().__init__(store)
        self._last_commit_ms = 0.0

    def make_pass(self) -> None:
        """Commits once enough pages are full, and after a while whatever there is; then waits."""
        options = self.options
        least_pages = options.commit_commit_log_least_pages
        now_ms = time.monotonic() * 1000
        if now_ms >= self._last_commit_ms + options.commit_commit_log_thorough_interval:
            self._last_commit_ms = now_ms
            least_pages = 0
        self.engine.commit(least_pages)
        self.wait(options.commit_interval_commit_log)
