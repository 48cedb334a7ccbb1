"""``mqstore spark``: what is done on Spark, for stores that are too large for one process."""

import sys
from pathlib import Path
from typing import Any

import click

from mqstore.cli.reader_call import ReaderCall, reader_call
from mqstore.cli.store_call import StoreCall

__all__ = ["spark"]


class _SparkGroup(click.Group):
    """A group that says what is missing where the extra is not installed."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            import pyspark  # noqa: F401, PLC0415 - it need not be installed
        except ModuleNotFoundError as error:
            raise click.ClickException("this needs Spark: pip install 'mqstore[spark]'") from error
        return super().invoke(ctx)


@click.group(cls=_SparkGroup)
def spark() -> None:
    """Rebuild, check and move stores on Spark; needs the extra ``spark``."""


@spark.command
@reader_call
@click.option("--out", required=True, type=click.Path(), help="The folder for queues and index.")
@click.option("--topic", "topics", multiple=True, help="Only the queues of this topic, and no index.")
@click.option("--begin", type=click.IntRange(min=0), help="Only records from this offset of the log on, and no index.")
@click.option("--end", type=click.IntRange(min=0), help="Only records before this offset of the log, and no index.")
@click.option("--range-size", type=click.IntRange(min=1 << 20), help="About how many bytes of log a task walks.")
def rebuild(
    call: ReaderCall,
    *,
    out: str,
    topics: tuple[str, ...],
    begin: int | None,
    end: int | None,
    range_size: int | None,
) -> None:
    """Make all queues and the index anew from the log alone, in another folder.

    A rebuild that was stopped goes on where it was when it is called again.
    """
    from mqstore.spark.rebuild import RANGE_SIZE  # noqa: PLC0415 - as pyspark
    from mqstore.spark.rebuild import rebuild as run  # noqa: PLC0415

    done = run(
        call.store.directory,
        out,
        topics=topics or None,
        range_size=range_size or RANGE_SIZE,
        compat=call.store.compat,
        begin=begin,
        end=end,
        **call.store.options,
    )
    call.show([{**vars(done), "gaps": len(done.gaps)}])


@spark.command
@click.argument("stores", metavar="DIR...", nargs=-1, required=True, type=click.Path())
@click.option("-o", "given", metavar="NAME=VALUE", multiple=True, help="An option of the stores.")
@click.option("--html", type=click.Path(dir_okay=False), help="Write a report that needs no other file.")
@click.option("--range-size", type=click.IntRange(min=1 << 20), help="About how many bytes of log a task checks.")
@click.option("--json/--table", "as_json", default=None, help="JSON or tables; a table on a terminal by default.")
def audit(
    stores: tuple[str, ...], given: tuple[str, ...], html: str | None, range_size: int | None, *, as_json: bool | None
) -> None:
    """Check stores: every record, every place in a queue, every index entry; changes nothing.

    Ends with 0 where all is well and with 1 where something is wrong.
    """
    from mqstore.spark.audit import audit as run  # noqa: PLC0415 - as pyspark

    first, *_ = calls = [StoreCall.parse(store, ("compat=false", *given)) for store in stores]
    done = run([call.directory for call in calls], range_size=range_size, compat=first.compat, **first.options)
    if html is not None:
        Path(html).write_text(done.to_html(), encoding="utf-8")
    call = ReaderCall(store=first, as_json=not sys.stdout.isatty() if as_json is None else as_json)
    if call.as_json:
        click.echo(done.to_json())
    else:
        call.show(
            {"store": each.store, "messages": each.record_count, "units": each.unit_count, "keys": each.entry_count}
            for each in done.stores
        )
        counts = [(each.store, kind, count) for each in done.stores for kind, count in each.counts.items()]
        call.show({"store": store, "finding": kind, "count": count} for store, kind, count in counts)
    if not done.is_whole:
        sys.exit(1)
