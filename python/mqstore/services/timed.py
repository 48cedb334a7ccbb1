"""Timed messages, which 4.9.3 does not have: delivered at a time that was told with each."""

import logging
import time
from typing import TYPE_CHECKING

from mqstore.services.service import ServiceThread

if TYPE_CHECKING:
    from mqstore.store.message_store import MessageStore

__all__ = ["TimedMessageService"]

_log = logging.getLogger("mqstore")
_BATCH_COUNT = 1024
"""Messages that a pass delivers."""
_DELAY_FOR_A_WHILE_MS = 100
"""How often what is new is looked at, as with delay levels."""


class TimedMessageService(ServiceThread):
    """Puts timed messages to their topics when they are due.

    What is delivered is written into the log now and then, behind what was delivered. After a crash what
    was delivered since then is delivered again.
    """

    def __init__(self, store: "MessageStore") -> None:
        """A service of a store, not started yet."""
        super().__init__(store)
        self._last_persist = time.monotonic()
        self._told: str | None = None

    def make_pass(self) -> None:
        """Delivers what is due, writes what is delivered now and then, and waits where nothing more is due."""
        wait_ms = self._deliver()
        if time.monotonic() >= self._last_persist + self.options.flush_delay_offset_interval / 1000:
            self._tell(self._persist())
        if wait_ms > 0:
            self.wait(wait_ms)

    def _deliver(self) -> int:
        """One pass; gives how long nothing will be due, in milliseconds."""
        _, next_due, undeliverable, reason = self.engine.deliver_timed(_BATCH_COUNT)
        for queue_offset, phy_offset, why in undeliverable:
            _log.error(
                "%s: timed message %d, at %d in the log, cannot be delivered: %s",
                self.path,
                queue_offset,
                phy_offset,
                why,
            )
        self._tell(reason)
        if reason is not None or next_due is None:
            return _DELAY_FOR_A_WHILE_MS
        return min(_DELAY_FOR_A_WHILE_MS, max(0, next_due - self.engine.now()))

    def _persist(self) -> str | None:
        """Writes what is delivered; gives why the store did not take it."""
        self._last_persist = time.monotonic()
        return self.engine.persist_timed()

    def _tell(self, reason: str | None) -> None:
        """Says once why messages wait, and that they go on."""
        if reason is None and self._told is not None:
            _log.info("%s: timed messages go on", self.path)
        elif reason is not None and self._told is None:
            _log.warning("%s: timed messages wait: %s", self.path, reason)
        self._told = reason

    def closing(self) -> None:
        """Writes what is delivered: what the store does not take is delivered again."""
        reason = self._persist()
        self.engine.forget_timed()
        if reason is not None:
            _log.warning("%s: it is not known what timed messages were delivered last: %s", self.path, reason)
