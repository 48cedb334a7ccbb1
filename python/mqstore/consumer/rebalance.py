"""Which queues a consumer reads, and where it begins with each.

Every second it is looked who is in the group and which queues there are, instead of the broker's
notifications of 4.9.3, for the first time when a message is asked for. Where queues end, for who begins there,
is looked at when the consumer is made: 4.9.3's looks when it is started.
A queue changes hands when nothing of it is in hand any more: its offset is
written, then its lock let go. Source: ``RebalanceImpl``, ``RebalancePushImpl.computePullFromWhere``,
``ConsumerManageProcessor.queryConsumerOffset``.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from mqstore.consumer.membership import Membership, QueueLock
from mqstore.consumer.offsets import OffsetStore, Queue
from mqstore.consumer.process_queue import ProcessQueue
from mqstore.consumer.settings import RETRY_GROUP_TOPIC_PREFIX, ConsumeFromWhere, ConsumerSettings, Subscription
from mqstore.store.arguments import INT_MAX, checked_integer, expected_other
from mqstore.store.read_offset import ReadOffset, log_end_behind, offset_in_queue

if TYPE_CHECKING:
    from mqstore.store.message_store import MessageStore

__all__ = ["Rebalance", "compute_pull_from_where"]

_CHECK_INTERVAL = 1.0


def compute_pull_from_where(
    store: "MessageStore",
    offsets: Iterable[ReadOffset],
    settings: ConsumerSettings,
    topic: str,
    queue_id: int,
    *,
    end: int | None = None,
) -> int:
    """The offset at which a group begins with a queue, by those that it has of it.

    Who begins at its end does where that was, if it is known.
    """
    last_offset = max(offset_in_queue(store, topic, queue_id, read) for read in offsets)
    if last_offset < 0 and settings.is_clustering and _has_its_beginning_in_memory(store, topic, queue_id):
        last_offset = 0
    if last_offset >= 0:
        return last_offset
    is_retry = topic.startswith(RETRY_GROUP_TOPIC_PREFIX)
    if settings.consume_from_where is ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET:
        return 0
    if settings.consume_timestamp is not None and not is_retry:
        return store.get_offset_in_queue_by_time(topic, queue_id, settings.consume_timestamp)
    if is_retry and settings.consume_from_where is ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET:
        return 0
    end_now = store.get_max_offset_in_queue(topic, queue_id)
    return end_now if end is None else min(end, end_now)


def _has_its_beginning_in_memory(store: "MessageStore", topic: str, queue_id: int) -> bool:
    is_whole = store.get_min_offset_in_queue(topic, queue_id) <= 0
    return is_whole and not store.check_in_disk_by_consume_offset(topic, queue_id, 0)


class Rebalance:
    """A consumer's queues."""

    def __init__(
        self, store: "MessageStore", settings: ConsumerSettings, membership: Membership, offsets: OffsetStore
    ) -> None:
        """No queues yet."""
        self._store, self._settings, self._membership, self._offsets = store, settings, membership, offsets
        self._next_check = 0.0
        self.queues: dict[tuple[str, int], ProcessQueue] = {}
        if store.mode == "r":
            store.refresh()
        else:
            store._catch_up()  # a queue is there once its first message is dispatched
        self._there = self._queues_there(settings.subscriptions)
        """The queues that had had messages when it was looked last."""
        self._ends = {name: store.get_max_offset_in_queue(*name) for name in self._there}
        """Where they ended when the consumer was made, until its first look is over."""

    def seconds_until_check(self) -> float:
        """When it is looked again."""
        return max(0.0, self._next_check - time.monotonic())

    def rebalance_if_due(self, subscriptions: tuple[Subscription, ...]) -> None:
        """Takes queues over and lets others go, where it is time to look."""
        if time.monotonic() < self._next_check:
            return
        self._next_check = time.monotonic() + _CHECK_INTERVAL
        if self._store.mode == "r":
            self._store.refresh()
        is_clustering = self._settings.is_clustering
        there = set() if is_clustering else self._queues_there(subscriptions)
        own = self._settings.consumer_id
        members = self._membership.consumer_ids() if is_clustering else [own]
        wanted = {}
        for subscription in subscriptions:
            queue_ids = self._store.consumers.queue_ids(subscription.topic)
            if not queue_ids:
                self._offsets.add_topic(subscription.topic)
            for queue_id in self._allocated(own, queue_ids, members):
                wanted[subscription.topic, queue_id] = subscription
        for name, queue in list(self.queues.items()):
            if name not in wanted and not queue.is_dropped:
                queue.drop()
            # One that was dropped before is still here where its offset could not be written then.
            self.release_if_free(queue)
        self._take_over({name: subscription for name, subscription in wanted.items() if name not in self.queues})
        self._there = there
        self._ends = {}

    def _allocated(self, own: str, queue_ids: Sequence[int], members: Sequence[str]) -> list[int]:
        """The queues that the user's function gives this member."""
        found: object = self._settings.allocate(own, queue_ids, members)
        if not isinstance(found, Iterable):
            raise expected_other("allocate()", found, "queues")
        return [checked_integer("allocate()", queue_id, -INT_MAX - 1, INT_MAX) for queue_id in found]

    def _queues_there(self, subscriptions: tuple[Subscription, ...]) -> set[tuple[str, int]]:
        """The queues that have had messages."""
        return {(one.topic, queue_id) for one in subscriptions for queue_id in self._store._queue_ids(one.topic)}

    def _end_before(self, topic: str, queue_id: int) -> int | None:
        """Where a queue ended when the consumer was made, as far as that counts.

        One that came since a consumer that broadcasts looked last had no messages then: it is given all of it. A
        group's members cannot tell: the one that was there before it may be another one.
        """
        is_asked = not self._settings.is_clustering and not self._store.compat
        if is_asked and (topic, queue_id) not in self._there:
            return 0
        return self._ends.get((topic, queue_id))

    def _take_over(self, wanted: Mapping[Queue, Subscription]) -> None:
        """Takes over those of the queues that no other member has."""
        locks: dict[Queue, QueueLock | None] = {}
        try:
            for name in wanted:
                lock = self._membership.take_queue(*name) if self._settings.is_clustering else None
                if lock is not None or not self._settings.is_clustering:
                    locks[name] = lock
            if not locks:
                return
            openings = self._store._openings_seen()
            # Of all at once, which reads files, and not before the last one is locked: who had it until then wrote it.
            for name, offsets in self._offsets.read_offsets(locks).items():
                read = self._begin_of(name, offsets)
                # What the group has not read from here on is known from now on, to retention too.
                self._offsets.update_offset(*name, read, openings)
                self.queues[name] = ProcessQueue(wanted[name], name[1], read, locks.pop(name), openings)
        except BaseException:
            for lock in locks.values():
                if lock is not None:
                    lock.release()
            raise

    def _begin_of(self, name: Queue, offsets: Iterable[ReadOffset]) -> ReadOffset:
        end = self._end_before(*name)
        offset = compute_pull_from_where(self._store, offsets, self._settings, *name, end=end)
        if self._store.mode == "r" and offset > self._store.get_max_offset_in_queue(*name):
            # Who had the queue until now has come further than was seen here.
            self._store.refresh()
        return ReadOffset(offset, log_end_behind(self._store, *name, offset))

    def release_if_free(self, queue: ProcessQueue) -> None:
        """Lets a queue go that is another member's, once nothing of it is in hand."""
        if not queue.is_dropped or queue.is_in_hand:
            return
        self._offsets.update_offset(queue.topic, queue.queue_id, queue.read_offset, queue.openings)
        self._offsets.persist()
        del self.queues[queue.topic, queue.queue_id]
        queue.release()

    def release_all(self) -> None:
        """Lets all queues go; what is in hand comes again."""
        for queue in list(self.queues.values()):
            self._offsets.update_offset(queue.topic, queue.queue_id, queue.read_offset, queue.openings)
        try:
            self._offsets.persist()
        finally:
            for queue in self.queues.values():
                queue.release()
            self.queues.clear()
