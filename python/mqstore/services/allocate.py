"""Space for the log, ahead of the writer. Source: ``AllocateMappedFileService``."""

import logging

from mqstore.services.service import ServiceThread

__all__ = ["AllocateMappedFileService", "ReserveBlocksService"]

_log = logging.getLogger("mqstore")

_MAX_WAIT_MS = 1000


class _AheadOfWriterService(ServiceThread):
    """Has ready what a put is going to need."""

    def failed(self, error: BaseException) -> None:
        """No failure yet: the put that needs the space will say so itself."""
        if self.failed_count == 1:
            _log.warning("space for %s could not be reserved ahead: %s", self.path, error)
        self.wait(1000)


class AllocateMappedFileService(_AheadOfWriterService):
    """Makes the next log file, which waits for the disk."""

    def make_pass(self) -> None:
        """Waits until the next file is wanted, and makes it."""
        self.engine.make_next_file(_MAX_WAIT_MS)


class ReserveBlocksService(_AheadOfWriterService):
    """Reserves blocks of the log's files, and has their pages ready."""

    def make_pass(self) -> None:
        """Waits for a put to come near the end of what is reserved, and reserves more."""
        self.engine.reserve_blocks(_MAX_WAIT_MS)
