"""Which of a topic's queues a member of a group reads.

Every member computes it for itself from the same sorted lists, so that together they have each queue
once. Source: ``AllocateMessageQueueAveragely``, ``AllocateMessageQueueAveragelyByCircle``.
"""

from collections.abc import Callable, Sequence

__all__ = ["AllocateMessageQueue", "allocate_averagely", "allocate_averagely_by_circle"]

AllocateMessageQueue = Callable[[str, Sequence[int], Sequence[str]], list[int]]
"""Gives the queues of a member, from all queues and all members, both sorted."""


def allocate_averagely(consumer_id: str, queue_ids: Sequence[int], consumer_ids: Sequence[str]) -> list[int]:
    """Neighbouring queues to each member, one more to the first ones where it does not divide."""
    if consumer_id not in consumer_ids:
        return []
    index = consumer_ids.index(consumer_id)
    size, more = divmod(len(queue_ids), len(consumer_ids))
    begin = index * size + min(index, more)
    return list(queue_ids[begin : begin + size + (index < more)])


def allocate_averagely_by_circle(consumer_id: str, queue_ids: Sequence[int], consumer_ids: Sequence[str]) -> list[int]:
    """Queue after queue to member after member, round and round."""
    if consumer_id not in consumer_ids:
        return []
    return list(queue_ids[consumer_ids.index(consumer_id) :: len(consumer_ids)])
