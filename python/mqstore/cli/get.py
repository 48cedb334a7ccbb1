"""``mqstore get``."""

import itertools

import click

from mqstore.cli.reader_call import (
    FROM_TIME_HELP,
    OFFSET,
    QUEUE_ID,
    TEXT,
    TIME,
    TOPIC,
    ReaderCall,
    WholeNumber,
    reader_call,
)
from mqstore.cli.shown import message_rows, one_line
from mqstore.errors import OptionError
from mqstore.store.arguments import checked_filter

__all__ = ["get"]

_LIMIT = 32


@click.command
@reader_call
@click.argument("topic", type=TOPIC)
@click.option("--queue", "queue_id", type=QUEUE_ID, help="One queue; all by default.")
@click.option("--offset", type=OFFSET, help="The first queue offset.")
@click.option("--limit", type=WholeNumber(1), help=f"At most so many messages.  [default: {_LIMIT}]")
@click.option("--tags", type=TEXT, help='Tags: "A || B".')
@click.option("--sql", type=TEXT, help="A SQL92 filter over the properties: price > 5 AND region = 'cn'.")
@click.option("--begin", type=TIME, help=FROM_TIME_HELP)
@click.option("--end", type=TIME, help="Stored at this time or earlier.")
def get(
    call: ReaderCall,
    *,
    topic: str,
    queue_id: int | None,
    offset: int | None,
    limit: int | None,
    tags: str | None,
    sql: str | None,
    begin: int | None,
    end: int | None,
) -> None:
    """Show messages of a topic, queue after queue."""
    if sql is not None:
        _check_filter(sql, compat=call.store.compat)
    most = _LIMIT + 1 if limit is None else limit
    with call.open() as store:
        selection = store.select(
            topic, queue_id=queue_id, offsets=(offset, None), tags=tags, begin=begin, end=end, limit=most
        )
        # It is known to be a filter.
        messages = iter(selection._with({"sql": sql}, has_new_filter=False))
        shown = messages if limit is not None else itertools.islice(messages, _LIMIT)
        call.end_if_no_message(call.show(message_rows(shown, as_json=call.as_json)), store, topic, queue_id)
        if next(messages, None) is not None:
            click.echo(f"there are more than these {_LIMIT}: --limit says how many are wanted", err=True)


def _check_filter(sql: str, *, compat: bool) -> None:
    """Refuses what is no filter, as a wrong call; with ``compat`` more is one."""
    try:
        checked_filter("sql", sql, compat=compat)
    except OptionError as error:
        raise click.BadParameter(one_line(error), param_hint="--sql") from error
