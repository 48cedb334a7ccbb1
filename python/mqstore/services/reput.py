"""Dispatch. Source: ``ReputMessageService``."""

import logging

from mqstore.services.service import ServiceThread

__all__ = ["ReputMessageService"]

_log = logging.getLogger("mqstore")
_PASS_MS = 100
_MAX_RETRIES = 30
"""After how many failed passes, a second apart, the store takes no more messages, as in 4.9.3."""


class ReputMessageService(ServiceThread):
    """Dispatches what was put, and tells listeners what arrived."""

    def make_pass(self) -> None:
        """Dispatches for a tenth of a second, or until something arrived that is listened for."""
        arrivals = self.engine.reput_for(_PASS_MS)
        if arrivals and (store := self.store()) is not None:
            store._listeners.tell(arrivals)

    def failed(self, error: BaseException) -> None:
        """Retries each second; after 30 times the store takes no messages until it is reopened."""
        if self.failed_count == _MAX_RETRIES:
            _log.error("queues of %s cannot be written, it takes no messages from now on: %s", self.path, error)
            self.engine.make_logics_queue_error(str(error))
        super().failed(error)
