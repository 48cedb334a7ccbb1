"""Timed messages, which 4.9.3 does not have: delivered at a time that was told with each."""

import logging

from mqstore.services.delivery import BATCH_COUNT, DELAY_FOR_A_WHILE_MS, DeliveryService

__all__ = ["TimedMessageService"]

_log = logging.getLogger("mqstore")
_TIMED = "timed messages"


class TimedMessageService(DeliveryService):
    """Puts timed messages to their topics when they are due.

    What is delivered is written into the log now and then, behind what was delivered. After a crash what
    was delivered since then is delivered again.
    """

    def deliver(self) -> int:
        """One pass; gives how long nothing will be due, in milliseconds."""
        _, next_due, undeliverable, reason = self.engine.deliver_timed(BATCH_COUNT)
        self.tell_undeliverable(_TIMED, undeliverable)
        self.tell(_TIMED, reason)
        if reason is not None or next_due is None:
            return DELAY_FOR_A_WHILE_MS
        return min(DELAY_FOR_A_WHILE_MS, max(0, next_due - self.engine.now()))

    def persist(self) -> None:
        """Writes what is delivered, or says why the store does not take it."""
        self.tell(_TIMED, self.engine.persist_timed())

    def closing(self) -> None:
        """Writes what is delivered: what the store does not take is delivered again."""
        reason = self.engine.persist_timed()
        self.engine.forget_timed()
        if reason is not None:
            _log.warning("%s: it is not known what timed messages were delivered last: %s", self.path, reason)
