"""Which messages: the one way to say so, and what can be done with them."""

import copy
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from mqstore._native import Message
from mqstore.store.arguments import (
    INT_MAX,
    LONG_MAX,
    LONG_MIN,
    check_kind,
    check_store,
    checked_filter,
    checked_integer,
    checked_several,
    checked_text,
    checked_texts,
)
from mqstore.store.times import Time, checked_time
from mqstore.store.topics import LMQ_PREFIX, named_topics

if TYPE_CHECKING:
    import pyarrow as pa

    from mqstore.store.message_store import MessageStore

__all__ = ["QueueRange", "QueueRow", "Selection", "SelectionSpec"]

QueueRow: TypeAlias = tuple[str, int | None, int | None, int | None]
"""A :class:`QueueRange` as the engine takes it."""

_CHUNK_COUNT = 4096
_CHUNK_BYTES = 8 << 20
_BATCH_COUNT = 65_536
_BATCH_BYTES = 8 << 20
"""Small enough that a batch's memory is used again for the next one."""


@dataclass(frozen=True)
class QueueRange:
    """Offsets of a topic's queues, from the first that is wanted to behind the last."""

    topic: str
    queue_id: int | None = None
    """``None`` for all of the topic's queues."""
    begin_offset: int | None = None
    """``None`` for the queue's first."""
    end_offset: int | None = None
    """Behind the last; ``None`` for the queue's end."""

    def __post_init__(self) -> None:
        """Checks what it was given.

        Raises:
            TypeError: the topic is no string, or a number no integer.
            ValueError: a number is out of bounds.
        """
        checked_text("topic", self.topic)
        # A store of 4.9.3's without delay levels has a queue -1.
        _check_number(self, "queue_id", -INT_MAX - 1, INT_MAX)
        _check_number(self, "begin_offset")
        _check_number(self, "end_offset")


@dataclass(frozen=True, repr=False)
class Selection:
    """Messages of a store: immutable, lazy, and read anew each time it is gone through.

    Made by :meth:`MessageStore.select`, and by slicing queues. With topics the messages come queue
    after queue, in the order of each; with keys, and without either, in the order of the log.
    """

    store: "MessageStore"
    queues: tuple[QueueRange, ...] | None = None
    """Only messages of these queues; ``None`` for all that the log holds."""
    keys: tuple[str, ...] | None = None
    """Only messages with one of these keys."""
    tags: str | None = None
    """Only messages with one of these tags: ``"A || B"``."""
    sql: str | None = None
    """Only messages whose properties pass this SQL92 filter: ``"price > 5 AND region IN ('cn', 'us')"``."""
    begin_timestamp: int | None = None
    """Only messages stored at this time or later, in milliseconds."""
    end_timestamp: int | None = None
    """Only messages stored at this time or earlier."""
    from_phy_offset: int | None = None
    """Only messages at this offset of the log or behind it."""
    to_phy_offset: int | None = None
    """Only messages before this offset of the log."""
    places: tuple[int, ...] | None = None
    """Only messages that begin at one of these offsets of the log."""
    limit: int | None = None
    """At most so many messages."""

    def __post_init__(self) -> None:
        """Checks what it was given; a queue that is named twice is one, as for a consumer.

        Raises:
            OptionError: the filter is none.
            TypeError: the store is none, a queue no range, a key, the tags or the filter no string, or a number none.
            ValueError: a number is out of bounds.
        """
        check_store(self.store)
        self._check(has_new_filter=True)

    def _check(self, *, has_new_filter: bool) -> None:
        if self.queues is not None:
            queues = checked_several("queues", self.queues, "several ranges of queues")
            for queue in queues:
                check_kind("queues", queue, QueueRange)
            object.__setattr__(self, "queues", tuple(dict.fromkeys(queues)))
        if self.keys is not None:
            object.__setattr__(self, "keys", checked_texts("key", self.keys))
        if self.tags is not None:
            checked_text("tags", self.tags)
        if self.sql is not None and has_new_filter:
            checked_filter("sql", self.sql, compat=self.store.compat)
        if self.places is not None:
            places = checked_several("places", self.places, "several offsets of the log")
            object.__setattr__(self, "places", tuple(checked_integer("places", place) for place in places))
        for name in ("begin_timestamp", "end_timestamp"):
            _check_number(self, name, LONG_MIN)
        for name in ("from_phy_offset", "to_phy_offset", "limit"):
            _check_number(self, name)

    def _spec(self) -> "SelectionSpec":
        queues = None
        if self.queues is not None:
            queues = [(each.topic, each.queue_id, each.begin_offset, each.end_offset) for each in self.queues]
        return SelectionSpec(
            queues=queues,
            keys=None if self.keys is None else list(self.keys),
            tags=self.tags,
            sql=self.sql,
            begin_timestamp=self.begin_timestamp,
            end_timestamp=self.end_timestamp,
            from_phy_offset=self.from_phy_offset,
            to_phy_offset=self.to_phy_offset,
            places=None if self.places is None else list(self.places),
            limit=self.limit,
        )

    def _looked_up(self) -> "SelectionSpec":
        """As the engine looks for the messages: with the topics that its files do not tell."""
        spec = self._spec()
        return (
            spec
            if self.keys is None or self.queues is not None
            else replace(spec, topics_of_keys=named_topics(self.store))
        )

    def where(
        self,
        *,
        key: str | Iterable[str] | None = None,
        tags: str | None = None,
        sql: str | None = None,
        begin: Time | None = None,
        end: Time | None = None,
        limit: int | None = None,
    ) -> Self:
        """A narrower selection: what is given here replaces what was given before.

        Raises:
            OptionError: ``sql`` is no filter.
            TypeError: something has another type.
            ValueError: a time without a time zone, or a number out of bounds.
        """
        changes: dict[str, Any] = {}
        if key is not None:
            changes["keys"] = checked_texts("key", key)
        if tags is not None:
            changes["tags"] = tags
        if sql is not None:
            changes["sql"] = sql
        if begin is not None:
            changes["begin_timestamp"] = checked_time("begin", begin)
        if end is not None:
            changes["end_timestamp"] = checked_time("end", end)
        if limit is not None:
            changes["limit"] = limit
        return self._with(changes, has_new_filter="sql" in changes)

    def _with(self, changes: dict[str, Any], *, has_new_filter: bool) -> Self:
        """The selection with other fields. A filter is compiled to be checked: one that is known to be one, once."""
        found = copy.copy(self)
        for name, value in changes.items():
            object.__setattr__(found, name, value)
        found._check(has_new_filter=has_new_filter)
        return found

    def __iter__(self) -> Iterator[Message]:
        """The messages, as they are when one comes to them."""
        for chunk in self.chunks():
            yield from chunk

    def chunks(self, max_count: int = _CHUNK_COUNT, max_bytes: int = _CHUNK_BYTES) -> Iterator[list[Message]]:
        """The messages some at a time: at most so many, and about as many bytes of records.

        Raises:
            TypeError: a bound is no integer.
            ValueError: a bound is below 1.
        """
        bounds = (checked_integer("max_count", max_count, 1), checked_integer("max_bytes", max_bytes, 1))
        return self._chunks(*bounds)

    def _chunks(self, max_count: int, max_bytes: int) -> Iterator[list[Message]]:
        cursor = self.store._cursor(self._looked_up())
        while chunk := cursor.next_messages(max_count, max_bytes):
            yield chunk

    def count(self) -> int:
        """How many messages are selected.

        With topics and times alone the log is not read for it: a message counts by those around it, also one whose own
        time was damaged, or that is damaged otherwise, and that going through the selection leaves out.
        """
        return self.store._count(self._looked_up())

    def first(self) -> Message | None:
        """The first message, or ``None``."""
        return next(iter(self if self.limit == 0 else self.where(limit=1)), None)

    # ---- many look-ups in one call -------------------------------------------------------------

    def look_up_keys(self, keys: Iterable[str], *, max_num: int = 32) -> dict[str, list[Message]]:
        """For each of many keys the newest messages of the selection that have it, oldest first.

        Raises:
            TypeError: the keys are one string, or a key is none.
            ValueError: the selection has no topic, or more than topics and times.
        """
        wanted = checked_several("keys", keys, "several keys")
        found: dict[str, list[Message]] = {checked_text("key", key): [] for key in wanted}
        if self.queues is None or any(each is not None for each in (self.keys, self.tags, self.sql)):
            raise ValueError("keys are looked up in topics: the selection has topics and times, no keys, tags or sql")
        if any(each.queue_id is not None for each in self.queues):
            raise ValueError("keys are looked up in whole topics: the selection names single queues")
        self._check_has_whole_queues("keys are looked up in topics and times")
        begin = 0 if self.begin_timestamp is None else self.begin_timestamp
        end = LONG_MAX if self.end_timestamp is None else self.end_timestamp
        for topic in {each.topic for each in self.queues}:
            if self._has_others(topic):
                self._look_up_further(topic, found)
                continue
            messages = self.store.query_messages(topic, list(found), max_num, begin, end)
            for key, more in zip(found, messages, strict=True):
                found[key].extend(more)
        for of_key in found.values():
            # One that is in queues of several topics is given once.
            in_order = sorted({message.commit_log_offset: message for message in of_key}.items())
            of_key[:] = [message for _, message in in_order[max(0, len(in_order) - max_num) :]]
        return found

    def _has_others(self, topic: str) -> bool:
        """Whether a topic's queues may have messages that the index has under another one."""
        return not self.store.compat and (self.store.options.enable_multi_dispatch or topic.startswith(LMQ_PREFIX))

    def _look_up_further(self, topic: str, found: dict[str, list[Message]]) -> None:
        """Adds what a topic's queues have of the keys, of others' messages too."""
        for message in replace(self, queues=(QueueRange(topic),)).where(key=found):
            for key in {*message.keys, message.unique_key or ""}:
                if key in found:
                    found[key].append(message)

    def look_up_times(self, times: Iterable[Time], boundary: str = "lower") -> dict[tuple[str, int], list[int]]:
        """For each queue of the selection the offsets that many times stand for.

        Args:
            times: The times.
            boundary: ``"lower"`` for the first message that is not before a time, ``"upper"`` for the
                last that is not behind it, ``"nearest"`` for the nearest.

        Raises:
            TypeError: the times are no several, or one is none.
            ValueError: the selection has no topic, or more than topics and queues: offsets, times, keys,
                tags, a filter or a limit would not narrow what is found.
        """
        if self.queues is None:
            raise ValueError("times are looked up in queues: the selection has no topic")
        narrowed = (self.keys, self.tags, self.sql, self.begin_timestamp, self.end_timestamp)
        if any(each is not None for each in narrowed):
            raise ValueError("times are looked up in whole queues: the selection has keys, tags, sql or times")
        self._check_has_whole_queues("times are looked up in whole queues")
        timestamps = [checked_time("time", time) for time in checked_several("times", times, "several times")]
        wanted = {(each.topic, each.queue_id) for each in self.queues}
        self.store._catch_up()
        return {
            (topic, queue_id): self.store.get_offsets_in_queue_by_time(topic, queue_id, timestamps, boundary)
            for topic, queue_id, *_ in self.store._queues()
            if (topic, queue_id) in wanted or (topic, None) in wanted
        }

    def _check_has_whole_queues(self, how: str) -> None:
        """Refuses a selection that is narrowed by places or by a number of messages."""
        ranges = [(each.begin_offset, each.end_offset) for each in self.queues or ()]
        bounds = (self.from_phy_offset, self.to_phy_offset, self.places)
        if any(each is not None for each in (*bounds, *(offset for pair in ranges for offset in pair))):
            raise ValueError(f"{how}: the selection has ranges of offsets")
        if self.limit is not None:
            raise ValueError(f"{how}: the selection has a limit")

    # ---- Arrow -------------------------------------------------------------------------------

    def to_arrow(
        self,
        columns: Sequence[str] | None = None,
        *,
        body: str = "binary",
        max_messages: int = _BATCH_COUNT,
        max_bytes: int = _BATCH_BYTES,
        use_threads: bool = True,
    ) -> "pa.RecordBatchReader":
        """The messages as a stream of Arrow record batches, read as it is read; needs pyarrow.

        With the column ``body`` a message is left out whose body does not inflate, as one is that is damaged:
        :meth:`MessageStore.report` tells both.

        Args:
            columns: Names of columns, in their order; all but the raw ones by default.
            body: ``"binary"`` copies bodies, ``"view"`` gives views into the store's files.
            max_messages: Most messages a batch.
            max_bytes: About how many bytes of records a batch; inflated bodies end it at 64 MiB too.
            use_threads: Whether the processor's cores make batches side by side, as many as they are
                and at most 4; then as many batches are in memory at once. Where a filter or a limit
                decides which messages there are, or no topic is named, one makes them all the same.

        Raises:
            TypeError: a bound is no integer, a column no string, or the columns are one string.
            ValueError: there is no such column, or a bound is below 1.
        """
        names = None if columns is None else list(checked_several("columns", columns, "several names"))
        for name in names or ():
            checked_text("columns", name)
        checked_text("body", body)
        check_kind("use_threads", use_threads, bool)
        max_messages = checked_integer("max_messages", max_messages, 1)
        max_bytes = checked_integer("max_bytes", max_bytes, 1)
        import pyarrow as pa  # noqa: PLC0415 - it need not be installed

        capsule = self.store._arrow_stream(self._looked_up(), names, body, max_messages, max_bytes, use_threads)
        return pa.RecordBatchReader._import_from_c_capsule(capsule)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The PyCapsule interface: pyarrow, Polars and DuckDB take a selection as it is, pandas its ``pa.table``."""
        del requested_schema  # the consumer casts; the interface lets a producer leave that to it
        return self.store._arrow_stream(self._looked_up(), None, "binary", _BATCH_COUNT, _BATCH_BYTES, use_threads=True)

    def __repr__(self) -> str:
        """What is selected, of which store."""
        given = {name: value for name, value in vars(self._spec()).items() if value is not None}
        return f"Selection({self.store.options.store_path_root_dir!r}, {given})"


@dataclass(frozen=True, kw_only=True)
class SelectionSpec:
    """A selection as the engine takes it, and without a store."""

    queues: list[QueueRow] | None = None
    own_only: bool = False
    """Of the queues' messages only those that were put to them."""
    keys: list[str] | None = None
    topics_of_keys: list[str] | None = None
    """Topics in which keys are looked up besides those that have queues, where none are named."""
    tags: str | None = None
    sql: str | None = None
    begin_timestamp: int | None = None
    end_timestamp: int | None = None
    times_in_any_order: bool = False
    """Whether store times may have gone back: then one says nothing of those of other messages."""
    from_phy_offset: int | None = None
    to_phy_offset: int | None = None
    places: list[int] | None = None
    limit: int | None = None


def _check_number(checked: object, name: str, least: int = 0, most: int = LONG_MAX) -> None:
    """Makes a field of a frozen object an integer within bounds, unless it is ``None``."""
    value = getattr(checked, name)
    if value is not None:
        object.__setattr__(checked, name, checked_integer(name, value, least, most))
