"""``mqstore verify``."""

import sys

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from mqstore.cli.findings import tell_findings, tell_of_crash
from mqstore.cli.reader_call import ReaderCall, reader_call
from mqstore.verify.verify import verify as run

__all__ = ["verify"]


@click.command
@reader_call
def verify(call: ReaderCall) -> None:
    """Check every record, queue unit and index entry; changes nothing.

    Says what is wrong, where, what it means and what to do. Give the options that decide what is in the queues as
    the broker has them, with -c broker.conf or -o: messageDelayLevel, enableMultiDispatch, enableLmq.

    Ends with 0 where all is well and with 1 where something is wrong; a remark is nothing wrong.
    """
    columns = (TextColumn("checking"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(
        *columns, console=Console(file=sys.stderr), disable=not sys.stderr.isatty(), transient=True
    ) as progress:
        bar = progress.add_task("", total=None)
        audit, findings = run(
            call.store.directory,
            compat=call.store.compat,
            progress=lambda done, total: progress.update(bar, completed=done, total=total),
            **call.store.options,
        )
    if call.as_json:
        call.show(vars(finding) for finding in findings)
        call.show([{"messages": audit.record_count, "units": audit.unit_count, "keys": audit.entry_count,
                    "queues": audit.queue_count, "wrong": sum(audit.wrong.values()),
                    "remarks": sum(audit.counts.values()) - sum(audit.wrong.values())}])  # fmt: skip
    else:
        click.echo(
            f"{audit.record_count:,} messages, {audit.unit_count:,} places in {audit.queue_count:,} queues, "
            f"{audit.entry_count:,} index entries: " + ("all is well" if audit.is_whole else "not all is well")
        )
        tell_findings(audit, findings)
    if not audit.is_whole:
        tell_of_crash(audit)
        sys.exit(1)
