"""``config/consumerOffset.json``: how far each group has read each queue.

Source: ``ConsumerOffsetManager``.
"""

from collections.abc import Mapping

from mqstore.store.arguments import INT_MAX, checked_integer
from mqstore.store.config_manager import ConfigManager, Json, checked_int, checked_object

__all__ = ["ConsumerOffsetManager"]

_TOPIC_GROUP_SEPARATOR = "@"


class ConsumerOffsetManager(ConfigManager):
    """Offsets by group, topic and queue. They change in memory; :meth:`persist` writes them."""

    _table: dict[str, dict[int, int]]

    def decode(self, content: Json) -> None:
        """Takes over ``offsetTable``."""
        table = {}
        for name, queues in checked_object("offsetTable", content.get("offsetTable", {})).items():
            of_topic = checked_object(name, queues).items()
            table[name] = {
                checked_int(f"{name}: queue", queue, INT_MAX): checked_int(name, offset) for queue, offset in of_topic
            }
        self._table = table

    def load(self) -> None:
        """Reads the file again; there are no offsets where there is none."""
        self._table = {}
        super().load()

    def encode(self) -> Json:
        """The whole ``offsetTable``."""
        return {"offsetTable": {name: dict(queues) for name, queues in self._table.items()}}

    def commit_offset(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Sets a group's offset. Source: ``commitOffset``.

        Raises:
            TypeError: the offset is no integer.
            ValueError: it is out of bounds.
        """
        # One that cannot be written would keep all groups' from being written.
        offset = checked_integer("offset", offset)
        with self._lock:
            self._table.setdefault(f"{topic}{_TOPIC_GROUP_SEPARATOR}{group}", {})[queue_id] = offset

    def reset_offsets(self, group: str, offsets: Mapping[tuple[str, int], int]) -> None:
        """Sets offsets of a group, by topic and queue, and writes them; what cannot be written is not set either.

        Raises:
            StoreIOError: the file could not be written.
        """
        if not offsets:
            return
        with self._lock:
            before = {name: dict(queues) for name, queues in self._table.items()}
            try:
                for (topic, queue_id), offset in offsets.items():
                    self.commit_offset(group, topic, queue_id, offset)
                self.persist()
            except BaseException:
                self._table = before
                raise

    def query_offset(self, group: str, topic: str, queue_id: int) -> int:
        """A group's offset; -1 where it has none. Source: ``queryOffset``."""
        with self._lock:
            return self._table.get(f"{topic}{_TOPIC_GROUP_SEPARATOR}{group}", {}).get(queue_id, -1)

    def offsets(self, group: str, topic: str) -> dict[int, int]:
        """A group's offsets in a topic, by queue."""
        with self._lock:
            return dict(self._table.get(f"{topic}{_TOPIC_GROUP_SEPARATOR}{group}", {}))

    def pairs(self) -> list[tuple[str, str]]:
        """Topic and group of everything that has offsets. A topic may have the separator in its name, a group not."""
        with self._lock:
            split = [name.rpartition(_TOPIC_GROUP_SEPARATOR) for name in self._table]
        return [(topic, group) for topic, separator, group in split if separator]

    def by_group(self) -> dict[str, dict[tuple[str, int], int]]:
        """The offsets of all groups, by topic and queue."""
        found: dict[str, dict[tuple[str, int], int]] = {}
        with self._lock:
            for name, queues in self._table.items():
                topic, separator, group = name.rpartition(_TOPIC_GROUP_SEPARATOR)
                if separator:
                    found.setdefault(group, {}).update(((topic, queue), offset) for queue, offset in queues.items())
        return found

    def which_topic_by_consumer(self, group: str) -> set[str]:
        """The topics in which a group has offsets. Source: ``whichTopicByConsumer``."""
        return {topic for topic, found in self.pairs() if found == group}

    def which_group_by_topic(self, topic: str) -> set[str]:
        """The groups that have offsets in a topic. Source: ``whichGroupByTopic``."""
        return {group for found, group in self.pairs() if found == topic}

    def clone_offset(self, source_group: str, group: str, topic: str) -> None:
        """Gives a group the offsets of another. Source: ``cloneOffset``."""
        with self._lock:
            found = self._table.get(f"{topic}{_TOPIC_GROUP_SEPARATOR}{source_group}")
            if found is not None:
                self._table[f"{topic}{_TOPIC_GROUP_SEPARATOR}{group}"] = dict(found)

    def remove_offset(self, group: str) -> None:
        """Forgets a group. Source: ``removeOffset``."""
        with self._lock:
            for topic in self.which_topic_by_consumer(group):
                del self._table[f"{topic}{_TOPIC_GROUP_SEPARATOR}{group}"]
