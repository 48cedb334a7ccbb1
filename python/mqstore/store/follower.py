"""Where somebody is who follows a queue."""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from mqstore._native import GetMessageResult, Message
from mqstore.store.arguments import checked_integer

if TYPE_CHECKING:
    from mqstore.store.message_store import MessageStore
    from mqstore.store.queue import Queue

__all__ = ["Follower", "GoOn", "place_in_log", "settled", "where_to_go_on"]

_COUNT = 32
_T = TypeVar("_T")


class GoOn(NamedTuple):
    """Where somebody goes on in a queue."""

    offset: int
    """The next offset."""
    is_same_queue: bool = True
    """Whether it is the queue that it was, or another one that has its name."""


def settled(store: "MessageStore", look: Callable[[], _T]) -> _T:
    """What several looks at a store find out, all before or all behind what a writer's opening changes."""
    while True:
        changes = store._settled_changes()
        found = look()
        if store._settled_changes() == changes:
            return found


def place_in_log(store: "MessageStore", topic: str, queue_id: int, offset: int) -> int:
    """Where the message at a queue's offset stands in the log; -1 where nobody knows."""
    if offset < 0:
        return -1
    place = store.get_commit_log_offset_in_queue(topic, queue_id, offset)
    # 0 says too that there is none.
    return place or min(store.get_message_store_time_stamp(topic, queue_id, offset), 0)


def where_to_go_on(
    store: "MessageStore", topic: str, queue_id: int, offset: int, place_before: int, *, openings: int | None = None
) -> GoOn:
    """Where somebody goes on in a queue who is at an offset of it.

    Args:
        store: The store.
        topic: The topic.
        queue_id: The queue.
        offset: What would come next.
        place_before: Where the message before it stood in the log; -1 where nobody knows.
        openings: How many openings by writers had been seen when that was so.

    Returns:
        The offset; the queue's end, where that was cut off by a writer that recovered the store, or what stands now
        where that was: what comes next stands there; the queue's first offset, where it was removed, and may have come
        as far again since.
    """
    return settled(store, lambda: _go_on(store, topic, queue_id, offset, place_before, openings=openings))


def _go_on(
    store: "MessageStore", topic: str, queue_id: int, offset: int, place_before: int, *, openings: int | None
) -> GoOn:
    if openings is not None and openings != store._openings_seen():
        came_since = store._first_unit_at(topic, queue_id, store._log_unchanged_since(openings))
        if came_since < offset:
            return GoOn(came_since)
    end = store.get_max_offset_in_queue(topic, queue_id)
    if end < offset and 0 <= place_in_log(store, topic, queue_id, end - 1) < place_before:
        return GoOn(end)
    if end < offset or place_in_log(store, topic, queue_id, offset - 1) > place_before >= 0:
        return GoOn(max(0, store.get_min_offset_in_queue(topic, queue_id)), is_same_queue=False)
    return GoOn(offset)


class Follower:
    """Takes the messages of a queue as they come, also of one that was removed and begins anew."""

    def __init__(self, queue: "Queue", offset: int | None) -> None:
        """Begins at an offset, or at the queue's end.

        Raises:
            TypeError: the offset is no integer.
            ValueError: it is negative, or no Java ``long``.
        """
        self._queue = queue
        if offset is not None:
            offset = checked_integer("offset", offset, 0)
        end = queue.max_offset
        self._next = end if offset is None else max(offset, queue.min_offset)
        self._was_there = self._next <= end
        """Whether the queue has come this far: where it ends before it then, it was removed."""
        self._openings = queue.store._openings_seen()
        self._before = self._place_before()
        """Where the message before the next one stands in the log, if there is one."""

    def is_wanted(self, end: int) -> bool:
        """Whether there is something to take where the queue ends there."""
        return end > self._next or (self._was_there and (end < self._next or self._is_opened_anew))

    def take(self) -> list[Message]:
        """The next messages; none where what comes next is damaged or gone."""
        # What was found beside a writer that came meanwhile may stand where that has cut the log.
        found, self._next, self._before, self._openings = settled(self._queue.store, self._look)
        self._was_there = True
        return list(found.messages)

    def _look(self) -> tuple[GetMessageResult, int, int, int]:
        """The next messages; where it goes on behind them, the place before that, and the openings that were seen."""
        store, topic, queue_id = self._queue.store, self._queue.topic, self._queue.queue_id
        openings = store._openings_seen()
        offset, _ = _go_on(store, topic, queue_id, self._next, self._before, openings=self._openings)
        found = store.get_message(topic, queue_id, offset, _COUNT)
        behind = _behind(found, offset)
        return found, behind, self._place_of(behind - 1), openings

    @property
    def _is_opened_anew(self) -> bool:
        """Whether a writer has opened the store since, and may have cut the queue, which can have come as far again."""
        return self._openings != self._queue.store._openings_seen()

    def _place_before(self) -> int:
        """That place as it is now: further on in a queue that was removed and filled again. -1 where nobody knows."""
        return self._place_of(self._next - 1)

    def _place_of(self, offset: int) -> int:
        return place_in_log(self._queue.store, self._queue.topic, self._queue.queue_id, offset)


def _behind(found: GetMessageResult, offset: int) -> int:
    """Where to go on."""
    if offset > found.max_offset:
        return found.min_offset
    if found.messages or found.next_begin_offset != offset:
        return found.next_begin_offset
    # A slave's get leaves an offset as it is that its queue does not have (any more).
    return max(found.min_offset, min(offset + 1, found.max_offset))
