"""``mqstore spark``: what is done on Spark, for stores that are too large for one process."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from mqstore.cli.findings import tell_findings, tell_of_crash
from mqstore.cli.reader_call import (
    FROM_TIME_HELP,
    OFFSET,
    OPTION_HELP,
    TEXT,
    TIME,
    TOPIC,
    ReaderCall,
    WholeNumber,
    reader_call,
)
from mqstore.cli.shown import one_line, printable
from mqstore.cli.store_call import StoreCall, conf_option, print_lines

__all__ = ["spark"]


class _SparkGroup(click.Group):
    """A group that says what is missing where the extra is not installed, and what Spark says in one line."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]  # noqa: PLC0415 - an extra
            from pyspark.errors import PySparkException  # noqa: PLC0415 - an extra
        except ModuleNotFoundError as error:
            raise click.ClickException("this needs Spark: pip install 'mqstore[spark]'") from error
        try:
            return super().invoke(ctx)
        except Py4JJavaError as error:
            raise click.ClickException(one_line(error.java_exception.toString())) from error
        except PySparkException as error:
            raise click.ClickException(one_line(error)) from error


@click.group(cls=_SparkGroup)
def spark() -> None:
    """Rebuild, check, compare and move stores on Spark.

    Needs the extra "spark".
    """


@spark.command
@reader_call
@click.option("--out", required=True, type=click.Path(), help="The folder for queues and index.")
@click.option("--topic", "topics", type=TOPIC, multiple=True, help="Only the queues of this topic, and no index.")
@click.option("--begin", type=OFFSET, help="Only records from this offset of the log on, and no index.")
@click.option("--end", type=OFFSET, help="Only records before this offset of the log, and no index.")
@click.option("--range-size", type=WholeNumber(1 << 20), help="About how many bytes of log a task walks.")
def rebuild(
    call: ReaderCall,
    *,
    out: str,
    topics: tuple[str, ...],
    begin: int | None,
    end: int | None,
    range_size: int | None,
) -> None:
    """Make all queues and the index anew from the log alone.

    They go into another folder, and nothing in the store changes. A rebuild that was stopped goes on where it was
    when it is called again.
    """
    from mqstore.spark.rebuild import RANGE_SIZE  # noqa: PLC0415 - as pyspark
    from mqstore.spark.rebuild import rebuild as run  # noqa: PLC0415

    try:
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
    except KeyboardInterrupt:
        click.echo(f"broken off; the same call goes on in {out}", err=True)
        raise
    call.show([{**vars(done), "gaps": len(done.gaps)}])


def _check_page(_context: click.Context, _option: click.Parameter, page: str | None) -> str | None:
    """Refuses a page that can't be written before hours go into what it would say."""
    if page is not None:
        changed = page if os.access(page, os.F_OK) else f"{Path(page).parent}/"
        if not page or not os.access(changed, os.W_OK):
            raise click.BadParameter(f"{page!r}: expected a file that can be written")
    return page


@spark.command
@click.argument("stores", metavar="DIR...", nargs=-1, required=True, type=click.Path())
@click.option("-o", "given", metavar="NAME=VALUE", multiple=True, help=OPTION_HELP)
@conf_option
@click.option(
    "--html", type=click.Path(dir_okay=False), callback=_check_page, help="Write a report that needs no other file."
)
@click.option("--range-size", type=WholeNumber(1 << 20), help="About how many bytes of log a task checks.")
@click.option("--json/--table", "as_json", default=None, help="JSON or tables; a table on a terminal by default.")
def audit(
    stores: tuple[str, ...],
    given: tuple[str, ...],
    conf: str | None,
    html: str | None,
    range_size: int | None,
    *,
    as_json: bool | None,
) -> None:
    """Check stores of any size as verify does; changes nothing.

    Ends with 0 where all is well and with 1 where something is wrong.
    """
    from mqstore.spark.audit import audit as run  # noqa: PLC0415 - as pyspark

    first, *_ = calls = [StoreCall.parse(store, given, {"compat": False}, conf) for store in stores]
    done = run([call.directory for call in calls], range_size=range_size, compat=first.compat, **first.options)
    call = ReaderCall(store=first, as_json=not sys.stdout.isatty() if as_json is None else as_json)
    if call.as_json:
        print_lines([done.to_json()])
    else:
        call.show(
            {"store": each.store, "messages": each.record_count, "units": each.unit_count, "keys": each.entry_count}
            for each in done.stores
        )
        counts = [(each.store, kind, count) for each in done.stores for kind, count in each.counts.items()]
        call.show({"store": store, "finding": kind, "count": count} for store, kind, count in counts)
        for each in done.stores:
            if each.counts:
                click.echo(f"\n{printable(each.store)}")
                tell_findings(each, (finding for finding in done.findings if finding.store == each.store))
    for each in done.stores:
        tell_of_crash(each)
    # Last, so that what took hours to find is told even where the page can't be written.
    if html is not None:
        Path(html).write_text(done.to_html(), encoding="utf-8")
    if not done.is_whole:
        sys.exit(1)


def _wanted_options(command: Callable[..., None]) -> Callable[..., None]:
    """Gives a command the options that say which messages."""
    for option in (
        click.option("--where", type=TEXT, help="A SQL expression over the columns: \"properties['color'] = 'red'\"."),
        click.option("--end", type=TIME, help="Stored before this time."),
        click.option("--begin", type=TIME, help=FROM_TIME_HELP),
        click.option("--tags", type=TEXT, help="With one of these tags: A || B."),
        click.option("--key", "keys", type=TEXT, multiple=True, help="With this key or unique key."),
        click.option("--topic", "topics", type=TOPIC, multiple=True, help="Of this topic."),
    ):
        command = option(command)
    return command


@spark.command
@click.argument("stores", metavar="DIR...", nargs=-1, required=True)
@click.option("--out", required=True, help="The folder to write to.")
@click.option("--raw", is_flag=True, help="Write bodies as they are stored; inflated by default.")
@_wanted_options
def export(stores: tuple[str, ...], out: str, *, raw: bool, **wanted: Any) -> None:
    """Write messages to Parquet, in folders by topic and by day.

    The day is that on which a message was stored, in UTC.
    """
    from mqstore.spark import moving  # noqa: PLC0415 - as pyspark

    moving.export(stores, out, raw=raw, wanted=moving.Wanted(**wanted))


@spark.command("import")
@click.argument("source", metavar="EXPORTED")
@click.option("--to", required=True, type=click.Path(), help="The store's folder, which may be new.")
@click.option("--keep-offsets", is_flag=True, help="Keep offsets in queues; renumbered by default.")
@click.option("--keep-times/--new-times", default=True, help="Keep store times, as by default, or give new ones.")
@click.option("--where", type=TEXT, help="A SQL expression over the columns.")
@click.option("-o", "given", metavar="NAME=VALUE", multiple=True, help=OPTION_HELP)
def import_exported(
    source: str, to: str, given: tuple[str, ...], where: str | None, *, keep_offsets: bool, keep_times: bool
) -> None:
    """Append messages that export wrote to a store.

    Prints how many.
    """
    from mqstore.spark import moving  # noqa: PLC0415 - as pyspark

    options = StoreCall.parse(to, given, {}).options
    count = moving.import_messages(source, to, keep_offsets=keep_offsets, keep_times=keep_times, where=where, **options)
    click.echo(count)


@spark.command
@click.argument("store", metavar="DIR")
@click.option("--to", required=True, type=click.Path(), help="The folder of the store that gets them.")
@click.option("--to-topic", type=TOPIC, help="The topic that they get; their own by default.")
@click.option("--keep-times", is_flag=True, help="Keep store times; now by default.")
@click.option("-o", "given", metavar="NAME=VALUE", multiple=True, help="An option of the store that gets them.")
@_wanted_options
def replay(
    store: str, to: str, to_topic: str | None, given: tuple[str, ...], *, keep_times: bool, **wanted: Any
) -> None:
    """Append messages of a store to another one, or to another topic.

    Prints how many.
    """
    from mqstore.spark import moving  # noqa: PLC0415 - as pyspark

    options = StoreCall.parse(to, given, {}).options
    count = moving.replay(store, to, wanted=moving.Wanted(**wanted), topic=to_topic, keep_times=keep_times, **options)
    click.echo(count)


@spark.command
@click.argument("left")
@click.argument("right")
@click.option(
    "--json/--table", "as_json", default=None, help="JSON lines or a table; a table on a terminal by default."
)
@_wanted_options
def diff(left: str, right: str, *, as_json: bool | None, **wanted: Any) -> None:
    """Show the messages in which two stores differ.

    Ends with 1 where there are some.
    """
    from mqstore.spark import moving  # noqa: PLC0415 - as pyspark

    found = moving.diff(left, right, wanted=moving.Wanted(**wanted)).orderBy("topic", "queue_id", "queue_offset")
    as_lines = not sys.stdout.isatty() if as_json is None else as_json
    call = ReaderCall(store=StoreCall.parse(left, (), {}), as_json=as_lines)
    if call.show(row.asDict() for row in found.toLocalIterator()):
        sys.exit(1)


@spark.command
@click.argument("stores", metavar="DIR...", nargs=-1, required=True)
@click.option("--out", required=True, help="The folder of the tables.")
@click.option("--topic", "topics", type=TOPIC, multiple=True, help="Only messages of this topic.")
@click.option("--where", type=TEXT, help="A SQL expression over the columns that holds.")
@click.option("--follow", type=click.FloatRange(min=0), metavar="SECONDS", help="Go on, and look so often for more.")
@click.option("--skip-lost", is_flag=True, help="Go on where messages are gone that are not in the tables yet.")
def dispatch(
    stores: tuple[str, ...],
    out: str,
    *,
    topics: tuple[str, ...],
    where: str | None,
    follow: float | None,
    skip_lost: bool,
) -> None:
    """Keep Parquet tables by topic and day up to date.

    Called again it goes on where it was.
    """
    from mqstore.spark import tables  # noqa: PLC0415 - as pyspark

    tables.dispatch(stores, out, topics=topics, where=where, follow_interval_s=follow, skip_lost=skip_lost)
