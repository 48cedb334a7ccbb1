"""``config/topics.json``: the topics of a store with their numbers of queues.

Source: ``TopicConfigManager``, ``TopicConfig``.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from mqstore.store import config_json

__all__ = ["TopicConfig", "TopicConfigManager"]

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
        """A topic from its entry; what is missing or of another type has its default."""

        def number(name: str, otherwise: int) -> int:
            given = value.get(name)
            return given if isinstance(given, int) and not isinstance(given, bool) else otherwise

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


class TopicConfigManager:
    """The topics of a store, written back whole when one is added."""

    def __init__(self, path: Path, write: Callable[[Path, bytes], None], now_ms: Callable[[], int]) -> None:
        """Reads the file. What this version does not know of it is kept."""
        self._path, self._write, self._now_ms = path, write, now_ms
        self._lock = threading.Lock()
        loaded = config_json.load(path)
        self._content: dict[str, Any] = loaded if isinstance(loaded, dict) else {}

    def _table(self) -> dict[str, Any]:
        table = self._content.get("topicConfigTable")
        return table if isinstance(table, dict) else {}

    def get(self, topic: str) -> TopicConfig | None:
        """A topic, or ``None``."""
        entry = self._table().get(topic)
        return TopicConfig.from_json(topic, entry) if isinstance(entry, dict) else None

    def all(self) -> dict[str, TopicConfig]:
        """All topics by name."""
        table = self._table().items()
        return {topic: TopicConfig.from_json(topic, entry) for topic, entry in table if isinstance(entry, dict)}

    def get_or_add(self, topic: str, queue_nums: int) -> TopicConfig:
        """A topic; one that is new is written to the file first."""
        with self._lock:
            found = self.get(topic)
            if found is not None:
                return found
            added = TopicConfig(topic_name=topic, read_queue_nums=queue_nums, write_queue_nums=queue_nums)
            version = self._content.get("dataVersion")
            counter = version.get("counter", 0) if isinstance(version, dict) else 0
            content = self._content | {
                "dataVersion": {"counter": counter + 1, "timestamp": self._now_ms()},
                "topicConfigTable": self._table() | {topic: added.to_json()},
            }
            self._write(self._path, config_json.dumps(content).encode())
            self._content = content
            return added
