"""``mqstore repair``."""

import contextlib
import sys
from collections.abc import Callable, Iterator

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from mqstore.cli.reader_call import ReaderCall, reader_call
from mqstore.cli.shown import printable
from mqstore.errors import MQStoreError
from mqstore.verify.repair import RepairResult
from mqstore.verify.repair import repair as run

__all__ = ["repair"]


@click.command
@reader_call
@click.option("--out", type=click.Path(), help="The folder for the store that is whole; it must not exist.")
@click.option("--in-place", is_flag=True, help="Repair the store itself; what is changed is saved in it first.")
def repair(call: ReaderCall, *, out: str | None, in_place: bool) -> None:
    """Make a damaged store whole again, and say what was lost.

    Every record that checks out is kept where it stands; queues, index and checkpoint are made anew from the log.
    Look with verify first, and give the same options. The Java store opens the result without losing more.

    Ends with 0 where nothing was lost or cut and all could be read, else with 1.
    """
    if (out is None) != in_place:
        raise click.UsageError("give either --out DIR or --in-place")
    if call.store.compat:
        raise click.BadParameter("compat=true: a repair has no answer of 4.9.3's", param_hint="-o")
    try:
        with _shown_steps() as step:
            done = run(call.store.directory, out, step=step, **call.store.options)
    except KeyboardInterrupt as broken:
        left = getattr(broken, "__notes__", [f"{call.store.directory}: as it was"])
        _tell(f"broken off; {left[0]}")
        raise
    except MQStoreError as error:
        for note in getattr(error, "__notes__", ()):
            _tell(note)
        raise
    _show(call, done)
    if done.lost or done.holes or done.cut or done.topics_anew is not None or done.unread:
        sys.exit(1)


@contextlib.contextmanager
def _shown_steps() -> Iterator[Callable[[str], None]]:
    """Shows on a terminal what a repair is at, and for how long."""
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    console = Console(file=sys.stderr)
    with Progress(*columns, console=console, disable=not sys.stderr.isatty(), transient=True) as progress:
        bar = progress.add_task("", total=None)
        yield lambda text: progress.update(bar, description=text)


def _show(call: ReaderCall, done: RepairResult) -> None:
    rows = [{"topic": lost.topic, "queue": lost.queue_id, "lost offset": lost.queue_offset} for lost in done.lost]
    call.show(rows, title=None if call.as_json else "lost messages")
    _tell(f"{done.path}: {done.message_count:,} messages, {len(done.lost):,} lost")
    for begin, behind, fault in done.holes:
        _tell(f"  from {begin} to {behind} the log held no record: {fault or 'a missing file'}")
    for begin, behind in done.cut:
        _tell(f"  from {begin} to {behind} the log's end was cut: it held no record")
    if done.set_back_count:
        of = f"{done.set_back_count:,} offsets of groups and delay levels"
        _tell(f"  {of} were behind the ends of their queues, and are there now")
    if done.timed_again_count:
        _tell(
            f"  {done.timed_again_count:,} timed messages may be delivered once more: what said that they are is lost"
        )
    if done.topics_anew is not None:
        _tell(
            f"  config/topics.json can't be read: {len(done.topics_anew):,} topics were made anew, with as many queues "
            "as they have; what was set of them, and topics without queues, are to be set again"
        )
    for path in done.unread:
        _tell(f"  {path} can't be read, and is as it was: restore it, or move it and its .bak away to begin without")
    if done.saved is not None:
        _tell(f"  what was there before is in {done.saved}")


def _tell(text: str) -> None:
    """Says something on standard error; what a folder is called may have anything in it."""
    click.echo(printable(text), err=True)
