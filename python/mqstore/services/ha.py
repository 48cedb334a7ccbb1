"""Replication. Source: ``HAService`` and its ``HAClient``."""

import logging
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

from mqstore.errors import ServiceNotAvailableError
from mqstore.services.service import ServiceThread

if TYPE_CHECKING:
    from mqstore.store.message_store import MessageStore

__all__ = ["HAClient", "HAService"]

_log = logging.getLogger("mqstore")
_MAX_WAIT_MS = 100
_OF_LATE_S = 60
"""What happens again within so many seconds happens again and again: a slave that is refused comes every five."""


class _Telling(ServiceThread):
    """Says what happened, and what happens again and again once."""

    def __init__(self, store: "MessageStore") -> None:
        """Nothing has happened yet."""
        super().__init__(store)
        self._told: dict[str, float] = {}
        """When what has happened of late did so last."""

    def _tell(self, events: Iterable[tuple[bool, str, str]]) -> None:
        for is_failure, kind, text in events:
            now = time.monotonic()
            self._told = {told: at for told, at in self._told.items() if now - at < _OF_LATE_S}
            level = logging.WARNING if is_failure else logging.INFO
            _log.log(logging.DEBUG if kind in self._told else level, "%s: %s", self.path, text)
            self._told[kind] = now


class HAService(_Telling):
    """Takes the connections of slaves and sends them the log. A slave has it too: slaves can follow it."""

    ends_last = True

    def __init__(self, store: "MessageStore") -> None:
        """Begins to listen.

        Raises:
            StoreIOError: the address cannot be had.
        """
        super().__init__(store)
        self._waiters = store._transfer_waiters
        options = self.options
        store._listen_for_slaves(
            options.ha_listen_host,
            options.ha_listen_port,
            transfer_batch_size=options.ha_transfer_batch_size,
            send_heartbeat_interval_ms=options.ha_send_heartbeat_interval,
            housekeeping_interval_ms=options.ha_housekeeping_interval,
            slave_fallbehind_max=options.ha_slave_fallbehind_max,
            is_sync=options.broker_role == "SYNC_MASTER",
            slave_timeout_ms=options.slave_timeout,
        )

    def make_pass(self) -> None:
        """Serves slaves, and wakes the asyncio tasks that wait for one."""
        events, confirmed = self.engine.serve_slaves(_MAX_WAIT_MS)
        self._tell(events)
        self._waiters.reached(confirmed)

    def died(self, error: BaseException) -> None:
        """No slave is sent any more what others wait for."""
        super().died(error)
        self._waiters.failed(ServiceNotAvailableError(f"{self.name} died: {error!r}"))


class HAClient(_Telling):
    """Follows a master, for which it looks again and again while there is none."""

    def __init__(self, store: "MessageStore") -> None:
        """Not connected yet."""
        super().__init__(store)
        options = self.options
        store._follow_master(
            options.ha_master_address,
            send_heartbeat_interval_ms=options.ha_send_heartbeat_interval,
            housekeeping_interval_ms=options.ha_housekeeping_interval,
        )

    @property
    def failure(self) -> object:
        """Why the master is not followed, or a pass failed."""
        store = self.store()
        return super().failure or (store.replication.failure if store is not None else None)

    def make_pass(self) -> None:
        """Appends what the master has sent."""
        self._tell(self.engine.receive_log(_MAX_WAIT_MS))
