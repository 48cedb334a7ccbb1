"""What a store has to have after all that was done with it."""

import bisect
import random
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TypeAlias

import mqstore

__all__ = ["KEYS", "QUEUE_COUNT", "TAGS", "TOPICS", "Expected", "Put", "State"]

TOPICS = ("a", "b", "cc")
QUEUE_COUNT = 3
KEYS = tuple(f"k{number}" for number in range(12))
TAGS = (None, "TagA", "TagB")
_MORE_THAN_THERE_ARE = 1000

Queue: TypeAlias = tuple[str, int]


class State:
    """What became of a message that is one of a transaction."""

    PREPARED, COMMITTED, ROLLED_BACK, EXPIRED = "prepared", "committed", "rolled back", "expired"


@dataclass(kw_only=True, eq=False)
class Put:
    """A message that was put."""

    name: str
    topic: str
    queue_id: int
    body: bytes
    keys: tuple[str, ...]
    tags: str | None
    light: tuple[str, ...]
    """The light queues that it is in once it can be seen."""
    place: int = -1
    """Where it stood in the log first."""
    due_ms: int | None = None
    """When it can be seen, if it waits."""
    is_of_level: bool = False
    """Whether it waits for the delay of a level."""
    state: str | None = None
    """Of one of a transaction."""
    half: mqstore.PreparedMessage | None = None
    seen_count: int = 0
    may_come_again: bool = False
    """Whether a crash may have forgotten that it was delivered."""
    is_written_down: bool = False
    """Whether that it was delivered is on the disk."""

    @property
    def queue(self) -> Queue:
        """Topic and queue."""
        return self.topic, self.queue_id


@dataclass(frozen=True)
class Row:
    """A message in a queue."""

    put: Put
    place: int
    time_ms: int


@dataclass
class Expected:
    """The model: messages, queues, and what may be missing."""

    puts: dict[str, Put] = field(default_factory=dict)
    queues: dict[Queue, dict[int, Row]] = field(default_factory=lambda: defaultdict(dict))
    light: dict[str, list[tuple[int, bytes]]] = field(default_factory=lambda: defaultdict(list))
    gone: set[str] = field(default_factory=set)
    """Messages that retention or the removal of a queue took away."""
    of_removed: set[int] = field(default_factory=set)
    """Places of messages whose queue was removed: by their keys they are found as long as the log has them."""

    def of(self, message: mqstore.Message) -> Put:
        """What was put as this message."""
        return self.puts[bytes(message.body).split(b"|", 1)[0].decode()]

    def see(self, put: Put, offset: int, place: int, time_ms: int) -> None:
        """A message is in its queue now."""
        rows = self.queues[put.queue]
        assert not rows or offset == max(rows) + 1, (put, offset)
        rows[offset] = Row(put, place, time_ms)
        put.seen_count += 1
        for name in put.light:
            bisect.insort(self.light[name], (place, put.body))

    def see_stored(self, message: mqstore.Message, now_ms: int) -> None:
        """The store itself has put a message to its topic: it is due, or committed, and did not come before."""
        put = self.of(message)
        assert put.queue == (message.topic, message.queue_id)
        if put.state is not None:
            assert (put.state, put.seen_count) == (State.COMMITTED, 0), put
        else:
            assert put.due_ms is not None, put
            assert put.due_ms <= now_ms, put
            assert put.seen_count == 0 or put.may_come_again, put
            put.is_written_down = put.is_written_down and put.seen_count == 0
            put.may_come_again = False
        self.see(put, message.queue_offset, message.commit_log_offset, message.store_timestamp)

    def delivered(self, now_ms: int) -> None:
        """All that is due was delivered."""
        for put in self.puts.values():
            if put.due_ms is not None and put.due_ms <= now_ms:
                assert put.seen_count > 0, put
                put.may_come_again = False

    def written_down(self) -> None:
        """It is on the disk what was delivered."""
        for put in self.puts.values():
            put.is_written_down = put.is_written_down or (put.seen_count > 0 and not put.may_come_again)

    def crashed(self) -> None:
        """What was delivered and not written down may come again."""
        for put in self.puts.values():
            if put.due_ms is not None and put.seen_count and not put.is_written_down:
                put.may_come_again = True

    def expired(self, first: int) -> set[str]:
        """The log begins at a place now; gives the messages that went with what was before it."""
        waiting = [put for put in self.puts.values() if put.due_ms is not None and not put.seen_count]
        assert [put for put in waiting if put.place < first] == []
        went = set[str]()
        for rows in self.queues.values():
            for offset in [offset for offset, row in rows.items() if row.place < first]:
                went.add(rows.pop(offset).put.name)
        for name, found in self.light.items():
            self.light[name] = [one for one in found if one[0] >= first]
        self.gone |= went
        return went

    def cut(self, end: int) -> None:
        """The log ends at a place now."""
        for rows in self.queues.values():
            for offset in [offset for offset, row in rows.items() if row.place >= end]:
                self.gone.add(rows.pop(offset).put.name)
        for name, found in self.light.items():
            self.light[name] = [one for one in found if one[0] < end]

    def removed(self, queue: Queue) -> None:
        """A queue was removed."""
        for row in self.queues.pop(queue, {}).values():
            self.of_removed.add(row.place)
            self.gone.add(row.put.name)

    # ---- comparing ----------------------------------------------------------------------------

    def compare(self, store: mqstore.MessageStore, rnd: random.Random) -> None:
        """A store has just this, by each way of reading it."""
        for queue in list(self.queues):
            self._compare_queue(store, queue, rnd)
        for name, rows in self.light.items():
            found = store.topic(f"%LMQ%{name}").queue(0).select()
            assert [(message.commit_log_offset, bytes(message.body)) for message in found] == rows, name
        for topic in TOPICS:
            self._compare_keys(store, topic, rnd)
        self._compare_log(store, rnd)

    def _compare_queue(self, store: mqstore.MessageStore, queue: Queue, rnd: random.Random) -> None:
        rows = sorted(self.queues[queue].items())
        found = list(store.topic(queue[0]).queue(queue[1]).select())
        assert [(it.queue_offset, it.commit_log_offset, bytes(it.body)) for it in found] == [
            (offset, row.place, row.put.body) for offset, row in rows
        ], queue
        for message, (_, row) in zip(found, rows, strict=True):
            assert set(row.put.keys) <= set(message.keys), row
            assert (message.tags, message.store_timestamp) == (row.put.tags, row.time_ms), row
        if not rows:
            return
        end = store.get_max_offset_in_queue(*queue)
        assert store.get_min_offset_in_queue(*queue) <= rows[0][0]
        assert end == rows[-1][0] + 1
        offsets, times = [offset for offset, _ in rows], [row.time_ms for _, row in rows]
        at = rnd.choice(times) + rnd.choice([-1, 0, 1])
        first_not_before, first_behind = bisect.bisect_left(times, at), bisect.bisect_right(times, at)
        assert store.get_offset_in_queue_by_time(*queue, at, "lower") == [*offsets, end][first_not_before]
        assert store.get_offset_in_queue_by_time(*queue, at, "upper") == offsets[max(first_behind - 1, 0)]

    def _compare_keys(self, store: mqstore.MessageStore, topic: str, rnd: random.Random) -> None:
        key = rnd.choice(KEYS)
        of_topic = [row for queue, rows in self.queues.items() if queue[0] == topic for row in rows.values()]
        wanted = sorted(row.place for row in of_topic if key in row.put.keys)
        by_index = store.query_message(topic, key, max_num=_MORE_THAN_THERE_ARE)
        for found in (by_index, store.select(topic, key=key)):
            places = [message.commit_log_offset for message in found]
            assert [place for place in places if place not in self.of_removed] == wanted, (topic, key)
        most = rnd.choice([1, 3])
        newest = [message.commit_log_offset for message in by_index][-most:]
        assert [message.commit_log_offset for message in store.query_message(topic, key, max_num=most)] == newest

    def _compare_log(self, store: mqstore.MessageStore, rnd: random.Random) -> None:
        rows = [row for of_queue in self.queues.values() for row in of_queue.values()]
        assert sorted(message.commit_log_offset for message in store.select(TOPICS)) == sorted(
            row.place for row in rows
        )
        tags = rnd.choice(TAGS[1:])
        assert sorted(message.commit_log_offset for message in store.select(TOPICS, tags=tags)) == sorted(
            row.place for row in rows if row.put.tags == tags
        )
