"""``mqstore repair``."""

import sys

import click

from mqstore.cli.reader_call import ReaderCall, reader_call
from mqstore.verify.repair import repair as run

__all__ = ["repair"]


@click.command
@reader_call
@click.option("--out", type=click.Path(), help="The folder for the store that is whole; it must not exist.")
@click.option("--in-place", is_flag=True, help="Repair the store itself; what is changed is saved in it first.")
def repair(call: ReaderCall, *, out: str | None, in_place: bool) -> None:
    """Keep every record that checks out, make all else anew, and say what was lost.

    The Java store opens the result without losing more. Ends with 0 where nothing was lost, else with 1.
    """
    if (out is None) != in_place:
        raise click.UsageError("give either --out DIR or --in-place")
    if call.store.compat:
        raise click.BadParameter("compat=true: a repair has no answer of 4.9.3's", param_hint="-o")
    try:
        done = run(call.store.directory, out, **call.store.options)
    except KeyboardInterrupt:
        left = "what was changed is saved in it, repair it in place again to go on" if in_place else "as it was"
        click.echo(f"broken off; {call.store.directory}: {left}", err=True)
        raise
    rows = [{"topic": lost.topic, "queue": lost.queue_id, "lost offset": lost.queue_offset} for lost in done.lost]
    call.show(rows, title=None if call.as_json else "lost messages")
    click.echo(f"{done.path}: {done.message_count:,} messages, {len(done.lost):,} lost", err=True)
    for begin, behind, fault in done.holes:
        click.echo(f"  from {begin} to {behind} the log held no record: {fault or 'a missing file'}", err=True)
    if done.set_back_count:
        click.echo(
            f"  {done.set_back_count:,} offsets of groups were behind the ends of their queues, and are there now",
            err=True,
        )
    if done.saved is not None:
        click.echo(f"  what was there before is in {done.saved}", err=True)
    if done.lost or done.holes:
        sys.exit(1)
