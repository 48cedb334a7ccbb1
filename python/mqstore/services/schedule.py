"""Delayed messages. Source: ``ScheduleMessageService``."""

import logging
import time
from typing import TYPE_CHECKING

from mqstore.services.service import ServiceThread
from mqstore.store.config_delay_offset import DelayOffsetManager

if TYPE_CHECKING:
    from mqstore.store.message_store import MessageStore

__all__ = ["ScheduleMessageService"]

_log = logging.getLogger("mqstore")
_BATCH_COUNT = 1024
"""Messages of a level that a pass delivers, so that a level with many does not keep the others waiting."""
_DELAY_FOR_A_WHILE_MS = 100
"""How often levels are looked at, as in 4.9.3."""


class ScheduleMessageService(ServiceThread):
    """Puts delayed messages to their topics when they are due.

    ``config/delayOffset.json`` says how far each level is. It is written only once the log is on the
    disk as far as it was delivered, so that what it says is done is never lost; after a crash what was
    delivered since it was written is delivered again.
    """

    def __init__(self, store: "MessageStore") -> None:
        """A service of a store, not started yet.

        Raises:
            MQStoreError: ``delayOffset.json`` and its ``.bak`` are damaged.
        """
        super().__init__(store)
        self._levels = range(1, store.max_delay_level + 1)
        self._offsets = DelayOffsetManager(self.path / "config" / "delayOffset.json", self.engine.replace_config)
        self._persisted = self._offsets.all()
        self._last_persist = time.monotonic()
        self._told: dict[int, str] = {}

    @property
    def offset_table(self) -> dict[int, int]:
        """Of each level that has delivered something, the offset in its queue at which it goes on."""
        return self._offsets.all()

    def make_pass(self) -> None:
        """Delivers what is due, writes the offsets now and then, and waits where nothing more is due."""
        if self.options.broker_role == "SLAVE":
            self.wait(_DELAY_FOR_A_WHILE_MS)
            return
        wait_ms = self._deliver()
        if time.monotonic() >= self._last_persist + self.options.flush_delay_offset_interval / 1000:
            self.persist()
        if wait_ms > 0:
            self.wait(wait_ms)

    def _deliver(self) -> int:
        """One pass over all levels; gives how long nothing will be due, in milliseconds."""
        levels = [(level, self._offsets.offset(level) or 0) for level in self._levels]
        wait_ms = _DELAY_FOR_A_WHILE_MS
        for level, next_offset, delivered, next_due, undeliverable, reason in self.engine.deliver_delayed(
            levels, _BATCH_COUNT
        ):
            if next_offset != (self._offsets.offset(level) or 0):
                self._offsets.update_offset(level, next_offset)
            for queue_offset, phy_offset, why in undeliverable:
                _log.error(
                    "%s: message %d of delay level %d, at %d in the log, cannot be delivered: %s",
                    self.path,
                    queue_offset,
                    level,
                    phy_offset,
                    why,
                )
            self._tell(level, reason)
            if reason is None and next_due is not None:
                wait_ms = min(wait_ms, max(0, next_due - self.engine.now()))
            elif reason is None and delivered + len(undeliverable) > 0:
                wait_ms = 0
        return wait_ms

    def _tell(self, level: int, reason: str | None) -> None:
        """Says once why a level waits, and that it goes on."""
        if reason is None:
            if self._told.pop(level, None) is not None:
                _log.info("%s: delay level %d goes on", self.path, level)
        elif level not in self._told:
            self._told[level] = reason
            _log.warning("%s: delay level %d waits: %s", self.path, level, reason)

    def persist(self) -> None:
        """Writes the offsets, where they have changed, after what was delivered is on the disk.

        Raises:
            MQStoreError: the disk did not take it.
        """
        self._last_persist = time.monotonic()
        offsets = self._offsets.all()
        if offsets == self._persisted:
            return
        self.engine.flush_commit_log(0)
        self._offsets.persist()
        self._persisted = offsets

    def closing(self) -> None:
        """Writes the offsets."""
        self.persist()
