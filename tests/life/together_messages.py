"""Messages that say where they have to be, and what somebody has seen of them."""

from collections import defaultdict

import mqstore

__all__ = ["QUEUES", "TOPIC", "Seen", "body_of", "key_of"]

TOPIC = "t"
QUEUES = 3


def body_of(queue_id: int, number: int) -> bytes:
    """The body of the message that has a number in its queue."""
    return b"%d %d|" % (queue_id, number) * (1 + number % 50)


def key_of(queue_id: int, number: int) -> str:
    """Its key."""
    return f"k{queue_id}.{number}"


class Seen:
    """What somebody has read: each message as it was put, and of each queue all that is not deleted, in order."""

    def __init__(self) -> None:
        """Nothing yet."""
        self.count = 0
        self.gone_before: dict[int, int] = defaultdict(int)
        """Of each queue what was passed over has to be gone in the end: up to this number."""
        self._next: dict[int, int] = defaultdict(int)

    def one(self, queue_id: int, number: int, body: object) -> None:
        """Of a message is seen what was put there.

        Raises:
            AssertionError: it is not.
        """
        assert bytes(body) == body_of(queue_id, number)  # type: ignore[call-overload] # any buffer
        self.count += 1

    def next_of_queue(self, queue_id: int, number: int, body: object) -> None:
        """As :meth:`one`; what lies between it and the one before is deleted.

        Raises:
            AssertionError: it comes for the second time.
        """
        self.one(queue_id, number, body)
        self._go_on(queue_id, number)
        self._next[queue_id] = number + 1

    def _go_on(self, queue_id: int, number: int) -> None:
        assert number >= self._next[queue_id]
        if number > self._next[queue_id]:
            self.passed_over(queue_id, number)
        self._next[queue_id] = number

    def passed_over(self, queue_id: int, number: int) -> None:
        """Messages before a number were not found."""
        self.gone_before[queue_id] = max(number, self.gone_before[queue_id])

    def check_gone(self, store: mqstore.MessageStore) -> None:
        """What was passed over is not in the store.

        Raises:
            AssertionError: it is.
        """
        for queue_id, number in self.gone_before.items():
            assert number <= store.get_min_offset_in_queue(TOPIC, queue_id)

    def read_queues(self, store: mqstore.MessageStore) -> list[mqstore.Message]:
        """Reads some more of each queue, and gives that."""
        found = []
        for queue_id in range(QUEUES):
            got = store.get_message(TOPIC, queue_id, self._next[queue_id], 32)
            for message in got.messages:
                self.next_of_queue(queue_id, message.queue_offset, message.body)
            self._go_on(queue_id, max(self._next[queue_id], got.next_begin_offset))
            found += got.messages
        return found

    def read_to_the_end(self, store: mqstore.MessageStore) -> None:
        """Reads each queue up to where it ends."""
        ends = [store.get_max_offset_in_queue(TOPIC, queue_id) for queue_id in range(QUEUES)]
        while any(self._next[queue_id] < end for queue_id, end in enumerate(ends)):
            self.read_queues(store)
