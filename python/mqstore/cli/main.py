"""The ``mqstore`` command: its group. Each command has a file of its own beside this one.

Exit codes: 0 where all went well, 1 for what the store refused or could not do, 2 for a wrong call, 3
for a search that found nothing, 130 for a command that Ctrl-C broke off.
"""

import signal
from typing import Any

import click

from mqstore.cli.bench import bench
from mqstore.cli.du import du
from mqstore.cli.dump import dump
from mqstore.cli.find import find
from mqstore.cli.get import get
from mqstore.cli.groups import groups
from mqstore.cli.ls import ls
from mqstore.cli.metrics import metrics
from mqstore.cli.put import put
from mqstore.cli.query import query
from mqstore.cli.recover import recover
from mqstore.cli.repair import repair
from mqstore.cli.seek import seek
from mqstore.cli.spark import spark
from mqstore.cli.tail import tail
from mqstore.cli.verify import verify
from mqstore.errors import MQStoreError

__all__ = ["main"]

_BROKEN_OFF = 128 + signal.SIGINT
"""As a shell has it for a process that the signal ends."""


class _StoreGroup(click.Group):
    """A group whose commands tell a failure of the store in one line, without a traceback."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except MQStoreError as error:
            raise click.ClickException(" ".join(str(error).split())) from error
        except KeyboardInterrupt as interrupt:
            raise click.exceptions.Exit(_BROKEN_OFF) from interrupt


@click.group(
    cls=_StoreGroup,
    commands=[ls, get, find, seek, tail, du, verify, repair, groups, metrics, put, dump, query, recover, bench, spark],
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(package_name="mqstore")
def main() -> None:
    """Read, search, write and recover the store of a RocketMQ 4.9.3 broker."""
