"""What is wrong with a store, in a person's words."""

from collections import defaultdict
from collections.abc import Iterable

import click

from mqstore.cli.shown import printable
from mqstore.verify.findings import Finding, StoreAudit
from mqstore.verify.meanings import LOOK, MEANINGS, Meaning

__all__ = ["tell_findings"]

_EXAMPLES = 5


def tell_findings(audit: StoreAudit, findings: Iterable[Finding]) -> None:
    """Tells of each kind of finding what it means, what to do, and where the first ones are."""
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
