"""What the services share that put waiting messages to their topics when these are due."""

import logging
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

from mqstore.services.service import ServiceThread

if TYPE_CHECKING:
    from mqstore.store.message_store import MessageStore

__all__ = ["BATCH_COUNT", "DELAY_FOR_A_WHILE_MS", "DeliveryService"]

_log = logging.getLogger("mqstore")
BATCH_COUNT = 1024
"""Messages of one queue that a pass delivers, so that a queue with many does not keep the others waiting."""
DELAY_FOR_A_WHILE_MS = 100
"""How often queues are looked at, as in 4.9.3."""


class DeliveryService(ServiceThread):
    """Delivers what is due, and writes down now and then what is delivered."""

    puts_messages = True

    def __init__(self, store: "MessageStore") -> None:
        """A service of a store, not started yet."""
        super().__init__(store)
        self._last_persist = time.monotonic()
        self._waiting: set[str] = set()

    def deliver(self) -> int:
        """One pass; gives how long nothing will be due, in milliseconds."""
        raise NotImplementedError

    def persist(self) -> None:
        """Writes down what is delivered."""
        raise NotImplementedError

    def make_pass(self) -> None:
        """Delivers what is due, writes down now and then what is delivered, and waits where nothing more is due."""
        wait_ms = self.deliver()
        if time.monotonic() >= self._last_persist + self.options.flush_delay_offset_interval / 1000:
            self._last_persist = time.monotonic()
            self.persist()
        if wait_ms > 0:
            self.wait(wait_ms)

    def tell(self, what: str, reason: str | None) -> None:
        """Says once why messages wait, and that they go on.

        Args:
            what: Whose delivery.
            reason: Why they wait; ``None`` where they do not.
        """
        if reason is None:
            if what in self._waiting:
                self._waiting.remove(what)
                _log.info("%s: delivery of %s goes on", self.path, what)
        elif what not in self._waiting:
            self._waiting.add(what)
            _log.warning("%s: delivery of %s waits: %s", self.path, what, reason)

    def tell_undeliverable(self, what: str, undeliverable: Iterable[tuple[int, int, str]]) -> None:
        """Says which messages were passed over: queue offset, offset in the log, why."""
        for queue_offset, phy_offset, why in undeliverable:
            _log.error(
                "%s: message %d of %s, at %d in the log, cannot be delivered: %s",
                self.path,
                queue_offset,
                what,
                phy_offset,
                why,
            )
