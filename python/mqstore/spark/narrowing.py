"""What filters leave to be read.

Spark checks every filter again on what is read, so a filter that says nothing here costs time and
changes no result.
"""

import datetime as dt
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from mqstore.spark.columns import REPLACEMENT
from mqstore.store.selection import SelectionSpec
from mqstore.store.times import to_ms

__all__ = ["Narrowing"]


@dataclass(frozen=True)
class _Interval:
    """Whole numbers from the first to the last; ``None`` for any."""

    first: int | None = None
    last: int | None = None

    def meet(self, first: int | None, last: int | None) -> "_Interval":
        firsts = [each for each in (self.first, first) if each is not None]
        lasts = [each for each in (self.last, last) if each is not None]
        return _Interval(max(firsts, default=None), min(lasts, default=None))


@dataclass(frozen=True)
class Narrowing:
    """What filters leave; ``None`` for all."""

    stores: frozenset[str] | None = None
    topics: frozenset[str] | None = None
    queue_ids: frozenset[int] | None = None
    unique_keys: frozenset[str] | None = None
    tags: frozenset[str] | None = None
    queue_offset: _Interval = _Interval()
    commit_log_offset: _Interval = _Interval()
    store_timestamp: _Interval = _Interval()
    """In milliseconds."""

    @classmethod
    def of(cls, filters: Iterable[Filter]) -> "Narrowing":
        """What some filters leave, all of which hold."""
        found = cls()
        for each in filters:
            found = found._and(each)
        return found

    def _and(self, given: Filter) -> "Narrowing":
        name = ".".join(getattr(given, "attribute", ()))
        sets = {
            "store": "stores",
            "topic": "topics",
            "queue_id": "queue_ids",
            "unique_key": "unique_keys",
            "tags": "tags",
        }
        values = _values(given)
        if name in sets and values is not None:
            known: frozenset[Any] | None = getattr(self, sets[name])
            changes: dict[str, Any] = {sets[name]: values if known is None else known & values}
            return replace(self, **changes)
        if name in {"queue_offset", "commit_log_offset", "store_timestamp"}:
            interval: _Interval = getattr(self, name)
            changes = {name: interval.meet(*_interval(given))}
            return replace(self, **changes)
        return self

    def takes_store(self, path: str) -> bool:
        """Whether anything is left of a store."""
        return self.stores is None or path in self.stores

    def takes_queue(self, topic: str, queue_id: int) -> bool:
        """Whether anything is left of a queue."""
        return (self.topics is None or topic in self.topics) and (self.queue_ids is None or queue_id in self.queue_ids)

    def offsets(self, begin: int, end: int) -> tuple[int, int]:
        """What is left of a queue's offsets."""
        left = self.queue_offset.meet(begin, end - 1)
        return (begin if left.first is None else left.first), (end if left.last is None else left.last + 1)

    def keys_of(self, given: tuple[str, ...] | None) -> list[str] | None:
        """The keys to look up: those that are asked for, else the unique keys that filters leave."""
        if given is not None:
            return list(given)
        return None if self.unique_keys is None else sorted(self.unique_keys)

    def apply(self, spec: SelectionSpec) -> SelectionSpec:
        """A selection with what is left of the log, of time and of tags."""
        time = self.store_timestamp.meet(spec.begin_timestamp, spec.end_timestamp)
        tags = spec.tags
        if tags is None and self.tags and all(tag.strip() == tag and "||" not in tag for tag in self.tags):
            tags = " || ".join(sorted(self.tags))
        if tags == "*":
            tags = None
        first, last = self.commit_log_offset.first, self.commit_log_offset.last
        return replace(
            spec,
            tags=tags,
            begin_timestamp=time.first,
            end_timestamp=time.last,
            # A filter may say negative numbers, a selection not.
            from_phy_offset=None if first is None else max(0, first),
            to_phy_offset=None if last is None else max(0, last + 1),
        )


def _values(given: Filter) -> frozenset[Any] | None:
    """The values that a filter leaves, where it leaves some."""
    found: frozenset[Any] | None = None
    if isinstance(given, (EqualTo, EqualNullSafe)):
        found = None if given.value is None else frozenset([given.value])
    elif isinstance(given, In):
        found = frozenset(value for value in given.value if value is not None)
    # The engine looks for a value's own bytes, and a column shows others as that value too.
    is_told_apart = not any(isinstance(value, str) and REPLACEMENT in value for value in found or ())
    return found if is_told_apart else None


def _interval(given: Filter) -> tuple[int | None, int | None]:
    """The first and the last whole number that a comparison leaves."""
    value = getattr(given, "value", None)
    if isinstance(value, dt.datetime):
        # In whole milliseconds, of which none is left out.
        at = to_ms(value if value.tzinfo else value.astimezone())
        above, below = at, at
    elif isinstance(value, int) and not isinstance(value, bool):
        at, above, below = value, value + 1, value - 1
    else:
        return None, None
    if isinstance(given, (EqualTo, EqualNullSafe)):
        return at, at
    firsts = {GreaterThan: above, GreaterThanOrEqual: at}
    lasts = {LessThan: below, LessThanOrEqual: at}
    return firsts.get(type(given)), lasts.get(type(given))
