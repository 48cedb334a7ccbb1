"""``mqstore find``."""

import click

from mqstore.cli.reader_call import FROM_TIME_HELP, TEXT, TIME, TOPIC, ReaderCall, WholeNumber, reader_call
from mqstore.cli.shown import message_rows

__all__ = ["find"]


@click.command
@reader_call
@click.argument("topic", type=TOPIC)
@click.argument("keys", nargs=-1, required=True, type=TEXT, metavar="KEY...")
@click.option("--begin", type=TIME, help=FROM_TIME_HELP)
@click.option("--end", type=TIME, help="Stored at this time or earlier.")
@click.option("--limit", type=WholeNumber(1), help="At most so many messages.")
def find(
    call: ReaderCall, *, topic: str, keys: tuple[str, ...], begin: int | None, end: int | None, limit: int | None
) -> None:
    """Find messages of a topic by their keys or unique keys.

    Messages that have any of the keys are shown, in the order of the log. TOPIC "*" looks in all topics.
    """
    with call.open() as store:
        where = None if topic == "*" else topic
        selection = store.select(where, key=keys, begin=begin, end=end, limit=limit)
        call.end_if_no_message(call.show(message_rows(selection, as_json=call.as_json)), store, where)
