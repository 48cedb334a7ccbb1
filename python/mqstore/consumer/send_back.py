"""Messages that were consumed in vain go to the group's retry topic, and in the end to its dead letters.

The first attempt after delay level 3, the next after 4, and so on; after ``retryMaxTimes`` attempts to
``%DLQ%GROUP``. Source: ``AbstractSendMessageProcessor.asyncConsumerSendMsgBack``.
"""

import logging
import random
from dataclasses import replace
from typing import TYPE_CHECKING

from mqstore._native import Message, PutMessageResult
from mqstore.consumer.settings import ConsumerSettings, dlq_topic, retry_topic
from mqstore.errors import MessageIllegalError, PutError
from mqstore.options import parse_delay_levels
from mqstore.status import PutMessageStatus
from mqstore.store.arguments import INT_MAX
from mqstore.store.config_subscription_group import SubscriptionGroupConfig
from mqstore.store.messages import MessageExtBrokerInner

if TYPE_CHECKING:
    from mqstore.store.message_store import MessageStore

__all__ = ["comes_again_here", "is_given_up", "seconds_until_again", "send_message_back"]

_log = logging.getLogger("mqstore")
_FIRST_DELAY_LEVEL = 3
_DLQ_NUMS_PER_GROUP = 1
_TOO_LONG = {PutMessageStatus.MESSAGE_ILLEGAL, PutMessageStatus.PROPERTIES_SIZE_EXCEEDED}


def comes_again_here(store: "MessageStore", settings: ConsumerSettings, message: Message, attempts: int) -> bool:
    """Whether a message comes again to the consumer that had it, after so many attempts besides those that it tells."""
    if store.mode == "r":
        return True
    most = settings.max_reconsume_times
    return settings.orderly and (most is None or message.reconsume_times + attempts < most)


def seconds_until_again(store: "MessageStore", settings: ConsumerSettings, delay_level: int, attempts: int) -> float:
    """After how many seconds it does: with the delay that it would have in the retry topic, but where it is orderly."""
    if settings.orderly:
        return settings.suspend_current_queue_time_ms / 1000
    levels = parse_delay_levels(store.options.message_delay_level)
    level = delay_level if delay_level > 0 else _FIRST_DELAY_LEVEL + attempts
    return levels[min(level, len(levels)) - 1] / 1000 if levels else 0


def is_given_up(
    group: SubscriptionGroupConfig, message: Message, delay_level: int, max_reconsume_times: int | None, attempts: int
) -> bool:
    """Whether a message goes to the dead letters: with so many attempts besides those that it tells itself."""
    most = group.retry_max_times if max_reconsume_times is None else max_reconsume_times
    return message.reconsume_times + attempts >= most or delay_level < 0


def send_message_back(
    store: "MessageStore",
    group: SubscriptionGroupConfig,
    message: Message,
    delay_level: int,
    max_reconsume_times: int | None,
    *,
    attempts: int = 0,
) -> PutMessageResult | None:
    """Puts a message to the retry topic, or to the dead letters; ``None`` where the group has no retries.

    Args:
        store: The store.
        group: The group.
        message: The message.
        delay_level: After which delay it comes again: 0 for the level of its attempt, less for never.
        max_reconsume_times: After how many attempts it is given up; the group's number by default.
        attempts: How many there were besides those that it tells itself.

    Raises:
        MessageIllegalError: there is no room for it, whatever is left out of its properties.
        PutError: it could not be put; it is where it was.
    """
    if group.retry_queue_nums <= 0:
        return None
    # Put in 4.9.3's order, which decides between names of one hash bucket.
    properties = message.properties
    properties.setdefault("RETRY_TOPIC", message.topic)
    properties["WAIT"] = "false"
    if not store.compat:
        # Its further queues have it.
        for name in ("INNER_MULTI_DISPATCH", "INNER_MULTI_QUEUE_OFFSET"):
            properties.pop(name, None)
    times = message.reconsume_times + attempts
    if is_given_up(group, message, delay_level, max_reconsume_times, attempts):
        topic, queue_nums, level = dlq_topic(group.group_name), _DLQ_NUMS_PER_GROUP, 0
    else:
        topic, queue_nums = retry_topic(group.group_name), group.retry_queue_nums
        level = delay_level or _FIRST_DELAY_LEVEL + times
    store.consumers.topics.get_or_add(topic, queue_nums)
    properties["DELAY"] = str(level)
    if not properties.get("ORIGIN_MESSAGE_ID", "").strip():
        properties["ORIGIN_MESSAGE_ID"] = message.msg_id
    again = replace(
        MessageExtBrokerInner.like(message),
        topic=topic,
        queue_id=random.randrange(queue_nums),  # noqa: S311 - any queue will do
        properties=properties,
        reconsume_times=min(times + 1, INT_MAX),
    )
    result = _put_where_there_is_room(store, message, again, properties)
    if not result.is_ok:
        kind = MessageIllegalError if result.status in _TOO_LONG else PutError
        error = kind(f"{message.msg_id} could not be put to {topic}: {result.reason or result.status.name}")
        error.status = result.status
        raise error
    return result


def _put_where_there_is_room(
    store: "MessageStore", message: Message, again: MessageExtBrokerInner, properties: dict[str, str]
) -> PutMessageResult:
    """Puts a message again; where it gets too long by what is noted in it without that, or without all it can miss."""
    result = store.put_message(again)
    delay = {"DELAY": properties["DELAY"]}
    own = {name: value for name, value in properties.items() if name in message.properties}
    for fewer in (own | delay, delay):
        if result.status not in _TOO_LONG:
            break
        _log.error("%s: %s is too long to come again: it is put with %s", store.path, message.msg_id, [*fewer])
        result = store.put_message(replace(again, properties=fewer))
    return result
