"""``mqstore tail``."""

import errno
import heapq
import json
import os
import select
import sys
import time
from collections.abc import Iterator

import click

import mqstore
from mqstore._native import Message
from mqstore.cli.json_lines import message_to_json
from mqstore.cli.reader_call import QUEUE_ID, TOPIC, ReaderCall, WholeNumber, reader_call
from mqstore.cli.shown import message_rows, printable, time_text
from mqstore.cli.store_call import print_lines
from mqstore.store.follower import Follower

__all__ = ["tail"]

_INTERVAL = 0.1
"""How often a followed store is looked at, in seconds."""


def _queues(store: mqstore.MessageStore, topic: str, queue_id: int | None) -> list[mqstore.Queue]:
    return store.topic(topic).queues if queue_id is None else [store.topic(topic).queue(queue_id)]


def _last(store: mqstore.MessageStore, topic: str, queue_id: int | None, count: int) -> list[Message]:
    """The newest messages, in the order of the log."""
    candidates = (message for queue in _queues(store, topic, queue_id) for message in queue[-count:])
    newest = heapq.nlargest(count, candidates, key=lambda message: message.commit_log_offset)
    return newest[::-1]


def _new(store: mqstore.MessageStore, topic: str, queue_id: int | None) -> Iterator[Message]:
    """Messages as they arrive, until the process is told to end."""
    followers = {queue.queue_id: Follower(queue, None) for queue in _queues(store, topic, queue_id)}
    while True:
        store.refresh()
        found: list[Message] = []
        for queue in _queues(store, topic, queue_id):
            follower = followers.get(queue.queue_id)
            if follower is None:
                follower = followers[queue.queue_id] = Follower(queue, 0)
            if follower.is_wanted(queue.max_offset):
                found += follower.take()
        yield from sorted(found, key=lambda message: message.commit_log_offset)
        if not found:
            _end_if_unread()
            time.sleep(_INTERVAL)


def _end_if_unread() -> None:
    """Ends what nobody reads any more: the next message, which the pipe would refuse, may never come."""
    output = select.poll()
    output.register(sys.stdout, 0)
    if any(events & select.POLLERR for _, events in output.poll(0)):
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))


@click.command
@reader_call
@click.argument("topic", type=TOPIC)
@click.option("--queue", "queue_id", type=QUEUE_ID, help="One queue; all by default.")
@click.option("-n", "count", type=WholeNumber(0), default=10, show_default=True, help="How many to begin with.")
@click.option("-f/-F", "--follow/--no-follow", default=True, help="Go on with what arrives; the default.")
def tail(call: ReaderCall, *, topic: str, queue_id: int | None, count: int, follow: bool) -> None:
    """Show the newest messages of a topic, then what arrives.

    It goes on until Ctrl-C ends it. The store may have a live writer, mqstore's or a Java broker.
    """
    with call.open() as store:
        newest = _last(store, topic, queue_id, count) if count else []
        if not follow:
            count = call.show(message_rows(newest, as_json=call.as_json))
            call.end_if_no_message(count, store, topic, queue_id)
            return
        try:
            for message in newest:
                _print(message, as_json=call.as_json)
            for message in _new(store, topic, queue_id):
                _print(message, as_json=call.as_json)
        except KeyboardInterrupt:
            return


def _print(message: Message, *, as_json: bool) -> None:
    if as_json:
        print_lines([json.dumps(message_to_json(message), ensure_ascii=False)])
    else:
        (row,) = message_rows([message], as_json=False)
        row["stored"] = time_text(message.store_timestamp)
        click.echo("  ".join(printable(str(value)) for value in row.values() if value is not None))
