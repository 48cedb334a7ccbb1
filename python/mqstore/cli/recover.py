"""``mqstore recover``."""

import json
import time

import click

from mqstore.cli.store_call import StoreCall, end_without_closing, print_lines, store_call

__all__ = ["recover"]


@click.command
@store_call
def recover(call: StoreCall) -> None:
    """Recover a store by opening it for writing, and print the seconds.

    This changes the store, as a broker's start does: a torn end of the log is cut, queues and index are completed.
    Give the options that decide what is in the queues as the broker has them, as for verify.
    Nobody else may have it open for writing. To look at a store that crashed this is not needed.
    """
    call.refuse_lack()
    begin = time.perf_counter()
    with call.open("rw") as store:
        opened = {"open_s": time.perf_counter() - begin, "maxPhyOffset": store.get_max_phy_offset()}
        print_lines([json.dumps(opened, separators=(",", ":"))])
        if call.crash:
            end_without_closing()
