"""A queue that a consumer reads: what was pulled, what is in the user's hands, how far is done.

Source: ``ProcessQueue``.
"""

import heapq
import time
from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from mqstore._native import Message
from mqstore.consumer.membership import QueueLock
from mqstore.consumer.settings import Subscription
from mqstore.store.read_offset import ReadOffset

__all__ = ["Place", "ProcessQueue", "QueueState"]

_LOOKED_AT_EVERY = 1.0
"""A queue of which nothing seems to have changed is looked at all the same after so many seconds."""

Place = tuple[int, int]
"""Where a message stands: which of the queues that had this number since, and its offset there."""


class QueueState(NamedTuple):
    """What tells, without a look at messages, that a queue has nothing behind an offset that it had not before."""

    next_offset: int
    """The offset."""
    max_offset: int
    """The queue's end."""
    changes: int
    """How often what the store has of its files has changed otherwise than by growing."""
    openings: int
    """How many openings of the store by writers have been seen."""
    removed_up_to: int | None
    """Up to where the log's messages of it are those of a queue that was removed."""


class _Ahead(NamedTuple):
    """What comes next in a queue. Another takes its place by one step, since Ctrl-C can come between any two."""

    which: int
    """How many queues had its number before."""
    kept: dict[int, int]
    """Of those before it that are the same queue, whose end was cut off: up to which offset they are."""
    next_offset: int
    """Where the next pull begins."""
    log_end: int
    """Where the log ended at most when what stands before it was pulled."""
    pulled: deque[tuple[Place, Message]]
    """What was pulled and not given yet."""


class ProcessQueue:
    """A queue in one consumer's hands."""

    def __init__(
        self,
        subscription: Subscription,
        queue_id: int,
        read: ReadOffset,
        lock: QueueLock | None,
        openings: int = 0,
    ) -> None:
        """A queue from an offset on."""
        self.subscription, self.queue_id, self.lock = subscription, queue_id, lock
        self.openings = openings
        """How many openings of the store by writers had been seen when it was looked whether it is still this queue."""
        self._ahead = _Ahead(0, {}, *read, deque())
        self.is_dropped = False
        """Whether it is another member's, as soon as nothing of it is in hand any more."""
        self._empty: tuple[QueueState, float] | None = None
        """How it was when a pull found nothing, and until when that is believed."""
        self._in_hand: dict[Place, Message] = {}
        self._again: dict[Place, tuple[float, Message]] = {}
        self._attempts: dict[Place, int] = {}
        # What stands in these first: any number can be in hand, and each ack asks for it. A heap also has what is
        # no longer so, which is passed over there.
        self._given: list[Place] = []
        self._waiting: list[tuple[float, Place]] = []
        self._due: list[tuple[Place, float]] = []
        self._suspended_until = 0.0

    @property
    def topic(self) -> str:
        """The topic."""
        return self.subscription.topic

    @property
    def next_offset(self) -> int:
        """Where the next pull begins."""
        return self._ahead.next_offset

    @property
    def log_end(self) -> int:
        """Where the log ended at most when what stands before that was pulled."""
        return self._ahead.log_end

    @property
    def is_in_hand(self) -> bool:
        """Whether the user has messages of it that are neither done nor given back."""
        return bool(self._in_hand)

    @property
    def in_hand(self) -> dict[Place, Message]:
        """What the user has of it."""
        return self._in_hand

    @property
    def wants_pull(self) -> bool:
        """Whether there is nothing left of what was pulled."""
        return not self.is_dropped and not self._ahead.pulled

    @property
    def consume_offset(self) -> int:
        """The first offset that is not done: where the group goes on should this consumer end."""
        while self._given and not self._is_open(self._given[0]):
            heapq.heappop(self._given)
        first = self._given[:1]
        if self._ahead.pulled:
            first.append(self._ahead.pulled[0][0])
        open_at = self._first_of(first)
        # What a dropped queue had and the user does not may stand before what he has.
        return min(open_at, self.next_offset) if self.is_dropped else open_at

    def _is_open(self, place: Place) -> bool:
        """Whether a place that was given is one of this queue, and not done."""
        return self._is_own(place) and (place in self._in_hand or place in self._again)

    def _is_own(self, place: Place) -> bool:
        """Whether a place is of this queue, and not of another that had its number or of an end that was cut off."""
        which, offset = place
        return which == self._ahead.which or offset < self._ahead.kept.get(which, 0)

    def _first_of(self, places: Iterable[Place]) -> int:
        """The first offset of some places that are this queue's."""
        return min((place[1] for place in places if self._is_own(place)), default=self.next_offset)

    @property
    def read_offset(self) -> ReadOffset:
        """That, as it is kept."""
        return ReadOffset(self.consume_offset, self.log_end)

    def found_empty(self, state: QueueState) -> None:
        """A pull has found nothing, and the queue ended there."""
        self._empty = (state, time.monotonic() + _LOOKED_AT_EVERY) if state.max_offset <= self.next_offset else None

    def is_empty_still(self, state: QueueState) -> bool:
        """Whether that was a moment ago, and nothing has changed."""
        return self._empty is not None and self._empty[0] == state and time.monotonic() < self._empty[1]

    def attempts(self, place: Place) -> int:
        """How often a message was given back here."""
        return self._attempts.get(place, 0)

    def begin_anew(self, offset: int) -> None:
        """The queue was removed, and another one has its number; what is left of the old one is the user's still."""
        self._ahead = _Ahead(self._ahead.which + 1, {}, offset, -1, self._ahead.pulled)

    def end_was_cut_off(self, offset: int, log_end: int) -> None:
        """Others have the offsets from there on. What the user has of those before comes again unless it is done."""
        ahead = self._ahead
        kept = {which: min(end, offset) for which, end in ahead.kept.items()} | {ahead.which: offset}
        self._ahead = _Ahead(ahead.which + 1, kept, offset, log_end, ahead.pulled)

    def put(self, messages: list[Message], next_offset: int, log_end: int) -> None:
        """What a pull gave."""
        pulled = self._ahead.pulled.copy()
        for message in messages:
            # What came by a queue always has its offset there.
            offset = message.logics_offset
            pulled.append(((self._ahead.which, message.queue_offset if offset is None else offset), message))
        self._ahead = self._ahead._replace(next_offset=next_offset, log_end=log_end, pulled=pulled)

    def take(self, *, orderly: bool) -> tuple[Place, Message] | None:
        """The next message for the user; ``None`` where there is none, or the queue rests."""
        if self.is_dropped or (orderly and (self._in_hand or time.monotonic() < self._suspended_until)):
            return None
        found = self._take_again(orderly=orderly)
        if found is None and self._ahead.pulled and not (orderly and self._again):
            found = self._ahead.pulled[0]
            heapq.heappush(self._given, found[0])
            # Ctrl-C can come between any two steps: it is never in neither place.
            self._in_hand[found[0]] = found[1]
            self._ahead.pulled.popleft()
        return found

    def settle(self) -> None:
        """Where Ctrl-C came between these steps it is in both places."""
        if self._ahead.pulled and self._ahead.pulled[0][0] in self._in_hand:
            self._ahead.pulled.popleft()

    def _take_again(self, *, orderly: bool) -> tuple[Place, Message] | None:
        place = min(self._again, default=None) if orderly else self._first_due()
        if place is None:
            return None
        message = self._in_hand[place] = self._again[place][1]
        del self._again[place]
        return place, message

    def _first_due(self) -> Place | None:
        """The first of the places that are due now."""
        now = time.monotonic()
        while (at := self._next_at()) is not None and at <= now:
            heapq.heappush(self._due, (self._waiting[0][1], at))
            heapq.heappop(self._waiting)
        while self._due and not self._is_again(*self._due[0]):
            heapq.heappop(self._due)
        return self._due[0][0] if self._due else None

    def _next_at(self) -> float | None:
        """When the next one is due that was not when it was looked last."""
        while self._waiting and not self._is_again(self._waiting[0][1], self._waiting[0][0]):
            heapq.heappop(self._waiting)
        return self._waiting[0][0] if self._waiting else None

    def _is_again(self, place: Place, at: float) -> bool:
        """Whether a message is to be given again at that time, still."""
        known = self._again.get(place)
        return known is not None and known[0] == at

    def seconds_until_again(self) -> float | None:
        """When the next message that was given back is due; ``None`` where there is none.

        What a dropped queue has of them is the next member's to give.
        """
        if self.is_dropped or not self._again:
            return None
        is_due, at = self._first_due() is not None, self._next_at()
        return max(0.0, max(self._suspended_until, 0.0 if is_due or at is None else at) - time.monotonic())

    def done(self, place: Place) -> bool:
        """A message is done, or is taken care of elsewhere; gives whether it was in hand."""
        self._attempts.pop(place, None)
        return self._in_hand.pop(place, None) is not None

    def give_again(self, place: Place, after: float, *, orderly: bool, is_attempt: bool = True) -> None:
        """Takes a message back, to give it again after so many seconds."""
        at = time.monotonic() + after
        heapq.heappush(self._waiting, (at, place))
        # Ctrl-C can come between any two steps here too.
        self._again[place] = (at, self._in_hand[place])
        del self._in_hand[place]
        if is_attempt:
            self._attempts[place] = self.attempts(place) + 1
        if orderly:
            self._suspended_until = at

    def drop(self) -> None:
        """It is another member's: what the user does not have yet goes back."""
        self.is_dropped = True
        places = [*self._again, *(place for place, _ in self._ahead.pulled)]
        self._ahead = self._ahead._replace(next_offset=min(self._first_of(places), self.next_offset), pulled=deque())
        self._again.clear()

    def release(self) -> None:
        """Lets another member have it."""
        if self.lock is not None:
            self.lock.release()
            self.lock = None
