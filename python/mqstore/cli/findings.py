"""What is wrong with a store, in a person's words."""

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import click

from mqstore import _native
from mqstore.cli.shown import printable
from mqstore.verify.findings import BROKEN_OFF, Finding, StoreAudit
from mqstore.verify.meanings import meaning_beside

__all__ = ["tell_findings", "tell_of_crash"]

_MADE_WHEN_OPENED = frozenset({"unit_missing", "key_missing"})

_EXAMPLES = 5


def tell_of_crash(audit: StoreAudit) -> None:
    """Says on standard error that what is missing is made by the next opening, where the store was not closed.

    Where a repair was broken off it is for that to make it: another opening knows less.
    """
    if BROKEN_OFF in audit.counts:
        return
    store = Path(audit.store)
    was_left = (store / "abort").exists() and _native.locked_by(store / "lock", store / "mqstore") is None
    if was_left and not _MADE_WHEN_OPENED.isdisjoint(audit.counts):
        click.echo(
            printable(
                f"{store} was not closed: the next opening, by a broker or by mqstore recover, adds to queues and "
                "index what is missing at their ends. Check it again behind that, before anything is repaired."
            ),
            err=True,
        )


def tell_findings(audit: StoreAudit, findings: Iterable[Finding]) -> None:
    """Tells of each kind of finding what it means, what to do, and where the first ones are."""
    by_kind: dict[str, list[Finding]] = defaultdict(list)
    for finding in findings:
        by_kind[finding.kind].append(finding)
    for kind, count in sorted(audit.counts.items(), key=lambda each: each[0] != BROKEN_OFF):
        meaning = meaning_beside(kind, audit.counts)
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
