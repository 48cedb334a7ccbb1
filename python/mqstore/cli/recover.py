"""``mqstore recover``."""

import json
import time

import click

from mqstore.cli.store_call import StoreCall, end_without_closing, print_lines, store_call

__all__ = ["recover"]


@click.command
@store_call
def recover(call: StoreCall) -> None:
    """Open a store for writing, which recovers it, and print how long that took."""
    begin = time.perf_counter()
    with call.open("rw") as store:
        opened = {"open_s": time.perf_counter() - begin, "maxPhyOffset": store.get_max_phy_offset()}
        print_lines([json.dumps(opened, separators=(",", ":"))])
        if call.crash:
            end_without_closing()
