"""Space for the log, ahead of the writer. Source: ``AllocateMappedFileService``."""

import logging

from mqstore.services.service import ServiceThread

__all__ = ["AllocateMappedFileService"]

_log = logging.getLogger("mqstore")


class AllocateMappedFileService(ServiceThread):
    """Reserves blocks and makes the next log file before a put needs them."""

    _MAX_WAIT_MS = 100

    def make_pass(self) -> None:
        """Waits for a put to come near the end of what is reserved, and reserves more."""
        self.engine.allocate(self._MAX_WAIT_MS)

    def failed(self, error: BaseException) -> None:
        """No failure yet: the put that needs the space will say so itself."""
        if self.failed_count == 1:
            _log.warning("space for %s could not be reserved ahead: %s", self.path, error)
        self.wait(1000)
