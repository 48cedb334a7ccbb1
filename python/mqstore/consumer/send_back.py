"""Messages that were consumed in vain go to the group's retry topic, and in the end to its dead letters.

The first attempt after delay level 3, the next after 4, and so on; after ``retryMaxTimes`` attempts to
``%DLQ%GROUP``. Source: ``AbstractSendMessageProcessor.asyncConsumerSendMsgBack``.
"""

import random
from dataclasses import replace
from typing import TYPE_CHECKING

from mqstore._native import Message, PutMessageResult
from mqstore.consumer.settings import dlq_topic, retry_topic
from mqstore.errors import PutError
from mqstore.store.arguments import INT_MAX
from mqstore.store.config_subscription_group import SubscriptionGroupConfig
from mqstore.store.messages import MessageExtBrokerInner

if TYPE_CHECKING:
    from mqstore.store.message_store import MessageStore

__all__ = ["send_message_back"]

_FIRST_DELAY_LEVEL = 3
_DLQ_NUMS_PER_GROUP = 1


def send_message_back(
    store: "MessageStore",
    group: SubscriptionGroupConfig,
    message: Message,
    delay_level: int,
    max_reconsume_times: int | None,
) -> PutMessageResult | None:
    """Puts a message to the retry topic, or to the dead letters; ``None`` where the group has no retries.

    Args:
        store: The store.
        group: The group.
        message: The message.
        delay_level: After which delay it comes again: 0 for the level of its attempt, less for never.
        max_reconsume_times: After how many attempts it is given up; the group's number by default.

    Raises:
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
    most = group.retry_max_times if max_reconsume_times is None else max_reconsume_times
    is_dead = message.reconsume_times >= most or delay_level < 0
    if is_dead:
        topic, queue_nums, level = dlq_topic(group.group_name), _DLQ_NUMS_PER_GROUP, 0
    else:
        topic, queue_nums = retry_topic(group.group_name), group.retry_queue_nums
        level = delay_level or _FIRST_DELAY_LEVEL + message.reconsume_times
    store.consumers.topics.get_or_add(topic, queue_nums)
    properties["DELAY"] = str(level)
    if not properties.get("ORIGIN_MESSAGE_ID", "").strip():
        properties["ORIGIN_MESSAGE_ID"] = message.msg_id
    result = store.put_message(
        replace(
            MessageExtBrokerInner.like(message),
            topic=topic,
            queue_id=random.randrange(queue_nums),  # noqa: S311 - any queue will do
            properties=properties,
            reconsume_times=min(message.reconsume_times + 1, INT_MAX),
        )
    )
    if not result.is_ok:
        error = PutError(f"{message.msg_id} could not be put to {topic}: {result.reason or result.status.name}")
        error.status = result.status
        raise error
    return result
