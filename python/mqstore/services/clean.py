"""Retention. Source: ``CleanCommitLogService``, ``CleanConsumeQueueService``, run one after the other."""

from typing import TYPE_CHECKING

from mqstore.services.service import ServiceThread

if TYPE_CHECKING:
    from mqstore.store.message_store import MessageStore

__all__ = ["CleanFilesService"]


class CleanFilesService(ServiceThread):
    """Deletes what has expired, and lets the store take no messages while the disk is full."""

    def __init__(self, store: "MessageStore") -> None:
        """A service of a store, not started yet."""
        super().__init__(store)
        self._cleaner = store._cleaner

    def make_pass(self) -> None:
        """Cleans, and waits for the interval."""
        self._cleaner.clean(self.wait)
        self.wait(self.options.clean_resource_interval)
