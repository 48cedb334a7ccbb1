"""``mqstore query``."""

import click

from mqstore.cli.json_lines import answer_lines
from mqstore.cli.store_call import StoreCall, end_without_closing, input_lines, print_lines, store_call

__all__ = ["query"]


@click.command
@store_call
def query(call: StoreCall) -> None:
    """Answer queries.

    Standard input has one query a line, standard output one answer a line. The store is opened to
    read: nothing in it changes.
    """
    with call.open("r") as store:
        print_lines(input_lines(lambda lines: answer_lines(store, lines)), each_at_once=True)
        if call.crash:
            end_without_closing()
