"""``mqstore dump``."""

import sys

import click

from mqstore.cli.json_lines import dump_lines
from mqstore.cli.shown import printable
from mqstore.cli.store_call import StoreCall, end_without_closing, print_lines, store_call

__all__ = ["dump"]


@click.command
@store_call
def dump(call: StoreCall) -> None:
    """Print a store's bounds, every record of its log, and every queue.

    Records are printed without their bodies. The store is opened to read: nothing in it changes.

    Where part of log or queues cannot be read, standard error says so and the command ends with 1. The Java
    store's driver stops there; records behind that are printed with -o compat=false.
    """
    status = 0

    def tell(sentence: str) -> None:
        nonlocal status
        status = 1
        click.echo(printable(sentence), err=True)

    with call.open("r") as store:
        print_lines(dump_lines(store, tell))
        if call.crash:
            end_without_closing(status)
    if status:
        sys.exit(status)
