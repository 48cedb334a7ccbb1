"""``config/topics.json``: the topics of a store with their numbers of queues.

Source: ``TopicConfigManager``, ``TopicConfig``.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from mqstore.store import config_json
from mqstore.store.arguments import INT_MAX, LONG_MAX, check_fields, check_kind, checked_text
from mqstore.store.config_manager import ConfigManager, Json, checked_object, read_only, unless_damaged

if TYPE_CHECKING:
    from mqstore.store.message_store import MessageStore

__all__ = [
    "LMQ_PREFIX",
    "TOPICS",
    "TopicConfig",
    "TopicConfigManager",
    "named_topics",
    "read_topics",
    "undamaged_topics",
]

TOPICS = "config/topics.json"
"""Their file in a store."""

LMQ_PREFIX = "%LMQ%"
"""What the names of light queues begin with."""

_PERM_READ_WRITE = 6


@dataclass(frozen=True, kw_only=True)
class TopicConfig:
    """A topic."""

    topic_name: str
    read_queue_nums: int = 16
    write_queue_nums: int = 16
    perm: int = _PERM_READ_WRITE
    topic_filter_type: str = "SINGLE_TAG"
    topic_sys_flag: int = 0
    order: bool = False

    @classmethod
    def from_json(cls, topic: str, value: dict[str, Any]) -> Self:
        """A topic from its entry; what is missing or of another type has its default, numbers end as ``int`` does."""

        def number(name: str, otherwise: int) -> int:
            given = value.get(name)
            if not isinstance(given, int) or isinstance(given, bool):
                return otherwise
            return max(-INT_MAX - 1, min(given, INT_MAX))

        return cls(
            topic_name=topic,
            read_queue_nums=number("readQueueNums", 16),
            write_queue_nums=number("writeQueueNums", 16),
            perm=number("perm", _PERM_READ_WRITE),
            topic_filter_type=str(value.get("topicFilterType", "SINGLE_TAG")),
            topic_sys_flag=number("topicSysFlag", 0),
            order=value.get("order") is True,
        )

    def to_json(self) -> dict[str, Any]:
        """The topic's entry, its fields in fastjson's order."""
        return {
            "order": self.order,
            "perm": self.perm,
            "readQueueNums": self.read_queue_nums,
            "topicFilterType": self.topic_filter_type,
            "topicName": self.topic_name,
            "topicSysFlag": self.topic_sys_flag,
            "writeQueueNums": self.write_queue_nums,
        }


def named_topics(store: "MessageStore") -> list[str]:
    """The topics that a store's configuration names, also where no message of theirs is in a queue: all are prepared.

    None of a file that is damaged, which a look-up by key can do without, and of a store elsewhere.

    Raises:
        StoreIOError: the file cannot be read: it may name topics.
    """
    if store._topics is not None:
        return list(store._topics.all())
    if store._ranges is not None:
        return []
    topics = undamaged_topics(store.path)
    return [] if topics is None else list(topics.all())


def undamaged_topics(store: Path) -> "TopicConfigManager | None":
    """The topics of a store, to look at; ``None`` where their file and its ``.bak`` are damaged.

    Raises:
        StoreIOError: the file cannot be read.
    """
    return unless_damaged(lambda: read_topics(store))


def read_topics(store: Path) -> "TopicConfigManager":
    """The topics of a store, to look at.

    Raises:
        MQStoreError: their file and its ``.bak`` are damaged, or cannot be read.
    """
    return TopicConfigManager(store / TOPICS, read_only, int)


class TopicConfigManager(ConfigManager):
    """The topics of a store, written back whole when one is added or changed."""

    def __init__(self, path: Path, write: Callable[[Path, bytes], None], now_ms: Callable[[], int]) -> None:
        """Reads the file."""
        self._now_ms = now_ms
        self._table: Json = {}
        self._dumped: dict[str, tuple[Json, config_json.Dumped]] = {}
        super().__init__(path, write)

    def decode(self, content: Json) -> None:
        """Takes over ``topicConfigTable``."""
        table = checked_object("topicConfigTable", content.get("topicConfigTable", {}))
        self._table = {topic: checked_object(topic, entry) for topic, entry in table.items()}

    def encode(self) -> Json:
        """The topics, under a new version."""
        self._dumped = {topic: self._dump(topic, entry) for topic, entry in self._table.items()}
        dumped = {topic: form for topic, (_, form) in self._dumped.items()}
        return {"dataVersion": self.next_version(self._now_ms()), "topicConfigTable": dumped}

    def _dump(self, topic: str, entry: Json) -> tuple[Json, config_json.Dumped]:
        known = self._dumped.get(topic)
        return known if known is not None and known[0] is entry else (entry, config_json.dump_entry(entry))

    def get(self, topic: str) -> TopicConfig | None:
        """A topic, or ``None``.

        Raises:
            TypeError: its name is no string.
        """
        entry = self._table.get(checked_text("topic", topic))
        return None if entry is None else TopicConfig.from_json(topic, entry)

    def all(self) -> dict[str, TopicConfig]:
        """All topics by name."""
        return {topic: TopicConfig.from_json(topic, entry) for topic, entry in self._table.items()}

    def get_or_add(self, topic: str, queue_nums: int) -> TopicConfig:
        """A topic; one that is new is written to the file first."""
        with self._lock:
            found = self.get(topic)
            if found is None:
                found = TopicConfig(topic_name=topic, read_queue_nums=queue_nums, write_queue_nums=queue_nums)
                self.update(found)
            return found

    def add_all(self, configs: Iterable[TopicConfig]) -> None:
        """Adds those topics that are not there, all at once."""
        with self._lock:
            new = {config.topic_name: config.to_json() for config in configs}
            self._change(new | self._table)

    def update(self, config: TopicConfig) -> None:
        """Adds or changes a topic. Source: ``updateTopicConfig``.

        Raises:
            TypeError: it is none, or one of its fields has another type.
            ValueError: a number is out of bounds.
        """
        check_kind("config", config, TopicConfig)
        # Who reads the file ends a number as ``int`` does.
        check_fields(config, dict.fromkeys(("read_queue_nums", "write_queue_nums"), LONG_MAX))
        with self._lock:
            entry = self._table.get(config.topic_name, {}) | config.to_json()
            self._change(self._table | {config.topic_name: entry})

    def delete(self, topic: str) -> None:
        """Removes a topic. Source: ``deleteTopicConfig``.

        Raises:
            TypeError: its name is no string.
        """
        checked_text("topic", topic)
        with self._lock:
            if topic in self._table:
                self._change({name: entry for name, entry in self._table.items() if name != topic})

    def _change(self, table: Json) -> None:
        before, self._table = self._table, table
        try:
            self.persist()
        except BaseException:
            self._table = before
            raise
