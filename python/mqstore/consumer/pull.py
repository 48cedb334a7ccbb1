"""What a consumer pulls of a queue.

Source: ``DefaultMQPushConsumerImpl``, whose broker looks at some messages a pull too, and is asked again at once.
"""

import enum
import time
from typing import TYPE_CHECKING

from mqstore.consumer.process_queue import ProcessQueue, QueueState
from mqstore.store.follower import where_to_go_on
from mqstore.store.read_offset import ReadOffset, log_end_behind

if TYPE_CHECKING:
    from mqstore.consumer.manager import ConsumerManager
    from mqstore.consumer.offsets import OffsetStore
    from mqstore.consumer.settings import ConsumerSettings
    from mqstore.store.message_store import MessageStore

__all__ = ["Pulled", "Puller"]


class Pulled(enum.Enum):
    """What a pull came to."""

    FOUND = enum.auto()
    """There is something that is wanted."""
    NOTHING = enum.auto()
    """There is nothing behind what was passed over."""
    NOT_THROUGH = enum.auto()
    """Nothing yet that is wanted, and there is more."""


class Puller:
    """Pulls for a consumer."""

    def __init__(
        self, store: "MessageStore", manager: "ConsumerManager", settings: "ConsumerSettings", offsets: "OffsetStore"
    ) -> None:
        """Pulls from a store."""
        self._store, self._manager, self._settings, self._offsets = store, manager, settings, offsets

    def pull(self, queue: ProcessQueue, until: float) -> Pulled:
        """Pulls until there is something that is wanted, or what is there is passed over, or it is so late."""
        subscription = queue.subscription
        while True:
            state = self._state_of(queue)
            if queue.is_empty_still(state):
                return Pulled.NOTHING
            self._begin_anew_if_changed(queue)
            before = queue.next_offset
            found = self._store.get_message(
                queue.topic, queue.queue_id, before, self._settings.pull_batch_size, subscription.asked
            )
            # What was found beside a writer that came meanwhile may stand where that has cut the log.
            if self._store._settled_changes() != state.changes:
                continue
            messages = [message for message in found.messages if subscription.wants(message)]
            # A slave's get leaves an offset as it is that has gone with its messages.
            behind = max(found.next_begin_offset, found.min_offset)
            if behind < before:
                queue.begin_anew(behind)
            last = found.messages[-1] if len(found) else None
            if last is not None and last.logics_offset == behind - 1:
                log_end = last.commit_log_offset + 1
            else:
                log_end = log_end_behind(self._store, queue.topic, queue.queue_id, behind)
            queue.put(messages, behind, log_end)
            if messages:
                figures = self._manager.figures_of(self._settings.group, queue.topic)
                figures.get_nums += len(messages)
                figures.get_size += sum(message.store_size for message in messages)
                return Pulled.FOUND
            if queue.next_offset == before:
                queue.found_empty(state)
                return Pulled.NOTHING
            # Nothing of it was wanted, or the queue is another one now: that is done with too.
            self._offsets.update_offset(queue.topic, queue.queue_id, queue.read_offset, queue.openings)
            if time.monotonic() >= until:
                return Pulled.NOT_THROUGH

    def _state_of(self, queue: ProcessQueue) -> QueueState:
        store, topic, queue_id = self._store, queue.topic, queue.queue_id
        store._catch_up()
        return QueueState(
            queue.next_offset,
            store.get_max_offset_in_queue(topic, queue_id),
            store._settled_changes(),
            store._openings_seen(),
            store._removed_up_to(topic, queue_id),
        )

    def _begin_anew_if_changed(self, queue: ProcessQueue) -> None:
        """Of a queue that was removed and has come as far again, or whose end was cut off."""
        known, openings = ReadOffset(queue.next_offset, queue.log_end), self._store._openings_seen()
        if known.place_before < 0 and openings == queue.openings:
            return
        offset, is_same = where_to_go_on(
            self._store, queue.topic, queue.queue_id, known.offset, known.place_before, openings=queue.openings
        )
        queue.openings = openings
        if not is_same:
            queue.begin_anew(offset)
        elif offset != known.offset:
            queue.end_was_cut_off(offset, log_end_behind(self._store, queue.topic, queue.queue_id, offset))
