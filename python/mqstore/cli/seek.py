"""``mqstore seek``."""

from collections.abc import Iterator

import click

import mqstore
from mqstore.cli.reader_call import AGE, TIME, TOPIC, ReaderCall, reader_call
from mqstore.cli.shown import time_text

__all__ = ["seek"]


def _rows(store: mqstore.MessageStore, topic: str, time: int, boundary: str) -> Iterator[dict[str, object]]:
    for (_, queue_id), (offset,) in store.select(topic).look_up_times([time], boundary).items():
        stored = store.get_message_store_time_stamp(topic, queue_id, offset)
        yield {"queue": queue_id, "offset": offset, "stored": None if stored < 0 else stored}


class _Seek(click.Command):
    """A command whose argument may be an age, which looks like an option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ages = [argument for argument in args if AGE.fullmatch(argument)]
        if len(ages) == 1 and "--" not in args:
            args = [*(argument for argument in args if argument != ages[0]), "--", ages[0]]
        return super().parse_args(ctx, args)


@click.command(cls=_Seek)
@reader_call
@click.argument("topic", type=TOPIC)
@click.argument("time", type=TIME)
@click.option(
    "--boundary",
    type=click.Choice(["lower", "upper", "nearest"]),
    default="lower",
    show_default=True,
    help="The first message that is not before the time, the last that is not behind it, or the nearest.",
)
def seek(call: ReaderCall, *, topic: str, time: int, boundary: str) -> None:
    """Show which offset a TIME stands for in each queue of a topic.

    TIME is ISO 8601 (2026-11-23T12:00Z), milliseconds since 1970, or an age: -1h.
    """
    with call.open() as store:
        count = call.show(_rows(store, topic, time, boundary), title=time_text(time))
        call.end_if_no_message(count, store, topic)
