"""``mqstore get``."""

import click

from mqstore.cli.reader_call import FROM_TIME_HELP, OFFSET, QUEUE_ID, TIME, ReaderCall, reader_call
from mqstore.cli.shown import message_rows
from mqstore.store.arguments import LONG_MAX

__all__ = ["get"]


@click.command
@reader_call
@click.argument("topic")
@click.option("--queue", "queue_id", type=QUEUE_ID, help="One queue; all by default.")
@click.option("--offset", type=OFFSET, help="The first queue offset.")
@click.option(
    "--limit", type=click.IntRange(1, LONG_MAX), default=32, show_default=True, help="At most so many messages."
)
@click.option("--tags", help='Tags: "A || B".')
@click.option("--sql", help="A SQL92 filter over the properties: price > 5 AND region = 'cn'.")
@click.option("--begin", type=TIME, help=FROM_TIME_HELP)
@click.option("--end", type=TIME, help="Stored at this time or earlier.")
def get(
    call: ReaderCall,
    *,
    topic: str,
    queue_id: int | None,
    offset: int | None,
    limit: int,
    tags: str | None,
    sql: str | None,
    begin: int | None,
    end: int | None,
) -> None:
    """Show messages of a topic, queue after queue."""
    with call.open() as store:
        selection = store.select(
            topic, queue_id=queue_id, offsets=(offset, None), tags=tags, sql=sql, begin=begin, end=end, limit=limit
        )
        call.end_if_nothing(call.show(message_rows(selection, as_json=call.as_json)))
