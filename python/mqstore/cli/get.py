"""``mqstore get``."""

import click

from mqstore.cli.reader_call import MAX_INT, MAX_LONG, TIME, ReaderCall, reader_call
from mqstore.cli.shown import message_rows

__all__ = ["get"]


@click.command
@reader_call
@click.argument("topic")
@click.option("--queue", "queue_id", type=click.IntRange(0, MAX_INT), help="One queue; all by default.")
@click.option("--offset", type=click.IntRange(0, MAX_LONG), help="The first queue offset.")
@click.option(
    "--limit", type=click.IntRange(1, MAX_LONG), default=32, show_default=True, help="At most so many messages."
)
@click.option("--tags", help='Tags: "A || B".')
@click.option("--sql", help="A SQL92 filter over the properties: price > 5 AND region = 'cn'.")
@click.option(
    "--begin", type=TIME, help="Stored at this time or later: 2026-11-23, 2026-11-23T12:00Z, milliseconds, or -1h."
)
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
