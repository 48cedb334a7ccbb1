"""A queue that a consumer reads: what was pulled, what is in the user's hands, how far is done.

Source: ``ProcessQueue``.
"""

import time
from collections import deque

from mqstore._native import Message
from mqstore.consumer.membership import FileLock
from mqstore.consumer.settings import Subscription

__all__ = ["ProcessQueue"]


class ProcessQueue:
    """A queue in one consumer's hands."""

    def __init__(self, subscription: Subscription, queue_id: int, next_offset: int, lock: FileLock | None) -> None:
        """A queue from an offset on."""
        self.subscription, self.queue_id, self.lock = subscription, queue_id, lock
        self.next_offset = next_offset
        """Where the next pull begins."""
        self.is_dropped = False
        """Whether it is another member's, as soon as nothing of it is in hand any more."""
        self._pulled: deque[tuple[int, Message]] = deque()
        self._in_hand: dict[int, Message] = {}
        self._again: dict[int, tuple[float, Message]] = {}
        self._attempts: dict[int, int] = {}
        self._suspended_until = 0.0

    @property
    def topic(self) -> str:
        """The topic."""
        return self.subscription.topic

    @property
    def is_in_hand(self) -> bool:
        """Whether the user has messages of it that are neither done nor given back."""
        return bool(self._in_hand)

    @property
    def wants_pull(self) -> bool:
        """Whether there is nothing left of what was pulled."""
        return not self.is_dropped and not self._pulled

    @property
    def consume_offset(self) -> int:
        """The first offset that is not done: where the group goes on should this consumer end."""
        waiting = [*self._in_hand, *self._again]
        if self._pulled:
            waiting.append(self._pulled[0][0])
        return min(waiting, default=self.next_offset)

    def attempts(self, offset: int) -> int:
        """How often a message was given back here."""
        return self._attempts.get(offset, 0)

    def put(self, messages: list[Message], next_offset: int) -> None:
        """What a pull gave."""
        for message in messages:
            # What came by a queue always has its offset there.
            offset = message.logics_offset
            self._pulled.append((message.queue_offset if offset is None else offset, message))
        self.next_offset = next_offset

    def take(self, *, orderly: bool) -> tuple[int, Message] | None:
        """The next message for the user; ``None`` where there is none, or the queue rests."""
        if self.is_dropped or (orderly and (self._in_hand or time.monotonic() < self._suspended_until)):
            return None
        found = self._take_again(orderly=orderly)
        if found is None and self._pulled and not (orderly and self._again):
            found = self._pulled[0]
            # Ctrl-C can come between any two steps: it is never in neither place.
            self._in_hand[found[0]] = found[1]
            self._pulled.popleft()
        return found

    def _take_again(self, *, orderly: bool) -> tuple[int, Message] | None:
        now = time.monotonic()
        due = [offset for offset, (at, _) in self._again.items() if orderly or at <= now]
        if not due:
            return None
        offset = min(due)
        message = self._in_hand[offset] = self._again[offset][1]
        del self._again[offset]
        return offset, message

    def seconds_until_again(self) -> float | None:
        """When the next message that was given back is due; ``None`` where there is none."""
        if not self._again:
            return None
        at = max(self._suspended_until, min(at for at, _ in self._again.values()))
        return max(0.0, at - time.monotonic())

    def done(self, offset: int) -> bool:
        """A message is done, or is taken care of elsewhere; gives whether it was in hand."""
        self._attempts.pop(offset, None)
        return self._in_hand.pop(offset, None) is not None

    def give_again(self, offset: int, after: float, *, orderly: bool) -> None:
        """Takes a message back, to give it again after so many seconds."""
        message = self._in_hand.pop(offset)
        at = time.monotonic() + after
        self._again[offset] = (at, message)
        self._attempts[offset] = self.attempts(offset) + 1
        if orderly:
            self._suspended_until = at

    def drop(self) -> None:
        """It is another member's: what the user does not have yet goes back."""
        self.is_dropped = True
        offset = min([*self._again, *(at for at, _ in self._pulled)], default=self.next_offset)
        self.next_offset = min(offset, self.next_offset)
        self._pulled.clear()
        self._again.clear()

    def release(self) -> None:
        """Lets another member have it."""
        if self.lock is not None:
            self.lock.release()
            self.lock = None
