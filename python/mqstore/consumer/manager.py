"""What the consumers of a store share: groups, offsets, filters, topics.

Source: ``ConsumerManager``, ``BrokerController``.
"""

import contextlib
import itertools
import logging
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mqstore.consumer.membership import nobody_joins
from mqstore.consumer.offsets import (
    BROADCAST,
    SHARED_OFFSETS,
    BrokerOffsetStore,
    FileOffsetStore,
    LocalOffsetStore,
    OffsetStore,
    Write,
    shared_offset_files,
    shared_offsets,
)
from mqstore.consumer.settings import ConsumerSettings, check_group, retry_topic
from mqstore.errors import MQStoreError, ReadOnlyError
from mqstore.options import FilterRow
from mqstore.services import PersistConsumerOffsetService
from mqstore.store.arguments import INT_MAX, LONG_MIN, checked_integer, checked_text, checked_texts, expected_other
from mqstore.store.byte_ranges import local_folder
from mqstore.store.config_consumer_filter import ConsumerFilterManager
from mqstore.store.config_consumer_offset import ConsumerOffsetManager
from mqstore.store.config_manager import ConfigManager, of_closed_store, read_only, write_behind_log
from mqstore.store.config_subscription_group import SubscriptionGroupConfig, SubscriptionGroupManager
from mqstore.store.read_offset import ReadOffset, log_end_behind, offset_in_queue
from mqstore.store.topics import TopicConfig, TopicConfigManager

if TYPE_CHECKING:
    from mqstore.consumer.consumer import Consumer
    from mqstore.store.message_store import MessageStore

__all__ = ["ConsumeStats", "ConsumerManager", "GroupFigures"]

_PERM_READ = 4
_MAX_EMPTY_QUEUES = 1 << 12
"""Of a topic that is said to have more, those behind it are read once they have had a message: to ask each of so many
takes a quarter of a second, and there can be half a million times as many."""
_log = logging.getLogger("mqstore")
_numbers = itertools.count()


@dataclass(frozen=True)
class ConsumeStats:
    """How far a group is with a queue. Source: ``OffsetWrapper``."""

    topic: str
    queue_id: int
    broker_offset: int
    """The queue's end."""
    consumer_offset: int
    """Where the group goes on."""

    @property
    def diff(self) -> int:
        """How many messages the group still has before it."""
        return max(0, self.broker_offset - self.consumer_offset)


@dataclass
class GroupFigures:
    """What consumers of this process have done for a group and a topic. Source: ``BrokerStatsManager``."""

    get_nums: int = 0
    """Messages that were pulled."""
    get_size: int = 0
    """Bytes of their records."""
    ack_nums: int = 0
    """Messages that were consumed."""
    send_back_nums: int = 0
    """Messages that were given back."""


class ConsumerManager:
    """The consumers of a store, and how far groups are: ``store.consumers``."""

    def __init__(self, store: "MessageStore") -> None:
        """No consumers yet."""
        self._store_ref = weakref.ref(store)
        self._engine, self._mode = store._engine, store.mode
        self._root, self._ranges = store.options.store_path_root_dir, store._ranges
        self._open: weakref.WeakSet[Consumer] = weakref.WeakSet()
        # A signal's handler may ask where this thread has it.
        self._lock = threading.RLock()
        self._managers: dict[str, Any] = {}
        self._making = threading.RLock()
        """Held while one is made: of two of a file each would write what it knows over what the other does."""
        self.is_closing = False
        """Whether the store is about to be closed, or is."""
        self._has_ended = False
        self._is_persisting = False
        """Whether there is a service that writes the offsets."""
        self._read_topics: tuple[tuple[int, int], dict[str, TopicConfig]] | None = None
        self.figures: dict[tuple[str, str], GroupFigures] = {}
        """By group and topic."""

    @property
    def _path(self) -> Path:
        return local_folder(self._root, self._ranges)

    @property
    def _store(self) -> "MessageStore":
        store = self._store_ref()
        if store is None:
            raise MQStoreError("the store is gone")
        return store

    @property
    def _write(self) -> Write:
        """What replaces a file, as long as the store is open."""
        return of_closed_store if self._has_ended else self._engine.replace_config

    @property
    def _write_own(self) -> Write:
        """What replaces a file that the store's writer alone writes: who reads beside it would undo what that did."""
        return read_only if self._mode == "r" else self._write

    @property
    def _write_offsets(self) -> Write:
        """What replaces a file of offsets that processes share, or that is this store's own."""
        return self._write if self._has_ended else write_behind_log(self._engine, is_writer=self._mode == "rw")

    def _config(self, name: str) -> Path:
        return self._path / "config" / name

    def _once(self, name: str, make: Callable[[], Any]) -> Any:
        found = self._managers.get(name)
        if found is None:
            with self._making:
                found = self._managers.get(name)
                if found is None:
                    # A signal's handler may have made one meanwhile.
                    found = self._managers.setdefault(name, make())
        return found

    @property
    def groups(self) -> SubscriptionGroupManager:
        """The groups, ``config/subscriptionGroup.json``, which a store that is open for writing alone changes."""
        path, now = self._config("subscriptionGroup.json"), self._engine.now
        found: SubscriptionGroupManager = self._once(
            "groups", lambda: SubscriptionGroupManager(path, self._write_own, now)
        )
        return found

    @property
    def filters(self) -> ConsumerFilterManager:
        """The filters, ``config/consumerFilter.json``, which a store that is open for writing alone changes."""
        path, now = self._config("consumerFilter.json"), self._engine.now
        found: ConsumerFilterManager = self._once("filters", lambda: ConsumerFilterManager(path, self._write_own, now))
        return found

    @property
    def offsets(self) -> ConsumerOffsetManager:
        """The offsets of a store that is open for writing, ``config/consumerOffset.json``.

        Of one that is read they are what the file had when they were asked for first, and are not written.
        """
        path = self._config("consumerOffset.json")
        write = read_only if self._mode == "r" else self._write_offsets
        found: ConsumerOffsetManager = self._once("offsets", lambda: ConsumerOffsetManager(path, write))
        return found

    @property
    def topics(self) -> TopicConfigManager:
        """The topics of a store that is open for writing.

        Raises:
            MQStoreError: it is open to read.
        """
        topics = self._store._topics
        if topics is None:
            raise MQStoreError("topics are made by the writer of a store")
        return topics

    def folder(self, group: str) -> Path:
        """Where a group has what the consumers of this machine share.

        Raises:
            OptionError: no group has such a name.
        """
        check_group(group)
        return self._path / "mqstore" / "consumers" / group

    def offset_store(self, settings: ConsumerSettings) -> OffsetStore:
        """Where a consumer's offsets are kept."""
        write, folder = self._write_offsets, self.folder(settings.group)
        if not settings.is_clustering:
            path = folder / BROADCAST / f"{settings.consumer_id}.json"
            return LocalOffsetStore(path, settings.group, write, self._store)
        shared = folder / SHARED_OFFSETS
        if self._mode == "rw":
            return BrokerOffsetStore(self.offsets, settings.group, shared, write)
        return FileOffsetStore(shared, settings.group, write, self._config("consumerOffset.json"), self._store)

    def group(self, name: str) -> SubscriptionGroupConfig:
        """A group; one that is new is made where the store is open for writing.

        Raises:
            TypeError: its name is no string.
        """
        checked_text("name", name)
        if self._mode == "rw":
            return self.groups.get_or_add(name)
        return self.groups.get(name) or SubscriptionGroupConfig(group_name=name)

    def queue_ids(self, topic: str) -> list[int]:
        """The queues of a topic, sorted: those that it has by its configuration, and those that it has had.

        Raises:
            StoreClosedError: the store is closed.
            TypeError: the topic is no string.
        """
        checked_text("topic", topic)
        self._store._check_open()
        config = self._topic(topic)
        if config is not None and not config.perm & _PERM_READ:
            return []
        configured = range(min(config.read_queue_nums, _MAX_EMPTY_QUEUES) if config is not None else 0)
        return sorted({*configured, *self._store._queue_ids(topic)})

    def _topic(self, topic: str) -> TopicConfig | None:
        if self._store._topics is not None:
            return self._store._topics.get(topic)
        path = self._config("topics.json")
        try:
            found = path.stat()
        except FileNotFoundError:
            return None
        state = (found.st_mtime_ns, found.st_size)
        with self._lock:
            if self._read_topics is None or self._read_topics[0] != state:
                topics = TopicConfigManager(path, self._write, self._engine.now).all()
                self._read_topics = (state, topics)
            return self._read_topics[1].get(topic)

    @staticmethod
    def new_consumer_id() -> str:
        """An id that no other consumer has: in two containers that share a store processes have the same numbers."""
        return f"{os.getpid()}@{next(_numbers)}@{os.urandom(8).hex()}"

    def add(self, consumer: "Consumer") -> None:
        """A consumer was opened.

        Raises:
            TypeError: it is none.
        """
        settings = _settings_of(consumer)
        self._open.add(consumer)
        self._begin_persisting()
        if self._mode != "rw":
            return
        if settings.is_clustering:
            group = self.group(settings.group)
            self.topics.get_or_add(retry_topic(settings.group), max(1, group.retry_queue_nums))
        for subscription in settings.subscriptions:
            if subscription.sql is not None:
                self.register_filter(subscription.topic, settings.group, subscription.expression, self._engine.now())

    def _begin_persisting(self) -> None:
        with self._lock:
            is_persisting, self._is_persisting = self._is_persisting, True
        if not is_persisting:
            self._store._start_more([PersistConsumerOffsetService(self._store)])

    def persist_if_free(self) -> bool:
        """Writes the offsets of all consumers but those that somebody else is at; gives whether there are none.

        Raises:
            MQStoreError: those of one cannot be written; those of all others are.
        """
        failed: MQStoreError | None = None
        are_free = True
        for consumer in list(self._open):
            try:
                are_free &= consumer.persist_if_free()
            except MQStoreError as error:
                failed = error
        if failed is not None:
            raise failed
        return are_free

    def register_filter(self, topic: str, group: str, expression: str, client_version: int) -> None:
        """Keeps a group's SQL92 filter for a topic in ``config/consumerFilter.json``, unless a newer one is known.

        With ``enableCalcFilterBitMap`` and ``enableConsumeQueueExt`` messages that are dispatched from then on are
        marked in their queue's extension where they pass it, which a broker reads.

        Raises:
            StoreIOError: the file could not be written.
            ReadOnlyError: the store was opened to read.
            TypeError: a text is no string, or the version no integer.
            ValueError: the version is out of bounds.
        """
        for name, text in (("topic", topic), ("group", group), ("expression", expression)):
            checked_text(name, text)
        client_version = checked_integer("client_version", client_version, LONG_MIN)
        if self._mode == "r":
            read_only(self._config("consumerFilter.json"), b"")
        self.filters.register(topic, group, expression, client_version, self._mark_by)
        self.filters.persist()

    def _mark_by(self, filters: list[FilterRow]) -> None:
        if self._store.options.enable_calc_filter_bit_map:
            for reason in self._store._set_filters(filters):
                _log.error("%s: each message is marked as passing a filter: %s", self._store.path, reason)

    def remove(self, consumer: "Consumer") -> None:
        """A consumer was closed.

        Raises:
            TypeError: it is none.
        """
        settings = _settings_of(consumer)
        self._open.discard(consumer)
        others = any(other.settings.group == settings.group for other in self._open)
        if self._mode == "rw" and not others and any(one.sql is not None for one in settings.subscriptions):
            self.filters.unregister(settings.group)
            self.filters.persist()

    def close(self) -> None:
        """Closes all consumers, and writes the offsets: the store is about to be closed."""
        self.is_closing = True
        if self._has_ended:
            return
        # One that fails keeps no other from writing its offsets and leaving its group.
        with contextlib.ExitStack() as closing:
            if "offsets" in self._managers and self._mode == "rw":
                closing.callback(self.offsets.persist)
            for consumer in list(self._open):
                closing.callback(consumer.close)

    def end(self, topics: TopicConfigManager | None) -> None:
        """The store has written its last state: no file of the configuration is written from now on."""
        with self._making:
            self._has_ended = True
            managers = list(self._managers.values())
        for manager in (*managers, topics):
            if isinstance(manager, ConfigManager):
                manager.end()

    def abandon(self) -> None:
        """In a forked process: the consumers are the other process's."""
        for consumer in list(self._open):
            consumer.abandon()
        self._open.clear()
        self._has_ended = True
        for manager in list(self._managers.values()):
            manager.abandon()

    def figures_of(self, group: str, topic: str) -> GroupFigures:
        """The figures of a group and a topic.

        Raises:
            TypeError: a name is no string.
        """
        names = (checked_text("group", group), checked_text("topic", topic))
        return self.figures.setdefault(names, GroupFigures())

    # ---- how far groups are

    def _offset_files(self) -> list[ConsumerOffsetManager]:
        broker = self.offsets if self._mode == "rw" else None
        files = [broker or ConsumerOffsetManager(self._config("consumerOffset.json"), self._write)]
        return files + [ConsumerOffsetManager(path, self._write) for path in shared_offset_files(self._path)]

    def group_names(self) -> list[str]:
        """The groups that have offsets."""
        return sorted({group for file in self._offset_files() for _, group in file.pairs()})

    def consume_stats(self, group: str, topics: str | Iterable[str] | None = None) -> list[ConsumeStats]:
        """How far a group is with each queue that it has read, of all topics or of some. Source: ``getConsumeStats``.

        Raises:
            StoreClosedError: the store is closed.
            TypeError: the group is no string, or the topics are neither one nor several.
        """
        checked_text("group", group)
        wanted = None if topics is None else checked_texts("topics", topics)
        found = self.consume_stats_of_groups().get(group, [])
        return [stats for stats in found if wanted is None or stats.topic in wanted]

    def consume_stats_of_groups(self) -> dict[str, list[ConsumeStats]]:
        """The same of every group that has offsets, which are read once for all of them."""
        furthest: dict[str, dict[tuple[str, int], int]] = {}
        store = self._store
        store._catch_up()
        for file in self._offset_files():
            for group, queues in file.by_group().items():
                known = furthest.setdefault(group, {})
                for queue, read in queues.items():
                    offset = offset_in_queue(store, *queue, read)
                    known[queue] = max(offset, known.get(queue, offset))
        return {
            group: [
                ConsumeStats(topic, queue_id, store.get_max_offset_in_queue(topic, queue_id), offset)
                for (topic, queue_id), offset in sorted(queues.items())
            ]
            for group, queues in sorted(furthest.items())
        }

    def reset_offset(self, group: str, offsets: Mapping[tuple[str, int], int]) -> None:
        """Lets a group go on elsewhere. Source: ``resetOffset``.

        Args:
            group: The group.
            offsets: By topic and queue, the offset that is read next.

        Raises:
            MQStoreError: a consumer of the group is open.
            OptionError: no group has such a name.
            StoreClosedError: the store is closed.
            StoreIOError: the offsets could not be written.
            ReadOnlyError: the store is only read, and its writer's file has the group further on: where a group
                has offsets in both files the further one counts.
            TypeError: they are no mapping, a topic is no string, a queue or an offset no integer.
            ValueError: a queue or an offset is out of bounds.
        """
        check_group(group)
        wanted = _checked_offsets(offsets)
        self._store._check_open()
        with nobody_joins(self.folder(group)) as has_members:
            if has_members:
                raise MQStoreError(f"the offsets of {group} are reset while no consumer of it is open")
            self._reset_offset(group, wanted)

    def _reset_offset(self, group: str, offsets: Mapping[tuple[str, int], int]) -> None:
        wanted = {
            queue: ReadOffset(offset, log_end_behind(self._store, *queue, offset)) for queue, offset in offsets.items()
        }
        path = self.folder(group) / SHARED_OFFSETS
        if self._mode == "r":
            self._check_not_behind_writer(group, wanted)
            with shared_offsets(path, self._write_offsets) as shared:
                shared.reset_offsets(group, wanted)
            return
        self.offsets.reset_offsets(group, wanted)
        if path.parent.is_dir():
            with shared_offsets(path, self._write_offsets) as shared:
                known = {queue: read for queue, read in wanted.items() if shared.query_offset(group, *queue) >= 0}
                shared.reset_offsets(group, known)

    def _check_not_behind_writer(self, group: str, wanted: Mapping[tuple[str, int], ReadOffset]) -> None:
        path = self._config("consumerOffset.json")
        of_writer = ConsumerOffsetManager(path, read_only)
        for (topic, queue_id), (offset, _) in wanted.items():
            read = of_writer.read_offset(group, topic, queue_id)
            further = offset_in_queue(self._store, topic, queue_id, read)
            if offset < further:
                raise ReadOnlyError(
                    f"offset={offset} of queue {queue_id} of {topic}: expected at least {further}, "
                    f"which {group} has in {path}; the store's writer alone sets that back"
                )


def _settings_of(consumer: object) -> ConsumerSettings:
    settings = getattr(consumer, "settings", None)
    if not isinstance(settings, ConsumerSettings):
        raise expected_other("consumer", consumer, "a Consumer")
    return settings


def _checked_offsets(offsets: object) -> dict[tuple[str, int], int]:
    if not isinstance(offsets, Mapping):
        raise expected_other("offsets", offsets, "a mapping of a topic and a queue to an offset")
    return {_checked_queue(queue): checked_integer("offset", offset) for queue, offset in offsets.items()}


def _checked_queue(queue: object) -> tuple[str, int]:
    if not isinstance(queue, tuple) or len(queue) != len(("topic", "queue_id")):
        raise expected_other("queue", queue, "a topic and a queue")
    topic, queue_id = queue
    return checked_text("topic", topic), checked_integer("queue_id", queue_id, most=INT_MAX)
