"""``config/subscriptionGroup.json``: the consumer groups of a store and what they may do.

Source: ``SubscriptionGroupManager``, ``SubscriptionGroupConfig``.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from mqstore.store.arguments import INT_MAX, LONG_MAX, check_fields, check_kind, checked_text
from mqstore.store.config_manager import ConfigManager, Json, checked_int, checked_object

__all__ = ["SubscriptionGroupConfig", "SubscriptionGroupManager"]


@dataclass(frozen=True, kw_only=True)
class SubscriptionGroupConfig:
    """A consumer group."""

    group_name: str
    consume_enable: bool = True
    """Whether it may read at all."""
    consume_from_min_enable: bool = True
    consume_broadcast_enable: bool = True
    """Whether it may broadcast."""
    retry_queue_nums: int = 1
    """Queues of its retry topic; with 0 what it fails to consume is dropped."""
    retry_max_times: int = 16
    """After how many attempts a message goes to the dead-letter topic."""
    broker_id: int = 0
    which_broker_when_consume_slowly: int = 1
    notify_consumer_ids_changed_enable: bool = True

    @classmethod
    def from_json(cls, group: str, value: object) -> Self:
        """A group from its entry; what is missing has its default.

        Raises:
            ValueError: a field has another type.
        """
        entry = checked_object(group, value)

        def flag(name: str) -> bool:
            given = entry.get(name, True)
            if not isinstance(given, bool):
                raise ValueError(f"{group}: {name}: expected true or false, found {given!r}")
            return given

        def number(name: str, otherwise: int, most: int = INT_MAX) -> int:
            return checked_int(f"{group}: {name}", entry.get(name, otherwise), most)

        return cls(
            group_name=group,
            consume_enable=flag("consumeEnable"),
            consume_from_min_enable=flag("consumeFromMinEnable"),
            consume_broadcast_enable=flag("consumeBroadcastEnable"),
            retry_queue_nums=number("retryQueueNums", 1),
            retry_max_times=number("retryMaxTimes", 16),
            broker_id=number("brokerId", 0, LONG_MAX),
            which_broker_when_consume_slowly=number("whichBrokerWhenConsumeSlowly", 1, LONG_MAX),
            notify_consumer_ids_changed_enable=flag("notifyConsumerIdsChangedEnable"),
        )

    def to_json(self) -> dict[str, Any]:
        """The group's entry, its fields in fastjson's order."""
        return {
            "brokerId": self.broker_id,
            "consumeBroadcastEnable": self.consume_broadcast_enable,
            "consumeEnable": self.consume_enable,
            "consumeFromMinEnable": self.consume_from_min_enable,
            "groupName": self.group_name,
            "notifyConsumerIdsChangedEnable": self.notify_consumer_ids_changed_enable,
            "retryMaxTimes": self.retry_max_times,
            "retryQueueNums": self.retry_queue_nums,
            "whichBrokerWhenConsumeSlowly": self.which_broker_when_consume_slowly,
        }


class SubscriptionGroupManager(ConfigManager):
    """The groups of a store, written back when one is added or changed."""

    def __init__(self, path: Path, write: Callable[[Path, bytes], None], now_ms: Callable[[], int]) -> None:
        """Reads the file."""
        self._now_ms = now_ms
        self._groups: dict[str, SubscriptionGroupConfig] = {}
        super().__init__(path, write)

    def decode(self, content: Json) -> None:
        """Takes over ``subscriptionGroupTable``."""
        table = checked_object("subscriptionGroupTable", content.get("subscriptionGroupTable", {}))
        self._groups = {name: SubscriptionGroupConfig.from_json(name, entry) for name, entry in table.items()}

    def encode(self) -> Json:
        """The groups, under a new version; what their entries have beyond it stays."""
        before = self._content.get("subscriptionGroupTable", {})
        table = {name: before.get(name, {}) | group.to_json() for name, group in self._groups.items()}
        return {"dataVersion": self.next_version(self._now_ms()), "subscriptionGroupTable": table}

    def get(self, group: str) -> SubscriptionGroupConfig | None:
        """A group, or ``None``.

        Raises:
            TypeError: its name is no string.
        """
        return self._groups.get(checked_text("group", group))

    def all(self) -> dict[str, SubscriptionGroupConfig]:
        """All groups by name."""
        return dict(self._groups)

    def get_or_add(self, group: str) -> SubscriptionGroupConfig:
        """A group; one that is new is written first. Source: ``findSubscriptionGroupConfig``."""
        with self._lock:
            found = self._groups.get(group)
            if found is None:
                found = SubscriptionGroupConfig(group_name=group)
                self.update(found)
            return found

    def update(self, config: SubscriptionGroupConfig) -> None:
        """Adds or changes a group. Source: ``updateSubscriptionGroupConfig``.

        Raises:
            TypeError: it is none, or one of its fields has another type.
            ValueError: a number is out of bounds.
        """
        check_kind("config", config, SubscriptionGroupConfig)
        check_fields(config, {"broker_id": LONG_MAX, "which_broker_when_consume_slowly": LONG_MAX})
        with self._lock:
            self._change(self._groups | {config.group_name: config})

    def delete(self, group: str) -> None:
        """Removes a group. Source: ``deleteSubscriptionGroupConfig``.

        Raises:
            TypeError: its name is no string.
        """
        checked_text("group", group)
        with self._lock:
            if group in self._groups:
                self._change({name: config for name, config in self._groups.items() if name != group})

    def _change(self, groups: dict[str, SubscriptionGroupConfig]) -> None:
        before, self._groups = self._groups, groups
        try:
            self.persist()
        except BaseException:
            self._groups = before
            raise
