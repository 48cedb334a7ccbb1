"""``mqstore groups``."""

import itertools
from collections.abc import Iterator

import click

import mqstore
from mqstore.cli.reader_call import ReaderCall, reader_call
from mqstore.store.byte_ranges import check_local

__all__ = ["groups"]


def _group_rows(store: mqstore.MessageStore) -> Iterator[dict[str, object]]:
    for group, stats in store.consumers.consume_stats_of_groups().items():
        for topic, of_topic in itertools.groupby(stats, key=lambda queue: queue.topic):
            queues = list(of_topic)
            yield {
                "group": group,
                "topic": topic,
                "queues": len(queues),
                "consumed": sum(queue.consumer_offset for queue in queues),
                "behind": sum(queue.diff for queue in queues),
            }


def _queue_rows(store: mqstore.MessageStore, group: str) -> Iterator[dict[str, object]]:
    for queue in store.consumers.consume_stats(group):
        yield {
            "topic": queue.topic,
            "queue": queue.queue_id,
            "offset": queue.consumer_offset,
            "max": queue.broker_offset,
            "behind": queue.diff,
        }


@click.command
@reader_call
@click.argument("group", required=False)
def groups(call: ReaderCall, *, group: str | None) -> None:
    """List consumer groups and how far behind they are.

    With GROUP it lists the queues of that group.
    """
    check_local(call.store.directory)
    with call.open() as store:
        rows = _group_rows(store) if group is None else _queue_rows(store, group)
        call.end_if_nothing(call.show(rows))
