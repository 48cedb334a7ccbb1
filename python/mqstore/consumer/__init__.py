"""Consumers: groups that share a topic's queues, with their offsets, retries and filters."""

from mqstore.consumer.allocate import AllocateMessageQueue, allocate_averagely, allocate_averagely_by_circle
from mqstore.consumer.consumer import Consumer
from mqstore.consumer.settings import ConsumeFromWhere, MessageModel

__all__ = [
    "AllocateMessageQueue",
    "ConsumeFromWhere",
    "Consumer",
    "MessageModel",
    "allocate_averagely",
    "allocate_averagely_by_circle",
]
