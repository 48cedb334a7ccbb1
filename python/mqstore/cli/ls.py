"""``mqstore ls``."""

from collections.abc import Iterator

import click

import mqstore
from mqstore.cli.reader_call import TOPIC, ReaderCall, reader_call

__all__ = ["ls"]


def _topic_rows(store: mqstore.MessageStore) -> Iterator[dict[str, object]]:
    totals: dict[str, list[int]] = {}
    for topic, _, first, end, _ in store._queues():
        total = totals.setdefault(topic, [0, 0, 0])
        total[0] += 1
        total[1] += end - first
        total[2] += end
    for topic, (queues, messages, ever) in totals.items():
        yield {"topic": topic, "queues": queues, "messages": messages, "ever": ever}


def _queue_rows(store: mqstore.MessageStore, topic: str) -> Iterator[dict[str, object]]:
    for name, queue_id, first, end, _ in store._queues():
        if name == topic:
            stored = [
                store.get_message_store_time_stamp(topic, queue_id, offset) for offset in (first, max(end - 1, 0))
            ]
            times = [None if time < 0 else time for time in stored]
            yield {
                "queue": queue_id,
                "min": first,
                "max": end,
                "messages": end - first,
                "first stored": times[0],
                "last stored": times[1],
            }


@click.command
@reader_call
@click.argument("topic", type=TOPIC, required=False)
def ls(call: ReaderCall, *, topic: str | None) -> None:
    """List topics, or the queues of a topic with their bounds."""
    with call.open() as store:
        rows = _topic_rows(store) if topic is None else _queue_rows(store, topic)
        call.end_if_nothing(call.show(rows))
