"""The options of reading, under the names that Spark's Kafka source has for them."""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self, TypeGuard

from mqstore._native import SqlFilter
from mqstore.option_error import bad_argument, bad_option
from mqstore.store.arguments import INT_MAX, LONG_MAX
from mqstore.store.byte_ranges import is_remote, with_parameters

__all__ = ["EARLIEST", "LATEST", "Bounds", "ReadOptions", "names_option"]

EARLIEST, LATEST = -2, -1
"""Offsets that stand for a queue's ends, as in Spark's Kafka source."""

QueueKey = tuple[str, int]
_MODES = ("PERMISSIVE", "DROPMALFORMED", "FAILFAST")
_KNOWN = (
    "path paths subscribe subscribePattern assign keys tags sql startingOffsets endingOffsets startingTimestamp "
    "endingTimestamp startingOffsetsByTimestamp endingOffsetsByTimestamp minPartitions maxBytesPerPartition "
    "failOnDataLoss includeProperties mode maxOffsetsPerTrigger maxBytesPerTrigger maxRecordsPerBatch pread "
    "filterPushdown checkpointLocation queryName"
)
_KNOWN_LOWER = frozenset(_KNOWN.lower().split())
_PARAMETER = "fs."
"""What options begin with that are parameters of a URI's file system."""


@dataclass(frozen=True)
class Bounds:
    """Where queues begin or end: one of ``earliest`` and ``latest`` for all, or offsets or times of some."""

    offsets: Mapping[QueueKey, int] = field(default_factory=dict)
    timestamps: Mapping[QueueKey, int] = field(default_factory=dict)
    timestamp: int | None = None
    """For all queues, in milliseconds."""
    is_latest: bool = False
    """Whether queues that are not named begin, or end, at their end."""


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """What is to be read, and how; checked."""

    paths: tuple[str, ...]
    """Folders or URIs of stores, or globs of them."""
    topics: tuple[str, ...] | None
    topic_pattern: str | None
    queues: tuple[QueueKey, ...] | None
    keys: tuple[str, ...] | None
    tags: str | None
    sql: str | None
    starting: Bounds | None
    """``None`` where nothing is said: a batch begins at the beginning, a stream at the end."""
    ending: Bounds
    min_partitions: int | None
    max_bytes_per_partition: int | None
    fail_on_data_loss: bool
    include_properties: bool
    mode: str
    max_offsets_per_trigger: int | None
    max_bytes_per_trigger: int | None
    max_records_per_batch: int
    pread: bool | None
    filter_pushdown: bool

    @property
    def has_topics(self) -> bool:
        """Whether topics are chosen."""
        return self.topics is not None or self.topic_pattern is not None or self.queues is not None

    def takes_topic(self, topic: str) -> bool:
        """Whether a topic is chosen."""
        if self.topics is not None:
            return topic in self.topics
        if self.topic_pattern is not None:
            return re.fullmatch(self.topic_pattern, topic) is not None
        return self.queues is None or any(topic == chosen for chosen, _ in self.queues)

    def takes_queue(self, topic: str, queue_id: int) -> bool:
        """Whether a queue is chosen."""
        return self.takes_topic(topic) and (self.queues is None or (topic, queue_id) in self.queues)

    @classmethod
    def of(cls, given: Mapping[str, str]) -> Self:
        """Options as Spark passes them on.

        Raises:
            OptionError: there is no such option, its value does not work, or it contradicts another.
        """
        values = _Values({name.lower(): value for name, value in given.items()})
        values.refuse_unknown()
        values.at_most_one("subscribe", "subscribePattern", "assign")
        starting, ending = _bounds(values, "starting"), _bounds(values, "ending")
        queues = values.get("assign", _assigned)
        options = cls(
            paths=_paths(values),
            topics=values.get("subscribe", _names),
            topic_pattern=values.get("subscribePattern", _pattern),
            queues=queues,
            keys=values.get("keys", _names),
            tags=values.get("tags", str),
            sql=values.get("sql", _sql),
            starting=starting,
            ending=ending or Bounds(is_latest=True),
            min_partitions=values.get("minPartitions", _positive),
            max_bytes_per_partition=values.get("maxBytesPerPartition", _size),
            fail_on_data_loss=values.get("failOnDataLoss", _switch, default=True),
            include_properties=values.get("includeProperties", _switch, default=True),
            mode=values.get("mode", _mode, default="PERMISSIVE"),
            max_offsets_per_trigger=values.get("maxOffsetsPerTrigger", _positive_long),
            max_bytes_per_trigger=values.get("maxBytesPerTrigger", _size),
            max_records_per_batch=values.get("maxRecordsPerBatch", _positive, default=8192),
            pread=values.get("pread", _switch),
            filter_pushdown=values.get("filterPushdown", _switch, default=False),
        )
        options._check_bounds(values)
        return options

    def check_for_stream(self, given: Mapping[str, str]) -> None:
        """Refuses what a stream can't do.

        Raises:
            OptionError: an end, which a stream does not have, or the end of a single queue as its begin,
                which another start of the query would take for another offset.
        """
        for name, value in given.items():
            if name.lower().startswith("ending"):
                raise bad_option(name, value, "a stream has no end")
        for queue, offset in () if self.starting is None else self.starting.offsets.items():
            if offset == LATEST:
                raise bad_option("startingOffsets", f"{queue[0]} {queue[1]} {offset}", "in a stream it goes for all")

    def _check_bounds(self, values: "_Values") -> None:
        for end, bounds in (("starting", self.starting), ("ending", self.ending)):
            for topic, queue_id in () if bounds is None else (*bounds.offsets, *bounds.timestamps):
                name, value = values.first(f"{end}Offsets", f"{end}OffsetsByTimestamp")
                if not self.has_topics:
                    raise bad_option(name, value, "offsets of queues go with subscribe, subscribePattern or assign")
                if not self.takes_queue(topic, queue_id):
                    raise bad_option(name, value, f"the queue {queue_id} of {topic} is not among what is read")
        begin, end_time = None if self.starting is None else self.starting.timestamp, self.ending.timestamp
        if begin is not None and end_time is not None and begin > end_time:
            raise bad_option("endingTimestamp", end_time, f"it is before startingTimestamp={begin}")


class _Values:
    """What was given, by lower-case names."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = given

    def refuse_unknown(self) -> None:
        for name, value in self._given.items():
            if name not in _KNOWN_LOWER and not name.startswith(_PARAMETER):
                raise bad_option(name, value, "there is no such option of mqstore's source")

    def at_most_one(self, *names: str) -> None:
        given = [name for name in names if name.lower() in self._given]
        if len(given) > 1:
            value = self._given[given[1].lower()]
            raise bad_option(given[1], value, f"it contradicts {given[0]}={self._given[given[0].lower()]}")

    def first(self, *names: str) -> tuple[str, str]:
        """The first of some options that was given."""
        return next((name, self._given[name.lower()]) for name in names if name.lower() in self._given)

    def beginning_with(self, prefix: str) -> dict[str, str]:
        """Options whose names begin with a prefix, without it."""
        return {name[len(prefix) :]: value for name, value in self._given.items() if name.startswith(prefix)}

    def get(self, name: str, convert: Callable[[str], Any], *, default: Any = None) -> Any:
        value = self._given.get(name.lower())
        if value is None:
            return default
        try:
            return convert(value)
        except (ValueError, TypeError, re.error) as error:
            raise bad_option(name, value, str(error)) from error


def _paths(values: _Values) -> tuple[str, ...]:
    values.at_most_one("path", "paths")
    path = values.get("path", str)
    paths = values.get("paths", lambda text: tuple(_json(text, list, "a list of paths")))
    found = (path,) if path else paths or ()
    if not found:
        raise bad_option("path", path or "", "say which store, as in load(path)")
    parameters = values.beginning_with(_PARAMETER)
    if parameters and not any(is_remote(str(each)) for each in found):
        name = f"{_PARAMETER}{next(iter(parameters))}"
        raise bad_option(name, "***", "it goes with a path that is a URI, like s3://bucket/store")
    return tuple(with_parameters(str(each), parameters) if is_remote(str(each)) else str(each) for each in found)


def _bounds(values: _Values, end: str) -> Bounds | None:
    names = (f"{end}Timestamp", f"{end}OffsetsByTimestamp", f"{end}Offsets")
    values.at_most_one(*names)
    by_time = values.get(names[0], _time)
    if by_time is not None:
        return Bounds(timestamp=by_time, is_latest=end == "ending")
    times = values.get(names[1], lambda text: _by_queue(text, 0))
    if times is not None:
        return Bounds(timestamps=times, is_latest=end == "ending")
    words = {"earliest": Bounds(), "latest": Bounds(is_latest=True)}
    if end == "ending":
        del words["earliest"]

    def offsets(text: str) -> Bounds:
        if text in words:
            return words[text]
        if not text.lstrip().startswith("{"):
            raise ValueError(f'expected {" or ".join(words)}, or JSON like {{"topic": {{"0": 23}}}}')
        return Bounds(offsets=_by_queue(text, EARLIEST), is_latest=end == "ending")

    found: Bounds | None = values.get(names[2], offsets)
    return found


def _json(text: str, kind: type, expected: str) -> Any:
    found = json.loads(text)
    if not isinstance(found, kind):
        raise ValueError(f"expected {expected}")
    return found


def _by_queue(text: str, least: int) -> dict[QueueKey, int]:
    found = {}
    for topic, queues in _json(text, dict, "an object of topics").items():
        if not isinstance(queues, dict):
            raise ValueError(f"expected an object of queues for {topic}")
        for queue_id, value in queues.items():
            if not _is_integer(value, least, LONG_MAX):
                raise ValueError(f"expected a number from {least} to {LONG_MAX} for queue {queue_id} of {topic}")
            # A name in JSON is a string.
            number = int(queue_id) if re.fullmatch("-?[0-9]{1,10}", queue_id) else queue_id
            found[_queue(topic, number)] = value
    return found


def _assigned(text: str) -> tuple[QueueKey, ...]:
    found = _json(text, dict, 'JSON like {"topic": [0, 1]}')
    if not all(isinstance(queues, list) for queues in found.values()):
        raise ValueError('expected JSON like {"topic": [0, 1]}')
    return tuple(_queue(topic, queue_id) for topic, queues in found.items() for queue_id in queues)


def _queue(topic: str, queue_id: object) -> QueueKey:
    # A store of 4.9.3's without delay levels has a queue -1.
    if not _is_integer(queue_id, -INT_MAX - 1, INT_MAX):
        raise ValueError(f"expected numbers of queues of {topic}, found {json.dumps(queue_id)}")
    return topic, queue_id


def _is_integer(value: object, least: int, most: int) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _names(text: str) -> tuple[str, ...]:
    if text.startswith("["):
        names = tuple(_json(text, list, "a JSON list of names"))
        if not names or not all(isinstance(name, str) and name for name in names):
            raise ValueError("expected a JSON list of names, none of them empty")
        return names
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    if not names:
        raise ValueError("expected names separated by commas")
    return names


def names_option(argument: str, names: Iterable[str]) -> str | None:
    """Names as an option of the source, whatever is in them; none where there are none.

    Raises:
        OptionError: one is empty: it would stand for all.
    """
    given = list(names)
    if "" in given:
        raise bad_argument(argument, given, "none of them is empty")
    return json.dumps(given, ensure_ascii=False) if given else None


def _pattern(text: str) -> str:
    re.compile(text)
    return text


def _sql(text: str) -> str:
    return SqlFilter(text).expression


def _positive(text: str) -> int:
    return _integer(text, 1, INT_MAX, "a number of 1 or more")


def _positive_long(text: str) -> int:
    return _integer(text, 1, LONG_MAX, "a number of 1 or more")


def _time(text: str) -> int:
    return _integer(text, 0, LONG_MAX, "milliseconds since 1970")


def _integer(text: str, least: int, most: int, expected: str) -> int:
    number = int(text) if re.fullmatch(r"-?[0-9]+", text.strip()) else None
    if number is None or number < least:
        raise ValueError(f"expected {expected}")
    if number > most:
        raise ValueError(f"expected at most {most}")
    return number


def _size(text: str) -> int:
    """Bytes: a number, or one with k, m, g or t, as Spark has them."""
    found = re.fullmatch(r"([0-9]+)\s*(?:([kmgt])b?|b)?", text.strip().lower())
    if found is None or int(found[1]) == 0:
        raise ValueError("expected a number of bytes, like 64m")
    size = int(found[1]) << {None: 0, "k": 10, "m": 20, "g": 30, "t": 40}[found[2]]
    if size > LONG_MAX:
        raise ValueError(f"expected at most {LONG_MAX} bytes")
    return size


def _switch(text: str) -> bool:
    if text.lower() not in {"true", "false"}:
        raise ValueError("expected true or false")
    return text.lower() == "true"


def _mode(text: str) -> str:
    if text.upper() not in _MODES:
        raise ValueError(f"expected one of {', '.join(_MODES)}")
    return text.upper()
