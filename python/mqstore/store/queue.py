"""A topic and its queues, as Python has sequences."""

import operator
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, SupportsIndex, overload

from mqstore._native import Message
from mqstore.errors import OffsetOutOfRangeError
from mqstore.store.arguments import INT_MAX, LONG_MAX, checked_integer, checked_several, checked_text, expected_other
from mqstore.store.follower import Follower
from mqstore.store.selection import QueueRange, Selection
from mqstore.store.times import Time, checked_time
from mqstore.store.waiting import wait_in_thread

if TYPE_CHECKING:
    from mqstore.store.message_store import MessageStore

__all__ = ["Queue", "Topic"]


_REVERSED_AT_ONCE = 256
"""How many messages are read before the last of them is given."""


class Queue:
    """A queue of a topic. Its messages are numbered by their offsets, which begin at its min offset.

    ``queue[7]`` is the message with the offset 7, ``queue[-1]`` the last one, ``queue[5:10]`` a
    :class:`Selection`; going through it gives the messages that it has at that moment.
    """

    def __init__(self, store: "MessageStore", topic: str, queue_id: int) -> None:
        """A view of a queue; there need not be one yet.

        Raises:
            TypeError: the topic is no string, or the queue no integer.
            ValueError: the queue is no Java ``int``.
        """
        self.store, self.topic = store, checked_text("topic", topic)
        self.queue_id = checked_integer("queue_id", queue_id, -INT_MAX - 1, INT_MAX)

    @property
    def min_offset(self) -> int:
        """The offset of the first message that is still there."""
        return self.store.get_min_offset_in_queue(self.topic, self.queue_id)

    @property
    def max_offset(self) -> int:
        """The offset that the next message gets."""
        self.store._catch_up()
        return self.store.get_max_offset_in_queue(self.topic, self.queue_id)

    def __len__(self) -> int:
        """How many messages there are."""
        return self.max_offset - self.min_offset

    def __iter__(self) -> Iterator[Message]:
        """The messages that there are now, in order."""
        return iter(self[:])

    def __reversed__(self) -> Iterator[Message]:
        """The messages that there are now, the last one first."""
        min_offset = self.min_offset
        for end in range(self.max_offset, min_offset, -_REVERSED_AT_ONCE):
            yield from reversed(list(self[max(min_offset, end - _REVERSED_AT_ONCE) : end]))

    @overload
    def __getitem__(self, offset: SupportsIndex) -> Message: ...
    @overload
    def __getitem__(self, offset: slice) -> Selection: ...
    def __getitem__(self, offset: SupportsIndex | slice) -> "Message | Selection":
        """A message by its offset, or the messages of a range of offsets.

        Raises:
            OffsetOutOfRangeError: the queue has no message with that offset.
            TypeError: it is neither an integer nor a slice of integers.
            ValueError: a slice with a step.
        """
        if not isinstance(offset, slice) and not hasattr(offset, "__index__"):
            raise expected_other("offset", offset, "an integer or a slice")
        min_offset, max_offset = self.min_offset, self.max_offset
        if isinstance(offset, slice):
            if offset.step not in {None, 1}:
                raise ValueError(f"a queue is sliced without a step, found {offset.step}")
            begin = _absolute("begin_offset", offset.start, max_offset, min_offset)
            end = _absolute("end_offset", offset.stop, max_offset, max_offset)
            return Selection(self.store, (QueueRange(self.topic, self.queue_id, begin, end),))
        number = operator.index(offset)
        index = max_offset + number if number < 0 else number
        is_inside = min_offset <= index < max_offset
        found = self.store.get_message(self.topic, self.queue_id, index, 1).messages if is_inside else []
        if not found or found[0].logics_offset != index:
            reason = f"expected an offset from {min_offset} to {max_offset - 1}, found {number}"
            if min_offset == max_offset:
                reason = f"it has no message, and so none at {number}"
            if is_inside:
                reason = f"the message at offset {index} does not check out; the store's report() tells why"
            error = OffsetOutOfRangeError(f"{self!r}: {reason}")
            error.offset, error.min, error.max = number, min_offset, max_offset
            raise error
        return found[0]

    def offset_by_time(self, time: Time, boundary: str = "lower") -> int:
        """The offset that a time stands for.

        Args:
            time: The time.
            boundary: ``"lower"`` for the first message that is not before it (the queue's end where
                there is none), ``"upper"`` for the last that is not behind it, ``"nearest"``.

        Raises:
            TypeError: the time is none, or the boundary no string.
            ValueError: a ``datetime`` without a time zone, a number out of bounds, or there is no such boundary.
        """
        return self.store.get_offset_in_queue_by_time(self.topic, self.queue_id, checked_time("time", time), boundary)

    def offsets_by_time(self, times: Sequence[Time], boundary: str = "lower") -> list[int]:
        """The offsets that many times stand for, in one call.

        Raises:
            TypeError: the times are no several, or one is none.
            ValueError: a ``datetime`` without a time zone, a number out of bounds, or there is no such boundary.
        """
        timestamps = [checked_time("time", time) for time in checked_several("times", times, "several times")]
        return self.store.get_offsets_in_queue_by_time(self.topic, self.queue_id, timestamps, boundary)

    def select(self) -> Selection:
        """All its messages, those that come later too."""
        return Selection(self.store, (QueueRange(self.topic, self.queue_id),))

    def follow(self, offset: int | None = None, *, timeout: float | None = None) -> Iterator[Message]:
        """The messages from an offset on, waiting for new ones; of a queue that is removed meanwhile, the new one's.

        Args:
            offset: Where to begin; at the queue's end by default.
            timeout: Ends when nothing came for so many seconds; waits forever by default.

        Raises:
            TypeError: the offset is none.
            ValueError: it is negative.
        """
        follower = Follower(self, offset)
        while wait_in_thread(self.store, self.topic, self.queue_id, follower.is_wanted, timeout):
            yield from follower.take()

    def __repr__(self) -> str:
        """Topic and number."""
        return f"Queue({self.topic!r}, {self.queue_id})"


def _absolute(name: str, offset: int | None, max_offset: int, otherwise: int) -> int:
    """A bound of a slice, which can lie as far beyond the ends as Python has numbers."""
    if offset is None:
        return otherwise
    if not hasattr(offset, "__index__"):
        raise expected_other(name, offset, "an integer")
    return max(0, max_offset + offset) if offset < 0 else min(offset, LONG_MAX)


class Topic:
    """A topic of a store: ``queues`` are its queues, and ``len()`` and iteration are over all their messages."""

    def __init__(self, store: "MessageStore", name: str) -> None:
        """A view of a topic; it need not have a message yet.

        Raises:
            TypeError: its name is no string.
        """
        self.store, self.name = store, checked_text("name", name)

    @property
    def queue_ids(self) -> list[int]:
        """The numbers of the queues that have had a message."""
        self.store._catch_up()
        return self.store._queue_ids(self.name)

    @property
    def queues(self) -> list[Queue]:
        """The queues that have had a message."""
        return [self.queue(queue_id) for queue_id in self.queue_ids]

    def queue(self, queue_id: int) -> Queue:
        """A queue."""
        return Queue(self.store, self.name, queue_id)

    def __len__(self) -> int:
        """How many messages there are in all queues."""
        return sum(len(queue) for queue in self.queues)

    def __iter__(self) -> Iterator[Message]:
        """The messages that there are now, queue after queue."""
        return iter(self.select())

    def __contains__(self, queue_id: int) -> bool:
        """Whether a queue has had a message."""
        return queue_id in self.queue_ids

    def select(self) -> Selection:
        """All its messages."""
        return Selection(self.store, (QueueRange(self.name),))

    def __repr__(self) -> str:
        """The name."""
        return f"Topic({self.name!r})"
