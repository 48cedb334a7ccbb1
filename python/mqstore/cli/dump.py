"""``mqstore dump``."""

import click

from mqstore.cli.json_lines import dump_lines
from mqstore.cli.store_call import StoreCall, end_without_closing, print_lines, store_call

__all__ = ["dump"]


@click.command
@store_call
def dump(call: StoreCall) -> None:
    """Print a store's bounds, every record of its log, and every queue.

    The store is opened to read: nothing in it changes.
    """
    with call.open("r") as store:
        print_lines(dump_lines(store))
        if call.crash:
            end_without_closing()
