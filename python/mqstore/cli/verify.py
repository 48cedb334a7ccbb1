"""``mqstore verify``."""

import sys
from collections import defaultdict

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from mqstore.cli.reader_call import ReaderCall, reader_call
from mqstore.cli.shown import printable
from mqstore.verify.findings import Finding, StoreAudit
from mqstore.verify.meanings import LOOK, MEANINGS, Meaning
from mqstore.verify.verify import verify as run

__all__ = ["verify"]

_EXAMPLES = 5


def _tell(audit: StoreAudit, findings: list[Finding]) -> None:
    """What is wrong in a person's words: where, what it means, what to do."""
    by_kind: dict[str, list[Finding]] = defaultdict(list)
    for finding in findings:
        by_kind[finding.kind].append(finding)
    for kind, count in audit.counts.items():
        meaning = MEANINGS.get(kind, Meaning(kind, "", LOOK))
        click.echo(f"\n{meaning.title}: {count:,}")
        click.echo(f"  {meaning.means} {meaning.to_do}")
        for finding in by_kind[kind][:_EXAMPLES]:
            click.echo(printable(f"    {_place(finding)}: {finding.detail}"))
        if count > _EXAMPLES:
            click.echo(f"    and {count - _EXAMPLES:,} more")


def _place(finding: Finding) -> str:
    parts = []
    if finding.topic is not None:
        parts.append(f"{finding.topic}, queue {finding.queue_id}, offset {finding.queue_offset}")
    if finding.phy_offset is not None:
        parts.append(f"log at {finding.phy_offset}")
    return "; ".join(parts) or finding.path


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
        _tell(audit, findings)
    if not audit.is_whole:
        sys.exit(1)
