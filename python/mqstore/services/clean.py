"""Retention. Source: ``CleanCommitLogService``, ``CleanConsumeQueueService``, run one after the other."""

from typing import TYPE_CHECKING

from mqstore.services.service import ServiceThread

if TYPE_CHECKING:
    from mqstore.store.message_store import MessageStore

__all__ = ["CleanFilesService"]


class CleanFilesService(ServiceThread):
    """Deletes what has expired, and lets the store take no messages while the disk is full."""

    def make_pass(self, store: "MessageStore") -> None:
        """Cleans, and waits for the interval."""
        store._cleaner.clean(self.wait)
        self.wait(store.options.clean_resource_interval)
