"""Which of a batch's rows are in a store, where a driver was killed while it put them.

They were put in their order, so it is the first ones, and how many is enough to go on. Each has the batch in a
property; so have copies of them, which a store made or somebody who took the properties along.
"""

from collections.abc import Iterable, Iterator

import mqstore
from mqstore.spark.staging import rows_behind
from mqstore.store.delayed import SCHEDULE_TOPIC, TIMED_TOPIC

__all__ = ["count_put", "staged_rows"]

_WAITING = frozenset((SCHEDULE_TOPIC, TIMED_TOPIC))


def staged_rows(files: Iterable[str], topic: str | None) -> Iterator[tuple[str, bytes]]:
    """Topic and body of each row of staged files; `topic` is that of all of them where they have no column of it."""
    for file in files:
        _, rows = rows_behind(file, 0)
        for batch in rows or ():
            bodies = batch.column("body").to_pylist()
            topics = [topic] * len(bodies) if topic is not None else batch.column("topic").to_pylist()
            for of_row, body in zip(topics, bodies, strict=True):
                yield of_row, body.encode() if isinstance(body, str) else body


def count_put(messages: Iterable[mqstore.Message], rows: Iterator[tuple[str, bytes]]) -> int:
    """How many of a batch's rows were put.

    A message counts that goes to the next row's topic and has its body: a copy goes elsewhere, or is of an earlier row.
    Where a store delivers what was delayed, or gives back what a consumer could not do, it is known even where bodies
    are the same: a put sends what has a delay or a time to wait in a topic of its own, and a sink's rows have not been
    consumed.

    Args:
        messages: Those that have the batch in their properties, in the log's order.
        rows: Topic and body of the batch's rows, in the order in which they are put; read no further than is needed.
    """
    count = 0
    row: tuple[str, bytes] | None = None
    timed: set[str | None] = set()
    for message in messages:
        level = message.properties.get("DELAY", "")
        is_delivered = level.isdecimal() and int(level) > 0 and message.topic != SCHEDULE_TOPIC
        if message.topic == TIMED_TOPIC:
            timed.add(message.unique_key)
        elif is_delivered or message.unique_key in timed or message.reconsume_times > 0:
            continue
        if row is None and (row := next(rows, None)) is None:
            break
        topic = message.properties.get("REAL_TOPIC") if message.topic in _WAITING else message.topic
        if (topic, bytes(message.body)) == row:
            count, row = count + 1, None
    return count
