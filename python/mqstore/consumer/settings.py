"""How a consumer was asked to be: checked once, then fixed."""

import enum
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self, TypeVar

from mqstore._native import Message, SqlFilter
from mqstore.consumer.allocate import AllocateMessageQueue, allocate_averagely
from mqstore.option_error import bad_argument
from mqstore.store.arguments import INT_MAX, check_timeout, checked_filter, checked_integer, checked_text, checked_topic
from mqstore.store.times import checked_time

__all__ = [
    "ConsumeFromWhere",
    "ConsumerSettings",
    "MessageModel",
    "Subscription",
    "dlq_topic",
    "one_of",
    "retry_topic",
    "tag_hash",
]

_LEGAL_NAME = re.compile(r"[%|a-zA-Z0-9_-]{1,255}")
_LEGAL_ID = re.compile(r"[%|a-zA-Z0-9_.@-]{1,200}")
_DEFAULT_RECONSUME_TIMES = -1
"""How RocketMQ's consumers say that they were not told a number of attempts."""
RETRY_GROUP_TOPIC_PREFIX = "%RETRY%"
DLQ_GROUP_TOPIC_PREFIX = "%DLQ%"


class ConsumeFromWhere(enum.Enum):
    """Where a group that has no offset for a queue begins. Source: ``ConsumeFromWhere``.

    As in 4.9.3, a queue that still has its first message, in memory, is read from its beginning whatever
    is asked for: the broker takes the group for one that was there from the start.
    """

    CONSUME_FROM_LAST_OFFSET = "last"
    CONSUME_FROM_FIRST_OFFSET = "first"
    CONSUME_FROM_TIMESTAMP = "timestamp"


class MessageModel(enum.Enum):
    """Who of a group gets a message. Source: ``MessageModel``."""

    CLUSTERING = "clustering"
    """One member."""
    BROADCASTING = "broadcasting"
    """Every member."""


def retry_topic(group: str) -> str:
    """The topic of a group's messages that are to be consumed again. Source: ``getRetryTopic``."""
    return RETRY_GROUP_TOPIC_PREFIX + group


def dlq_topic(group: str) -> str:
    """The topic of messages that a group has given up. Source: ``getDLQTopic``."""
    return DLQ_GROUP_TOPIC_PREFIX + group


def tag_hash(tag: str) -> int:
    """The hash of a tag that queues hold: Java's ``hashCode``."""
    units = tag.encode("utf-16-be", "surrogatepass")
    value = 0
    for at in range(0, len(units), 2):
        value = (31 * value + int.from_bytes(units[at : at + 2], "big")) & 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value


@dataclass(frozen=True)
class Subscription:
    """Which messages of a topic a group wants. Source: ``SubscriptionData``."""

    topic: str
    expression: str = "*"
    """Tags separated by ``||``, or a filter's expression."""
    sql: SqlFilter | None = None

    @property
    def asked(self) -> str | SqlFilter:
        """What a get is given."""
        return self.expression if self.sql is None else self.sql

    def wants(self, message: Message) -> bool:
        """Whether a message that a get gave is wanted: with ``compat`` a get looks at hashes alone."""
        return self.codes is None or message.tags in {tag.strip() for tag in self.expression.split("||")}

    @cached_property
    def codes(self) -> frozenset[int] | None:
        """The hashes of its tags; ``None`` where any message may be wanted."""
        if self.sql is not None or self.expression in {"", "*"}:
            return None
        return frozenset(tag_hash(tag.strip()) for tag in self.expression.split("||") if tag.strip())


@dataclass(frozen=True, kw_only=True)
class ConsumerSettings:
    """How a consumer was asked to be."""

    group: str
    consumer_id: str
    subscriptions: tuple[Subscription, ...]
    message_model: MessageModel
    consume_from_where: ConsumeFromWhere
    consume_timestamp: int | None
    """For ``CONSUME_FROM_TIMESTAMP``, in milliseconds."""
    orderly: bool
    max_reconsume_times: int | None
    """``None`` for the group's, or without end where it consumes orderly."""
    suspend_current_queue_time_ms: int
    """How long an orderly consumer's queue rests before a message is tried again."""
    pull_batch_size: int
    allocate: AllocateMessageQueue = allocate_averagely
    timeout: float | None = None
    """How many seconds without a message end a ``for`` loop, once it has gone through what is there."""

    @property
    def is_clustering(self) -> bool:
        """Whether members share the queues."""
        return self.message_model is MessageModel.CLUSTERING

    @classmethod
    def of(
        cls,
        group: str,
        topics: str | Sequence[str] | Mapping[str, str],
        *,
        tags: str | None,
        sql: str | None,
        compat: bool,
        **given: object,
    ) -> Self:
        """Settings from what a user gives.

        Raises:
            OptionError: something does not work.
        """
        check_group(group)
        if given.get("max_reconsume_times") == _DEFAULT_RECONSUME_TIMES:
            given["max_reconsume_times"] = None
        if given.get("consume_timestamp") is not None:
            given["consume_timestamp"] = _time("from_time", given["consume_timestamp"])
        settings = cls(group=group, subscriptions=_subscriptions(topics, tags, sql, compat=compat), **given)  # type: ignore[arg-type]
        consumer_id: object = settings.consumer_id
        if not isinstance(consumer_id, str) or not _LEGAL_ID.fullmatch(consumer_id) or consumer_id.startswith("."):
            raise bad_argument("consumer_id", settings.consumer_id, "expected at most 200 of % | a-z A-Z 0-9 _ . @ -")
        _check_number("pull_batch_size", settings.pull_batch_size, 1)
        _check_number("suspend_current_queue_time_ms", settings.suspend_current_queue_time_ms, 0)
        if settings.max_reconsume_times is not None:
            _check_number("max_reconsume_times", settings.max_reconsume_times, _DEFAULT_RECONSUME_TIMES)
        if not isinstance(settings.orderly, bool):
            raise bad_argument("orderly", settings.orderly, "expected True or False")
        if not callable(settings.allocate):
            raise bad_argument("allocate", settings.allocate, "expected a function that gives queues")
        check_timeout(settings.timeout)
        is_by_time = settings.consume_from_where is ConsumeFromWhere.CONSUME_FROM_TIMESTAMP
        if is_by_time != (settings.consume_timestamp is not None):
            raise bad_argument(
                "from_time", settings.consume_timestamp, 'it goes with from_where="timestamp", and that with it'
            )
        return settings


def check_group(group: object) -> None:
    """Refuses what is no group's name: it becomes a folder's, and a part of a key beside the topic's.

    Raises:
        OptionError: it is none.
    """
    if not isinstance(group, str) or _LEGAL_NAME.fullmatch(group) is None:
        raise bad_argument("group", group, "expected 1 to 255 of the characters % | a-z A-Z 0-9 _ -")


def _subscriptions(
    topics: str | Sequence[str] | Mapping[str, str], tags: str | None, sql: str | None, *, compat: bool
) -> tuple[Subscription, ...]:
    if tags is not None and sql is not None:
        raise bad_argument("tags", tags, "expected tags or sql, not both")
    if isinstance(topics, Mapping):
        if tags is not None or sql is not None:
            name, given = ("sql", sql) if tags is None else ("tags", tags)
            raise bad_argument(name, given, "it does not go with topics that are given with their tags")
        wanted = dict(topics)
    else:
        names = [topics] if isinstance(topics, str) else topics
        if not isinstance(names, Iterable):
            raise bad_argument("topics", topics, "expected a topic, several, or topics with their tags")
        wanted = dict.fromkeys(names, tags or "*")
    if not wanted:
        raise bad_argument("topics", topics, "expected at least one")
    compiled = None if sql is None else checked_filter("sql", sql, compat=compat)
    if compiled is not None:
        return tuple(Subscription(_topic(topic), compiled.expression, compiled) for topic in wanted)
    return tuple(_of_tags(_topic(topic), _text("tags", tags)) for topic, tags in wanted.items())


def _of_tags(topic: str, tags: str) -> Subscription:
    subscription = Subscription(topic, tags)
    if subscription.codes is not None and not subscription.codes:
        raise bad_argument("tags", tags, "expected tags separated by ||; a group that wants none would pass over all")
    return subscription


def _topic(value: object) -> str:
    return checked_topic("topics", _text("topics", value))


def _text(option: str, value: object) -> str:
    try:
        return checked_text(option, value)
    except TypeError:
        raise bad_argument(option, value, "expected text") from None


def _time(option: str, value: Any) -> int:
    try:
        return checked_time(option, value)
    except (TypeError, ValueError):
        raise bad_argument(option, value, "expected a datetime with a time zone, or milliseconds since 1970") from None


def _check_number(option: str, value: object, least: int, most: int = INT_MAX) -> None:
    try:
        checked_integer(option, value, least, most)
    except (TypeError, ValueError):
        raise bad_argument(option, value, f"expected an integer from {least} to {most}") from None


Choice = TypeVar("Choice", bound=enum.Enum)


def one_of(kind: type[Choice], option: str, given: str) -> Choice:
    """The member of an enumeration with this value.

    Raises:
        OptionError: there is none.
    """
    try:
        return kind(given)
    except ValueError:
        raise bad_argument(option, given, f"expected one of {', '.join(member.value for member in kind)}") from None
