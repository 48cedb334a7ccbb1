"""What checking a store finds."""

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["BROKEN_OFF", "REMARKS", "Finding", "StoreAudit"]

REMARKS = frozenset({"begin_gone", "clock_set_back"})
"""Kinds of findings that are worth knowing, and nothing wrong."""

BROKEN_OFF = "repair_broken_off"
"""The kind of finding that decides what is to be done about all the others."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Something that is wrong with a store, or worth knowing."""

    store: str
    """The store's folder."""
    kind: str
    """What it is; the kinds are in the documentation."""
    path: str
    """The file; of what is wrong between the offsets of a queue, the queue's folder."""
    topic: str | None
    """The queue's topic."""
    queue_id: int | None
    """The queue."""
    queue_offset: int | None
    """The place in the queue."""
    phy_offset: int | None
    """The place in the log."""
    detail: str
    """What was expected and what was found."""


@dataclass(frozen=True, kw_only=True)
class StoreAudit:
    """What a store holds, and what is wrong with it."""

    store: str
    """Its folder."""
    begin: int
    """The offset of the log's first byte."""
    end: int
    """Where the log ends."""
    record_count: int = 0
    """Records."""
    unit_count: int = 0
    """Units of queues that are messages of the log."""
    expired_unit_count: int = 0
    """Units whose messages are gone with expired files."""
    blank_unit_count: int = 0
    """Units that only fill a file."""
    key_count: int = 0
    """Keys under which messages are to be found."""
    entry_count: int = 0
    """Index entries that are right."""
    queue_count: int = 0
    """Queues that have files."""
    first_store_time: dt.datetime | None = None
    """When the first message was stored."""
    last_store_time: dt.datetime | None = None
    """When the last one was."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """How many findings there are of each kind."""
    totals: Mapping[str, Mapping[str, tuple[int, int]]] = field(default_factory=dict)
    """Messages and bytes of records by ``topic``, ``hour``, ``host`` and ``size``."""

    @property
    def wrong(self) -> Mapping[str, int]:
        """How many findings there are of each kind, remarks aside."""
        return {kind: count for kind, count in self.counts.items() if kind not in REMARKS}

    @property
    def is_whole(self) -> bool:
        """Whether nothing is wrong. Remarks leave it so."""
        return not self.wrong
