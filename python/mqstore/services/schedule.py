"""Delayed messages. Source: ``ScheduleMessageService``."""

from typing import TYPE_CHECKING

from mqstore.services.delivery import BATCH_COUNT, DELAY_FOR_A_WHILE_MS, DeliveryService
from mqstore.store.arguments import INT_MAX
from mqstore.store.config_delay_offset import DelayOffsetManager
from mqstore.store.config_manager import write_behind_log
from mqstore.store.delayed import SCHEDULE_TOPIC

if TYPE_CHECKING:
    from mqstore.store.message_store import MessageStore

__all__ = ["ScheduleMessageService"]


class ScheduleMessageService(DeliveryService):
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
        # What waits for a level that there was before is delivered too. No level but those that there are gets more.
        had = {queue_id + 1 for queue_id in store._queue_ids(SCHEDULE_TOPIC) if 0 <= queue_id < INT_MAX}
        self._levels = sorted({*range(1, store.max_delay_level + 1), *had})
        self._offsets = DelayOffsetManager(self.path / "config" / "delayOffset.json", write_behind_log(self.engine))
        self._persisted = self._offsets.all()

    @property
    def offset_table(self) -> dict[int, int]:
        """Of each level that has delivered something, the offset in its queue at which it goes on."""
        return self._offsets.all()

    def make_pass(self) -> None:
        """As any delivery; a slave has what its master delivers."""
        if self.options.broker_role == "SLAVE":
            self.wait(DELAY_FOR_A_WHILE_MS)
        else:
            super().make_pass()

    def deliver(self) -> int:
        """One pass over all levels; gives how long nothing will be due, in milliseconds."""
        levels = [(level, self._offsets.offset(level) or 0) for level in self._levels]
        wait_ms = DELAY_FOR_A_WHILE_MS
        for level, next_offset, delivered, next_due, undeliverable, reason in self.engine.deliver_delayed(
            levels, BATCH_COUNT
        ):
            if next_offset != (self._offsets.offset(level) or 0):
                self._offsets.update_offset(level, next_offset)
            what = f"delay level {level}"
            self.tell_undeliverable(what, undeliverable)
            self.tell(what, reason)
            if reason is None and next_due is not None:
                wait_ms = min(wait_ms, max(0, next_due - self.engine.now()))
            elif reason is None and delivered + len(undeliverable) > 0:
                wait_ms = 0
        return wait_ms

    def persist(self) -> None:
        """Writes the offsets, where they have changed, after what was delivered is on the disk.

        That nothing is delivered yet is written too: retention goes by it while nothing is delivered.

        Raises:
            MQStoreError: the disk did not take it.
        """
        offsets = self._offsets.all()
        if offsets == self._persisted and self._offsets.is_there:
            return
        self._offsets.persist()
        self._persisted = offsets

    def closing(self) -> None:
        """Writes the offsets."""
        self.persist()
