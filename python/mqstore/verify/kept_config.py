"""What becomes of a store's configuration when it is repaired: it is kept, but for what is damaged or goes too far."""

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from mqstore import _native
from mqstore.store.delayed import SCHEDULE_TOPIC, TIMED_TOPIC
from mqstore.store.group_offsets import keep, set_back, unread
from mqstore.store.half_messages import HALF_TOPIC, OP_TOPIC
from mqstore.store.read_offset import ReadOffset
from mqstore.store.topics import LMQ_PREFIX, TOPICS, TopicConfig, TopicConfigManager, undamaged_topics
from mqstore.verify.made_anew import MadeAnew

__all__ = ["KeptConfig", "are_topics_damaged", "mend_config", "remove_topics", "topics_are_aside"]

_TOPICS = (TOPICS, f"{TOPICS}.bak")
_OWN_TOPICS = frozenset({SCHEDULE_TOPIC, TIMED_TOPIC, HALF_TOPIC, OP_TOPIC})
"""Those that a broker, or a store, makes itself when it needs them, with as many queues as it wants."""


@dataclass(frozen=True, kw_only=True)
class KeptConfig:
    """What was changed of a configuration, and what can't be."""

    set_back_count: int
    """Offsets of groups and delay levels that are the ends of their queues now."""
    unread: tuple[Path, ...]
    """Damaged files of groups and delay levels."""
    topics: tuple[str, ...] | None
    """Topics that were made anew; ``None`` where they could be read."""


def are_topics_damaged(store: Path) -> bool:
    """Whether nobody can say which topics a store has: nobody could open it then.

    Raises:
        StoreIOError: the operating system refuses to say.
    """
    return undamaged_topics(store) is None


def remove_topics(store: Path, saved: Path | None = None) -> None:
    """Removes damaged files of topics, which are kept first where there is a place for them."""
    if saved is not None:
        for name in _TOPICS:
            keep(store / name, saved / name)
    for name in _TOPICS:
        (store / name).unlink(missing_ok=True)


def topics_are_aside(all_saved: Iterable[Path]) -> bool:
    """Whether a repair in place, this one or one that was broken off, has removed damaged files of topics."""
    return any((saved / name).exists() for saved in all_saved for name in _TOPICS)


def mend_config(
    path: Path,
    ends: Mapping[tuple[str, int], int],
    derived: MadeAnew,
    *,
    lacks_topics: bool,
    saved: Path | None = None,
) -> KeptConfig:
    """Makes topics anew, and sets groups and delay levels that are further than their queues back.

    Args:
        path: The store.
        ends: The next offset of each queue.
        derived: What was made anew from its log.
        lacks_topics: Whether its topics were damaged.
        saved: Where a file is kept before it is changed.
    """

    def goes_on(queue: tuple[str, int], read: ReadOffset) -> ReadOffset:
        end = ends.get(queue, 0)
        offset = read.offset if read.offset <= end else derived.unread.get((*queue, read.log_end), end)
        return ReadOffset(offset, read.log_end)

    return KeptConfig(
        topics=_make_topics(path, ends) if lacks_topics else None,
        set_back_count=len(set_back(path, goes_on, _native.write_whole, saved)),
        unread=tuple(unread(path)),
    )


def _make_topics(path: Path, queues: Iterable[tuple[str, int]]) -> tuple[str, ...]:
    """The topics that have queues, with as many as they are seen to have."""
    counts: dict[str, int] = {}
    for topic, queue_id in queues:
        if topic not in _OWN_TOPICS and not topic.startswith(LMQ_PREFIX):
            counts[topic] = max(counts.get(topic, 1), queue_id + 1)
    topics = TopicConfigManager(path / _TOPICS[0], _native.write_whole, lambda: time.time_ns() // 1_000_000)
    topics.add_all(
        TopicConfig(topic_name=topic, read_queue_nums=count, write_queue_nums=count)
        for topic, count in sorted(counts.items())
    )
    return tuple(sorted(counts))
