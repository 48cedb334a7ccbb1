"""``mqstore put``."""

import click

from mqstore.cli.json_lines import put_lines
from mqstore.cli.store_call import StoreCall, end_without_closing, input_lines, print_lines, store_call

__all__ = ["put"]


@click.command
@store_call
def put(call: StoreCall) -> None:
    """Put messages.

    Standard input has one message a line, or {"batch": [...]} for a batch, or {"sleep": ms} to wait.
    Each put's result is printed as soon as it is known. What the store refuses is a result too, as
    MESSAGE_ILLEGAL: the next line is put all the same, and the command ends with 0.
    """
    with call.open("rw") as store:
        print_lines(input_lines(lambda lines: put_lines(store, lines)), each_at_once=True)
        if call.crash:
            end_without_closing()
