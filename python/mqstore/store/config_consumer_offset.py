"""``config/consumerOffset.json``: how far each group has read each queue.

Beside the offsets stands where the log ended when they were read so far, in a table of its own that RocketMQ passes
over, and leaves out of what it writes. A broker with light queues has ``config/lmqConsumerOffset.json`` instead.
Source: ``ConsumerOffsetManager``, ``LmqConsumerOffsetManager``.
"""

import logging
from collections.abc import Mapping
from pathlib import Path

from mqstore.store.arguments import INT_MAX, check_kind, checked_integer
from mqstore.store.config_manager import ConfigManager, Json, checked_int, checked_object
from mqstore.store.read_offset import NO_OFFSET, ReadOffset
from mqstore.store.topics import LMQ_PREFIX

__all__ = ["ConsumerOffsetManager", "LmqConsumerOffsetManager"]

_log = logging.getLogger("mqstore")
_TOPIC_GROUP_SEPARATOR = "@"
_OFFSETS = "offsetTable"
_LOG_ENDS = "logEndTable"
_Table = dict[str, dict[int, ReadOffset]]
_told: set[tuple[Path, str]] = set()


class ConsumerOffsetManager(ConfigManager):
    """Offsets by group, topic and queue. They change in memory; :meth:`persist` writes them."""

    _table: _Table

    def decode(self, content: Json) -> None:
        """Takes over ``offsetTable``, and what stands beside it."""
        offsets = self._decode_table(_OFFSETS, content)
        log_ends = self._decode_table(_LOG_ENDS, content)
        # Where nothing is known of any log end there is no such table.
        content.pop(_LOG_ENDS, None)
        self._table = {
            name: {
                queue_id: ReadOffset(offset, log_ends.get(name, {}).get(queue_id, -1))
                for queue_id, offset in queues.items()
            }
            for name, queues in offsets.items()
        }

    def _decode_table(self, table: str, content: Json) -> dict[str, dict[int, int]]:
        found = {}
        for name, queues in checked_object(table, content.get(table, {})).items():
            if self._has_topic(name):
                of_topic = checked_object(name, queues).items()
                found[name] = {
                    checked_int(f"{name}: queue", queue, INT_MAX): checked_int(name, number)
                    for queue, number in of_topic
                }
        return found

    def _has_topic(self, name: str) -> bool:
        """Whether a topic can be called so; to ask for the queues of half a character of Java's is an error."""
        try:
            name.rpartition(_TOPIC_GROUP_SEPARATOR)[0].encode()
        except UnicodeEncodeError:
            if (self._path, name) not in _told:
                _told.add((self._path, name))
                _log.warning("%s: the topic of %r is no text, it is passed over", self._path, name)
            return False
        return True

    def load(self) -> None:
        """Reads the file again; there are no offsets where there is none."""
        self._table = {}
        super().load()

    def encode(self) -> Json:
        """The whole ``offsetTable``, and what is known beside it."""
        log_ends = {
            name: known
            for name, queues in self._table.items()
            if (known := {queue_id: read.log_end for queue_id, read in queues.items() if read.log_end >= 0})
        }
        offsets = {
            name: {queue_id: read.offset for queue_id, read in queues.items()} for name, queues in self._table.items()
        }
        return {_OFFSETS: offsets} | ({_LOG_ENDS: log_ends} if log_ends else {})

    def commit_offset(self, group: str, topic: str, queue_id: int, offset: int, log_end: int = -1) -> None:
        """Sets a group's offset. Source: ``commitOffset``.

        Args:
            group: The group.
            topic: The topic.
            queue_id: The queue.
            offset: The offset.
            log_end: Where the log ended at most when it was read so far; -1 where nobody knows.

        Raises:
            TypeError: a name is no string, or a number no integer.
            ValueError: a number is out of bounds.
        """
        # One that cannot be written would keep all groups' from being written.
        check_kind("group", group, str)
        check_kind("topic", topic, str)
        read = ReadOffset(checked_integer("offset", offset), checked_integer("log_end", log_end, -1))
        queue_id = checked_integer("queue_id", queue_id, -INT_MAX - 1, INT_MAX)
        with self._lock:
            self._table.setdefault(f"{topic}{_TOPIC_GROUP_SEPARATOR}{group}", {})[queue_id] = read

    def add_topic(self, group: str, topic: str) -> None:
        """A group reads a topic, also where it has no offset of it yet.

        Raises:
            TypeError: a name is no string.
        """
        check_kind("group", group, str)
        check_kind("topic", topic, str)
        with self._lock:
            self._table.setdefault(f"{topic}{_TOPIC_GROUP_SEPARATOR}{group}", {})

    def reset_offsets(self, group: str, offsets: Mapping[tuple[str, int], ReadOffset]) -> None:
        """Sets offsets of a group, by topic and queue, and writes them; what cannot be written is not set either.

        Raises:
            StoreIOError: the file could not be written.
        """
        if not offsets:
            return
        with self._lock:
            before = {name: dict(queues) for name, queues in self._table.items()}
            try:
                for (topic, queue_id), read in offsets.items():
                    self.commit_offset(group, topic, queue_id, *read)
                self.persist()
            except BaseException:
                self._table = before
                raise

    def read_offset(self, group: str, topic: str, queue_id: int) -> ReadOffset:
        """A group's offset, and what is known beside it."""
        with self._lock:
            return self._table.get(f"{topic}{_TOPIC_GROUP_SEPARATOR}{group}", {}).get(queue_id, NO_OFFSET)

    def query_offset(self, group: str, topic: str, queue_id: int) -> int:
        """A group's offset; -1 where it has none. Source: ``queryOffset``."""
        return self.read_offset(group, topic, queue_id).offset

    def read_offsets(self, group: str, topic: str) -> dict[int, ReadOffset]:
        """A group's offsets in a topic, by queue, and what is known beside them."""
        with self._lock:
            return dict(self._table.get(f"{topic}{_TOPIC_GROUP_SEPARATOR}{group}", {}))

    def offsets(self, group: str, topic: str) -> dict[int, int]:
        """A group's offsets in a topic, by queue."""
        return {queue_id: read.offset for queue_id, read in self.read_offsets(group, topic).items()}

    def pairs(self) -> list[tuple[str, str]]:
        """Topic and group of everything that is read. A topic may have the separator in its name, a group not."""
        with self._lock:
            split = [name.rpartition(_TOPIC_GROUP_SEPARATOR) for name in self._table]
        return [(topic, group) for topic, separator, group in split if separator]

    def by_group(self) -> dict[str, dict[tuple[str, int], ReadOffset]]:
        """The offsets of all groups, by topic and queue."""
        found: dict[str, dict[tuple[str, int], ReadOffset]] = {}
        with self._lock:
            for name, queues in self._table.items():
                topic, separator, group = name.rpartition(_TOPIC_GROUP_SEPARATOR)
                if separator:
                    found.setdefault(group, {}).update(((topic, queue), read) for queue, read in queues.items())
        return found

    def which_topic_by_consumer(self, group: str) -> set[str]:
        """The topics that a group reads. Source: ``whichTopicByConsumer``."""
        return {topic for topic, found in self.pairs() if found == group}

    def which_group_by_topic(self, topic: str) -> set[str]:
        """The groups that read a topic. Source: ``whichGroupByTopic``."""
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


class LmqConsumerOffsetManager(ConsumerOffsetManager):
    """The same with the offsets of light groups, which have their queues' numbers left out: a light queue is number 0.

    Only what is asked of all groups knows of these.
    """

    _light: dict[str, int]

    def decode(self, content: Json) -> None:
        """Takes over ``lmqOffsetTable`` too."""
        light = checked_object("lmqOffsetTable", content.get("lmqOffsetTable", {})).items()
        offsets = {name: checked_int(name, offset) for name, offset in light}
        super().decode(content)
        self._light = offsets

    def load(self) -> None:
        """Reads the file again; there are no offsets where there is none."""
        self._light = {}
        super().load()

    def encode(self) -> Json:
        """Both tables."""
        return super().encode() | {"lmqOffsetTable": dict(self._light)}

    def commit_offset(self, group: str, topic: str, queue_id: int, offset: int, log_end: int = -1) -> None:
        """Sets a group's offset. Source: ``commitOffset``.

        Raises:
            TypeError: a name is no string, or a number no integer.
            ValueError: a number is out of bounds.
        """
        check_kind("group", group, str)
        if not group.startswith(LMQ_PREFIX):
            super().commit_offset(group, topic, queue_id, offset, log_end)
            return
        check_kind("topic", topic, str)
        offset = checked_integer("offset", offset)
        with self._lock:
            self._light[f"{topic}{_TOPIC_GROUP_SEPARATOR}{group}"] = offset

    def by_group(self) -> dict[str, dict[tuple[str, int], ReadOffset]]:
        """The offsets of all groups, by topic and queue."""
        found = super().by_group()
        with self._lock:
            for name, offset in self._light.items():
                topic, separator, group = name.rpartition(_TOPIC_GROUP_SEPARATOR)
                if separator:
                    found.setdefault(group, {})[topic, 0] = ReadOffset(offset)
        return found
