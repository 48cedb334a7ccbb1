"""``config/consumerFilter.json``: the SQL92 filters that groups have for topics.

Source: ``ConsumerFilterManager``, ``ConsumerFilterData``.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from mqstore.options import FilterRow
from mqstore.store.arguments import LONG_MAX
from mqstore.store.bloom_filter import BIT_NUM, HASH_COUNT, bit_positions
from mqstore.store.config_manager import ConfigManager, Json, checked_int, checked_object, read_only

__all__ = ["ConsumerFilterData", "ConsumerFilterManager", "persisted_filters"]

_CLEAN_TIME_SPAN_MS = 24 * 3600 * 1000
_UNKNOWN_DEATH_MS = 30 * 1000
"""A group that was alive when the file was written is taken to have died so long before it is read."""


@dataclass(frozen=True, kw_only=True)
class ConsumerFilterData:
    """A group's filter for a topic."""

    consumer_group: str
    topic: str
    expression: str
    expression_type: str = "SQL92"
    born_time: int
    """When it was registered."""
    dead_time: int = 0
    """When its last consumer went."""
    client_version: int
    """Of two filters the one with the higher version counts."""
    bit_pos: tuple[int, ...] = ()
    """The group's bits in the maps of a queue's extension."""
    bit_num: int = BIT_NUM

    @property
    def is_dead(self) -> bool:
        """Whether no consumer uses it. Source: ``isDead``."""
        return self.dead_time >= self.born_time

    @classmethod
    def from_json(cls, topic: str, group: str, value: object) -> Self:
        """A filter from its entry.

        Raises:
            ValueError: a field has another type.
        """
        entry = checked_object(group, value)
        expression, kind = entry.get("expression"), entry.get("expressionType", "SQL92")
        if not isinstance(expression, str) or not isinstance(kind, str):
            raise ValueError(
                f"{topic}: {group}: expected an expression and its type, found {expression!r} and {kind!r}"
            )
        bloom = checked_object("bloomFilterData", entry.get("bloomFilterData", {}))
        positions = bloom.get("bitPos", [])
        if not isinstance(positions, list):
            raise ValueError(f"{topic}: {group}: bitPos: expected a list, found {positions!r}")
        return cls(
            consumer_group=group,
            topic=topic,
            expression=expression,
            expression_type=kind,
            born_time=checked_int("bornTime", entry.get("bornTime", 0)),
            dead_time=checked_int("deadTime", entry.get("deadTime", 0)),
            client_version=checked_int("clientVersion", entry.get("clientVersion", 0)),
            bit_pos=tuple(checked_int("bitPos", position) for position in positions),
            bit_num=checked_int("bitNum", bloom.get("bitNum", 0)),
        )

    def to_json(self) -> dict[str, Any]:
        """The filter's entry, its fields in fastjson's order."""
        return {
            "bloomFilterData": {"bitNum": self.bit_num, "bitPos": self.bit_pos},
            "bornTime": self.born_time,
            "clientVersion": self.client_version,
            "consumerGroup": self.consumer_group,
            "dead": self.is_dead,
            "deadTime": self.dead_time,
            "expression": self.expression,
            "expressionType": self.expression_type,
            "topic": self.topic,
        }


class ConsumerFilterManager(ConfigManager):
    """The filters of a store. They change in memory; :meth:`persist` writes them."""

    def __init__(self, path: Path, write: Callable[[Path, bytes], None], now_ms: Callable[[], int]) -> None:
        """Reads the file; all consumers in it are taken to be gone."""
        self._now_ms = now_ms
        self._filters: dict[tuple[str, str], ConsumerFilterData] = {}
        super().__init__(path, write)

    def decode(self, content: Json) -> None:
        """Takes over ``filterDataByTopic``."""
        died = self._now_ms() - _UNKNOWN_DEATH_MS
        filters = {}
        for topic, of_topic in checked_object("filterDataByTopic", content.get("filterDataByTopic", {})).items():
            groups = checked_object("groupFilterData", checked_object(topic, of_topic).get("groupFilterData", {}))
            for group, entry in groups.items():
                found = ConsumerFilterData.from_json(topic, group, entry)
                if found.dead_time == 0:
                    found = replace(found, dead_time=max(died, found.born_time))
                filters[topic, group] = found
        self._filters = filters

    def encode(self) -> Json:
        """The filters; those that nobody has used for a day are left out. Source: ``clean``."""
        oldest = self._now_ms() - _CLEAN_TIME_SPAN_MS
        table: dict[str, Json] = {}
        for (topic, group), found in self._filters.items():
            if not found.is_dead or found.dead_time > oldest:
                of_topic = table.setdefault(topic, {"groupFilterData": {}, "topic": topic})
                of_topic["groupFilterData"][group] = found.to_json()
        return {"filterDataByTopic": table}

    def get(self, topic: str, group: str) -> ConsumerFilterData | None:
        """A group's filter for a topic, or ``None``."""
        return self._filters.get((topic, group))

    def bit_map_filters(self) -> list[FilterRow]:
        """Those that bit maps can be made for: whose bits are of maps as they are here. Source: ``isValid``."""
        return [
            (found.topic, found.bit_pos, found.expression)
            for found in self._filters.values()
            if found.bit_num == BIT_NUM
            and len(found.bit_pos) == HASH_COUNT
            and all(0 <= position < BIT_NUM for position in found.bit_pos)
        ]

    def register(
        self,
        topic: str,
        group: str,
        expression: str,
        client_version: int,
        mark: Callable[[list[FilterRow]], None] = lambda _filters: None,
    ) -> bool:
        """Sets a group's SQL92 filter for a topic; an older one than is known changes nothing.

        Where it is a new one, ``mark`` is called with all filters before it counts as born: a broker takes a message
        that was stored behind that, and that has no mark, for one that does not pass.

        Gives whether anything changed. Source: ``register``.
        """
        with self._lock:
            known = self._filters.get((topic, group))
            if known is not None and client_version <= known.client_version:
                if client_version == known.client_version and known.is_dead:
                    self._filters[topic, group] = replace(known, dead_time=0)
                    return True
                return False
            positions = bit_positions(group, topic)
            if known is not None and (known.expression, known.bit_pos) == (expression, positions):
                self._filters[topic, group] = replace(known, client_version=client_version, dead_time=0)
                return True
            made = ConsumerFilterData(
                consumer_group=group,
                topic=topic,
                expression=expression,
                born_time=LONG_MAX,
                client_version=client_version,
                bit_pos=positions,
            )
            self._filters[topic, group] = made
            mark(self.bit_map_filters())
            self._filters[topic, group] = replace(made, born_time=self._now_ms())
            return True

    def unregister(self, group: str) -> None:
        """A group's last consumer is gone. Source: ``unRegister``."""
        with self._lock:
            for name, found in self._filters.items():
                if name[1] == group and not found.is_dead:
                    self._filters[name] = replace(found, dead_time=self._now_ms())


def persisted_filters(path: Path) -> list[FilterRow]:
    """The filters of a file that bit maps can be made for.

    Raises:
        MQStoreError: the file and its ``.bak`` are damaged.
    """
    return ConsumerFilterManager(path, read_only, lambda: 0).bit_map_filters()
