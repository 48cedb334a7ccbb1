"""Delayed messages. Source: ``ScheduleMessageService``."""

import logging
import time
from typing import TYPE_CHECKING, Any

from mqstore.errors import MQStoreError
from mqstore.services.service import ServiceThread
from mqstore.store import config_json

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
        self._path = store.path / "config" / "delayOffset.json"
        self._offset_table = _load(config_json.load(self._path), str(self._path))
        self._persisted = dict(self._offset_table)
        self._last_persist = time.monotonic()
        self._told: dict[int, str] = {}

    @property
    def offset_table(self) -> dict[int, int]:
        """Of each level that has delivered something, the offset in its queue at which it goes on."""
        return dict(self._offset_table)

    def make_pass(self, store: "MessageStore") -> None:
        """Delivers what is due, writes the offsets now and then, and waits where nothing more is due."""
        if store.options.broker_role == "SLAVE":
            self.wait(_DELAY_FOR_A_WHILE_MS)
            return
        wait_ms = self._deliver(store)
        if time.monotonic() >= self._last_persist + store.options.flush_delay_offset_interval / 1000:
            self.persist(store)
        if wait_ms > 0:
            self.wait(wait_ms)

    def _deliver(self, store: "MessageStore") -> int:
        """One pass over all levels; gives how long nothing will be due, in milliseconds."""
        levels = [(level, self._offset_table.get(level, 0)) for level in range(1, store.max_delay_level + 1)]
        wait_ms = _DELAY_FOR_A_WHILE_MS
        for level, next_offset, delivered, next_due, undeliverable, reason in store._deliver_delayed(
            levels, _BATCH_COUNT
        ):
            if next_offset != self._offset_table.get(level, 0):
                self._offset_table[level] = next_offset
            for queue_offset, phy_offset, why in undeliverable:
                _log.error(
                    "%s: message %d of delay level %d, at %d in the log, cannot be delivered: %s",
                    store.path,
                    queue_offset,
                    level,
                    phy_offset,
                    why,
                )
            self._tell(store, level, reason)
            if reason is None and next_due is not None:
                wait_ms = min(wait_ms, max(0, next_due - store.now()))
            elif reason is None and delivered + len(undeliverable) > 0:
                wait_ms = 0
        return wait_ms

    def _tell(self, store: "MessageStore", level: int, reason: str | None) -> None:
        """Says once why a level waits, and that it goes on."""
        if reason is None:
            if self._told.pop(level, None) is not None:
                _log.info("%s: delay level %d goes on", store.path, level)
        elif level not in self._told:
            self._told[level] = reason
            _log.warning("%s: delay level %d waits: %s", store.path, level, reason)

    def persist(self, store: "MessageStore") -> None:
        """Writes the offsets, where they have changed, after what was delivered is on the disk.

        Raises:
            MQStoreError: the disk did not take it.
        """
        self._last_persist = time.monotonic()
        offsets = dict(self._offset_table)
        if offsets == self._persisted:
            return
        store._flush_commit_log(0)
        content = {"offsetTable": {str(level): offset for level, offset in sorted(offsets.items())}}
        store._replace_config(self._path, config_json.dumps(content).encode())
        self._persisted = offsets

    def closing(self, store: "MessageStore") -> None:
        """Writes the offsets."""
        self.persist(store)


def _load(content: Any, path: str) -> dict[int, int]:
    table = content.get("offsetTable", {}) if isinstance(content, dict) else {} if content is None else None
    if not isinstance(table, dict):
        raise MQStoreError(f"{path}: expected an object with an offsetTable, found {content!r}")
    offsets: dict[int, int] = {}
    for level, offset in table.items():
        if not str(level).isdecimal() or not isinstance(offset, int) or isinstance(offset, bool) or offset < 0:
            raise MQStoreError(f"{path}: expected a delay level and its offset, found {level!r}: {offset!r}")
        offsets[int(level)] = offset
    return offsets
